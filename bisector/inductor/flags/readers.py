"""Which files of torch that shape graphs or kernels read a setting: `config.NAME` in their text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

# Below the folder of torch. The rest of Inductor is about caches, debugging, timing and tracing.
SHAPING = {
    "inductor": (
        "_inductor/choices.py", "_inductor/codegen", "_inductor/compile_fx.py", "_inductor/cpp_builder.py",
        "_inductor/decomposition.py", "_inductor/freezing.py", "_inductor/fx_passes", "_inductor/graph.py",
        "_inductor/ir.py", "_inductor/kernel", "_inductor/loop_body.py", "_inductor/lowering.py",
        "_inductor/pattern_matcher.py", "_inductor/quantized_lowerings.py", "_inductor/scheduler.py",
        "_inductor/select_algorithm.py", "_inductor/sizevars.py", "_inductor/template_heuristics",
    ),
    "functorch": ("_functorch/_aot_autograd", "_functorch/compilers.py", "_functorch/partitioners.py"),
    "dynamo": ("_dynamo/symbolic_convert.py", "_dynamo/variables"),
}  # fmt: skip


def of(torch_folder: Path, names: Iterable[str]) -> dict[str, list[str]]:
    """{name: files below the folder of torch}, of those of the names that are read at all."""
    wanted = set(names)
    found: dict[str, list[str]] = {}
    for family in SHAPING:
        keys = [n.partition(".")[2] for n in wanted if n.startswith(f"{family}.")]
        if not keys:
            continue
        longest_first = "|".join(map(re.escape, sorted(keys, key=len, reverse=True)))
        reads = re.compile(rf"\bconfig\.({longest_first})\b")
        for path in _files(torch_folder, family):
            text = path.read_text(encoding="utf-8")
            for key in sorted({match[1] for match in reads.finditer(text)}):
                found.setdefault(f"{family}.{key}", []).append(str(path.relative_to(torch_folder)))
    return found


def _files(torch_folder: Path, family: str) -> Iterator[Path]:
    for place in SHAPING[family]:
        path = torch_folder / place
        yield from sorted(path.rglob("*.py")) if path.is_dir() else [path] if path.exists() else []
