"""What has changed between two calls, in the words of a reader."""

from __future__ import annotations

import random
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from bisector.inductor.program.call_state import changed, describe

scale = 0.75
die = random.Random(0)
steps: list[int] = []


def step(x: Any, y: Any = None, k: float = 1.0) -> Any:
    return x * scale + die.random() + len(steps)


def said(before: dict[str, str], now: dict[str, str]) -> str:
    return changed(before, now, 1)


def test_where_nothing_changed_that_is_said() -> None:
    state = describe(step, (torch.ones(3),), {})
    assert said(state, describe(step, (torch.zeros(3),), {})) == (
        "of what was looked at, nothing has changed since call 1, which compiled it last"
    )


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ((torch.ones(4),), "argument 0 (float32[3] -> float32[4])"),
        ((torch.ones(3).requires_grad_(),), "whether argument 0 requires gradients (False -> True)"),
        ((torch.ones(6)[::2],), "the strides of argument 0 ((1,) -> (2,))"),
    ],
)
def test_an_argument_that_changed_is_told(args: Any, told: str) -> None:
    assert told in said(describe(step, (torch.ones(3),), {}), describe(step, args, {}))


def test_arguments_that_overlap_are_told() -> None:
    base = torch.ones(4)
    before = describe(step, (torch.ones(3), torch.ones(3)), {})
    now = describe(step, (base[:3], base[1:]), {})
    assert "tensor arguments that overlap in memory (none -> 1 and 0)" in said(before, now)
    apart = describe(step, (base[:2], base[2:]), {})
    assert "overlap" not in said(before, apart)


def test_numbers_variables_and_generators_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    before = describe(step, (torch.ones(3), None, 0.75), {})
    monkeypatch.setitem(step.__globals__, "scale", 2.5)
    die.random()
    steps.append(1)
    now = describe(step, (torch.ones(3), None, 2.5), {})
    told = said(before, now)
    assert "argument 2 (0.75 -> 2.5)" in told and "`scale` (0.75 -> 2.5)" in told
    assert "`die` (random state" in told and "`steps` ([] -> [1])" in told
    steps.clear()


def test_a_hook_the_mode_and_an_attribute_of_a_module_are_told() -> None:
    layer = torch.nn.Linear(2, 2)
    layer.depth = 1
    before = describe(layer, (torch.ones(2),), {})
    layer.register_forward_hook(lambda *_: None)
    layer.eval()
    layer.depth = 2
    told = said(before, describe(layer, (torch.ones(2),), {}))
    assert "the hooks of the module (none -> 1)" in told
    assert "whether the module is in training (True -> False)" in told
    assert "the module.depth (1 -> 2)" in told
