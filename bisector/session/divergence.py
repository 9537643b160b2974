"""What a run explains: two runs of one program, eager and compiled, that should agree and do not.

A recorded call is one, the whole script another. The search, the confirmation, the repro and the report ask
both alike; what cannot be asked of one is no capability of it.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, replace
from typing import ClassVar

from bisector.core.backends import INDUCTOR
from bisector.core.case import Case
from bisector.core.classify import classify
from bisector.core.criterion import Criterion
from bisector.core.evidence import FALLBACK_RANDOM, Evidence
from bisector.core.judge import judge
from bisector.core.model import ProbeResult
from bisector.core.printed import PrintedLine
from bisector.core.protocol import Failed, Repro, ScriptSpec, WriteRepro
from bisector.core.recorded import RecordedCall
from bisector.core.trace import Trace
from bisector.core.verdict import Verdict
from bisector.runner.lab import Lab

from . import script_repro
from .run import Session
from .study import Study

RUNS = 16  # of each compiled program: a pass rate of 1/5 goes unseen with probability 1/35
RUNS_OF_A_SCRIPT = 3  # seconds each; a pass rate of 1/2 goes unseen with probability 1/8


class Capability(enum.Enum):
    """What can be asked of a divergence beside probes."""

    GRAPH = "it is one graph: nodes can be left out, inputs drawn anew, its code read, other backends tried"
    FOLLOW = "the compiled run of the whole can be followed node by node"
    GRAPHS_AND_CALLS = "it has several graphs and calls, and each can be left uncompiled"


@dataclass(frozen=True)
class Other:
    """A call that diverges beside the one that is studied, with its default compile."""

    call: RecordedCall
    result: ProbeResult


class ReproWriter:
    """Writes the repro of a divergence. name: of the repro, in a sentence."""

    name: ClassVar[str]

    def criterion_of(self, case: Case) -> Criterion:
        """What the repro of a case is held to."""
        raise NotImplementedError

    def write(self, case: Case, spec: ScriptSpec) -> Repro | Failed:
        """The text of the repro of a case."""
        raise NotImplementedError


@dataclass(frozen=True)
class GraphWriter(ReproWriter):
    """Writes a graph with its inputs; the worker, which holds them, is asked for the text."""

    name = "repro of the graph alone"

    study: Study

    def criterion_of(self, case: Case) -> Criterion:
        return self.study.criterion_of(case)

    def write(self, case: Case, spec: ScriptSpec) -> Repro | Failed:
        return self.study.lab.ask(WriteRepro(self.study.about(case), spec))


@dataclass(frozen=True)
class ScriptWriter(ReproWriter):
    """Writes the script itself, run twice and compared call by call, and by its printed lines."""

    name = "repro that is the script itself"

    session: Session
    criterion: Criterion
    lines: tuple[PrintedLine, ...] = ()

    def criterion_of(self, case: Case) -> Criterion:
        return self.criterion

    def write(self, case: Case, spec: ScriptSpec) -> Repro:
        session = self.session
        lines = tuple(line for line in self.lines if line.is_of_stdout)
        source = script_repro.Source(session.script, session.environment, session.seed, lines)
        return Repro(script_repro.text(source, case, spec))


@dataclass(frozen=True)
class Divergence:
    """The call or script under study, the evidence of its verdict, and notes on how it was chosen.

    others: further calls that diverge, the worst first. rung: the backend that it is compiled with, the
    first of those that show it; flags of what comes after it are not tried. script: its source, where it
    is a whole script.
    """

    call: RecordedCall
    study: Study
    evidence: Evidence
    verdict: Verdict
    notes: tuple[str, ...] = ()
    others: tuple[Other, ...] = ()
    rung: str = INDUCTOR
    script: str = ""

    @property
    def can(self) -> frozenset[Capability]:
        """What may be asked of it."""
        raise NotImplementedError

    @property
    def default(self) -> ProbeResult:
        """The default compile beside eager."""
        return judge(self.evidence.default, self.study.criterion)

    def second_worker(self, session: Session) -> Lab:
        """A lab whose worker runs the script again."""
        raise NotImplementedError

    def confirming(self, lab: Lab) -> Study:
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

    @property
    def can(self) -> frozenset[Capability]:
        follow = {Capability.FOLLOW} if self.call.can_be_followed else set()
        return frozenset({Capability.GRAPH, *follow})

    def second_worker(self, session: Session) -> Lab:
        return session.new_lab("confirm")

    def confirming(self, lab: Lab) -> Study:
        return replace(self.study, lab=lab, runs=RUNS)

    def writer(self, session: Session, study: Study) -> ReproWriter:
        return GraphWriter(study)

    def reclassified(self, followed: Trace | None) -> Verdict:
        if followed is None:
            return self.verdict
        return verdict_of_call(self.evidence, self.study, self.call, followed)


@dataclass(frozen=True)
class DivergingScript(Divergence):
    """The whole script: each probe is a run of it in a forked child.

    lines: the printed ones that count.
    """

    lines: tuple[PrintedLine, ...] = ()

    @property
    def can(self) -> frozenset[Capability]:
        return frozenset({Capability.GRAPHS_AND_CALLS})

    def second_worker(self, session: Session) -> Lab:
        return session.program_lab("program, confirm", self.rung, self.lines)

    def confirming(self, lab: Lab) -> Study:
        return replace(self.study, lab=lab, repeat=max(self.study.repeat, RUNS_OF_A_SCRIPT))

    def writer(self, session: Session, study: Study) -> ReproWriter:
        return ScriptWriter(session, study.criterion, self.lines)


def verdict_of_call(
    evidence: Evidence, study: Study, call: RecordedCall, followed: Trace | None = None
) -> Verdict:
    """followed: what is known of each node."""
    own_random = call.settings.get(FALLBACK_RANDOM) is True
    return classify(evidence, study.criterion, own_random, followed)
