"""`python -m tests.triton.contracting FOLDER`: what is contracted in each of PROGRAMS, as JSON, and the
control: how many instructions of a kernel's machine code multiply and add that do not where neither compiler
may contract. One process for all, because of what `pretended` patches.
"""

from __future__ import annotations

import json
import os
import sys
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from bisector import wire
from bisector.core.messages import LoadOptions
from bisector.inductor import hooks
from bisector.inductor.capture import load
from bisector.inductor.gpu_code import generated, listing, pretended
from bisector.inductor.gpu_code.listing import without_fusion
from bisector.inductor.gpu_code.machine_code import assembled, contracting, of_sass, rounded
from tests.triton import programs


def root_mean_square(x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * weight


X = (1024,)
PROGRAMS: dict[str, tuple[programs.Program, list[tuple[int, ...]], torch.dtype]] = {
    **programs.PROGRAMS,
    "between": (lambda x, y, z: x + y * (z - x), [X] * 3, torch.float32),
    "squares": (lambda x, y: x * x + y * y, [X] * 2, torch.float32),
    "no_product": (lambda x, y: (x + y).relu() - 1, [X] * 2, torch.float32),
    "product_alone": (lambda x, y: (x * y).relu(), [X] * 2, torch.float32),
    "kept_apart": (lambda x, y: torch.addcmul(x, x, y).relu(), [X] * 2, torch.float16),
    "doubles": (lambda x, y, z: x * y - z, [X] * 3, torch.float64),
    "rms": (root_mean_square, [(64, 256), (256,)], torch.float32),
    "softmax": (lambda x: torch.softmax(x * 0.3, -1), [(64, 128)], torch.float32),
    "gelu": (lambda x, y: F.gelu(x) + y, [X] * 2, torch.float32),
}


def main(folder: Path) -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    hooks.install()
    os.environ["TRITON_CACHE_DIR"] = str(folder)
    script = folder / "all.py"
    script.write_text(
        "import torch\nfrom tests.triton.contracting import PROGRAMS\n"
        "for function, shapes, dtype in PROGRAMS.values():\n"
        "    with torch.no_grad():\n"
        "        torch.compile(function, dynamic=False)(*[torch.rand(s).to(dtype) for s in shapes])\n"
    )
    loaded = load.load(LoadOptions(str(script), threads=2))
    calls = loaded.recorder.calls
    assert len(calls) == len(PROGRAMS), (loaded.problem, loaded.ended, len(calls))
    pretended.install(folder)
    found: dict[str, Any] = {}
    for name, call in zip(PROGRAMS, calls, strict=True):
        kernels = generated.of_call(call).kernels
        listed = wire.dump(listing.of_call(call, folder))
        found[name] = {"listed": listed, "control": {k.name: _control(k.source, folder) for k in kernels}}
    out.write(json.dumps(found))
    out.flush()


def _control(source: str, folder: Path) -> int:
    """How many instructions of machine code are contractions: those that go where neither compiler may."""
    compiled = partial(generated.compiled, folder=folder)
    programs = compiled(source), rounded(compiled(without_fusion(source)))
    fused, apart = (len(list(contracting(of_sass(assembled(ptx))))) for ptx in programs)
    return fused - apart


if __name__ == "__main__":
    main(Path(sys.argv[1]))
