"""A case held with its kernel-local decisions open gives what compiling each choice by itself gives."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from bisector import wire
from bisector.core.messages import Compiles
from bisector.core.model import Candidate, Measurement
from bisector.core.protocol import Failed, RunProbe
from bisector.inductor import held
from bisector.runner.worker_client import Worker, WorkerOptions
from tests.inductor.workers import ABOUT, answers

pytestmark = pytest.mark.usefixtures("compiler")

SCRIPTS = {
    "casts": """
def f(x, y):
    return ((x * y).half() + y.half()) * 3

args = [torch.randn(33, 70), torch.randn(33, 70)]
""",
    "vector operations of equal kernels": """
def f(x, w):
    for _ in range(3):
        x = torch.tanh(x) @ w
    return x

args = [torch.randn(16, 16), torch.randn(16, 16)]
""",
    "contractions": """
torch._inductor.config.cpp.enable_floating_point_contract_flag = "fast"

def f(x, y):
    return (x * y - y, x.square() + y, 2 - x * x)

args = [torch.randn(40, 50), torch.randn(40, 50)]
""",
    "a gradient": """
def f(x, y):
    return (torch.sigmoid(x.to(torch.bfloat16) * y.to(torch.bfloat16)) * 2).float().exp()

args = [torch.randn(32, 48, requires_grad=True), torch.randn(32, 48)]
""",
}
FIFTY = """
def f(x, w):
    for _ in range(50):
        x = torch.tanh(x) @ w
    return x

args = [torch.randn(16, 16), torch.randn(16, 16) / 4]
"""
HEAD = "import torch\ntorch.manual_seed(0)\n"
TAIL = """
result = torch.compile(f, dynamic=False)(*args)
if result[0].requires_grad:
    result.sum().backward()
"""


class Asked:
    """A worker with one call, and probes of its whole."""

    def __init__(self, script: Path) -> None:
        load = {"target": str(script)}
        self.worker = Worker(WorkerOptions(load=load, first=False, log=str(script.with_suffix(".log"))))
        self.worker.wait_until_ready()

    def probe(self, *candidates: Candidate, series: bool = False) -> list[Measurement]:
        compiles = Compiles.SHARED if series else Compiles.OWN
        found = answers(self.worker, *(RunProbe(ABOUT, c) for c in candidates), compiles=compiles)
        assert [answer for answer in found if isinstance(answer, Failed)] == []
        return found


@pytest.fixture
def asked(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Asked]:
    script = tmp_path / "script.py"
    script.write_text(HEAD + SCRIPTS.get(request.param, FIFTY) + TAIL)
    made = Asked(script)
    yield made
    made.worker.close()


def is_held(measurement: Measurement) -> bool:
    return " without " in measurement.code


def numbers(measurement: Measurement) -> str:
    return json.dumps(wire.dump(measurement.outputs))


LOCAL = ("cast:", "fma:", "vec:")


@pytest.mark.parametrize("asked", list(SCRIPTS), indirect=True)
def test_one_compile_answers_for_each_choice_as_its_own_compile_does(asked: Asked) -> None:
    [default] = asked.probe(Candidate())
    local = [d.id for d in default.decisions if d.id.startswith(LOCAL) and "vec:loop" not in d.id]
    assert len(local) >= 3
    candidates = [*(Candidate.deny([member]) for member in local[:3]), Candidate.deny(local)]
    plain = asked.probe(*candidates)
    answered = asked.probe(*candidates, series=True)
    assert not any(map(is_held, plain))
    assert all(map(is_held, answered))
    assert list(map(numbers, answered)) == list(map(numbers, plain))
    assert [{d.id for d in h.decisions} for h in answered] == [{d.id for d in p.decisions} for p in plain]
    assert len(set(map(numbers, plain))) > 1  # or nothing was told apart


@pytest.mark.parametrize("asked", ["casts"], indirect=True)
def test_what_is_not_kernel_local_is_compiled_by_itself(asked: Asked) -> None:
    [default] = asked.probe(Candidate())
    other = next(d.id for d in default.decisions if not d.id.startswith(LOCAL))
    [measurement] = asked.probe(Candidate.deny([other]), series=True)
    assert not is_held(measurement)
    assert measurement.error is None


@pytest.mark.parametrize("asked", ["casts"], indirect=True)
def test_a_member_that_the_compile_never_came_to_has_vanished_in_a_held_one_too(asked: Asked) -> None:
    [default] = asked.probe(Candidate())
    known = next(d.id for d in default.decisions if d.id.startswith("cast:"))
    asked.probe(Candidate.deny([known]), Candidate.deny(["cast:float16@nowhere"]))
    [measurement] = asked.probe(Candidate.deny([known, "cast:float16@nowhere"]), series=True)
    assert is_held(measurement)
    assert measurement.vanished == ("cast:float16@nowhere",)


@pytest.mark.parametrize("asked", ["casts"], indirect=True)
def test_a_compile_of_few_decisions_is_held_once_several_were_made_by_themselves(asked: Asked) -> None:
    [default] = asked.probe(Candidate(), series=True)
    local = [d.id for d in default.decisions if d.id.startswith(LOCAL) and "vec:loop" not in d.id]
    assert len(local) < held.MANY_OPEN
    for made in range(1, held.SEVERAL_COMPILED):
        [single] = asked.probe(Candidate.deny(local[:made]), series=True)
        assert not is_held(single)
    [again] = asked.probe(Candidate.deny(local[:1]), series=True)
    assert is_held(again)


@pytest.mark.parametrize("asked", ["fifty"], indirect=True)
def test_the_first_of_a_series_is_compiled_by_itself_for_the_others_to_be_checked_against(
    asked: Asked,
) -> None:
    members = [f"vec:tanh@{name}" for name in ("x", "x_2")]
    [first] = asked.probe(Candidate.deny(members[:1]), series=True)
    assert not is_held(first)
    [second] = asked.probe(Candidate.deny(members[:1]), series=True)
    assert is_held(second)
    assert numbers(second) == numbers(first)


@pytest.mark.parametrize("asked", ["fifty"], indirect=True)
def test_fifty_vector_operations_are_tried_one_by_one_in_one_compile(asked: Asked) -> None:
    [default] = asked.probe(Candidate())
    local = [d.id for d in default.decisions if d.id.startswith("vec:tanh@")]
    assert len(local) == 50
    answered = asked.probe(*(Candidate.deny([member]) for member in local), series=True)
    assert all(map(is_held, answered))
    assert len({m.code for m in answered}) == 50
    assert len({m.code.partition(" without ")[0] for m in answered}) == 1
