"""Scripts that differ from themselves with compilation off, and why."""

from __future__ import annotations

# Script, and what is in the reason of its verdict.
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
