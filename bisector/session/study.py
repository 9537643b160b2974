"""One diverging call under study: candidates and cases in, judged results out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bisector.core.case import WHOLE, Case
from bisector.core.criterion import DTYPE_TOLERANCES, Criterion
from bisector.core.graphinfo import GraphInfo
from bisector.core.judge import judge
from bisector.core.model import Base, Candidate, Measurement, Outcome, ProbeResult, Signature, kind_of
from bisector.core.probe import BudgetSpent, together
from bisector.runner.lab import Lab

CONFIG = "config:"  # a decision of this kind is a flag: `config:NAME@graph`


# Looking for other input values takes some hundred runs of eager; on what is slower it is given up.
STEERING_S = 3.0


def config_id(flag: str) -> str:
    """The decision ID of a flag as a whole."""
    return f"{CONFIG}{flag}@graph"


def flag_of(decision_id: str) -> str:
    return decision_id.removeprefix(CONFIG).rpartition("@")[0]


@dataclass(frozen=True)
class GeneratedCode:
    """digest: equal for equal code, None where that cannot be told. unread: of the flags that were named
    those that the compile did not read, so that they cannot change it."""

    digest: str | None
    unread: frozenset[str] = frozenset()


@dataclass
class Study:
    """Asks the lab about one call and judges what comes back.

    signatures: what diverges in the whole subject; anything else is another bug (UNRESOLVED).
    small: the criterion for reduced graphs, whose outputs are other nodes.
    conservative: values that `config:` members stand for.
    train: compare gradients; None as the script did. repeat: trials for each probe.
    hooks_off: kinds of decision that are neither offered nor denied, since their hooks do not bite.
    exhausted: says why no more may be asked, or None.
    """

    lab: Lab
    call: int
    criterion: Criterion
    small: Criterion
    signatures: tuple[Signature, ...] = ()
    train: bool | None = None
    repeat: int = 1
    conservative: dict[str, Any] = field(default_factory=dict)
    exhausted: Callable[[], str | None] = lambda: None
    counts: Counter[str] = field(default_factory=Counter)
    hooks_off: Mapping[str, str] = field(default_factory=dict)

    def probe(self, candidate: Candidate, case: Case = WHOLE) -> ProbeResult:
        return self.probe_all([(candidate, case)])[0]

    def probe_all(
        self,
        asked: Sequence[tuple[Candidate, Case]],
        beside: Sequence[Mapping[str, Any]] = (),
        hints: Mapping[str, Any] | None = None,
    ) -> list[ProbeResult]:
        """One result for each (candidate, case), run side by side as far as the lab's lanes go.

        beside: other requests to make at the same time, so that their answers are there when they are wanted.
        hints: see `Lab.ask_all`.
        """
        self._stop_if_exhausted()
        answers = self.lab.ask_all([*beside, *self.requests(asked)], hints)[len(beside) :]
        results = []
        for i, (_, case) in enumerate(asked):
            trials = answers[i * self.repeat : (i + 1) * self.repeat]
            results.append(together([self.judged(a, case) for a in trials]))
        self.counts.update(r.outcome.value for r in results)
        return results

    def requests(self, asked: Sequence[tuple[Candidate, Case]]) -> list[dict[str, Any]]:
        """What the lab is asked for these candidates, every trial of one after the other."""
        return [self._request(c, case, trial) for c, case in asked for trial in range(self.repeat)]

    def judged(self, answer: Mapping[str, Any], case: Case = WHOLE) -> ProbeResult:
        """A probe's answer as a result, under the criterion that its case is held to."""
        measurement = as_measurement(answer)
        return judge(measurement, self.criterion_of(case), same=self.signatures or None)

    def criterion_of(self, case: Case) -> Criterion:
        """What a case is held to."""
        return self.criterion if case == WHOLE else self.small

    def steer(
        self,
        cases: Sequence[Case],
        wanted: Sequence[tuple[Candidate, Outcome]],
        magnifying: Sequence[float] = (),
    ) -> list[Case | None]:
        """For each case the same on other input values, on which every candidate should give the outcome
        that is wanted of it; None where no such values were found. Ask a probe whether it is so.

        magnifying: factors to try where no step is found."""
        tolerances = {d: list(self.small.tolerance("", d)) for d in DTYPE_TOLERANCES}
        asked = {
            "job": "steer",
            "call": self.call,
            "wanted": [(candidate.to_json(), outcome.value) for candidate, outcome in wanted],
            "tolerances": tolerances,
            "train": self.train,
            "seconds": STEERING_S,
            "magnifying": list(magnifying),
            "hooks_off": dict(self.hooks_off),
        }
        answers = self.lab.ask_all([{**asked, "case": case.to_json()} for case in cases])
        return [Case.from_json(a["case"]).rebased() if a.get("case") else None for a in answers]

    def warming(self, case: Case) -> dict[str, Any]:
        """The request that compiles a case in the worker itself, for the caches that this fills."""
        return {"job": "warm", "call": self.call, "case": case.to_json(), "train": self.train}

    def codes(
        self, candidates: Sequence[Candidate], case: Case, names: Sequence[str] = ()
    ) -> list[GeneratedCode]:
        """The code that is generated for each; nothing is run. names: flags to tell the unread of."""
        self._stop_if_exhausted()
        asked = {**self._about("code", case), "names": list(names)}
        answers = self.lab.ask_all([{**asked, "candidate": c.to_json()} for c in candidates])
        return [GeneratedCode(a.get("code"), frozenset(a.get("unread", ()))) for a in answers]

    def sources(self, asked: Sequence[tuple[Candidate, Case]]) -> list[str | None]:
        """The code generated for each (candidate, case), None where it is not known; nothing is run."""
        self._stop_if_exhausted()
        requests = [
            {**self._about("source", case), "candidate": c.to_json(), "hooks_off": dict(self.hooks_off)}
            for c, case in asked
        ]
        return [answer.get("source") for answer in self.lab.ask_all(requests)]

    def slowdown(self, candidate: Candidate, case: Case, seconds: float) -> Mapping[str, Any]:
        """Runs of the candidate and of the default, timed in turn with nothing beside them."""
        self._stop_if_exhausted()
        asked = self._about("slowdown", case)
        return self.lab.ask({**asked, "candidate": candidate.to_json(), "seconds": seconds})

    def elsewhere(
        self, candidates: Sequence[Candidate], asked: Sequence[tuple[Case, int]]
    ) -> list[Mapping[str, Any]]:
        """The candidates on other inputs. asked: cases, each with how often its values are drawn anew."""
        self._stop_if_exhausted()
        request = {
            "job": "elsewhere",
            "call": self.call,
            "candidates": [c.to_json() for c in candidates],
            "criterion": self.criterion.to_json(),
            "train": self.train,
        }
        return self.lab.ask_all([{**request, "case": case.to_json(), "draws": n} for case, n in asked])

    def pasted(self, lines: Sequence[str]) -> list[ProbeResult]:
        """The default compile of the whole after each of these lines of plain torch, none beside another."""
        self._stop_if_exhausted()
        asked = [{**self._about("pasted", WHOLE), "line": line} for line in lines]
        return [self.judged(answer) for answer in self.lab.ask_all(asked)]

    def takes(self, case: Case) -> bool:
        """Whether the graph runs in eager with these edits."""
        return "error" not in self._info(case)

    def describe(self, case: Case) -> GraphInfo:
        """The graph of a case. Raises BudgetSpent like a probe."""
        answer = self._info(case)
        if "error" in answer:
            raise RuntimeError(f"a case that was probed cannot be described: {answer['error']}")
        return GraphInfo.from_json(answer)

    def formulas(self, ids: Sequence[str]) -> Mapping[str, str]:
        """Torch's own `file:line` of the formulas behind these `lower` and `decomp` decisions, "" where none
        is known."""
        if not ids:
            return {}
        answer = self.lab.ask({"job": "formulas", "call": self.call, "ids": list(ids)})
        return {} if "error" in answer else answer

    def denied(self, members: frozenset[str], case: Case = WHOLE) -> ProbeResult:
        """The default compile with these decisions denied; `config:` members at their conservative values."""
        return self.probe(self.deny(members), case)

    def enabled(self, members: frozenset[str], case: Case, beside: Sequence[str]) -> ProbeResult:
        """The plain baseline with these decisions enabled. beside: `config` flags and `lower` decisions that
        are denied too, those that are members apart."""
        return self.probe(self.plain(members, beside), case)

    def plain(self, members: frozenset[str], beside: Sequence[str]) -> Candidate:
        """The candidate of `enabled`."""
        denied = frozenset(beside) - members
        flags = {flag_of(d): self.conservative[flag_of(d)] for d in denied if d.startswith(CONFIG)}
        turned = _no_config(members - frozenset(beside)) | _no_config(denied)
        return replace(Candidate.with_flags(flags), base=Base.PLAIN, members=turned)

    def deny(self, members: frozenset[str]) -> Candidate:
        flags = {flag_of(m): self.conservative[flag_of(m)] for m in members if m.startswith(CONFIG)}
        return replace(Candidate.with_flags(flags), members=_no_config(members))

    def _request(self, candidate: Candidate, case: Case, trial: int) -> dict[str, Any]:
        request = {**self._about("probe", case), "candidate": candidate.to_json()}
        if self.hooks_off:
            request["hooks_off"] = dict(self.hooks_off)
        return {**request, "trial": trial} if trial else request

    def _info(self, case: Case) -> Mapping[str, Any]:
        return self.lab.ask(self._about("info", case))

    def _about(self, job: str, case: Case) -> dict[str, Any]:
        """What every request about one case says."""
        return {"job": job, "call": self.call, "case": case.to_json(), "train": self.train}

    def _stop_if_exhausted(self) -> None:
        if (reason := self.exhausted()) is not None:
            raise BudgetSpent(reason)


def as_measurement(answer: Mapping[str, Any]) -> Measurement:
    """The worker's answer; a job that failed as a whole is a measurement with nothing but its reason."""
    if set(answer) == {"error"}:
        return Measurement(error=answer["error"])
    return Measurement.from_json(answer)


def _no_config(members: frozenset[str]) -> frozenset[str]:
    return frozenset(m for m in members if kind_of(m) != "config")
