"""A compiled program that gives other values from run to run: where they begin to vary, and what stops it."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.budget import BudgetSpent
from bisector.core.case import WHOLE
from bisector.core.evidence import MOST_RUNS
from bisector.core.model import Candidate
from bisector.core.notes import (
    AlikeWith,
    Note,
    NothingMakesAlike,
    VariationNotSought,
    VariationUnknown,
    VariesFrom,
)
from bisector.core.protocol import Failed, FindVarying

from .study import Study

# One thread has nothing to race with; `deterministic` asks Inductor for kernels that do not.
DETERMINISM_SETTINGS = {"inductor.cpp.threads": 1, "inductor.deterministic": True}


def notes_on_runs(study: Study) -> tuple[Note, ...]:
    """What is found of such a program."""
    try:
        return (_where(study), *_what_helps(study))
    except BudgetSpent as spent:
        return (VariationNotSought(spent.reason),)


def _where(study: Study) -> Note:
    answer = study.lab.ask(FindVarying(study.about(WHOLE)))
    if isinstance(answer, Failed):
        return VariationUnknown(answer.reason)
    node = next((n for n in study.describe(WHOLE).nodes if n.name == answer.node), None)
    return VariesFrom(answer.node, node.where if node is not None else "")


def _what_helps(study: Study) -> list[Note]:
    """Which setting makes all runs of the program equal; whether they then agree with eager."""
    known = study.settings(list(DETERMINISM_SETTINGS))
    settings = {name: value for name, value in DETERMINISM_SETTINGS.items() if name in known}
    tried = {name: value for name, value in settings.items() if known[name].value != value}
    often = replace(study, runs=MOST_RUNS)
    results = often.probe_all([(Candidate.with_flags({name: value}), WHOLE) for name, value in tried.items()])
    notes: list[Note] = []
    for (name, value), result in zip(tried.items(), results, strict=True):
        if result.measurement.error is None and not result.measurement.others:
            notes.append(AlikeWith(name, value, result.outcome))
    return notes or [NothingMakesAlike(tuple(tried))]
