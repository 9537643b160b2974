"""A compiled program that gives other values from run to run: where they begin to vary, and what stops it."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.budget import BudgetSpent
from bisector.core.case import WHOLE
from bisector.core.evidence import MOST_RUNS
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.core.protocol import Failed, FindVarying

from .study import Study

# One thread has nothing to race with; `deterministic` asks Inductor for kernels that do not.
DETERMINISM_SETTINGS = {"inductor.cpp.threads": 1, "inductor.deterministic": True}


def notes_on_runs(study: Study) -> tuple[str, ...]:
    """Sentences for the report."""
    try:
        return (_where(study), *_what_helps(study))
    except BudgetSpent as spent:
        return (f"where the runs begin to differ was not looked for: {spent.reason}",)


def _where(study: Study) -> str:
    answer = study.lab.ask(FindVarying(study.about(WHOLE)))
    if isinstance(answer, Failed):
        return f"where the runs begin to differ is not known: {answer.reason}"
    node = next((n for n in study.describe(WHOLE).nodes if n.name == answer.node), None)
    where = f" ({node.where})" if node is not None and node.where else ""
    return f"the runs of the compiled program begin to differ at `{answer.node}`{where}"


def _what_helps(study: Study) -> list[str]:
    """Which setting makes all runs of the program equal; whether they then agree with eager."""
    known = study.settings(list(DETERMINISM_SETTINGS))
    settings = {name: value for name, value in DETERMINISM_SETTINGS.items() if name in known}
    tried = {name: value for name, value in settings.items() if known[name].value != value}
    often = replace(study, runs=MOST_RUNS)
    results = often.probe_all([(Candidate.with_flags({name: value}), WHOLE) for name, value in tried.items()])
    notes = []
    for (name, value), result in zip(tried.items(), results, strict=True):
        if result.measurement.error is None and not result.measurement.others:
            agree = {Outcome.PASS: "agree with eager", Outcome.FAIL: "still differ from eager"}
            agreement = agree.get(result.outcome, "cannot be compared with eager")
            notes.append(f"with {name} = {value} all runs are alike, and {agreement}")
    return notes or [f"no setting that was tried makes the runs alike: {', '.join(tried)}"]
