"""What became of the repro and of the test that are written of a divergence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .case import Case
from .fix import Fix
from .notes import Note


@dataclass(frozen=True)
class ReproPlan:
    """What a repro shows. fix: that of `--fixed`, None for no fix."""

    case: Case
    fix: Fix | None


@dataclass(frozen=True)
class Reproduced:
    """What the repro shows, None where there is none; its file, and the source of its function.

    refuted: IDs of fixes that did not repair it in a fresh process. agrees: one was run and does not diverge,
    nor does any other.
    """

    shown: ReproPlan | None = None
    file: str | None = None
    function: str | None = None
    refuted: frozenset[str] = frozenset()
    agrees: bool = False
    notes: tuple[Note, ...] = ()

    @property
    def fix(self) -> str | None:
        """The ID of the fix that `--fixed` applies, which repaired it in a process of its own."""
        return self.shown.fix.id if self.shown is not None and self.shown.fix is not None else None

    def judged(self, fixes: Sequence[tuple[Fix, bool]]) -> tuple[tuple[Fix, bool], ...]:
        """Each fix with whether it is confirmed, after what fresh processes found."""
        return tuple((fix, ok and fix.id not in self.refuted) for fix, ok in fixes)

    @property
    def lines(self) -> int | None:
        """Of the function."""
        return None if self.function is None else len(self.function.strip().splitlines())


@dataclass(frozen=True)
class WrittenTest:
    """file: of the test, None where there is none; note: then why."""

    file: str | None = None
    note: Note | None = None
