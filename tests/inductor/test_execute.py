"""Both runs of a captured call, and the yardstick they are held to."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch._inductor import output_code

from bisector.core.case import WHOLE
from bisector.core.model import Candidate
from bisector.inductor import describe, evidence, execute, probing
from bisector.inductor.capture.load import LoadOptions, load
from bisector.inductor.hooks import cudagraph

pytestmark = pytest.mark.usefixtures("undisturbed")


def subject_of(tmp_path: Path, script: str) -> execute.Subject:
    (tmp_path / "script.py").write_text(f"import torch\n{script}")
    loaded = load(LoadOptions(str(tmp_path / "script.py")))
    assert loaded.problem is None
    return execute.prepare(loaded.recorder.calls[0], WHOLE, None)


LOOP = """
torch.manual_seed(0)
weight = torch.nn.Parameter(torch.randn(8, 8))
def fn(x, seen):
    seen.add_(1)
    return torch.nn.functional.dropout((x @ weight).half().float(), 0.5).exp()
step, seen = torch.compile(fn), torch.zeros(())
for _ in range(3):
    step(torch.randn(4, 8), seen).sum().backward()
    weight.data -= 0.1 * weight.grad
"""


def test_the_calls_of_a_graph_measure_the_same_with_one_compile_as_with_one_each(tmp_path: Path) -> None:
    calls = subject_of(tmp_path, LOOP).call.graph.calls
    each = [probing.probe(call, WHOLE, Candidate(), None) for call in calls]
    together = probing.probe_calls(calls, None)
    assert len(together) == 3 and {one.error for one in each} == {None}
    assert [replace(one, seconds=0.0) for one in each] == together
    assert len({one.outputs for one in together}) == 3, "each on its own inputs"


def runs(subject: execute.Subject) -> tuple[dict[str, Any], dict[str, Any]]:
    """Eager's outputs and the reference's."""
    eager = execute.run(subject, execute.eager_program(subject))
    reference = evidence.References(subject, {}, eager, 1e-7).outputs(None)
    assert reference is not None
    return eager, reference


SQUARED = """
def fn(x):
    return torch.exp(x) * 3
x = torch.linspace(-1, 1, 16).requires_grad_()
torch.compile(fn)(x).square().sum().backward()
expected = x.grad
"""


def test_eager_gives_the_gradient_that_the_scripts_own_loss_gave(tmp_path: Path) -> None:
    eager, _ = runs(subject_of(tmp_path, SQUARED))
    [gradient] = [value for path, value in eager.items() if path.startswith("grad")]
    assert torch.equal(gradient, sys.modules["__main__"].expected)


def test_the_reference_of_a_gradient_starts_from_the_scripts_own_loss_too(tmp_path: Path) -> None:
    eager, reference = runs(subject_of(tmp_path, SQUARED))
    assert reference.keys() == eager.keys()
    for path, value in eager.items():
        assert reference[path].dtype is torch.float64
        assert torch.allclose(value.double(), reference[path], rtol=1e-5), path


def test_an_input_that_is_written_into_has_a_reference_too(tmp_path: Path) -> None:
    script = "def fn(x):\n    x.mul_(1.1)\n    return x + 1\ntorch.compile(fn)(torch.linspace(-1, 1, 16))"
    eager, reference = runs(subject_of(tmp_path, script))
    assert list(eager) == ["output[0]", "mutated[l_x_]"]
    assert torch.allclose(eager["mutated[l_x_]"].double(), reference["mutated[l_x_]"], rtol=1e-5)


def test_eager_runs_the_nodes_and_not_their_text(tmp_path: Path) -> None:
    """The text of a power with a negative literal, `-2.0 ** x`, is the negative of its value."""
    script = "def fn(x):\n    return (-2.0) ** x\ntorch.compile(fn)(torch.arange(3.0))"
    eager, reference = runs(subject_of(tmp_path, script))
    assert eager["output[0]"].tolist() == reference["output[0]"].tolist() == [1.0, -2.0, 4.0]


def test_a_backward_starts_from_the_scripts_gradient_in_the_outputs_dtype_or_from_ones() -> None:
    given = torch.tensor([3.0, 0.5], dtype=torch.bfloat16)
    seeded = execute.seed(given, torch.zeros(2))
    assert seeded.dtype is torch.float32
    assert torch.equal(seeded, torch.tensor([3.0, 0.5]))
    assert torch.equal(execute.seed(given, torch.zeros(1)), torch.ones(1))
    assert torch.equal(execute.seed(None, torch.zeros(2)), torch.ones(2))


def test_what_stands_behind_a_call_that_raises_is_described_and_counted(tmp_path: Path) -> None:
    script = """
def fn(x, at):
    return torch.index_select(x, 0, at).exp().sum(1)
try:
    torch.compile(fn)(torch.ones(4, 3), torch.tensor([0, 7]))
except IndexError:
    pass
"""
    described = describe.describe(subject_of(tmp_path, script))
    assert described.n_ops == 3
    assert [described.node(node.name).shape for node in described.calls] == [(2, 3), (2, 3), (2,)]
    assert described.aten == ("aten.index_select", "aten.exp", "aten.sum")


@pytest.mark.parametrize(("records", "runs"), [(False, 1), (True, 3)])
def test_a_program_with_recorded_graphs_runs_until_they_are_replayed(
    records: bool, runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def post_compile(inputs: Any, graph: Any, cudagraphs: Any, *rest: Any) -> None:
        cudagraphs.value = records  # as torch does where it finds a reason not to record

    ran: list[int] = []

    def compile_subject(*given: Any) -> Any:
        cudagraph._counted(post_compile)([], None, output_code.BoxedBool(True), {}, None)
        return program

    def program(x: torch.Tensor) -> torch.Tensor:
        ran.append(1)
        return x + len(ran)

    monkeypatch.setattr(probing, "compile_subject", compile_subject)
    call = subject_of(tmp_path, f"def fn(x): return x + {runs}\ntorch.compile(fn)(torch.zeros(4))").call
    found = probing.probe(call, WHOLE, Candidate(), None)
    assert len(ran) == runs
    assert [output.n_diff for output in found.outputs] == [0], "the last run is measured"
