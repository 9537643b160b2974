"""Confirmation in another process: a second worker that knows nothing of the first one's probes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bisector.core.case import WHOLE, Case
from bisector.core.judge import proof
from bisector.core.model import Candidate, Outcome, ProbeResult
from bisector.core.search.minimal import MinimalSet
from bisector.errors import NumbisectError
from bisector.runner.lab import Lab

from .study import Study


@dataclass(frozen=True)
class Confirmation:
    """What the second process said. problem: why it could not say anything, or None.

    default: of the whole subject. repairs: each repair denied, on the whole subject. causes: each cause
    alone over the plain baseline of the case that was searched. results: the repairs' probes.
    """

    default: Outcome
    repairs: tuple[Outcome, ...]
    causes: tuple[Outcome, ...]
    results: tuple[ProbeResult, ...]
    problem: str | None = None


NOTHING = Confirmation(Outcome.UNRESOLVED, (), (), ())


def confirm(
    study: Study,
    lab: Lab,
    digest: str,
    case: Case,
    repairs: Sequence[MinimalSet],
    causes: Sequence[MinimalSet],
    beside: Sequence[str],
) -> Confirmation:
    """Ask the second worker (`lab`) for the default, every repair and every cause again."""
    try:
        if not _same_inputs(study, lab, digest):
            return replace(
                NOTHING, problem="a second run of the script gave other inputs; seed it, or use --seed"
            )
        return _ask(replace(study, lab=lab), case, repairs, causes, beside)
    except NumbisectError as error:
        return replace(NOTHING, problem=str(error))


def _same_inputs(study: Study, lab: Lab, digest: str) -> bool:
    calls = [c for c in lab.hello().calls if c.index == study.call]
    return bool(calls) and calls[0].digest == digest


def _ask(
    study: Study,
    case: Case,
    repairs: Sequence[MinimalSet],
    causes: Sequence[MinimalSet],
    beside: Sequence[str],
) -> Confirmation:
    asked = [(Candidate(), WHOLE)] + [(study.deny(frozenset(r.members)), WHOLE) for r in repairs]
    plain = [(study.plain(frozenset(c.members), beside), case) for c in causes]
    results = study.probe_all(asked + plain)
    n = 1 + len(repairs)
    denied = tuple(proof(r, repair.members) for r, repair in zip(results[1:n], repairs, strict=True))
    return Confirmation(
        results[0].outcome,
        tuple(r.outcome for r in denied),
        tuple(r.outcome for r in results[n:]),
        denied,
    )
