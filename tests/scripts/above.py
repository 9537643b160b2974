"""Scripts whose cause is above the graph: what Dynamo, AOTAutograd or a cache decides."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Above:
    """cause: the decisions of one confirmed cause. said: in the first of their sentences. rung: the first
    backend that diverges. changed: what no guard of reused code checks."""

    script: str
    cause: list[str]
    said: str
    rung: str
    changed: str = ""


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
        ["frame:helper@script.py:3"], "Dynamo inlines `helper`", "eager",
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
        ["guard:run@call2"], "the forward hooks of `layer` (none -> 1)", "eager",
        changed="the forward hooks of `layer`",
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
        ["guard:shift@call2"], "arguments that overlap in memory (none -> `a` and `b`)", "aot_eager",
        changed="arguments that overlap in memory",
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
