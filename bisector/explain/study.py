"""One diverging call under study: candidates and cases in, judged results out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from bisector.core.budget import BudgetSpent
from bisector.core.case import WHOLE, Case
from bisector.core.criterion import DTYPE_TOLERANCES, Criterion
from bisector.core.decision import DecisionId
from bisector.core.endings import Ending
from bisector.core.graphinfo import GraphInfo
from bisector.core.judge import judge, together
from bisector.core.model import Base, Candidate, Json, Measurement, ProbeResult, Signature
from bisector.core.outcome import Outcome
from bisector.core.protocol import (
    About,
    Answer,
    DescribeGraph,
    DigestCode,
    Draw,
    Draws,
    Failed,
    FindFormulas,
    GeneratedCode,
    Ratios,
    ReadFlags,
    Request,
    RunPasted,
    RunProbe,
    Setting,
    ShowSource,
    SimplifyInputs,
    Steered,
    SteerInputs,
    TimeSlowdown,
    TryOtherInputs,
    WarmUp,
)
from bisector.core.recorded import Recorded
from bisector.core.shares import Shares
from bisector.core.trace import Reach
from bisector.errors import WorkerLost

CONFIG = "config"  # a decision of this kind is a flag: `config:NAME@graph`


def config_id(flag: str) -> DecisionId:
    """The decision ID of a flag as a whole."""
    return DecisionId.of(CONFIG, flag, "graph")


def flag_of(decision_id: DecisionId) -> str:
    return decision_id.place


class Asks(Protocol):
    """What a study asks: a lab, or one that stands for it. jobs: probes that compute at a time."""

    jobs: int

    def hello(self) -> Recorded: ...

    def key(self, request: Request[Any]) -> str: ...

    def knows(self, request: Request[Any]) -> bool: ...

    def ahead(self, requests: Sequence[Request[Any]]) -> None:
        """Ask these with the next probes, if any come: their answers are then there when wanted."""

    def settle(self) -> None:
        """What is asked next hangs on what was asked last: nothing is guessed before that is answered."""

    def ask(self, request: Request[Answer]) -> Answer | Failed: ...

    def ask_all(self, requests: Sequence[Request[Answer]]) -> list[Answer | Failed]: ...


@dataclass(frozen=True)
class Study:
    """Asks the lab about one call and judges what comes back.

    signatures: what diverges in the whole subject; anything else is another bug (UNRESOLVED).
    small: the criterion for reduced graphs, whose outputs are other nodes.
    conservative: values that `config:` members stand for.
    train: compare gradients; None as the script did. reach: how far its runs are followed node by node;
    shares: whether that says what the parts of the whole carry. repeat: trials for each probe. runs: of the
    compiled program in each.
    hooks_off: kinds of decision that are neither offered nor denied, since their hooks do not bite.
    width: how many questions are worth asking at a time.
    exhausted: says why no more may be asked, or None.
    """

    lab: Asks
    call: int
    criterion: Criterion
    small: Criterion
    signatures: tuple[Signature, ...] = ()
    train: bool | None = None
    reach: Reach = Reach.FORWARD
    shares: Shares = Shares.NONE
    repeat: int = 1
    runs: int = 1
    conservative: Mapping[str, Json] = field(default_factory=dict)
    exhausted: Callable[[], Ending | None] = lambda: None
    counts: Counter[str] = field(default_factory=Counter)
    hooks_off: Mapping[str, str] = field(default_factory=dict)
    width: int = 1

    def probe(self, candidate: Candidate, case: Case = WHOLE) -> ProbeResult:
        return self.probe_all([(candidate, case)])[0]

    def probe_all(self, asked: Sequence[tuple[Candidate, Case]]) -> list[ProbeResult]:
        """One result for each (candidate, case), run side by side as far as the lab's lanes go."""
        self._stop_if_exhausted()
        answers = self.lab.ask_all(self.requests(asked))
        results = []
        for i, (_, case) in enumerate(asked):
            trials = answers[i * self.repeat : (i + 1) * self.repeat]
            results.append(together([self.judged(a, case) for a in trials]))
        self.counts.update(r.outcome.value for r in results)
        return results

    def requests(self, asked: Sequence[tuple[Candidate, Case]]) -> list[RunProbe]:
        """What the lab is asked for these candidates, every trial of one after the other."""
        return [
            RunProbe(self.about(case), candidate, trial, self.runs)
            for candidate, case in asked
            for trial in range(self.repeat)
        ]

    def about(self, case: Case) -> About:
        """What every request about a case says."""
        return About(self.call, case, self.train, self.hooks_off)

    def judged(self, answer: Measurement | Failed, case: Case = WHOLE) -> ProbeResult:
        """A probe's answer as a result, under the criterion that its case is held to."""
        return judge(measured(answer), self.criterion_of(case), same=self.signatures or None)

    def criterion_of(self, case: Case) -> Criterion:
        """What a case is held to."""
        return self.criterion if case == WHOLE else self.small

    def tolerated(self, dtype: str | None) -> float:
        """The relative difference that a node of a smaller graph may have."""
        return self.small.tolerance("", dtype or "")[0]

    def steer(
        self, case: Case, wanted: Sequence[tuple[Candidate, Outcome]], magnifying: Sequence[float] = ()
    ) -> Case | None:
        """The case on other input values, on which every candidate should give the outcome that is wanted of
        it; None where no such values were found. Ask a probe whether it is so.

        magnifying: factors to try where no step is found."""
        if not self.small.by_tolerances:  # what is looked for is a step that they allow
            return None
        tolerances = {d: self.small.tolerance("", d) for d in DTYPE_TOLERANCES}
        about = self.about(case)
        found = self.lab.ask(SteerInputs(about, tuple(wanted), tolerances, tuple(magnifying)))
        return found.case.rebased() if isinstance(found, Steered) and found.case is not None else None

    def simplest(
        self, case: Case, wanted: Sequence[tuple[Candidate, Outcome]], simpler: Mapping[str, Sequence[str]]
    ) -> Case | None:
        """The case with the first of these values for each input with which every candidate should give the
        outcome that is wanted of it; the case itself where there are none, None where that is not known. Ask
        a probe whether it is so.

        simpler: by input, the values to try, as `Case.values` has them."""
        tried = tuple((name, tuple(values)) for name, values in simpler.items())
        held_to = self.criterion_of(case), self.signatures
        asked = SimplifyInputs(self.about(case), tuple(wanted), tried, *held_to)
        found = self.lab.ask(asked)
        return found.case if isinstance(found, Steered) else None

    def warm(self, case: Case) -> None:
        """Compile a case in the worker itself, for the caches that this fills."""
        self.lab.ask(WarmUp(self.about(case)))

    def codes(
        self, candidates: Sequence[Candidate], case: Case, names: Sequence[str] = ()
    ) -> list[GeneratedCode]:
        """The code that is generated for each; nothing is run. names: flags whose reads are recorded."""
        self._stop_if_exhausted()
        asked = [DigestCode(self.about(case), candidate, tuple(names)) for candidate in candidates]
        return [GeneratedCode(None) if isinstance(a, Failed) else a for a in self.lab.ask_all(asked)]

    def sources(self, asked: Sequence[tuple[Candidate, Case]]) -> list[str | None]:
        """The code generated for each (candidate, case), None where it is not known; nothing is run."""
        self._stop_if_exhausted()
        answers = self.lab.ask_all([ShowSource(self.about(case), candidate) for candidate, case in asked])
        return [None if isinstance(answer, Failed) else answer.text for answer in answers]

    def slowdown(self, candidate: Candidate, case: Case, seconds: float) -> Ratios | Failed:
        """Runs of the candidate and of the default, timed in turn with nothing else running."""
        self._stop_if_exhausted()
        return self.lab.ask(TimeSlowdown(self.about(case), candidate, seconds))

    def on_other_inputs(
        self, candidates: Sequence[Candidate], asked: Sequence[tuple[Case, int]]
    ) -> list[Draw]:
        """The candidates on other inputs. asked: cases, each with how often its values are drawn anew."""
        self._stop_if_exhausted()
        requests = [
            TryOtherInputs(self.about(case), tuple(candidates), self.criterion, draws)
            for case, draws in asked
        ]
        answers = self.lab.ask_all(requests)
        return [draw for answer in answers if isinstance(answer, Draws) for draw in answer.draws]

    def pasted(self, lines: Sequence[str]) -> list[ProbeResult]:
        """The default compile of the whole after each of these lines of plain torch, one at a time."""
        self._stop_if_exhausted()
        answers = self.lab.ask_all([RunPasted(self.about(WHOLE), line) for line in lines])
        return [self.judged(answer) for answer in answers]

    def takes(self, case: Case) -> bool:
        """Whether the graph runs in eager with these edits."""
        return not isinstance(self.lab.ask(DescribeGraph(self.about(case))), Failed)

    def describe(self, case: Case) -> GraphInfo:
        """The graph of a case. Raises BudgetSpent like a probe, WorkerLost where there is no answer."""
        answer = self.lab.ask(DescribeGraph(self.about(case)))
        if isinstance(answer, Failed):
            problem = f"the graph of a case could not be had: {answer.reason}"
            raise WorkerLost(f"{problem}; go on with `numbisect resume`")
        return answer

    def formulas(self, ids: Sequence[DecisionId]) -> Mapping[str, str]:
        """Torch's own `file:line` of the formulas behind these `lower` and `decomp` decisions, "" where none
        is known."""
        if not ids:
            return {}
        answer = self.lab.ask(FindFormulas(self.about(WHOLE), tuple(ids)))
        return {} if isinstance(answer, Failed) else answer.places

    def settings(self, names: Sequence[str]) -> Mapping[str, Setting]:
        """Those of the flags that this torch has, as they stand around the call."""
        answer = self.lab.ask(ReadFlags(self.about(WHOLE), tuple(names)))
        return {} if isinstance(answer, Failed) else answer.values

    def denied(self, members: frozenset[DecisionId], case: Case = WHOLE) -> ProbeResult:
        """The default compile with these decisions denied; `config:` members at their conservative values."""
        return self.probe(self.deny(members), case)

    def enabled(
        self, members: frozenset[DecisionId], case: Case, also_denied: Sequence[DecisionId]
    ) -> ProbeResult:
        """The plain baseline with these decisions enabled. also_denied: `config` flags and `lower` decisions
        that are denied too, unless they are members."""
        return self.probe(self.plain(members, also_denied), case)

    def plain(self, members: frozenset[DecisionId], also_denied: Sequence[DecisionId]) -> Candidate:
        """The candidate of `enabled`."""
        denied = frozenset(also_denied) - members
        flags = {flag_of(d): self.conservative[flag_of(d)] for d in denied if d.kind == CONFIG}
        turned = _no_config(members - frozenset(also_denied)) | _no_config(denied)
        return replace(Candidate.with_flags(flags), base=Base.PLAIN, members=turned)

    def deny(self, members: frozenset[DecisionId]) -> Candidate:
        flags = {flag_of(m): self.conservative[flag_of(m)] for m in members if m.kind == CONFIG}
        return replace(Candidate.with_flags(flags), members=_no_config(members))

    def _stop_if_exhausted(self) -> None:
        if (reason := self.exhausted()) is not None:
            raise BudgetSpent(reason)


def measured(answer: Measurement | Failed) -> Measurement:
    """A job that failed as a whole is a measurement with nothing but its reason."""
    return Measurement(error=answer.reason) if isinstance(answer, Failed) else answer


def _no_config(members: frozenset[DecisionId]) -> frozenset[DecisionId]:
    return frozenset(m for m in members if m.kind != CONFIG)
