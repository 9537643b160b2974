"""The repro that is the script itself: it runs it twice, and never takes a failure for a divergence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from bisector.core.case import WHOLE, Case
from bisector.core.criterion import Criterion
from bisector.core.decision import DecisionId
from bisector.core.fix import LeaveToPython, SetFlags, UseBackend
from bisector.core.fix_source import by_name, paste_lines
from bisector.core.printed import PrintedLine
from bisector.core.protocol import ScriptSpec
from bisector.explain.repro import OWN_HEADER
from bisector.explain.script_repro import COMPARED as DIFFERS
from bisector.explain.script_repro import Source, text

CALLS = """
import torch
import torch._inductor.config as config
config.cpp.inject_relu_bug_TESTING_ONLY = {bug!r}
quotes, back = '''a "word" here''', "\\\\n"

@torch.compile
def f(x):
    return torch.relu(x) * 2
try:
    f(torch.rand(5))
except Exception:
    print("caught")
"""


def run(
    python: str,
    tmp_path: Path,
    script: str,
    fix: Any = None,
    *flags: str,
    case: Case = WHOLE,
    lines: tuple[PrintedLine, ...] = (),
) -> tuple[int, list[str]]:
    repro = written(tmp_path, script, fix, case, lines)
    done = subprocess.run(
        [python, str(repro), *flags],
        capture_output=True, text=True, check=False, cwd=tmp_path, env={**os.environ, **OWN_HEADER},
    )  # fmt: skip
    return done.returncode, done.stdout.splitlines()


def written(
    folder: Path, script: str, fix: Any = None, case: Case = WHOLE, lines: tuple[PrintedLine, ...] = ()
) -> Path:
    """The repro of a script."""
    target, repro = folder / "case.py", folder / "repro.py"
    target.write_text(script)
    spec = ScriptSpec(("a header",), (), Criterion(), fix, None, "")
    repro.write_text(text(Source(str(target), {"A_NAME": "1"}, lines=lines), case, spec))
    return repro


Ran = Callable[..., tuple[int, list[str]]]


@pytest.fixture
def ran(warm: str, tmp_path: Path) -> Ran:
    """Runs the file of a script by a Python that has torch imported."""
    return partial(run, warm, tmp_path)


LONG = """
import torch

# what nobody needs
def unused():
    pass

def told(x):
    return x + (1 if torch.compiler.is_compiling() else 0)

def doubled(x):
    return told(x) * 2

out = torch.compile(doubled, backend="eager")(torch.ones(3))
print(out)
"""


def test_without_some_statements_it_shows_the_same_and_is_repaired_where_the_function_stands_now(
    ran: Ran,
) -> None:
    line = {text: number for number, text in enumerate(LONG.splitlines(), 1)}
    shorter = WHOLE.with_left_out(line["def unused():"], line["print(out)"])
    fix = LeaveToPython({"told": line["def told(x):"]})
    status, said = ran(LONG, fix, case=shorter, lines=(PrintedLine(0),))
    assert (status, said[0]) == (1, DIFFERS)
    assert ran(LONG, fix, "--fixed", case=shorter, lines=(PrintedLine(0),))[0] == 0


def test_it_shows_what_differs(tmp_path: Path) -> None:
    wrong = CALLS.format(bug="accuracy")
    status, said = run(sys.executable, tmp_path, wrong)
    assert (status, said[0]) == (1, DIFFERS)


@pytest.mark.live
@pytest.mark.parametrize(("bug", "status"), [("accuracy", 1), (None, 0)])
def test_pytest_runs_the_same_file(bug: str | None, status: int, warm: str, tmp_path: Path) -> None:
    repro = written(tmp_path, CALLS.format(bug=bug))
    command = [warm, "-m", "pytest", "-q", "-p", "no:cacheprovider", repro]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert done.returncode == status, done.stdout + done.stderr
    assert (f"Differs: {DIFFERS}" in done.stdout) == bool(status)


@pytest.mark.live
def test_the_fix_mends_it(ran: Ran) -> None:
    wrong = CALLS.format(bug="accuracy")
    assert ran(wrong, UseBackend("aot_eager"), "--fixed") == (0, ["compiled agrees with eager"])


PRINTS = """
import torch

def f(x):
    return torch.zeros_like(x)

x = torch.ones(1, 7).t()
print("the sum is", f(x).sum().item(), "to six digits", torch.compiler.is_compiling())
print("strides", torch.compile(f)(x).stride())
"""


@pytest.mark.live
def test_a_printed_line_that_counts_is_compared(ran: Ran) -> None:
    status, said = ran(PRINTS, lines=(PrintedLine(1),))
    assert (status, said[0]) == (1, DIFFERS)
    assert said[1] == "printed line 2: `strides (1, 1)`, with compilation off `strides (1, 7)`"
    assert ran(PRINTS, lines=(PrintedLine(0),))[0] == 0
    fix = by_name("decomposition", [DecisionId("decomp:aten.zeros_like@zeros_like")])
    mended = ran(PRINTS, fix, "--fixed", lines=(PrintedLine(1),))
    assert mended == (0, ["compiled agrees with eager"])


TANGENT = """
import torch
from torch.autograd import forward_ad

with forward_ad.dual_level():
    given = forward_ad.make_dual(torch.ones(4), torch.full((4,), 2.0))
    made = torch.compile(lambda x: x * x)(given)
"""


@pytest.mark.live
def test_a_tangent_that_is_lost_differs(ran: Ran) -> None:
    status, said = ran(TANGENT)
    assert (status, said[0]) == (1, DIFFERS)
    assert ran(TANGENT, UseBackend("aot_eager"), "--fixed")[0] == 0


ARRAYS = """
import numpy
import torch

def negated(x, factor):
    return numpy.where(torch.compiler.is_compiling(), x, -x), factor

torch.compile(negated)(numpy.ones(3, dtype=numpy.float32), 2)
"""


@pytest.mark.live
def test_what_is_no_tensor_is_compared_as_one(ran: Ran) -> None:
    status, said = ran(ARRAYS)
    assert (status, said[:2]) == (1, [DIFFERS, "at step 1: Tensor-likes are not close!"])


FOUND_BY_NAME = """
import torch

RATE = {"scale": 2.0}

@torch._dynamo.allow_in_graph
def scaled(x):
    return x / RATE["scale"]

def block(x):
    return scaled(x).exp()

def again(x):
    return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False).sum()

for rate in (2.0, 0.5):
    RATE["scale"] = rate
    torch._dynamo.reset()
    torch.compile(again)(torch.ones(4, requires_grad=True)).backward()
"""


@pytest.mark.live
def test_what_torch_finds_by_its_name_is_kept_in_its_caches_as_in_the_script(ran: Ran) -> None:
    status, said = ran(FOUND_BY_NAME)
    assert (status, said[0]) == (1, DIFFERS)


@pytest.mark.live
def test_what_raises_compiled_alone_differs_though_the_script_catches_it(ran: Ran) -> None:
    status, said = ran(CALLS.format(bug="compile_error"))
    assert (status, said[0]) == (1, DIFFERS)
    assert "eager returns, compiled InductorError: CppCompileError" in said[1]


@pytest.mark.live
@pytest.mark.parametrize("script", ["import no_such_module_anywhere\n", CALLS.format(bug=None)])
def test_a_script_that_fails_in_both_or_agrees_does_not_differ(script: str, ran: Ran) -> None:
    assert ran(script)[0] == 0


@pytest.mark.live
def test_a_file_that_stumbles_cannot_tell(ran: Ran) -> None:
    status, said = ran(CALLS.format(bug=None), SetFlags({"inductor.no_such.flag": 1}), "--fixed")
    assert (status, said[0].partition(":")[0]) == (125, "cannot tell")


GRADIENT = """
import torch

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x):
        made = x * self.weight
        return made.detach() + (made - made.detach()) * (2 if torch.compiler.is_compiling() else 1)

net = Net()
torch.compile(net, backend="eager")(torch.ones(3)).sum().backward()
net.weight.grad.zero_()
"""


@pytest.mark.live
def test_a_gradient_that_the_script_clears_again_is_compared(ran: Ran) -> None:
    status, said = ran(GRADIENT)
    assert (status, said[0]) == (1, DIFFERS)


TWO = """
import torch

@torch.compile
def f(x):
    y = x.half().float()
    torch._dynamo.graph_break()
    return y * 3
for value in (2.0, 0.1, 0.2):  # the first is a float16
    f(torch.full((4,), value))
"""


@pytest.mark.parametrize(
    ("case", "status"),
    [
        (Case(graphs=(1,), calls=(0, 2)), 1),
        pytest.param(Case(graphs=(2,), calls=(1,)), 0, marks=pytest.mark.live),
        pytest.param(Case(calls=(0,)), 0, marks=pytest.mark.live),
    ],
)
def test_only_the_named_graphs_and_calls_are_compiled(case: Case, status: int, ran: Ran) -> None:
    assert ran(TWO, case=case)[0] == status


OF_DYNAMO = """
import torch

def once(function):
    return function

@once
def inner(x):
    return x + (1 if torch.compiler.is_compiling() else 0)

@torch.compile(backend="eager", fullgraph=True)
def outer(x):
    return inner(x)

outer(torch.ones(3))
"""
STALE = """
import torch
scale = [1.0]

@torch._dynamo.assume_constant_result
def hidden():
    return scale[0]

@torch.compile(backend="eager")
def scaled(x):
    return x * hidden()

for scale[0] in (1.0, 2.0):
    scaled(torch.ones(3))
"""


@pytest.mark.live
@pytest.mark.parametrize(
    ("script", "decision", "paste"),
    [
        (OF_DYNAMO, "frame:inner@case.py:7", "@torch.compiler.disable  # on `inner`, line 8"),
        (STALE, "guard:scaled@call2", "torch._dynamo.reset()  # before call 2, of `scaled`"),
    ],
    ids=["a function is left to Python", "a call is compiled anew"],
)
def test_a_fix_that_changes_the_script_mends_it(
    ran: Ran, script: str, decision: str, paste: str
) -> None:
    fix = by_name("decision", [DecisionId(decision)], script)
    assert fix is not None
    assert paste_lines(fix) == [f"{paste}; without fullgraph=True"]
    assert ran(script, fix)[0] == 1
    assert ran(script, fix, "--fixed") == (0, ["compiled agrees with eager"])


@pytest.mark.parametrize(
    "decision", ["frame:elsewhere@other.py:7", "frame:<lambda>@case.py:3", "fma:sub@mul"]
)
def test_what_the_script_cannot_leave_out_has_no_line(decision: str) -> None:
    assert by_name("decision", [DecisionId(decision)], OF_DYNAMO) is None
