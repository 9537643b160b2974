"""The commands that probe, end to end: subject, verdict, search, answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from bisector.core.case import WHOLE, Case
from bisector.core.clusters import Cause
from bisector.core.judge import judge
from bisector.core.model import Candidate, Measurement, Outcome, ProbeResult
from bisector.core.probe import BudgetSpent
from bisector.core.protocol import RecordedCall, Request
from bisector.core.verdict import VerdictClass

from . import as_test, environment, fixes, reproducing
from .against import against
from .answer import Answer
from .deciding import Decided
from .flags.contrast import brought_back
from .neighbour import nearest
from .opening import wanted_first
from .options import Against
from .remarks import remarks
from .result import to_json
from .run import Session
from .searching import Search
from .settling import HeldRepair
from .study import Study
from .subject import Chosen, choose, nothing_found

Belongs = Callable[[Study, Measurement], Cause | None]
FOUND, NOTHING, UNCONFIRMED = 0, 1, 3  # exit statuses
MOST_TIMED = 6  # fixes whose cost is measured, a few seconds each


def begin(
    session: Session,
    beside: Callable[[Study, RecordedCall], Sequence[Request[Any]]] = lambda study, call: (),
) -> tuple[Chosen, Answer, str | None]:
    """The verdict, and why the run ends with it, or None when there is a divergence to work on.

    beside: what is asked at the same time (see `choose`).
    """
    session.progress("capture", f"running {session.options.target}")
    with session.clock.stage("capture"):
        hello = session.lab.hello()
        chosen = choose(session.lab, session.options, session.study, beside)
    answer = Answer(
        target=session.options.target,
        run=session.run.path.name,
        environment=environment.describe(hello.machine),
        verdict=chosen.verdict,
        criterion=chosen.study.criterion,
        default=chosen.evidence.default,
        entry=chosen.call.entry,
        seed=session.options.seed,
        settings=chosen.call.settings,
        notes=chosen.notes,
    )
    end = nothing_found(chosen, hello.eager_disagrees)
    if end is not None and chosen.verdict.kind is VerdictClass.AGREES and hello.eager_disagrees:
        answer.first_bad_backend = "eager"
    session.progress("verdict", f"{chosen.verdict.kind.value}: {chosen.verdict.reason}")
    return chosen, answer, end


def minimize(session: Session) -> dict[str, Any]:
    """The whole pipeline; returns the result dict."""
    return explain(session, None)[0]


def explain(session: Session, belongs: Belongs | None) -> tuple[dict[str, Any], Cause | None]:
    """The whole pipeline, or no more of it than the verdict where the cause is known already.

    belongs: the known cause of a study and its default compile, if any. Returns the result and that cause.
    """
    # What a search will ask is asked beside the verdict, where there will be one.
    chosen, answer, end = begin(session, wanted_first) if belongs is None else begin(session)
    if end is not None:
        return _finish(session, answer, _ended(chosen, answer, end)), None
    try:
        known = belongs(chosen.study, answer.default) if belongs is not None else None
        if known is not None:
            answer.notes.append(f"The cause is known: {known.key}. It was confirmed here by its own probes.")
            return _finish(session, answer, FOUND), known
        _work(session, chosen, answer)
    except BudgetSpent as spent:
        answer.stopped_because = spent.reason
    return _finish(session, answer, FOUND if answer.confirmed else UNCONFIRMED), None


def _ended(chosen: Chosen, answer: Answer, end: str) -> int:
    if answer.first_bad_backend == "eager":
        answer.stopped_because = end
        return UNCONFIRMED
    return NOTHING if chosen.verdict.kind is VerdictClass.AGREES else UNCONFIRMED


def _work(session: Session, chosen: Chosen, answer: Answer) -> None:
    search = Search(session, chosen, answer)
    below = search.rungs()
    search.begin()
    if not _concluded(search, below):
        search.back_to_whole()
        _concluded(search, below)


def _concluded(search: Search, below: Mapping[str, ProbeResult]) -> bool:
    """Whether the search may end here: not where it looked into a region whose repairs leave the whole
    diverging, which is seen before the region is made smaller."""
    answer = search.answer
    search.flags()
    answer.fixes = [(f, True) for f in fixes.ranked(fixes.from_flags(search.walk))]  # if a budget ends here
    if search.in_region:
        decided = search.decide(search.start, search.default)
        held = search.confirm(decided)
        if not held and not search.walk.repairs_something:
            return False
        case = search.reduce_alike(decided)
        _follow_small(search, case)
        _reproduced(search, case, decided, lambda: _conclude(search, case, held, below))
        return True
    if search.can_follow_whole and search.followed is None:
        search.follow(search.start, search.default)
    case, decided = search.decide_and_reduce()
    _follow_small(search, case)
    _reproduced(search, case, decided, lambda: _conclude(search, case, search.confirm(decided), below))
    return True


def _follow_small(search: Search, case: Case) -> None:
    if not search.can_follow_whole:
        search.follow(case, search.study.probe(Candidate(), case))


def _reproduced(search: Search, case: Case, decided: Decided, conclude: Callable[[], None]) -> None:
    """Write the repro; it runs while the conclusions are drawn, with the fixes that are known before."""
    session, study, answer = search.session, search.study, search.answer
    early = reproducing.start_early(session, study, case, answer, decided.members)
    try:
        conclude()
        kept = reproducing.reproduce(session, study, case, answer, early)
    finally:
        if early is not None:
            early.stop()
    if kept is not None and session.options.as_test:
        as_test.make(session, study, kept, answer)
    _compared(search, case)


def _compared(search: Search, case: Case) -> None:
    """The nearest case that agrees, and the difference of its code as a file."""
    session, answer = search.session, search.answer
    repairs = [repair.found for repair in answer.repairs if repair.confirmed]
    flags = [fix for fix, _ in answer.fixes if fix.kind == "flag"]
    try:
        with session.clock.stage("minimize"):
            answer.neighbour = found = nearest(search.study, case, repairs, flags)
    except BudgetSpent as spent:
        answer.stopped_because = answer.stopped_because or spent.reason
        return
    if found is not None and found.diff:
        session.run.write_text(session.run.neighbour, "\n".join(found.diff) + "\n")


def _conclude(search: Search, case: Case, held: list[HeldRepair], below: Mapping[str, ProbeResult]) -> None:
    """The fixes, ranked, and the minimal case."""
    answer = search.answer
    flags, denials = fixes.from_flags(search.walk), fixes.from_repairs(held)
    repairs = [replace(fix, plain=None) for fix in denials]  # where a budget ends before a line is tried
    try:
        with search.session.clock.stage("fixes"):
            repairs = fixes.held_in_plain_torch(search.study, denials)
            flags = fixes.tried_elsewhere(search.study, flags, MOST_TIMED, answer.proved_kinds)
    except BudgetSpent as spent:
        answer.stopped_because = answer.stopped_because or spent.reason
    candidates = [*flags, *repairs]
    if not candidates and answer.first_bad_backend != "inductor":
        answer.notes.append(
            f"{answer.first_bad_backend} diverges already, and no decision that numbisect knows repairs it"
        )
    ranked = fixes.ranked([*candidates, *fixes.from_backends(below)])
    answer.fixes = [(f, not f.perturbs) for f in ranked]
    answer.minimal = search.study.describe(case)
    answer.notes += remarks(search.study, case, search.uncut, search.also_seen)


def _finish(session: Session, answer: Answer, status: int) -> dict[str, Any]:
    counts = session.counts
    probes = {
        "total": counts["run"] + counts["cached"],
        "pass": counts["PASS"],
        "fail": counts["FAIL"],
        "unresolved": counts["UNRESOLVED"],
        "cached": counts["cached"],
    }
    return to_json(answer, status, probes, session.clock.to_json())


def check(session: Session) -> dict[str, Any]:
    """The verdict alone."""
    return judged(session)[0]


def judged(session: Session) -> tuple[dict[str, Any], Measurement]:
    """The result dict of the verdict alone, and the default compile."""
    chosen, answer, _ = begin(session)
    outcome = judge(chosen.evidence.default, chosen.study.criterion).outcome
    kind = chosen.verdict.kind
    if kind is VerdictClass.NONDETERMINISTIC:
        outcome = Outcome.UNRESOLVED
    if answer.first_bad_backend == "eager":
        outcome = Outcome.FAIL
    return _finish(session, answer, outcome.status), answer.default


def flags(session: Session) -> dict[str, Any]:
    """The flag walk alone, or the target's configuration beside another one."""
    chosen, answer, end = begin(session)
    if (other := session.options.against) is not None:
        return _beside(session, chosen, answer, other)
    if end is not None:
        return _finish(session, answer, _ended(chosen, answer, end))
    try:
        search = Search(session, chosen, answer)
        chosen.study.warm(WHOLE)
        search.flags()
        with session.clock.stage("fixes"):
            answer.contrast = brought_back(chosen.study, search.walk, search.start, search.default)
        with session.clock.stage("fixes"):
            found = fixes.timed(search.study, fixes.from_flags(search.walk), MOST_TIMED)
            found = fixes.tried_elsewhere(search.study, found, MOST_TIMED)
        answer.fixes = [(f, not f.perturbs) for f in fixes.ranked(found)]
    except BudgetSpent as spent:
        answer.stopped_because = spent.reason
    return _finish(session, answer, FOUND if answer.confirmed else UNCONFIRMED)


def _beside(session: Session, chosen: Chosen, answer: Answer, other: Against) -> dict[str, Any]:
    try:
        with session.clock.stage("fixes"):
            answer.contrast = against(session, chosen, other)
    except BudgetSpent as spent:
        answer.stopped_because = spent.reason
        return _finish(session, answer, UNCONFIRMED)
    found = answer.contrast
    if found.repairs or found.causes:
        return _finish(session, answer, FOUND)
    return _finish(session, answer, NOTHING if found.target is Outcome.PASS else UNCONFIRMED)
