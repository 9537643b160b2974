"""Causes above the graph, end to end: what Dynamo, AOTAutograd or a cache decides is named, confirmed and
mended in the script itself; and a script that differs from itself is told why.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from .test_program import checked, minimized, repro_ends


@dataclass(frozen=True)
class Above:
    """cause: the decisions of one confirmed cause. said: in the first of their sentences. rung: the first
    backend that diverges. slow: not among the quick tests."""

    script: str
    cause: list[str]
    said: str
    rung: str
    slow: bool = True


ABOVE = {
    "a helper that Dynamo inlines gives something else where it is traced": Above(
        """
        import numpy, torch

        def helper(x):
            return torch.from_numpy(numpy.cbrt(x.numpy()))  # traced as a power: NaN below zero

        def net(x):
            return helper(x - 1) * 2

        x = torch.linspace(-2, 2, 9)
        fast = torch.compile(net, backend="eager", fullgraph=True)
        torch.testing.assert_close(fast(x), net(x))
        """,
        ["frame:helper@script.py:3"], "Dynamo inlines `helper`", "eager", slow=False,
    ),
    "a forward hook is registered after the first call": Above(
        """
        import torch

        torch.manual_seed(0)
        layer = torch.nn.Linear(3, 3)

        def run(x):
            return layer(x).relu()

        fast = torch.compile(run, backend="aot_eager")
        x = torch.randn(2, 3)
        fast(x)
        layer.register_forward_hook(lambda module, given, result: result * 10)
        print("compiled", fast(x).sum().item(), "eager", run(x).sum().item())
        """,
        ["guard:run@call2"], "the hooks of layer (none -> 1)", "eager",
    ),
    "the arguments of a later call overlap in memory": Above(
        """
        import torch

        def shift(a, b):
            a.add_(1)
            return a + b * 2

        fast = torch.compile(shift, backend="aot_eager")
        base = torch.arange(6.0)
        fast(torch.ones(4), torch.ones(4))
        one, two = base.clone(), base.clone()
        expected = shift(one[:4], one[2:])
        torch.testing.assert_close(fast(two[:4], two[2:]), expected)
        """,
        ["guard:shift@call2"], "tensor arguments that overlap in memory (none -> 1 and 0)", "aot_eager",
    ),
    "the backward pass is traced under the autocast of the forward pass": Above(
        """
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.head = nn.Linear(4, 1)
            def forward(self, x):
                with torch.autocast("cpu", enabled=False):
                    return self.head(x.float())

        def gradient(net, x):
            net.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                out = net(x)
            (out * 1e5).sum().backward()
            return next(net.parameters()).grad.clone()

        torch.manual_seed(0)
        net, x = Net(), torch.ones(2, 4)
        expected = gradient(net, x)
        torch.testing.assert_close(gradient(torch.compile(net), x), expected)
        """,
        ["config:functorch.backward_pass_autocast@graph"], "which autocast the backward graph", "aot_eager",
    ),
}


@pytest.mark.parametrize(
    "above",
    [pytest.param(a, id=title, marks=[pytest.mark.slow] if a.slow else []) for title, a in ABOVE.items()],
)
def test_what_is_decided_above_the_graph_is_named_and_mended(above: Above, tmp_path: Path) -> None:
    result = minimized(above.script, tmp_path)
    assert result["verdict"]["first_bad_backend"] == above.rung
    assert above.cause in [cause["decisions"] for cause in result["causes"] if cause["confirmed"]]
    assert above.said in result["decisions"][above.cause[0]]["text"]
    assert any(fix["confirmed"] and fix["paste"] for fix in result["fixes"])
    assert repro_ends(tmp_path) == [1, 0]
    assert result["script"]["outcome"] == "PASS"


OWN = {
    "both sides are given an argument that the function changes": (
        """
        import torch

        def bump(x):
            x.mul_(2)
            return x + 1

        y = torch.ones(3)
        expected = bump(y)
        torch.testing.assert_close(torch.compile(bump)(y), expected)
        """,
        "call 1 (`bump`) changes argument 0 in place: where that is put back before each call it passes; "
        "give each side a copy of its own",
    ),
    "a module in training": (
        """
        import torch

        torch.manual_seed(0)
        net = torch.nn.BatchNorm1d(4, momentum=0.5)
        x = torch.randn(6, 4) * 3
        expected, mean = net(x), net.running_mean.clone()
        torch.testing.assert_close(torch.compile(net)(x), expected)
        torch.testing.assert_close(net.running_mean, mean)
        """,
        "`running_var`: where that is put back before each call it passes; give each side a module of its "
        "own",
    ),
    "another function": (
        """
        import torch
        x = torch.linspace(0, 1, 5)
        assert torch.allclose(torch.compile(lambda x: x.sin() + 1.01)(x), x.sin() + 1), "differs"
        """,
        "what makes its two sides differ was not found",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize(("script", "why"), OWN.values(), ids=OWN)
def test_a_script_that_differs_from_itself_is_told_why(script: str, why: str, tmp_path: Path) -> None:
    status, result = checked(script, tmp_path)
    verdict: dict[str, Any] = result["verdict"]
    assert (status, verdict["class"]) == (0, "own-difference")
    assert why in verdict["reason"]
