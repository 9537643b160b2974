"""A lab that answers typed requests by a table, for tests of what asks one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bisector import request_json
from bisector.core.criterion import Criterion
from bisector.core.model import DivergenceKind, Measurement, OutputMeasurement, Signature
from bisector.core.protocol import Request
from bisector.explain.study import Study
from bisector.runner.journal import key_of

Answers = Mapping[type[Request[Any]], Callable[[Any], Any]]


class FakeLab:
    """answers: from the type of a request to what answers it. asked: all requests, in order. rounds: how many
    came at a time."""

    def __init__(self, answers: Answers, jobs: int = 2) -> None:
        self.answers = answers
        self.jobs = jobs
        self.asked: list[Request[Any]] = []
        self.rounds: list[int] = []

    def hello(self) -> Any:
        raise NotImplementedError

    def key(self, request: Request[Any]) -> str:
        return key_of(request_json.dump_request(request))

    def knows(self, request: Request[Any]) -> bool:
        return False

    def ahead(self, requests: Sequence[Request[Any]]) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Each question is answered when it is asked."""

    def ask(self, request: Request[Any]) -> Any:
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[Request[Any]]) -> list[Any]:
        self.asked += requests
        self.rounds.append(len(requests))
        return [self.answers[type(request)](request) for request in requests]

    def study(self, *signatures: Signature) -> Study:
        """A study of call 0, which diverges so."""
        return Study(self, 0, Criterion(), Criterion(), signatures=signatures)


DIVERGES = Signature("output[0]", DivergenceKind.VALUE)


def bytes_that_differ(n: int, code: str = "any") -> Measurement:
    """Of eight bytes of one output, n differ."""
    output = OutputMeasurement(
        0, "output[0]", "uint8", (8,), 8, n_diff=n, max_abs=float(n > 0), frontier=((1.0, 1.0),) * min(n, 1)
    )
    return Measurement((output,), code=code)
