"""What a probe is, and what can be put around one. A candidate can be of any type.

Put the wrappers on in this order, the outermost first: Observed, Remembered, Budgeted, Repeated. Then a
remembered answer costs no budget, and a budget counts candidates, not trials.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Generic, Protocol, TypeVar

from bisector.core.model import Outcome, ProbeResult


class Keyed(Protocol):
    """A candidate that can be remembered: equal candidates have equal keys."""

    def key(self) -> str: ...


AnyCandidate = TypeVar("AnyCandidate")
AnyCandidateIn = TypeVar("AnyCandidateIn", contravariant=True)
KeyedCandidate = TypeVar("KeyedCandidate", bound=Keyed)


class Probe(Protocol[AnyCandidateIn]):
    """Compile and run one candidate, and judge it. Whatever goes wrong in it is an UNRESOLVED result."""

    def __call__(self, candidate: AnyCandidateIn) -> ProbeResult: ...


class BudgetSpent(Exception):
    """No further probe may be made. A search that can stops with what it has; reason says which budget."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Remembered(Generic[KeyedCandidate]):
    """Probes each candidate once; a result from memory says `cached`. hits: results given from memory."""

    def __init__(self, probe: Probe[KeyedCandidate]) -> None:
        self._probe = probe
        self._results: dict[str, ProbeResult] = {}
        self.hits = 0

    def __call__(self, candidate: KeyedCandidate) -> ProbeResult:
        key = candidate.key()
        if key in self._results:
            self.hits += 1
            return replace(self._results[key], cached=True)
        result = self._results[key] = self._probe(candidate)
        return result


class Repeated(Generic[AnyCandidate]):
    """Probes each candidate `times` times. Trials that disagree make it UNRESOLVED, with their counts."""

    def __init__(self, probe: Probe[AnyCandidate], times: int) -> None:
        if times < 1:
            raise ValueError(f"times must be at least 1, not {times}")
        self._probe = probe
        self._times = times

    def __call__(self, candidate: AnyCandidate) -> ProbeResult:
        trials = [self._probe(candidate) for _ in range(self._times)]
        counts = Counter(trial.outcome for trial in trials)
        if len(counts) == 1:
            return trials[0]
        told = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
        return replace(
            trials[0],
            outcome=Outcome.UNRESOLVED,
            reason=f"{self._times} trials disagree: {told}",
            signatures=(),
        )


class Budgeted(Generic[AnyCandidate]):
    """Raises BudgetSpent instead of probing when a budget is spent.

    limit_probes: how many probes may be made in all; None for any number.
    exhausted: asked before each probe; says why no further one may be made, or None (a clock, say).
    """

    def __init__(
        self,
        probe: Probe[AnyCandidate],
        *,
        limit_probes: int | None = None,
        exhausted: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._probe = probe
        self._limit = limit_probes
        self._exhausted = exhausted
        self.made = 0

    def __call__(self, candidate: AnyCandidate) -> ProbeResult:
        if self._limit is not None and self.made >= self._limit:
            raise BudgetSpent(f"the budget of {self._limit} probes is spent")
        if (reason := self._exhausted()) is not None:
            raise BudgetSpent(reason)
        self.made += 1
        return self._probe(candidate)


class Observed(Generic[AnyCandidate]):
    """Tells `callback` each candidate and its result."""

    def __init__(
        self, probe: Probe[AnyCandidate], callback: Callable[[AnyCandidate, ProbeResult], None]
    ) -> None:
        self._probe = probe
        self._callback = callback

    def __call__(self, candidate: AnyCandidate) -> ProbeResult:
        result = self._probe(candidate)
        self._callback(candidate, result)
        return result
