"""What a stage asks, asked in rounds.

A search asks one question at a time, and most answers change nothing: a case does not diverge, a set does not
repair. So a stage is run as if every question without an answer could not be judged, and what it asks by
then is asked at once. It is run again until it meets nothing but answers: its result is that of asking one
after the other, however wide the rounds are. Where an answer decides what is asked next, the stage says so
(`settle`), and the round ends there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from bisector.core.budget import BudgetSpent
from bisector.core.protocol import Answer, Failed, Request, RunProbe, SteerInputs
from bisector.core.recorded import Recorded

from .study import Study

T = TypeVar("T")
P = ParamSpec("P")
Stage = Callable[Concatenate[Study, P], T]

# Of so many questions in a round one is to be of use. Measured on two cores: with five, rounds are fewer, and
# their probes cost more than that saves.
_GUESSES = 2
_GUESSED = (RunProbe, SteerInputs)  # no stage can do without an answer to anything else
_NOT_ASKED = Failed("not asked yet")


def in_rounds(stage: Stage[P, T]) -> Stage[P, T]:
    """The stage, which then asks in rounds.

    stage: asks the study that it is given and nothing else, changes nothing but what it makes itself, and
    asks the same where the answers are the same. What it asks within another stage is of that one's rounds.
    """

    @wraps(stage)
    def asking(study: Study, *rest: P.args, **named: P.kwargs) -> T:
        if isinstance(study.lab, _Guessing) or study.width < 2:
            return stage(study, *rest, **named)
        lab = _Guessing(study)
        while True:
            counts: Counter[str] = Counter()
            guessed = replace(study, lab=lab, counts=counts, exhausted=lambda: None)
            with suppress(_Enough):
                result = stage(guessed, *rest, **named)
                if not lab.wanted:
                    study.counts.update(counts)
                    return result
            lab.ask_round()

    return asking


class _Enough(BaseException):
    """A round is full, or what follows cannot be guessed. No stage catches this."""


class _Guessing:
    """Answers what is known, and collects the rest for a round: `wanted`, by key."""

    def __init__(self, study: Study) -> None:
        self._lab = study.lab
        self._exhausted = study.exhausted
        self._most = study.width
        self._answers: dict[str, Any] = {}
        self._last: set[str] = set()  # of the round before
        self._used: set[str] = set()  # since then
        self._settled = False  # whether the stage ended this round
        self._ahead: list[Request[Any]] = []
        self.jobs = study.lab.jobs
        self.wanted: dict[str, Request[Any]] = {}

    def hello(self) -> Recorded:
        return self._lab.hello()

    def key(self, request: Request[Any]) -> str:
        return self._lab.key(request)

    def knows(self, request: Request[Any]) -> bool:
        return self._lab.knows(request)

    def ahead(self, requests: Sequence[Request[Any]]) -> None:
        self._ahead += requests

    def settle(self) -> None:
        """End the round here where something of it has no answer yet. That it is short says nothing of how
        many guesses are of use."""
        if self.wanted:
            self._settled = True
            raise _Enough

    def ask(self, request: Request[Answer]) -> Answer | Failed:
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[Request[Answer]]) -> list[Answer | Failed]:
        keys = [self._lab.key(request) for request in requests]
        asked = dict(zip(keys, requests, strict=True)) | {self._lab.key(r): r for r in self._ahead}
        self._ahead = []
        fresh = {k: r for k, r in asked.items() if not self._is_answered(k, r)}
        self._used.update(asked)
        if fresh:
            if (reason := self._exhausted()) is not None:
                raise BudgetSpent(reason)
            self.wanted |= fresh
            if len(self.wanted) >= self._width or not all(isinstance(r, _GUESSED) for r in fresh.values()):
                raise _Enough
        return [self._answers.get(key, _NOT_ASKED) for key in keys]

    @property
    def _width(self) -> int:
        """By what was of use of the round before: where a search turns after each answer, guesses about what
        it will ask are in vain."""
        of_use = len(self._used & self._last) if self._last else self._most
        return min(self._most, max(self.jobs, _GUESSES * of_use))

    def _is_answered(self, key: str, request: Request[Any]) -> bool:
        if key not in self._answers and self._lab.knows(request):
            self._answers[key] = self._lab.ask(request)
        return key in self._answers

    def ask_round(self) -> None:
        """Ask what is wanted."""
        asked, self.wanted = self.wanted, {}
        self._last, self._used, self._settled = set() if self._settled else set(asked), set(), False
        answers = self._lab.ask_all(list(asked.values()))
        self._answers.update(zip(asked, answers, strict=True))
