"""`numbisect check` on scripts whose divergence no single captured call shows, or that end in their own ways.

Whatever a script says of itself: where it diverges as its user runs it, the answer is never that it agrees.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bisector import processes


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
        "the script diverges at call 1 of 1 (`steps`)", "amplified-rounding", backend="inductor",
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
        "compiled is farther from the float64 reference", "compiled-worse",
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
        "compiled is farther", "compiled-worse",
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
        "it prints `other bits: ", "unresolved",
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
        "compiled is farther", "compiled-worse",
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
        "there is no float64 reference", "unresolved",
    ),
    "dropout and nothing else": Form(
        """
        import torch
        x = torch.ones(99)
        print(torch.compile(torch.nn.functional.dropout)(x) - torch.nn.functional.dropout(x))
        """,
        "told to draw them as eager does (fallback_random), every output agrees", "random",
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
        "the script diverges at call 3 of 4 (`scaled`)", "unresolved", backend="eager",
    ),
    "what is compiled is not what is compared": Form(
        """
        import torch
        x = torch.rand(9)
        print(torch.allclose(torch.compile(lambda x: x + 1)(x), x + 2))
        """,
        "every output agrees", "agrees", 0,
    ),
}


def checked(script: str, folder: Path) -> tuple[int, dict[str, Any]]:
    lines = script.strip("\n").splitlines()
    (folder / "script.py").write_text("\n".join(line[8:] for line in lines) + "\n")
    done = subprocess.run(
        [sys.executable, "-m", "bisector", "check", "script.py", "--out", "run", "--json", "-", "-q"],
        cwd=folder, capture_output=True, text=True, check=False,
    )
    assert done.stdout, done.stderr
    return done.returncode, json.loads(done.stdout)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_what_the_script_shows_is_what_is_said(form: Form, tmp_path: Path) -> None:
    status, result = checked(form.script, tmp_path)
    verdict = result["verdict"]
    assert form.said in verdict["reason"]
    assert status == form.status
    assert form.kind in (None, verdict["class"])
    if form.backend is not None:
        assert verdict["first_bad_backend"] == form.backend


def test_what_lies_in_the_working_directory_stands_for_nothing_of_pythons_or_ours(tmp_path: Path) -> None:
    (tmp_path / "unittest.py").write_text("raise ImportError('not the one')\n")
    (tmp_path / "bisector").mkdir()
    (tmp_path / "bisector" / "__init__.py").write_text("raise ImportError('not this either')\n")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "case.py").write_text(
        "import torch\nprint(torch.compile(lambda x: x.half().float() * 3)(torch.rand(9)))\n"
    )
    done = subprocess.run(
        processes.module("bisector", "check", "scripts/case.py", "-q"),
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (1, "")
