"""Fixes: single changes over the default compile that make the outputs agree, and what plain torch can do."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .decision import DecisionId
from .endings import Ending
from .graphinfo import GraphInfo
from .model import Json
from .notes import Note

PASSES = "inductor.disabled_passes"


@dataclass(frozen=True)
class SetFlags:
    """Set flags to other values. values: by flag (`inductor.cpp.simdlen`)."""

    values: Mapping[str, Json]


@dataclass(frozen=True)
class DisablePasses:
    """Leave out graph passes. passes: names as torch._inductor.config.disabled_passes takes them."""

    passes: tuple[str, ...]

    @property
    def values(self) -> dict[str, Json]:
        """The same as a flag."""
        return {PASSES: ",".join(self.passes)}


@dataclass(frozen=True)
class FallBack:
    """Run operators (`aten.mul`) by their ATen kernels, wherever they are called.

    decomposed: they are decomposed before lowering, and have to be kept from it.
    """

    operators: tuple[str, ...]
    decomposed: bool = False


@dataclass(frozen=True)
class UseBackend:
    """Give torch.compile another backend (`aot_eager`)."""

    backend: str


@dataclass(frozen=True)
class LeaveToPython:
    """Decorate functions of the script with `torch.compiler.disable`. lines: name -> line of its `def`."""

    lines: Mapping[str, int]


@dataclass(frozen=True)
class CompileAnew:
    """Forget what is compiled before calls of the script. calls: their numbers, from 1, with the function."""

    calls: Mapping[int, str]

PlainFix = SetFlags | DisablePasses | FallBack | UseBackend | LeaveToPython | CompileAnew

EDITS = (LeaveToPython, CompileAnew)


@dataclass(frozen=True)
class Fix:
    """One fix. values: the settings of a flag fix. plain: what `repro.py --fixed` does and reports say in
    lines to paste, None where plain torch cannot express it. cost: None where it was not timed.
    others: how it does on other inputs, None where it was not tried. kinds: of the decisions that the flags
    of a flag fix govern. program: equal for fixes that make the same program, None where that is not known.
    decisions: those that it denies, none for a flag or a backend.
    """

    id: str
    kind: str
    values: Mapping[str, Any] | None
    residual_max_abs: float
    removed_fraction: float
    plain: PlainFix | None
    cost: Cost | None = None
    others: Elsewhere | None = None
    kinds: frozenset[str] = frozenset()
    program: str | None = None
    decisions: tuple[DecisionId, ...] = ()

    @property
    def perturbs(self) -> bool:
        """Whether it fails on other inputs and does no more than to move rounding, as far as is known."""
        return self.others is not None and self.others.perturbs

    @property
    def program_or_id(self) -> str:
        """Equal for fixes that are known to make the same program."""
        return self.program or self.id

    def same_as(self, others: Iterable[Fix]) -> Fix | None:
        """The first of the others that makes the same program."""
        return next((o for o in others if self.program is not None and o.program == self.program), None)


@dataclass(frozen=True)
class Cost:
    """slowdown: run time with the fix over that without, the median of rounds; spread: their quartiles."""

    slowdown: float
    spread: tuple[float, float]

    @property
    def ranked(self) -> float:
        """The slowdown to rank by: 1 where the quartiles have it between them, since that is noise."""
        low, high = self.spread
        return 1.0 if low <= 1.0 <= high else self.slowdown


@dataclass(frozen=True)
class Elsewhere:
    """One fix on other inputs.

    tried: inputs that were run. diverging: those that diverge by default. held: of these, where the fix
    makes all agree. failed: inputs that diverge with the fix.
    nearer: the nodes whose error on equal inputs the fix takes away, or most of it: it mends what they give
    to the divergence, and something is left. None where that was not looked at.
    """

    tried: int = 0
    diverging: int = 0
    held: int = 0
    failed: int = 0
    nearer: tuple[str, ...] | None = None

    @property
    def perturbs(self) -> bool:
        """Whether the fix is known to do no more than to move rounding: it fails and takes no part away."""
        return self.failed > 0 and not self.nearer


@dataclass(frozen=True)
class Conclusion:
    """fixes: best first, each with whether it is confirmed. minimal: the graph of the minimal case,
    None of a script."""

    fixes: tuple[tuple[Fix, bool], ...]
    minimal: GraphInfo | None
    notes: tuple[Note, ...]
    stopped_because: Ending | None = None
