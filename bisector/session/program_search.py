"""The search where nothing smaller than the whole script diverges: each probe is a run of the script.

The same search of both views, the same confirmation in a second worker; what needs one graph (following node
by node, reduction to fewer operations) is left out.
"""

from __future__ import annotations

from dataclasses import replace

from bisector.core.case import WHOLE
from bisector.core.criterion import Criterion
from bisector.core.judge import BudgetSpent, judge
from bisector.core.model import Candidate, Outcome
from bisector.runner.lab import Lab

from . import fixes
from .answer import Answer
from .concluding import flags_to_confirm, with_proof
from .confirmation import Confirmed, confirm
from .culprit_search import decide
from .flags.curated import catalogue
from .flags.walk import walk
from .preflight import test_hooks
from .program_reduction import fewest_calls, fewest_graphs, said_of
from .program_repro import with_repro
from .run import Session
from .study import Study
from .subject import Chosen, choose
from .witness import script_of

NOTHING_SMALLER = "the decisions are those of the whole script, each with the number of its graph"


def explain_program(session: Session, answer: Answer, criterion: Criterion) -> Answer:
    """The answer with what a search over runs of the script finds. criterion: what the script is held to."""
    chosen = whole_program(session, criterion)
    default = judge(chosen.evidence.default, chosen.study.criterion)
    if default.outcome is not Outcome.FAIL:
        died = chosen.evidence.default.error is not None
        said = "ends without values too, and no decision can be tried on it" if died else "does not show it"
        note = f"a run of the script in a fork of a warm process {said} ({default.reason})"
        return with_repro(session, replace(answer, notes=(*answer.notes, note)), criterion)
    try:
        return _searched(session, answer, chosen)
    except BudgetSpent as spent:
        return replace(answer, stopped_because=spent.reason)


def whole_program(session: Session, criterion: Criterion) -> Chosen:
    """The script in the place of a call."""
    lab = session.program_lab("program", script_of(session).prepared())
    return choose(lab, session.options, lambda call: _study(session, lab, call.index, criterion))


def _study(session: Session, lab: Lab, call: int, criterion: Criterion) -> Study:
    return Study(
        lab, call, criterion, criterion, repeat=session.options.repeat,
        exhausted=session.clock.exhausted, counts=session.counts,
    )  # fmt: skip


def _searched(session: Session, answer: Answer, chosen: Chosen) -> Answer:
    study = chosen.study
    default = judge(chosen.evidence.default, study.criterion)
    with session.clock.stage("localise"):
        hooks = test_hooks(study)
        study = replace(study, hooks_off=hooks.off)
        case = fewest_graphs(study, default)
        smaller = default if case == WHOLE else study.probe(Candidate(), case)
    with session.clock.stage("fixes"):
        flags = catalogue(chosen.call.devices)
        settings = study.settings([flag.name for flag in flags])
        found = walk(study, flags, settings, case, smaller.measurement)
    study = replace(study, conservative=found.conservative)
    with session.clock.stage("causes"):
        decided = decide(study, case, smaller, found.necessary)
        session.progress("causes", f"repairs found: {len(decided.sets.repairs)}")
        second = session.program_lab("program, confirm", script_of(session).prepared())
        confirmed = confirm(replace(chosen, study=study), second, decided, None, flags_to_confirm(found))
        second.close()
    with session.clock.stage("minimize"):
        calls = fewest_calls(study, default)
    ranked = fixes.ranked([*fixes.from_flags(found), *fixes.from_repairs(confirmed.held)])
    told = replace(
        answer,
        criterion=study.criterion,
        default=chosen.evidence.default,
        walk=found,
        fixes=with_proof(ranked, found, confirmed),
        hooks_off=hooks.off,
        not_here=hooks.not_here,
        notes=(
            *answer.notes, *decided.checks, *decided.sets.gaps, NOTHING_SMALLER,
            *said_of(default, case, calls),
        ),
        stopped_because=decided.sets.stopped_because,
    )
    return with_repro(session, _with(told, confirmed), study.criterion, case if calls == WHOLE else calls)


def _with(answer: Answer, confirmed: Confirmed) -> Answer:
    """The answer with what the second worker says."""
    return replace(
        answer,
        repairs=confirmed.repairs,
        causes=confirmed.causes,
        second=confirmed.second,
        places=confirmed.places,
        decisions=confirmed.decisions,
        not_shown=confirmed.not_shown,
        notes=(*answer.notes, *confirmed.notes),
    )
