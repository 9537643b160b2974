"""`python -m bisector.inductor.gpu_code.listing`: the contractions in the code that a script's call would get
on a GPU. Its argument: ContractionsAsked as JSON; out: ContractionsFound.

LLVM contracts while it makes PTX, ptxas while it makes machine code. Each is found by a compile in which
it may not: LLVM by Triton's option `enable_fp_fusion`, ptxas by PTX whose sums and products are rounded
(`add.rn`). What multiplies and adds in one instruction there too is no contraction: the library's own code,
or an `fma` of the program. A plain count of FFMA in machine code would take those for contractions.

A process of its own, because of what `pretended` patches. The script runs on the CPU.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import torch

from ... import wire
from ...core.contracted import Contraction, ContractionsAsked, ContractionsFound, Site
from ...core.decision import DecisionId
from ...core.messages import LoadOptions
from .. import hooks
from ..capture import load
from ..capture.record import Call
from ..hooks import fma
from . import generated, pretended
from .generated import GeneratedCode, Kernel, Value
from .machine_code import Instruction, assembled, contracting, of_ptx, of_sass, rounded

# What torch says to a script that names a GPU where there is none (torch/cuda/__init__.py).
NO_GPU = ("not compiled with CUDA", "No CUDA GPUs are available", "no NVIDIA driver")
ON_CPU = "the script names a GPU: put its tensors on the CPU; the code that is looked at is that for --arch"

LLVM, PTXAS = "LLVM", "ptxas"
# Triton's option by which LLVM contracts.
_ON, _OFF = "'enable_fp_fusion': True", "'enable_fp_fusion': False"
_ASSIGNED = re.compile(r"^\s*(\w+) = ")
_NAME = re.compile(r"\b[a-z_]\w*\b")
_Compile = Callable[[str], str]  # of a kernel's source: PTX

# Settings of torch that forbid contraction, the narrower one first.
SETTINGS: tuple[Mapping[str, Any], ...] = (
    {"eager_numerics.division_rounding": True},
    {"emulate_precision_casts": True},
)


def listing(request: ContractionsAsked, folder: Path) -> ContractionsFound:
    loaded = load.load(LoadOptions(request.target, request.kind, threads=torch.get_num_threads()))
    if loaded.problem is not None or not loaded.recorder.calls:
        problem = loaded.problem or loaded.nothing or "no compiled call was recorded"
        return ContractionsFound(problem=ON_CPU if any(text in problem for text in NO_GPU) else problem)
    if request.call >= len(loaded.recorder.calls):
        return ContractionsFound(problem=f"there are {len(loaded.recorder.calls)} recorded calls")
    pretended.install(folder, request.architecture)
    return of_call(loaded.recorder.calls[request.call], folder)


def of_call(call: Call, folder: Path) -> ContractionsFound:
    """In a process with a pretended device. folder: for what is compiled."""
    return _Listing(call, folder).found()


@dataclass
class _Listing:
    """What one call's code has. Kernels that are the same in two compiles are looked at once."""

    call: Call
    folder: Path
    known: dict[str, list[Contraction]] = field(default_factory=dict)
    left: dict[str, set[Identity]] = field(default_factory=dict)

    def found(self) -> ContractionsFound:
        code = generated.of_call(self.call)
        sites = [self._site(code, kernel, c) for kernel in code.kernels for c in self._contractions(kernel)]
        return ContractionsFound(tuple(kernel.name for kernel in code.kernels), tuple(sites))

    def _contractions(self, kernel: Kernel) -> list[Contraction]:
        if kernel.source not in self.known:
            compiled = partial(generated.compiled, folder=self.folder)
            self.known[kernel.source] = _contractions_of(kernel.name, kernel.source, compiled)
        return self.known[kernel.source]

    def _site(self, code: GeneratedCode, kernel: Kernel, contraction: Contraction) -> Site:
        consumer, product = _joined(kernel, contraction)
        identity = _identity(kernel, contraction)
        denied = (d for d in _levers(code, kernel, consumer, product) if identity not in self._without(d))
        settings = (_settings_text(values) for values in SETTINGS if identity not in self._under(values))
        return Site(
            contraction,
            product.handle if product else "",
            consumer.handle if consumer else "",
            (product or consumer or _NOWHERE).where,
            tuple(denied),
            tuple(settings),
        )

    def _without(self, decision: str) -> set[Identity]:
        return self._left(decision, lambda: generated.of_call(self.call, denied=(decision,)))

    def _under(self, values: Mapping[str, Any]) -> set[Identity]:
        return self._left(_settings_text(values), lambda: generated.of_call(self.call, settings=values))

    def _left(self, name: str, code: Callable[[], GeneratedCode]) -> set[Identity]:
        """What is contracted in other code of the call."""
        if name not in self.left:
            self.left[name] = {_identity(k, c) for k in code().kernels for c in self._contractions(k)}
        return self.left[name]


Joined = tuple[Value | None, Value | None]  # the sum, and its product
Identity = tuple[str, str, str]  # the compiler, sum and product, by which other code is searched for it
IN_KERNEL = "in-kernel"  # of the decision of a whole kernel
_NOWHERE = Value("", "", "", "")


def _settings_text(values: Mapping[str, Any]) -> str:
    return ", ".join(f"inductor.{name}={value}" for name, value in values.items())


def _joined(kernel: Kernel, found: Contraction) -> Joined:
    """What adds and what is multiplied, as far as the kernel's variables are calls of the graph."""
    made, reads = _operands(found.text)
    read = [kernel.values[name] for name in reads if name in kernel.values]
    quotients = [value for value in read if value.op == fma.QUOTIENT]
    products = [value for value in read if value.op in fma.PRODUCTS]
    # The product that ends a quotient is there for ptxas alone.
    seen = products if found.by == LLVM else [*quotients, *products]
    return kernel.values.get(made), seen[0] if seen else None


def _identity(kernel: Kernel, contraction: Contraction) -> Identity:
    consumer, product = _joined(kernel, contraction)
    return contraction.by, consumer.handle if consumer else "", product.handle if product else ""


def _levers(
    code: GeneratedCode, kernel: Kernel, consumer: Value | None, product: Value | None
) -> Iterator[DecisionId]:
    """Decisions that may be the contraction: that of the product, and those of the kernel; all of them where
    it is not known which calls are joined, as in a reduction."""
    nodes = {value.node for value in kernel.values.values()}
    for decision in code.decisions:
        of_kernel = decision.place.startswith(IN_KERNEL) and decision.node in nodes
        of_product = product is not None and decision.node == product.node
        of_sum = consumer is not None and decision.place.startswith(consumer.handle)
        unknown = product is None or consumer is None
        if decision.kind == "fma" and (unknown or of_kernel or (of_product and of_sum)):
            yield decision


def _contractions_of(kernel: str, source: str, compiled: _Compile) -> list[Contraction]:
    """What is contracted into a sum in one kernel, and by whom, in the order of its lines."""
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


def _operands(text: str) -> tuple[str, list[str]]:
    """Of a line of a kernel the variable that it assigns, and those that it reads."""
    assigned = _ASSIGNED.match(text)
    if assigned is None:
        return "", _NAME.findall(text)
    return assigned[1], _NAME.findall(text[assigned.end() :])


def main() -> None:
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the script and the compilers print is no answer
    request = wire.load(ContractionsAsked, json.loads(sys.argv[1]))
    hooks.install()
    with tempfile.TemporaryDirectory(prefix="numbisect-") as folder:
        os.environ["TRITON_CACHE_DIR"] = folder  # what another run left names other files
        found = listing(request, Path(folder))
    out.write(json.dumps(wire.dump(found)))
    out.flush()


if __name__ == "__main__":
    main()
