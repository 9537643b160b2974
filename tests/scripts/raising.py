"""Scripts of which one side raises, as people write them: what `numbisect minimize` must say of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Raising:
    """said: in the reason of the verdict. repair: the decisions that a confirmed repair denies; None where
    torch has none for it, and a backend is all that is named."""

    script: str
    said: str
    repair: tuple[str, ...] | None


RAISING = {
    "a compile error in a small net, which the script catches": Raising(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.a, self.b = torch.nn.Linear(16, 32), torch.nn.Linear(32, 4)
                self.norm = torch.nn.LayerNorm(32)
            def forward(self, x):
                y = self.norm(torch.nn.functional.gelu(self.a(x)))
                y = torch.relu(y) + torch.sin(y)
                return torch.softmax(self.b(y), -1)

        net = Net().eval()
        x = torch.randn(4, 16)
        print(net(x))
        try:
            print(torch.compile(net)(x))
        except Exception as e:
            print("FAILED:", type(e).__name__)
            raise SystemExit(0)
        raise SystemExit(1)
        """,
        "compiled raises CppCompileError",
        ("lower:aten.relu@relu",),
    ),
    "both raise, and each another type": Raising(
        """
        import torch
        # the compiled function returns where eager validates the indices
        class Model(torch.nn.Module):
            def forward(self, x, i):
                x = torch.cos(x) + 1
                y = torch.index_select(x, 0, i)
                return (y * 2).sum(0) - x.mean(0)
        m = Model()
        x, i = torch.randn(6, 8), torch.tensor([0, 3, 7])
        for name, f in (("eager", m), ("compiled", torch.compile(m))):
            try:
                print(name, f(x, i).shape)
            except Exception as e:
                print(name, type(e).__name__, e)
        """,
        "IndexError",
        ("decomp:aten.index_select@y",),
    ),
    "a lowering of the script's own that refuses": Raising(
        """
        import torch
        from torch._inductor import lowering
        def refuses(x, *rest, **more):
            raise NotImplementedError("erfinv of this dtype")
        lowering.lowerings[torch.ops.aten.erfinv.default] = refuses

        def sampled(u, scale):
            z = torch.erfinv(2 * u - 1) * 2 ** 0.5
            return (z * scale).cumsum(-1).exp()
        u, scale = torch.rand(3, 7) * 0.98 + 0.01, torch.rand(7)
        print(sampled(u, scale))
        print(torch.compile(sampled)(u, scale))
        """,
        "erfinv of this dtype",
        ("lower:aten.erfinv@erfinv",),
    ),
    "a lowering that the backward alone needs, at two places": Raising(
        """
        import torch
        from torch._inductor import lowering
        def refuses(*given, **more):
            raise TypeError("no backward of the slice")
        lowering.lowerings[torch.ops.aten.slice_scatter.default] = refuses
        model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh())
        def loss(x):
            y = model(x)
            return (y[:, 2:5] * x[:, 2:5]).sum()
        x = torch.randn(4, 8, requires_grad=True)
        loss(x).backward()
        torch.compile(loss)(x).backward()
        """,
        "no backward of the slice",
        None,
    ),
    "an error when the kernel runs, and an exit status": Raising(
        """
        import os
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "runtime_error"

        def test_fn():
            a = torch.rand(5, 5)
            f = lambda a: torch.log1p(torch.relu(a @ a.t())) * 2
            want = f(a)
            try:
                got = torch.compile(f)(a)
            except Exception as e:
                print("reproduced", type(e))
                return True
            return not torch.allclose(got, want)
        os._exit(0 if test_fn() else 1)
        """,
        "unhandled error",
        ("lower:aten.relu@relu",),
    ),
    "eager alone checks a range": Raising(
        """
        import torch
        # eager checks that probabilities lie in [0, 1]
        def f(x, t):
            p = torch.sin(x) * 1.5
            return torch.nn.functional.binary_cross_entropy(p, t) + x.abs().mean()
        x, t = torch.linspace(0.1, 3, 8), torch.ones(8)
        for fn in (f, torch.compile(f)):
            try:
                print(fn(x, t))
            except Exception as e:
                print(type(e).__name__, str(e)[:60])
        """,
        "between 0 and 1; compiled returns",
        ("decomp:aten.binary_cross_entropy@binary_cross_entropy",),
    ),
    "a decomposition of the script's own that refuses": Raising(
        """
        import torch
        from torch._inductor import decomposition
        from torch._inductor.decomposition import register_decomposition
        decomposition.decompositions.pop(torch.ops.aten.logit.default, None)
        @register_decomposition([torch.ops.aten.logit.default])
        def logit(x, eps=None):
            assert eps is not None, "eps is needed"
            return torch.log(x / (1 - x))
        @torch.compile
        def f(x):
            y = torch.sqrt(x) * 0.9
            return torch.logit(y) - y
        x = torch.rand(10)
        print(f(x))
        """,
        "eps is needed",
        ("decomp:aten.logit@logit",),
    ),
    "eager alone checks what it draws with": Raising(
        """
        import torch
        # eager refuses, compiled runs
        torch.manual_seed(0)
        def f(p):
            q = p * 2 - 0.1
            return torch.bernoulli(q).sum() + q.max()
        p = torch.tensor([0.1, 0.4, 0.9])
        def attempt(fn):
            try:
                return fn(p).item()
            except Exception as e:
                return f"{type(e).__name__}"
        print("eager", attempt(f)); print("compiled", attempt(torch.compile(f)))
        """,
        "compiled returns",
        None,
    ),
    "a training step with two places": Raising(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"

        class Block(torch.nn.Module):
            def __init__(self, n):
                super().__init__()
                self.conv = torch.nn.Conv2d(n, n, 3, padding=1)
                self.bn = torch.nn.BatchNorm2d(n)
            def forward(self, x):
                return torch.relu(self.bn(self.conv(x)) + x)
        net = torch.nn.Sequential(Block(4), Block(4)).train()
        x = torch.randn(2, 4, 8, 8, requires_grad=True)
        opt = torch.optim.SGD(net.parameters(), lr=0.1)
        step = torch.compile(lambda x: net(x).square().mean())
        step(x).backward()
        opt.step()
        """,
        "compiled raises CppCompileError",
        ("lower:aten.relu@input_1", "lower:aten.relu@input_2",),
    ),
    "a lowering that asserts": Raising(
        """
        # compile error: a lowering of the script's own raises
        import torch
        from torch._inductor import lowering as L
        def bad(x):
            raise AssertionError("no lowering for this size 128")
        L.lowerings[torch.ops.aten.sinh.default] = bad
        def f(x):
            y = x * 2 + 1
            return torch.sinh(y).sum(-1)
        print(torch.compile(f)(torch.randn(8, 16)))
        """,
        "no lowering for this size",
        ("lower:aten.sinh@sinh",),
    ),
}
