"""Scripts in the forms in which people write them: what `numbisect check` must say of each."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """status: of `check`; said: in the reason of the verdict; kind: its class, None for any."""

    script: str
    said: str
    kind: str | None = None
    status: int = 1
    backend: str | None = None


FORMS = {
    "a variable is set before torch is imported": Form(
        """
        import os
        os.environ["TORCHINDUCTOR_EMULATE_PRECISION_CASTS"] = "1"
        import torch

        def rounds(x):
            return x.half().float() * 3
        x = torch.arange(1.0, 50.0) / 7
        print((torch.compile(rounds)(x) - rounds(x)).abs().max())
        """,
        "every output agrees", "agrees", 0,
    ),
    "the last bit of one graph is a step of the next": Form(
        """
        import torch

        def steps(x):
            fine = torch.sigmoid(x * 0.9).exp() * 2.3
            torch._dynamo.graph_break()
            return torch.floor(fine * 1e5)
        torch.manual_seed(1)
        x = torch.randn(5000)
        print((torch.compile(steps)(x) != steps(x)).sum())
        """,
        "the script diverges at call 1 of 1 (`steps`)", "equally-accurate", backend="inductor",
    ),
    "a late call of a loop, by which no more calls are kept": Form(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        @torch.compile
        def clipped(x):
            return torch.relu(x) * 2
        for i in range(9):
            x = torch.full((8,), -2.0 if i < 7 else 3.0)
            print(i, clipped(x).sum().item())
        """,
        "on equal inputs `relu`", "compiled-worse",
    ),
    "strides alone": Form(
        """
        import torch
        import torch._inductor.config
        torch._inductor.config.keep_output_stride = False
        x = torch.ones(3, 4, 5, 5).to(memory_format=torch.channels_last)
        torch.compile(lambda x: torch.cat([x, x], 1) * 3)(x)
        """,
        "strides (", "compiled-worse",
    ),
    "it ends its process itself, and without an error": Form(
        """
        import os
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
        x = torch.rand(7)
        worse = (torch.compile(torch.relu)(x) - torch.relu(x)).abs().max() > 0.5
        os._exit(0 if worse else 2)
        """,
        "on equal inputs `", "compiled-worse",
    ),
    "the compiler raises, which the script catches": Form(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "compile_error"
        try:
            torch.compile(lambda x: torch.relu(x.sin()))(torch.rand(7))
        except Exception as error:
            raise SystemExit(0) from error
        """,
        "compiled raises CppCompileError: C++ compile error", "raises",
    ),
    "eager alone validates": Form(
        """
        import torch

        def looked_up(table, at):
            return table[at] + 1
        table, at = torch.rand(5), torch.tensor([0, 9])
        for function in (looked_up, torch.compile(looked_up)):
            try:
                print(function(table, at))
            except Exception as error:
                print(type(error))
        """,
        "eager raises IndexError", "raises",
    ),
    "a parameter drifts from step to step, and each step agrees": Form(
        """
        import torch
        torch.manual_seed(0)
        weight = torch.nn.Parameter(torch.randn(64))

        @torch.compile
        def loss(x):
            return torch.tanh((x * weight).sin() * 3.1).exp().mean()
        optimizer = torch.optim.SGD([weight], lr=3e3)
        for step in range(20):
            optimizer.zero_grad()
            loss(torch.randn(64)).backward()
            optimizer.step()
        print(weight.sum().item())
        """,
        "the script diverges at call ", "amplified-rounding",
    ),
    "nothing but a printed number, of what is within the tolerance": Form(
        """
        import torch

        def scores(x):
            return torch.sigmoid(x * 0.9).exp() * 2.3
        torch.manual_seed(1)
        x = torch.randn(5000)
        print("other bits:", (torch.compile(scores)(x) != scores(x)).sum().item())
        """,
        "it prints `other bits: ", "amplified-rounding",
    ),
    "a decomposition of the script's own": Form(
        """
        import torch
        from torch._inductor import decomposition
        decomposition.decompositions.pop(torch.ops.aten.expm1.default, None)

        @decomposition.register_decomposition([torch.ops.aten.expm1])
        def expm1(x):
            return torch.exp(x) - 1 + 0.125
        x = torch.rand(64)
        print(torch.compile(torch.expm1)(x) - torch.expm1(x))
        """,
        "on equal inputs `", "compiled-worse",
    ),
    "dropout, and a wrong function beneath it": Form(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        def dropped(x):
            return torch.nn.functional.dropout(torch.relu(x), 0.4)
        x = torch.rand(99)
        print(torch.compile(dropped)(x).sum(), dropped(x).sum())
        """,
        "on equal inputs `relu` (aten.relu) differs from eager", "compiled-worse",
    ),
    "dropout and nothing else": Form(
        """
        import torch
        x = torch.ones(99)
        print(torch.compile(torch.nn.functional.dropout)(x) - torch.nn.functional.dropout(x))
        """,
        "with eager's (fallback_random) every output agrees", "random",
    ),
    "a backward through a backward, which the compiler cannot give": Form(
        """
        import torch
        net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        x = torch.randn(5, 4, requires_grad=True)

        def penalty(f):
            slope, = torch.autograd.grad(f(x).sum(), x, create_graph=True)
            loss = (slope.norm(dim=1) - 1).square().mean()
            loss.backward()
            return loss.item()

        print(penalty(net))
        print(penalty(torch.compile(net)))
        """,
        "compiled raises RuntimeError: torch.compile with aot_autograd", "raises",
        backend="aot_eager",
    ),
    "the compiled process is killed where eager raises": Form(
        """
        import torch

        def f(x, n):
            y = torch.div(x * 2, n - n, rounding_mode="trunc")
            return y + x.sum()

        x, n = torch.arange(1, 20), torch.tensor(3)
        try:
            f(x, n)
        except RuntimeError as error:
            print("eager:", error)
        print(torch.compile(f)(x, n))
        """,
        "at its end: signal 4 (SIGILL); with compilation off RuntimeError: ZeroDivisionError", "unresolved",
        backend="inductor",
    ),
    "a script without a seed, which agrees with the first": Form(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        @torch.compile
        def seldom(x):
            return torch.where(x > 0.7, torch.relu(x), x)
        print(seldom(torch.rand(1)))
        """,
        "on equal inputs `", "compiled-worse",
    ),
    "nothing comes to a graph, since Dynamo raises": Form(
        """
        import torch

        def broken(x):
            torch._dynamo.graph_break()
            return x + 1
        print(broken(torch.rand(3)))
        torch.compile(broken, fullgraph=True)(torch.rand(3))
        """,
        "compiled raises Unsupported: ", "raises", backend="eager",
    ),
    "a guard that does not hold": Form(
        """
        import torch
        scale = [2.0]

        @torch.compile(options={"guard_filter_fn": lambda entries: [False for _ in entries]})
        def scaled(x):
            return torch.sin(x) * scale[0]
        x = torch.rand(16)
        for step in range(4):
            scale[0] = 2.0 if step < 2 else 5.0
            scaled(x)
        """,
        "the script diverges at call 3 of 4 (`scaled`)", "compiled-worse", backend="eager",
    ),
    "what is compiled is not what is compared": Form(
        """
        import torch
        x = torch.rand(9)
        print(torch.allclose(torch.compile(lambda x: x + 1)(x), x + 2))
        """,
        "the script prints `False` with compilation off too", "agrees", 0,
    ),
    "values that are all smaller than the default tolerance": Form(
        """
        import torch

        @torch.compile
        def growth(rate):
            return torch.expm1(rate / (365 * 24 * 3600))
        rate = 0.01 + torch.arange(64.0) / 300
        print(f"{growth(rate).mean().item():.3e}")
        """,
        "on equal inputs `expm1`", "compiled-worse",
    ),
    "small values of a later call, in which a hook is ignored": Form(
        """
        import torch

        class Plates(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.plates = torch.nn.Linear(1, 1, bias=False)
                self.plates.weight.data.fill_(8.854e-9)
            def forward(self, area):
                return self.plates(area)
        plates = Plates()
        measure = torch.compile(plates)
        area = torch.linspace(0.1, 0.8, 8).unsqueeze(1)
        with torch.no_grad():
            empty = measure(area)
            plates.plates.register_forward_hook(lambda module, given, out: out * 80.0)
            print(f"{empty.sum().item():.3e} {measure(area).sum().item():.3e}")
        """,
        "the script diverges at call 2 of 2 (`Plates`)", "compiled-worse", backend="eager",
    ),
    "what is asked next hangs on the processor time of a call": Form(
        """
        import time
        import torch

        @torch.compile
        def score(x):
            return (x * x).mean(0)
        x = torch.arange(640.0).view(128, 5)
        began = time.process_time()
        score(x[:8])
        size = 64 if time.process_time() - began < 0.05 else 16
        parts = [score(x[i : i + size]) for i in range(0, 128, size)]
        print(len(parts), torch.stack(parts).mean().item())
        """,
        "what a call is given hangs on how long earlier calls take", "unresolved", backend="eager",
    ),
    "a test case of unittest": Form(
        """
        import unittest
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        class TestClip(unittest.TestCase):
            def setUp(self):
                torch.manual_seed(0)

            def test_clip(self):
                x = torch.rand(5, 5)
                torch.testing.assert_close(torch.compile(torch.relu)(x), torch.relu(x))

        if __name__ == "__main__":
            unittest.main()
        """,
        "on equal inputs `", "compiled-worse",
    ),
    "a helper that is told the backend, and prints": Form(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        class Model(torch.nn.Module):
            def forward(self, x):
                return torch.relu(x - 0.5).sum(-1)

        def run_test(model, inputs, backend):
            torch.manual_seed(420)
            try:
                model = torch.compile(model, backend=backend) if backend != "eager" else model
                print(f"succeed on {backend}:", model(*inputs))
            except Exception as e:
                print(e)

        inputs = [torch.rand(3, 4)]
        for backend in ("eager", "inductor"):
            run_test(Model().eval(), inputs, backend)
        """,
        "on equal inputs `", "compiled-worse",
    ),
    "the eager side is compiled too, by another backend": Form(
        """
        import torch

        def rounds(x):
            return (x * 1.1).half().float() - 2

        x = torch.linspace(0, 3, 100)
        torch.testing.assert_close(torch.compile(rounds)(x), torch.compile(rounds, backend="eager")(x))
        """,
        "is not executed", "elided-rounding",
    ),
    "a branch on a value of the tensor breaks the graph": Form(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        def steps(x):
            y = torch.sin(x)
            if y.sum().item() > 0:
                return torch.relu(y) * 2
            return y - 1

        x = torch.rand(6)
        print(steps(x), torch.compile(steps)(x))
        """,
        "on equal inputs `", "compiled-worse",
    ),
    "what grows in place": Form(
        """
        import torch

        @torch.compile
        def grown(x):
            y = x.half().float()
            y = y.resize_(12)
            return y[:8] * 3
        x = torch.rand(8)
        y = x.half().float()
        print(grown(x), y * 3)
        """,
        "is not executed", "elided-rounding",
    ),
    "the result is in an argument": Form(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        @torch.compile
        def into(x, out):
            torch.mul(torch.relu(x), 2, out=out)

        x, out = torch.rand(9), torch.empty(9)
        into(x, out)
        print(out - x * 2)
        """,
        "mutated[", "compiled-worse",
    ),
    "the gradient of a parameter alone": Form(
        """
        import torch
        from torch._inductor import lowering

        def wrong(grad, result):
            mul = lowering.lowerings[torch.ops.aten.mul.Tensor]
            return mul(grad, result)
        net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh())

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.w = torch.nn.Parameter(torch.linspace(0.1, 1, 12).reshape(3, 4))
            def forward(self, x):
                return (self.w.half().float() @ x).tanh().sum()

        net = Net()
        torch.compile(net)(torch.ones(4)).backward()
        a = net.w.grad.clone()
        net.zero_grad()
        net(torch.ones(4)).backward()
        print((net.w.grad - a).abs().max().item())
        """,
        "grad[", "elided-rounding",
    ),
    "no arguments": Form(
        """
        import torch
        table = torch.linspace(0, 1, 50)

        @torch.compile
        def lookup():
            return table.half().float().cumsum(0)
        print(lookup()[-1].item(), table.half().float().cumsum(0)[-1].item())
        """,
        "is not executed", "elided-rounding",
    ),
    "the forward of a module": Form(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = torch.nn.Linear(3, 3)
            def forward(self, x):
                return torch.relu(self.linear(x))

        model = Model()
        compiled = torch.compile(model.forward)
        x = torch.randn(2, 3)
        print((compiled(x) - model.forward(x)).abs().max())
        """,
        "on equal inputs `", "compiled-worse",
    ),
    "a grid, of which some fail": Form(
        """
        import itertools
        import torch

        def rounds(x):
            return x.to(torch.bfloat16).to(x.dtype) + 1
        for n, dtype in itertools.product((1, 4, 16), (torch.float32, torch.bfloat16, torch.int32)):
            x = torch.arange(n).to(dtype) / 7 if dtype.is_floating_point else torch.arange(n, dtype=dtype)
            if dtype == torch.int32:
                rounds_ = lambda x: x * 2
            else:
                rounds_ = rounds
            got, want = torch.compile(rounds_)(x), rounds_(x)
            print(n, dtype, "OK" if torch.equal(got, want) else "BUG")
        """,
        "is not executed", "elided-rounding",
    ),
    "another way where it is compiled": Form(
        """
        import torch

        def branches(x):
            if torch.compiler.is_compiling():
                return x + 2
            return x + 1
        x = torch.zeros(3)
        assert torch.equal(torch.compile(branches)(x), branches(x)), "differs"
        """,
        "asks whether it is compiled", "own-difference", status=0,
    ),
    "the backend comes from the environment, the exit status is turned round": Form(
        """
        import os
        import sys
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        backend = os.environ.get("TORCH_COMPILE_BACKEND", "inductor")

        def test_fn() -> bool:
            x = torch.rand(4)
            f = lambda x: torch.relu(x) + 1
            return torch.allclose(f(x), torch.compile(f, backend=backend)(x))

        try:
            ok = test_fn()
        except Exception:
            os._exit(2)
        os._exit(0 if ok else 1)
        """,
        "on equal inputs `", "compiled-worse",
    ),
    "the result lies in the memory of an argument": Form(
        """
        import torch
        from torch._inductor import lowering as L
        L.lowerings[torch.ops.aten.clone.default] = lambda x, memory_format=None: x

        @torch.compile
        def grown(x, n):
            return x * 2 if n == 0 else x.clone()
        a = torch.ones(4)
        for n in range(3):
            b = grown(a, n)
            b.add_(1)
        print(a)
        """,
        "shared memory", "compiled-worse", backend="inductor",
    ),
    "a tangent": Form(
        """
        import torch
        import torch.autograd.forward_ad as fwAD

        def cubed(x):
            return torch.compile(lambda x: x.half().float() ** 3)(x)
        x = torch.linspace(0, 1, 10)
        with fwAD.dual_level():
            d = fwAD.make_dual(x, torch.ones(10))
            y = cubed(d)
            print(fwAD.unpack_dual(y))
        """,
        "is not executed", "elided-rounding",
    ),
    "a module that is called beside the compiled one, and changes afterwards": Form(
        """
        import torch
        torch.manual_seed(0)
        net = torch.nn.Sequential(torch.nn.LazyLinear(8), torch.nn.BatchNorm1d(8))
        x = torch.randn(4, 3)
        print(torch.compile(net)(x).sum(), net(x).sum())
        net.double()
        print(net(x.double()).sum())
        """,
        "every output agrees", "agrees", 0,
    ),
    "a lazy module, and buffers that change": Form(
        """
        import torch
        import torch._inductor.config as config
        config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

        class Net(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.bn = torch.nn.BatchNorm1d(3)
                self.lazy = torch.nn.LazyLinear(2)
            @torch.no_grad()
            def forward(self, x):
                return torch.relu(self.lazy(self.bn(x)))
        net = Net()
        x = torch.randn(8, 3)
        compiled = torch.compile(net)
        print(compiled(x), net(x))
        """,
        "on equal inputs `", "compiled-worse",
    ),
}
