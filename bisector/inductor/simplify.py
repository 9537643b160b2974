"""Simpler input values for a case, found with one compile of each candidate: values do not change a program.

Nothing is claimed here: the case with the new values is probed as any other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..core.case import Case
from ..core.criterion import Criterion
from ..core.judge import judge
from ..core.model import Candidate, Signature
from ..core.outcome import Outcome
from . import execute
from .capture.record import Call
from .flags.fix_trials import TrialProgram, program


@dataclass(frozen=True)
class Wanted:
    """The outcomes that are wanted, and how they are judged."""

    candidates: Sequence[tuple[Candidate, Outcome]]
    criterion: Criterion
    signatures: tuple[Signature, ...]


def simplify(
    call: Call, case: Case, wanted: Wanted, simpler: Mapping[str, Sequence[str]], train: bool | None
) -> Case:
    """The case with the first of the values for each input with which every candidate gives the outcome that
    is wanted of it. Raises what eager or the compiler raise on the case."""
    subject = execute.prepare(call, case, train)
    programs = [(program(subject, case, candidate), outcome) for candidate, outcome in wanted.candidates]
    for name, values in simpler.items():
        cases = (case.with_value(name, value) for value in values)
        case = next((c for c in cases if _holds(call, c, programs, wanted, train)), case)
    return case


def _holds(
    call: Call,
    case: Case,
    programs: Sequence[tuple[TrialProgram, Outcome]],
    wanted: Wanted,
    train: bool | None,
) -> bool:
    try:
        subject = execute.prepare(call, case, train)
        eager = execute.run(subject, execute.eager_program(subject))
        return all(_outcome(subject, eager, made, wanted) is outcome for made, outcome in programs)
    except Exception:  # noqa: BLE001 - values that the graph or the program cannot take are no simpler ones
        return False


def _outcome(
    subject: execute.Subject, eager: execute.Outputs, made: TrialProgram, wanted: Wanted
) -> Outcome:
    measured = execute.measured(subject, eager, made.outputs(subject.edited.args))
    return judge(measured, wanted.criterion, same=wanted.signatures or None).outcome
