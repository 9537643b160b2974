"""A program that was measured is not run again; nothing else is taken for it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from bisector import wire
from bisector.core.case import WHOLE
from bisector.core.evidence import Evidence
from bisector.core.model import Candidate, Measurement, OutputMeasurement
from bisector.core.protocol import About, RunProbe, RunVerdict
from bisector.inductor import source_capture
from bisector.inductor.probe_cache import ProbeCache
from tests.inductor.helpers import compile_only

DIGEST = "a digest"
OUTPUTS = (OutputMeasurement(0, "output[0]", "float32", (4,), 4, n_diff=1, max_abs=0.5),)
ANSWER = Measurement(OUTPUTS, code=DIGEST)
ABOUT = About(call=0, case=WHOLE, train=None, hooks_off={})


def request(candidate: Candidate | None = None, trial: int = 0, **about: Any) -> RunProbe:
    return RunProbe(replace(ABOUT, **about), candidate or Candidate(), trial)


def knowing(answer: Measurement = ANSWER) -> ProbeCache:
    known = ProbeCache()
    known.learn(request(), wire.dump(answer))
    return known


def test_the_same_code_on_the_same_case_is_known_whatever_was_denied_for_it() -> None:
    assert knowing().program(request(Candidate.deny(["inline:aten.mul@mul"])), DIGEST) == Measurement(OUTPUTS)


@pytest.mark.parametrize(
    "other",
    [
        request(call=1),
        request(train=True),
        request(hooks_off={"fma": "does not bite"}),
        request(case=replace(WHOLE, outputs=("mul",))),
        request(Candidate.with_flags({"inductor.cpp.simdlen": 1})),
        request(trial=1),
    ],
    ids=["call", "train", "hooks off", "case", "flags", "repetition"],
)
def test_the_same_code_elsewhere_or_once_more_is_not_known(other: RunProbe) -> None:
    assert knowing().program(other, DIGEST) is None


def test_a_crash_teaches_nothing() -> None:
    known = knowing(Measurement(error="crash: signal 11", code=DIGEST))
    assert known.program(request(), DIGEST) is None


def test_the_default_compile_of_a_verdict_is_known_like_a_probe() -> None:
    known = ProbeCache()
    known.learn(RunVerdict(ABOUT), wire.dump(Evidence(ANSWER, ANSWER, ANSWER, (), ())))
    assert known.program(request(), DIGEST) == Measurement(OUTPUTS)


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
