"""A program run again in eager on the inputs of one run: how steady it is, how far rounding moves it, and
whether its operators do as they declare. It can be a graph or a function of a script.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from ..core.evidence import Evidence
from ..core.model import Measurement
from ..errors import first_line
from .declared import AsDeclared, Undeclared, is_changed
from .measure import Exact
from .moves import Moves
from .run_values import Values


class FailsAgain(Exception):
    """The program gave values once, and raises in another run; the message says in which, and what."""


@contextmanager
def _failing_as(which: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise FailsAgain(f"{which}: {first_line(error)}") from error


class EagerAgain(Protocol):
    """One program and the inputs that it had."""

    def run(self, mode: AbstractContextManager[Any] | None = None) -> Values:
        """What it gives from the same state of the random generators, under a mode."""

    def run_on(self) -> Values | None:
        """The same, the generators where the run before left them; None where that run is known to have drawn
        nothing: this one would be its twin."""

    def run_moved(self, seed: int, most: int) -> Values:
        """What it gives where the result of each operation is moved, by as many steps of its dtype."""

    def measured(
        self, eager: Values, other: Mapping[str, Any], reference: Mapping[str, Exact] | None = None
    ) -> Measurement:
        """How another run's values stand to eager's."""


@dataclass(frozen=True)
class Steadiness:
    """again, restored, nudged, undeclared, undeclared_paths: as in `Evidence`. moves: what the runs that were
    moved by one step say of each element."""

    again: Measurement | None
    restored: Measurement
    nudged: tuple[Measurement, ...]
    moves: Moves
    undeclared: str
    undeclared_paths: tuple[str, ...]

    def evidence(self, default: Measurement, notes: Sequence[str], coarsest: float) -> Evidence:
        """What is known of the default compile. coarsest: as in `Evidence`."""
        return Evidence(
            default, self.again, self.restored, self.nudged, tuple(notes), coarsest=coarsest,
            undeclared=self.undeclared, undeclared_paths=self.undeclared_paths,
        )  # fmt: skip


def steadiness(program: EagerAgain, eager: Values, nudges: int) -> Steadiness:
    """eager: what the program gave in the run before. nudges: runs with one step at each operation. Raises
    FailsAgain."""
    undeclared = Undeclared()
    with _failing_as("eager fails when it runs again"):
        run_on = program.run_on()
        again = None if run_on is None else program.measured(eager, run_on)
        restored = program.measured(eager, program.run(undeclared))
    moves = Moves(eager, program.run_moved, nudges)
    with _failing_as("eager fails where each operation is moved by a step of its dtype"):
        nudged = tuple(program.measured(eager, outputs) for outputs in moves.by_one_step())
    paths = _changed_as_declared(program, eager) if undeclared.violation else ()
    return Steadiness(again, restored, nudged, moves, undeclared.violation, paths)


def _changed_as_declared(program: EagerAgain, eager: Values) -> tuple[str, ...]:
    """The values that change where the program's operators do as they declare."""
    try:
        outputs = program.run(AsDeclared())
    except Exception:  # noqa: BLE001 - an operator may refuse a copy; nothing is then known
        return ()
    return tuple(o.path for o in program.measured(eager, outputs).outputs if is_changed(o))
