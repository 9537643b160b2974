"""What a run explains: two runs of one program, eager and compiled, that should agree and do not.

A recorded call is one, the whole script another. Probes, the confirmation, the repro and the report ask
the same of both.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from bisector.core.backends import INDUCTOR
from bisector.core.classify import classify
from bisector.core.criterion import Criterion
from bisector.core.evidence import FALLBACK_RANDOM, Evidence
from bisector.core.judge import judge
from bisector.core.model import ProbeResult
from bisector.core.notes import Note
from bisector.core.printed import PrintedLine
from bisector.core.recorded import RecordedCall
from bisector.core.trace import Trace
from bisector.core.verdict import Verdict
from bisector.runner.lab import Lab

from .repro_writers import GraphWriter, ReproWriter, ScriptWriter
from .run import Session
from .script_repro import Source
from .study import Study

RUNS = 16  # of each compiled program: a pass rate of 1/5 goes unseen with probability 1/35
RUNS_OF_A_SCRIPT = 3  # seconds each; a pass rate of 1/2 goes unseen with probability 1/8


@dataclass(frozen=True)
class Other:
    """Another call that diverges, not the one that is studied, with its default compile."""

    call: RecordedCall
    result: ProbeResult


@dataclass(frozen=True)
class Divergence:
    """The call or script under study, the evidence of its verdict, and notes on how it was chosen.

    others: further calls that diverge, the worst first.
    """

    call: RecordedCall
    study: Study
    evidence: Evidence
    verdict: Verdict
    notes: tuple[Note, ...] = ()
    others: tuple[Other, ...] = ()

    @property
    def default(self) -> ProbeResult:
        """The default compile against eager."""
        return judge(self.evidence.default, self.study.criterion)

    def second_worker(self, session: Session) -> Lab:
        """A lab whose worker runs the script again."""
        raise NotImplementedError

    def confirming(self, study: Study, lab: Lab) -> Study:
        """The study in that lab, each program run several times."""
        raise NotImplementedError

    def writer(self, session: Session, study: Study) -> ReproWriter:
        """study: as the search has it by now."""
        raise NotImplementedError

    def reclassified(self, followed: Trace | None) -> Verdict:
        """The verdict with what is known of each node, where the whole was followed."""
        return self.verdict


class DivergingCall(Divergence):
    """A recorded call, replayed on the inputs that it has in eager."""

    def second_worker(self, session: Session) -> Lab:
        return session.new_lab("confirm")

    def confirming(self, study: Study, lab: Lab) -> Study:
        return replace(study, lab=lab, runs=RUNS)

    def writer(self, session: Session, study: Study) -> ReproWriter:
        return GraphWriter(study)

    def reclassified(self, followed: Trace | None) -> Verdict:
        if followed is None:
            return self.verdict
        return verdict_of_call(self.evidence, self.study, self.call, followed)


@dataclass(frozen=True)
class DivergingScript(Divergence):
    """The whole script: each probe is a run of it in a forked child.

    rung: the backend that it is compiled with, the first of those that show it; flags of what comes after it
    are not tried. source: its text. lines: the printed ones that count.
    """

    rung: str = INDUCTOR
    source: str = ""
    lines: tuple[PrintedLine, ...] = ()

    def second_worker(self, session: Session) -> Lab:
        return session.program_lab("program, confirm", self.rung, self.lines)

    def confirming(self, study: Study, lab: Lab) -> Study:
        return replace(study, lab=lab, repeat=max(study.repeat, RUNS_OF_A_SCRIPT))

    def writer(self, session: Session, study: Study) -> ReproWriter:
        return script_writer(session, study.criterion, self.lines)


def verdict_of_call(
    evidence: Evidence, study: Study, call: RecordedCall, followed: Trace | None = None
) -> Verdict:
    """followed: what is known of each node."""
    own_random = call.settings.get(FALLBACK_RANDOM) is True
    return classify(evidence, study.criterion, own_random, followed)


def script_writer(
    session: Session, criterion: Criterion, lines: tuple[PrintedLine, ...] = ()
) -> ScriptWriter:
    """Writes the script of the session. lines: the printed ones that must agree."""
    of_stdout = tuple(line for line in lines if line.is_of_stdout)
    return ScriptWriter(Source(session.script, session.environment, session.seed, of_stdout), criterion)
