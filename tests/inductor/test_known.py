"""A program that was measured is not run again; nothing else is taken for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from bisector import wire
from bisector.core.case import Case
from bisector.core.model import Candidate, Measurement, OutputMeasurement
from bisector.core.protocol import RunProbe, RunVerdict, VerdictData
from bisector.inductor import source_capture
from bisector.inductor.known import Known, held_key
from tests.inductor.helpers import compile_only
from tests.inductor.workers import ABOUT

DIGEST = "a digest"
OUTPUTS = (OutputMeasurement(0, "output[0]", "float32", (4,), 4, n_diff=1, max_abs=0.5),)
ANSWER = Measurement(OUTPUTS, code=DIGEST)
CRASHED = Measurement(error="crash: signal 11")


def request(candidate: Candidate | None = None, trial: int = 0, **changes: Any) -> RunProbe:
    return RunProbe(replace(ABOUT, **changes), candidate or Candidate(), trial)


def knowing(answer: Measurement = ANSWER) -> Known:
    known = Known()
    known.learn(request(), wire.dump(answer))
    return known


def test_the_same_code_on_the_same_case_is_known_whatever_was_denied_for_it() -> None:
    assert knowing().program(request(Candidate.deny(["inline:aten.mul@mul"])), DIGEST) == OUTPUTS


@pytest.mark.parametrize(
    "other",
    [
        request(call=1),
        request(train=True),
        request(case=Case(outputs=("mul",))),
        request(Candidate.with_flags({"inductor.cpp.simdlen": 1})),
        request(trial=1),
    ],
    ids=["call", "train", "case", "flags", "repetition"],
)
def test_the_same_code_elsewhere_or_once_more_is_not_known(other: RunProbe) -> None:
    assert knowing().program(other, DIGEST) is None


def test_a_crash_teaches_nothing() -> None:
    assert knowing(CRASHED).program(request(), DIGEST) is None
    assert not knowing(CRASHED).compiled_as(request())


def test_probes_that_differ_in_kernel_local_decisions_share_a_compile() -> None:
    default = held_key(request())
    assert held_key(request(Candidate.deny(["vec:erf@erf", "cast:float16@half", "fma:sub@mul"]))) == default
    assert held_key(request(Candidate.deny(["vec:loop@erf"]))) != default
    assert held_key(request(Candidate.deny(["inline:aten.mul@mul"]))) != default


def test_the_default_compile_of_a_verdict_is_known_like_a_probe() -> None:
    known = Known()
    known.learn(RunVerdict(ABOUT), wire.dump(VerdictData(ANSWER, CRASHED, CRASHED, (), ())))
    assert known.program(request(), DIGEST) == OUTPUTS
    assert list(known.compiled_as(request())) == [frozenset()]


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@pytest.mark.usefixtures("compiler")
def test_a_compile_ends_at_code_that_is_known_before_any_kernel_is_built() -> None:
    compile_only(double, [torch.ones(4)])
    torch._dynamo.reset()
    seen: list[str] = []

    def known(digest: str) -> str:
        seen.append(digest)
        return "known"

    with pytest.raises(source_capture.SourceComplete), source_capture.collected(known) as sources:
        torch.compile(double, dynamic=False)(torch.ones(4))
    assert seen == [source_capture.digest(sources)]


@pytest.mark.usefixtures("compiler")
def test_code_with_another_constant_tensor_is_another_program() -> None:
    digests = []
    for value in (1.0, 2.0):
        constant = torch.full((4,), value)
        torch._dynamo.reset()
        with torch._inductor.config.patch(freezing=True), torch.no_grad():
            module = torch.nn.Module()
            module.register_buffer("constant", constant)
            module.forward = lambda x, module=module: x + module.constant  # type: ignore[method-assign]
            with source_capture.collected() as sources:
                torch.compile(module, dynamic=False)(torch.ones(4))
        digests.append(source_capture.digest(sources))
    assert digests[0] != digests[1]
