"""The steps of a traced function that make a script differ."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bisector.core.case import WHOLE
from bisector.core.criterion import Criterion
from bisector.core.decision import Decision, DecisionId
from bisector.core.model import Measurement
from bisector.core.outcome import Outcome
from bisector.core.protocol import RunProbe
from bisector.core.steps import Needed, Step
from bisector.explain import steps as stage
from bisector.explain.study import Study
from tests.core.measurements import off_by, output
from tests.explain.fake_lab import FakeLab

FRAME = Decision(DecisionId("frame:layer@a.py:9"), "", "")


def step(name: str, line: int, within: Step | None = None, function: str = "layer") -> Step:
    found = DecisionId(f"step:{function}@a.py:{line}:4-9")
    return Step(found, "", f"a.py:{line}", code=name, within=None if within is None else within.id)


APPLY = step("apply(x)", 10)
FORWARD = step("x.sin()", 3, APPLY, "forward")
CONSTANT = step("g.is_contiguous()", 5, APPLY, "backward")
LATER = step("x.cos()", 11)
LISTED = (FORWARD, CONSTANT, APPLY, LATER)


def told(repairing: set[Step], listed: tuple[Step, ...] = LISTED) -> Any:
    ids = {one.id for one in repairing}

    def probe(request: RunProbe) -> Measurement:
        values = output() if ids & set(request.candidate.members) else off_by(1.0)
        return Measurement((values,), decisions=(FRAME,))

    lab: Any = FakeLab({RunProbe: probe})
    return stage._told(Study(lab, 0, Criterion(), Criterion()), WHOLE, listed)


def test_of_what_is_traced_as_a_whole_the_call_is_named_and_the_steps_in_it_are_listed() -> None:
    found = told({FORWARD, CONSTANT, APPLY})
    assert (found.steps, found.inside, found.alone) == ((APPLY,), (FORWARD, CONSTANT), Outcome.FAIL)


def test_a_step_that_repairs_before_the_named_one_is_not_one_within_it() -> None:
    before = replace(FORWARD, within=None)
    assert told({before, LATER}, (before, CONSTANT, APPLY, LATER)).inside == ()


def test_two_steps_of_which_each_repairs_are_both_named() -> None:
    found = told({APPLY, LATER}, (step("x.abs()", 8), APPLY, LATER))
    assert (found.steps, found.needed, found.alone) == ((APPLY, LATER), Needed.ANY, Outcome.FAIL)
    assert told({APPLY, FORWARD}).needed is Needed.ALL, "one is within the other"
    many = tuple(step("x", line) for line in range(20, 25))
    assert told(set(many), many).steps == many[-1:]


@pytest.mark.parametrize("within", [APPLY, LATER])
def test_a_function_that_calls_itself_ends_the_way_out(within: Step) -> None:
    own = replace(FORWARD, within=FORWARD.id)
    deeper = step("deeper", 4, own, "forward")
    assert not stage._is_within(deeper, within, (own, deeper, APPLY, LATER))
    assert stage._is_within(step("in", 5, deeper), own, (own, deeper))
