"""Which products of a Triton kernel are contracted into a sum, where, and by whom.

LLVM contracts while it makes PTX, ptxas while it makes machine code. Each is found by a compile in which
it may not: LLVM by Triton's option `enable_fp_fusion`, ptxas by PTX whose sums and products are rounded
(`add.rn`). What multiplies and adds in one instruction there too is no contraction: the library's own code,
or an `fma` of the program. A plain count of FFMA in machine code would take those for contractions.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from ...core.contracted import Contraction
from .machine_code import Instruction, assembled, contracting, of_ptx, of_sass, rounded

LLVM, PTXAS = "LLVM", "ptxas"
_ON, _OFF = "'enable_fp_fusion': True", "'enable_fp_fusion': False"
_ASSIGNED = re.compile(r"^\s*(\w+) = ")
_NAME = re.compile(r"\b[a-z_]\w*\b")


Compile = Callable[[str], str]  # of a kernel's source: PTX


def contractions(kernel: str, source: str, compiled: Compile) -> list[Contraction]:
    """Of one kernel, in the order of its lines."""
    lines, ptx = source.splitlines(), compiled(source)
    made = {
        LLVM: _extra(of_ptx(ptx), of_ptx(compiled(without_fusion(source)))),
        PTXAS: _extra(of_sass(assembled(ptx)), of_sass(assembled(rounded(ptx)))),
    }
    found = [
        Contraction(kernel, by, line, lines[line - 1].strip(), tuple(map(str, those)))
        for by, extra in made.items()
        for line, those in extra
        if 0 < line <= len(lines)
    ]
    return sorted(found, key=lambda c: (c.line, c.by))


def without_fusion(source: str) -> str:
    """The kernel with Triton's option that forbids contraction."""
    return source.replace(_ON, _OFF)


def _extra(
    fused: Sequence[Instruction], unfused: Sequence[Instruction]
) -> Iterator[tuple[int, list[Instruction]]]:
    """By line what contracts in one program and has no match in the other; of equal opcodes the first."""
    known = Counter((made.line, made.opcode) for made in contracting(unfused))
    by_line: dict[int, list[Instruction]] = {}
    for made in reversed(list(contracting(fused))):  # what stays is taken from the end
        place = (made.line, made.opcode)
        if known[place]:
            known[place] -= 1
        else:
            by_line.setdefault(made.line, []).insert(0, made)
    yield from sorted(by_line.items())


def operands(text: str) -> tuple[str, list[str]]:
    """Of a line of a kernel the variable that it assigns, and those that it reads."""
    assigned = _ASSIGNED.match(text)
    if assigned is None:
        return "", _NAME.findall(text)
    return assigned[1], _NAME.findall(text[assigned.end() :])
