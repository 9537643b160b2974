"""The commands that probe, end to end: verdict, search, answer.

The stages return what they found and know nothing of each other. This module alone calls them, keeps their
results and makes the answer of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from bisector.core import progress as steps
from bisector.core.answer import Answer, Result
from bisector.core.backends import RUNGS_ABOVE
from bisector.core.budget import BudgetSpent
from bisector.core.case import WHOLE
from bisector.core.clusters import Cause
from bisector.core.cost import Probes
from bisector.core.endings import Interrupted
from bisector.core.flags import Contrast
from bisector.core.model import Measurement
from bisector.core.notes import KnownCause, NotShownInFork
from bisector.core.options import Against
from bisector.core.outcome import Outcome
from bisector.core.verdict import Rule
from bisector.errors import INTERRUPTED

from . import fixes
from .call_explanation import CallExplanation
from .chosen_call import chosen_call, held_to_as_a_script, is_a_script, seen_in_script
from .divergence import Divergence, DivergingScript, script_writer
from .explanation import Explanation
from .finding import Judged, ScriptFinding, answer_of, judge_seen, of_script, with_nodes
from .flags.contrast import against, brought_back
from .last_word import LastWord
from .nondeterminism import notes_on_runs
from .other_calls import other_calls
from .preflight import wanted_first
from .repro import reproduce
from .run import Session
from .script_explanation import ScriptExplanation
from .search_order import PLACES
from .study import Study
from .subject import whole_script

Belongs = Callable[[Study, Measurement], Cause | None]
FOUND, NOTHING, UNCONFIRMED = 0, 1, 3  # exit statuses
MOST_TIMED = 6  # fixes whose cost is measured, a few seconds each


def begin(session: Session) -> Judged:
    """The verdict."""
    session.progress("capture", steps.Running(session.options.target))
    with session.clock.stage("capture"):
        seen = chosen_call(session)
    found = judge_seen(session, seen)
    verdict = found.finding.verdict
    session.known = lambda: found.answer
    session.progress("verdict", steps.Judged(verdict))
    return found


def minimize(session: Session) -> Result:
    """The whole pipeline; returns what it found."""
    return explain(session, None)[0]


def explain(session: Session, belongs: Belongs | None) -> tuple[Result, Cause | None]:
    """The whole pipeline, or no more of it than the verdict where the cause is known already.

    belongs: the known cause of a study and its default compile, if any. Returns the result and that cause.
    """
    if belongs is None:  # a known cause ends the run before a search
        session.foreseen = wanted_first
    judged = begin(session)
    answer, chosen = judged.answer, judged.chosen
    if isinstance(judged.finding, ScriptFinding) and belongs is None:
        return _explained(session, _of_the_script(session, chosen, judged.finding)), None
    if judged.finding.ended:
        return _ended(session, judged), None
    try:
        known = belongs(chosen.study, answer.default) if belongs is not None else None
    except BudgetSpent as spent:
        return _finish(session, answer.stopped(spent.reason), UNCONFIRMED), None
    if known is not None:
        return _finish(session, answer.noted(KnownCause(known.key)), FOUND), known
    last_word: LastWord | None = None
    if is_a_script(session, session.lab.hello()):
        last_word = LastWord(session, held_to_as_a_script(session, chosen))
    on_progress = [last_word.begin] if last_word is not None else []
    explanation = _explanation(session, chosen, answer, *on_progress)
    _search(session, explanation)
    found = explanation.answer()
    found = found.with_others(other_calls(session, explanation.study, chosen, found))
    session.known = lambda: found
    if last_word is not None:
        if (above := _explained_above(session, judged, found)) is not None:
            return _explained(session, above), None
        found = _asked_of_the_script(session, found, last_word)
    return _explained(session, found), None


def _explained_above(session: Session, judged: Judged, found: Answer) -> Answer | None:
    """Where Dynamo or AOTAutograd makes a call diverge and no decision within its graph repairs it: the
    causes that the whole script shows, which runs Dynamo too. None where it shows none."""
    repairs = (repair.found.members for repair in found.repairs if repair.confirmed)
    finer = any(member.kind not in PLACES for members in repairs for member in members)
    explained = finer or any(proved for _, proved in found.causes)
    if explained or found.first_bad_backend not in RUNGS_ABOVE or session.clock.exhausted() is not None:
        return None
    session.progress("capture", steps.GraphRepairsNothing())
    seen = seen_in_script(session, judged.chosen)
    if seen.witness is None or not seen.witness.shown.diverges:
        return None
    above = of_script(session, judged.finding, seen, seen.witness)
    if not isinstance(above, ScriptFinding):
        return None
    of_the_call = session.run.repro_text()
    answer = _of_the_script(session, judged.chosen, above)
    if any(proved for _, proved in answer.causes):
        return answer
    if of_the_call is not None:  # the script's attempt has the same name
        session.run.write_text(session.run.repro, of_the_call)
    return None


def _explanation(
    session: Session,
    divergence: Divergence,
    so_far: Answer,
    on_progress: Callable[[Answer], None] = lambda answer: None,
) -> Explanation:
    if isinstance(divergence, DivergingScript):
        return ScriptExplanation(session, divergence, so_far, on_progress)
    return CallExplanation(session, divergence, so_far, on_progress)


def _search(session: Session, explanation: Explanation) -> None:
    session.known = explanation.answer
    try:
        explanation.explain()
    except BudgetSpent as spent:
        explanation.ended_by(spent.reason)


def _of_the_script(session: Session, chosen: Divergence, finding: ScriptFinding) -> Answer:
    """The answer where the script diverges and no call does by itself."""
    writer = script_writer(session, finding.criterion, finding.lines)
    script = whole_script(session, finding.criterion, finding.verdict, finding.rung, finding.lines)
    default = script.default
    if default.outcome is not Outcome.FAIL:
        died = script.evidence.default.error is not None
        noted = replace(finding, notes=(*finding.notes, NotShownInFork(died, default.reason)))
        answer = answer_of(session, chosen, noted)
        return answer.with_repro(reproduce(session, writer, WHOLE, answer))
    answer = answer_of(session, chosen, finding, script.study.criterion)
    last_word = LastWord(session, finding.criterion)
    explanation = _explanation(session, script, answer, last_word.begin)
    _search(session, explanation)
    answer = explanation.answer()
    return answer.with_script(last_word.ask(answer))


def _asked_of_the_script(session: Session, answer: Answer, last_word: LastWord) -> Answer:
    """With the script's last word; and with the script as the repro where a graph by itself does not show it
    in plain Python: it has a part in it, by a backend, a lowering or a decomposition of its own."""
    found = answer.with_script(last_word.ask(answer))
    if found.repro is not None:
        return found
    if (spent := session.clock.exhausted()) is not None:
        return found.without_script_repro(spent)
    writer = script_writer(session, last_word.criterion)
    return found.with_repro(reproduce(session, writer, WHOLE, found))


def _ended(session: Session, judged: Judged) -> Result:
    """The result of a run that ends with its verdict."""
    answer, verdict = judged.answer, judged.answer.verdict
    if verdict is not None and verdict.rule is Rule.COMPILED_REPEATED:
        answer = answer.noted(*notes_on_runs(judged.chosen.study))
    return _finish(session, answer, NOTHING if judged.finding.outcome is Outcome.PASS else UNCONFIRMED)


def _explained(session: Session, found: Answer) -> Result:
    """The result of a run that explained a divergence: confirmed where fresh processes showed all of it."""
    proved = found.proved()
    return _finish(session, proved, FOUND if proved.confirmed else UNCONFIRMED)


def interrupted(session: Session, found: Result | None) -> Result | None:
    """The result of a run that the user ended: what was known by then. None where that is no verdict yet.
    found: its result, where only the question about builds was still open."""
    if found is not None:
        return found.interrupted(Interrupted(), INTERRUPTED)
    if session.known is None:
        return None
    return _finish(session, session.known().stopped(Interrupted()).proved(), INTERRUPTED)


def _finish(session: Session, answer: Answer, status: int) -> Result:
    session.end_workers()  # of whom the CPU time is known then
    counts = session.counts
    probes = Probes(
        total=counts["run"] + counts["cached"],
        pass_=counts["PASS"],
        fail=counts["FAIL"],
        unresolved=counts["UNRESOLVED"],
        cached=counts["cached"],
    )
    return Result(answer, status, probes, session.clock.read())


def check(session: Session) -> Result:
    """The verdict alone."""
    return judged(session)[0]


def judged(session: Session) -> tuple[Result, Measurement]:
    """The result of the verdict alone, and the default compile."""
    found = with_nodes(session, begin(session))
    chosen = found.chosen
    answer = found.answer.with_others(other_calls(session, chosen.study, chosen, found.answer))
    return _finish(session, answer, found.finding.outcome.status), answer.default


def flags(session: Session) -> Result:
    """The flag walk alone, or the target's configuration against another one."""
    found = begin(session)
    if (other := session.options.against) is not None:
        return _against(session, found, other)
    if found.finding.ended:
        return _ended(session, found)
    found = with_nodes(session, found)
    explanation = _explanation(session, found.chosen, found.answer)
    session.known = explanation.answer
    contrast: Contrast | None = None
    ranked: list[fixes.Fix] | None = None
    try:
        explanation.walk_flags_alone()
        study, start, walk = explanation.study, explanation.start, explanation.walk
        with session.clock.stage("fixes"):
            contrast = brought_back(study, walk, start.case, start.default)
            timed = fixes.timed(study, fixes.from_flags(walk), MOST_TIMED)
            ranked = fixes.ranked(fixes.on_other_inputs(study, timed, MOST_TIMED))
    except BudgetSpent as spent:
        explanation.ended_by(spent.reason)
    answer = explanation.answer()
    if contrast is not None:
        answer = answer.compared_with(contrast)
    if ranked is not None:
        answer = answer.with_fixes(fixes.with_proof(ranked, explanation.walk, explanation.confirmed))
    return _finish(session, answer, FOUND if answer.confirmed else UNCONFIRMED)


def _against(session: Session, found: Judged, other: Against) -> Result:
    try:
        with session.clock.stage("fixes"):
            contrast = against(session, found.chosen, other)
    except BudgetSpent as spent:
        return _finish(session, found.answer.stopped(spent.reason), UNCONFIRMED)
    answer = found.answer.compared_with(contrast)
    if contrast.repairs or contrast.causes:  # each held in a second process
        return _finish(session, answer, FOUND)
    return _finish(session, answer, NOTHING if contrast.target is Outcome.PASS else UNCONFIRMED)
