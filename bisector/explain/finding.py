"""The verdict that a run begins with: of the call that was chosen, or of the script as a whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from bisector.core.answer import Answer
from bisector.core.backends import INDUCTOR
from bisector.core.budget import BudgetSpent
from bisector.core.by_call import by_call
from bisector.core.case import WHOLE
from bisector.core.criterion import Criterion
from bisector.core.followed import Followed
from bisector.core.model import Measurement
from bisector.core.notes import Note
from bisector.core.outcome import Outcome
from bisector.core.printed import PrintedLine, complaint
from bisector.core.reasons import Reason, Together
from bisector.core.script_reasons import CallGivesNothing, RecordedAgree, SaysAlike
from bisector.core.script_verdict import (
    NOT_ASKED,
    EqualInputs,
    ScriptRuns,
    cannot_tell,
    script_verdict,
)
from bisector.core.shown import ScriptResult, is_exact, outputs_of
from bisector.core.standing import NOTHING, ByCall
from bisector.core.verdict import BY_VALUES, Verdict, VerdictClass

from .divergence import Divergence, DivergingScript
from .localisation import follow
from .run import Session
from .witness import Witness, script_of

NOT_FOLLOWED = Followed()


@dataclass(frozen=True)
class Seen:
    """The call under study, and the script's own runs where they were asked.

    criterion: what the script is held to. again: how a second run with compilation off stands to the first.
    equal: what eager gives on the inputs of the script's compiled calls. same_random, as_if_compiling,
    steady: as of ScriptRuns. unseen: what was not looked at, where no call that was recorded diverges and the
    script was not asked.
    """

    chosen: Divergence
    witness: Witness | None = None
    criterion: Criterion = field(default_factory=Criterion)
    again: ScriptResult | None = None
    equal: EqualInputs = NOT_ASKED
    same_random: ScriptResult | None = None
    as_if_compiling: ScriptResult | None = None
    steady: Reason | None = None
    unseen: Reason | None = None

    def runs(self, witness: Witness) -> ScriptRuns:
        """What the script's runs show, for the verdict."""
        exact = is_exact(witness.compiled)
        first_bad = witness.first_bad_backend
        rung = witness.rung or witness.compiled
        return ScriptRuns(
            witness.shown, self.again, first_bad, exact, self.equal, self.same_random, rung,
            self.as_if_compiling, self.steady,
        )  # fmt: skip


@dataclass(frozen=True)
class Finding:
    """A verdict, with what it is about.

    outcome: of compiled against eager. ended: whether the run ends with the verdict, there being no
    divergence to work on. default: how the default compile stands to eager.
    """

    verdict: Verdict
    outcome: Outcome
    ended: bool
    default: Measurement
    notes: tuple[Note, ...]
    first_bad_backend: str | None = None


@dataclass(frozen=True)
class ScriptFinding(Finding):
    """A script that diverges, where none of its calls does by itself.

    criterion: what it is held to. rung: the first backend that shows it, as far as that is known. lines: the
    printed ones that count. by_call: the script call by call.
    """

    criterion: Criterion = field(default_factory=Criterion)
    rung: str = INDUCTOR
    lines: tuple[PrintedLine, ...] = ()
    by_call: ByCall = NOTHING


@dataclass(frozen=True)
class Judged:
    """What is under study, with what was found of it and the answer by now."""

    chosen: Divergence
    finding: Finding
    answer: Answer


def judge_seen(session: Session, seen: Seen) -> Judged:
    """The verdict of what was seen, and the answer that it makes."""
    finding = _found(session, seen)
    return Judged(seen.chosen, finding, answer_of(session, seen.chosen, finding))


def answer_of(
    session: Session,
    chosen: Divergence,
    finding: Finding,
    criterion: Criterion | None = None,
    followed: Followed = NOT_FOLLOWED,
) -> Answer:
    """The answer before anything is searched. criterion: the call's own where there is none."""
    return Answer(
        target=session.options.target,
        run=session.run.path.name,
        environment=session.described,
        verdict=finding.verdict,
        by_call=finding.by_call if isinstance(finding, ScriptFinding) else NOTHING,
        criterion=criterion or chosen.study.criterion,
        default=finding.default,
        first_bad_backend=finding.first_bad_backend,
        entry=chosen.call.entry,
        seed=session.given_seed,
        settings=chosen.call.settings,
        graph=followed.graph,
        origin=followed.origin,
        amplifier=followed.amplifier,
        notes=finding.notes,
    )


def _found(session: Session, seen: Seen) -> Finding:
    finding = of_call(seen.chosen)
    if seen.witness is not None:
        return of_script(session, finding, seen, seen.witness)
    if seen.unseen is not None and finding.outcome is Outcome.PASS:
        verdict = cannot_tell(Together((RecordedAgree(), seen.unseen)))
        return replace(finding, verdict=verdict, outcome=Outcome.UNRESOLVED, ended=True)
    return finding


def of_call(chosen: Divergence) -> Finding:
    """What the call by itself shows."""
    verdict, outcome = chosen.verdict, chosen.default.outcome
    settled = verdict.kind in (VerdictClass.AGREES, VerdictClass.NONDETERMINISTIC)
    ended = settled or outcome is Outcome.UNRESOLVED
    if verdict.kind is VerdictClass.NONDETERMINISTIC:
        outcome = Outcome.UNRESOLVED
    return Finding(verdict, outcome, ended, chosen.evidence.default, tuple(chosen.notes))


def of_script(session: Session, of_calls: Finding, seen: Seen, witness: Witness) -> Finding:
    """What the script itself shows, where none of its calls diverges by itself."""
    runs = seen.runs(witness)
    if runs.differs_by_asking:
        asks = script_verdict(runs, seen.criterion)
        return replace(of_calls, verdict=asks, outcome=Outcome.PASS, ended=True)
    if runs.outcome is Outcome.PASS:
        return of_calls if of_calls.outcome is not Outcome.PASS else _agreeing(session, of_calls, witness)
    verdict = script_verdict(runs, seen.criterion)
    if (error := seen.chosen.evidence.default.error) is not None:
        verdict = replace(verdict, reason=Together((verdict.reason, CallGivesNothing(error))))
    if runs.outcome is not Outcome.FAIL:
        # A call of a script that differs from itself may be wrong on equal inputs; no cause is searched.
        wrong = verdict.kind is VerdictClass.COMPILED_WORSE
        outcome = Outcome.FAIL if wrong else runs.outcome
        return replace(of_calls, verdict=verdict, outcome=outcome, ended=True)
    return ScriptFinding(
        verdict,
        runs.outcome,
        ended=True,
        default=Measurement(outputs=outputs_of(witness.eager, witness.compiled, seen.equal.place)),
        notes=(*of_calls.notes, *((witness.rung_unknown,) if witness.rung_unknown is not None else ())),
        first_bad_backend=witness.first_bad_backend,
        criterion=seen.criterion,
        rung=witness.first_bad_backend or witness.last_rung,
        lines=witness.lines,
        by_call=by_call(witness.eager, witness.compiled, witness.shown, seen.equal, seen.criterion),
    )


def _agreeing(session: Session, of_calls: Finding, witness: Witness) -> Finding:
    """Where the calls and the script agree: with what the script's own runs were compared in, and with what
    it says of itself, which is what its author may ask about."""
    own = script_of(session).own_difference(witness.eager)
    if own is not None:
        return replace(of_calls, verdict=own, ended=True)
    verdict = of_calls.verdict
    if verdict.kind is not VerdictClass.AGREES:
        return of_calls
    verdict = replace(verdict, compared=witness.shown.compared)
    if printed := complaint(witness.eager):
        verdict = replace(verdict, reason=Together((verdict.reason, SaysAlike(printed))))
    return replace(of_calls, verdict=verdict)


def with_nodes(session: Session, judged: Judged) -> Judged:
    """With what the nodes say of differing values, where the run goes no further than the verdict."""
    chosen, finding = judged.chosen, judged.finding
    of_values = chosen.verdict.rule in BY_VALUES and not finding.ended
    if not of_values or isinstance(chosen, DivergingScript) or not chosen.call.can_be_followed:
        return judged
    try:
        followed = follow(chosen.study, WHOLE, chosen.default)
    except BudgetSpent:
        return judged
    if followed.trace is None:
        return judged
    chosen = replace(chosen, verdict=chosen.reclassified(followed.trace))
    of_nodes = of_call(chosen)
    finding = replace(finding, verdict=of_nodes.verdict, outcome=of_nodes.outcome)
    return Judged(chosen, finding, answer_of(session, chosen, finding, followed=followed))
