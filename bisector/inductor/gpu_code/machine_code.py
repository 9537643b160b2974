"""PTX, and the machine code (SASS) that NVIDIA's ptxas makes of it, as instructions with the line of the
kernel's source that each comes from. The programs are those that Triton ships.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ... import processes

FILE = "kernel.py"  # in which each kernel stands by itself
ASSEMBLE_S = 300.0  # for one kernel
# `	.loc	2 169 15   // triton_helpers.py:169:15 @[ kernel.py:35:40 ]`: the last is the outermost.
_LOC = re.compile(r"^\s*\.loc\s.*//(.*)$")
_PLACE = re.compile(r"([^\s/]+\.py):(\d+):\d+")
_PTX = re.compile(r"^\s*(?:@!?%p\d+\s+)?([a-z]\w*(?:\.\w+)+)\s+(.*);")
_FILE = r'"(?:[^"]*/)?([^"/]+)", line (\d+)'
_SASS_PLACE = re.compile(rf"//## File {_FILE}(?: inlined at {_FILE})?")
_SASS = re.compile(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"^\s*\.target\s+(\w+)", re.MULTILINE)
# An operation that ptxas may contract; with a rounding it may not (PTX ISA, "fma", "add").
_LOOSE = re.compile(r"\b(add|sub|mul)\.((?:ftz\.)?(?:f32|f64|f16x2|f16|bf16x2|bf16))\b")


@dataclass(frozen=True)
class Instruction:
    """line: in the kernel's own file, of the outermost call where it comes from a function; 0 where there is
    none."""

    opcode: str
    operands: str
    line: int

    def __str__(self) -> str:
        return f"{self.opcode} {self.operands}"


def of_ptx(text: str) -> list[Instruction]:
    found, line = [], 0
    for row in text.splitlines():
        if (place := _LOC.match(row)) is not None:
            line = _outermost(_PLACE.findall(place[1]))
        elif (made := _PTX.match(row)) is not None:
            found.append(Instruction(made[1], " ".join(made[2].split()), line))
    return found


def of_sass(text: str) -> list[Instruction]:
    """text: as nvdisasm prints it with lines and inlining."""
    found, line, places = [], 0, list[tuple[str, str]]()
    for row in text.splitlines():
        if (place := _SASS_PLACE.search(row)) is not None:
            # One comment for each level of inlining, the innermost first.
            places += [(name, number) for name, number in (place.groups()[:2], place.groups()[2:]) if name]
            line = _outermost(places)
        elif (made := _SASS.search(row)) is not None:
            found.append(Instruction(made[1], made[2], line))
            places = []
    return found


def _outermost(places: Sequence[tuple[str, str]]) -> int:
    return next((int(line) for name, line in reversed(places) if name == FILE), 0)


def rounded(ptx: str) -> str:
    """The same program in which ptxas may contract nothing: each sum, difference and product is rounded."""
    return _LOOSE.sub(r"\1.rn.\2", ptx)


def assembled(ptx: str) -> str:
    """The machine code of a PTX program, as text for `of_sass`. Raises RuntimeError with what ptxas says."""
    import triton

    programs = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
    target = _TARGET.search(ptx)
    assert target is not None, "PTX names its target"
    with tempfile.TemporaryDirectory(prefix="numbisect-") as folder:
        source, binary = Path(folder, "kernel.ptx"), Path(folder, "kernel.cubin")
        source.write_text(ptx)
        _run([programs / "ptxas", "-lineinfo", f"--gpu-name={target[1]}", source, "-o", binary])
        return _run([programs / "nvdisasm", "-gi", binary])


def _run(command: Sequence[object]) -> str:
    done = processes.run(list(map(str, command)), ASSEMBLE_S)
    if done.status != 0:
        raise RuntimeError(f"{command[0]}: {done.last_line or done.how}")
    return done.out


def contracting(instructions: Sequence[Instruction]) -> Iterator[Instruction]:
    """Those that multiply and add with one rounding. What loads a constant by such an instruction is none."""
    for made in instructions:
        name = made.opcode
        fused = name.startswith("fma.") or re.match(r"[FDH]FMA2?\b", name) is not None
        if fused and not re.match(r"\w+, -?RZ, -?RZ,", made.operands):
            yield made
