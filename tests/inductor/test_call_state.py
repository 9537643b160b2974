"""What a call begins with: what has changed between two calls, in words, and that it can be undone."""

from __future__ import annotations

import contextvars
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("torch")
import torch
import torch.utils._pytree as pytree

from bisector.inductor.program.call_state import Change, State, told
from bisector.inductor.program.given import Given, names_of, objects_given

scale = 0.75
rates = {"fast": 1.0, "slow": 0.1}
die = random.Random(0)
steps: list[int] = []
level: contextvars.ContextVar[int] = contextvars.ContextVar("level", default=1)


class Expert:
    weight = 1.0

    def __init__(self) -> None:
        self.gain = 1.0

    def scaled(self, x: Any) -> Any:
        return x * self.gain


expert = Expert()


def double(x: Any) -> Any:
    return x * 2


def triple(x: Any) -> Any:
    return x * 3


table = {"act": double}


def step(x: Any, y: Any = None, k: float = 1.0) -> Any:
    out = expert.scaled(table["act"](x * scale)) * rates["slow"] + rates.get("bias", 0.0)
    return out + die.random() + len(steps) + level.get()


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    began = State(step)
    yield
    for change in State(step).changes(began):
        change.put_back()


def changes(before: State, model: Any = step) -> dict[str, Change]:
    return {change.name: change for change in State(model).changes(before)}


def of_arguments(*now: Any) -> dict[str, Change]:
    before = Given(step, (torch.ones(3), None, 0.75), {})
    return {change.name: change for change in Given(step, now, {}).changes(before)}


def test_where_nothing_changed_that_is_said() -> None:
    assert not changes(State(step))
    assert told([], 1) == "of what was looked at, nothing has changed since call 1, which compiled it last"


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.ones(4), "`x` (float32[3] -> float32[4])"),
        (torch.ones(3).requires_grad_(), "whether gradients are required of `x` (False -> True)"),
        (torch.ones(6)[::2], "the strides of `x` ((1,) -> (2,))"),
    ],
)
def test_an_argument_that_changed_is_told(x: Any, words: str) -> None:
    assert words in told(list(of_arguments(x, None, 0.75).values()), 1)


def test_an_argument_that_changed_is_undone_alone() -> None:
    x = torch.ones(6)[::2].requires_grad_()
    found = of_arguments(x, None, 2.5)
    assert found["`k`"].of_inputs([x, None, 2.5])[2] == 0.75
    laid = found["the strides of `x`"].of_inputs([x, None, 2.5])[0]
    assert laid.stride() == (1,) and laid.requires_grad and torch.equal(laid, x)
    plain = found["whether gradients are required of `x`"].of_inputs([x, None, 2.5])[0]
    assert not plain.requires_grad and plain.stride() == (2,)


def test_arguments_that_overlap_are_told_and_taken_apart() -> None:
    base = torch.ones(4)
    before = Given(step, (torch.ones(3), torch.ones(3)), {})
    given = (base[:3], base[1:])
    (overlap,) = Given(step, given, {}).changes(before)
    assert overlap.told == "arguments that overlap in memory (none -> `x` and `y`)"
    x, y = overlap.of_inputs(given)
    x += 1
    assert torch.equal(y, torch.ones(3))
    assert not Given(step, (base[:2], base[2:]), {}).overlap.startswith("`")


def test_what_a_function_reaches_is_told_part_by_part_and_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    before = State(step)
    monkeypatch.setitem(step.__globals__, "scale", 2.5)
    monkeypatch.setenv("NUMBISECT_TEST", "1")
    die.random()
    steps.append(1)
    rates["slow"], rates["bias"] = 0.5, 3.0
    table["act"] = triple
    expert.gain = 4.0
    level.set(7)
    found = changes(before)
    assert found.keys() == {
        "`scale`", "`die`", "`steps`", "`rates['slow']`", "`rates['bias']`", "`table['act']`",
        "`expert.gain`", "`level`", "`os.environ['NUMBISECT_TEST']`",
    }  # fmt: skip
    assert (found["`rates['bias']`"].was, found["`rates['bias']`"].now) == ("absent", "3.0")
    assert found["`table['act']`"].was.startswith("double (test_call_state.py:")
    for change in found.values():
        change.put_back()
    assert not changes(before) and rates == {"fast": 1.0, "slow": 0.1} and level.get() == 1
    assert "NUMBISECT_TEST" not in os.environ
    for change in found.values():
        change.take_away()
    assert changes(before).keys() == found.keys() and rates["bias"] == 3.0


def test_an_object_that_the_call_is_given_is_looked_into() -> None:
    given = objects_given(step, (Expert(),), {})
    before = State(step, given)
    given["x"].gain = 2.0
    (change,) = State(step, given).changes(before)
    assert change.told == "`x.gain` (1.0 -> 2.0)"
    before.put_back()
    assert given["x"].gain == 1.0


def test_an_attribute_of_a_class_is_undone_as_the_class_holds_it() -> None:
    before = State(step)
    own = vars(Expert)["scaled"]
    Expert.weight = 2.0
    assert changes(before).keys() == {"`Expert.weight`"}
    before.put_back()
    assert Expert.weight == 1.0 and vars(Expert)["scaled"] is own


def test_a_hook_the_mode_and_an_attribute_of_a_module_are_told() -> None:
    layer = torch.nn.Linear(2, 2)
    layer.depth = 1
    before = State(layer)
    layer.register_forward_hook(lambda *_: None)
    layer.eval()
    layer.depth = 2
    with torch.no_grad():
        layer.weight.zero_()
        found = changes(before, layer)
    *words, mode, of_weight = [change.told for change in found.values()]
    assert words == [
        "the forward hooks of the module (none -> 1)",
        "whether the module is in training (True -> False)",
        "`Linear().depth` (1 -> 2)",
    ]
    assert of_weight.startswith("the values of `weight` (values ") and mode == "grad mode (True -> False)"
    before.put_back()
    assert changes(before, layer).keys() == set()


def test_a_hook_of_a_tensor_is_undone() -> None:
    layer = torch.nn.Linear(2, 2, bias=False)
    before = State(layer)
    layer.weight.register_hook(lambda grad: grad * 3)
    found = changes(before, layer)
    assert found.keys() == {"the backward hooks of `weight`"}
    found["the backward hooks of `weight`"].put_back()
    layer(torch.ones(2)).sum().backward()
    assert torch.equal(layer.weight.grad, torch.ones(2, 2))


def test_without_memory_no_values_are_copied() -> None:
    layer = torch.nn.Linear(2, 2)
    before = State(layer, memory=False)
    with torch.no_grad():
        layer.weight.zero_()
    assert not State(layer, memory=False).changes(before)


class Pair:
    def __init__(self, one: Any, two: Any) -> None:
        self.parts = (one, two)


pytree.register_pytree_node(Pair, lambda pair: (list(pair.parts), None), lambda parts, _: Pair(*parts))


def test_parts_of_a_type_that_names_none_are_known_by_their_place() -> None:
    assert names_of(step, (torch.ones(1), Pair(torch.ones(1), 2)), {"k": 1.0}) == ["x", "y[0]", "y[1]", "k"]
