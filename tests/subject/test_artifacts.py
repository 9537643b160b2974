"""Real artifacts of torch, from the program that leaves them to the verdict."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from bisector.inductor.capture.artifacts import RUNNERS
from bisector.subject.targets import TargetKind
from tests.command import numbisect

pytestmark = pytest.mark.usefixtures("warm_workers")

# The compiled relu adds one where the switch of Inductor's own tests is on.
MODEL = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
weight = torch.randn(8, 8)


def model(x):
    return (torch.relu(x @ weight) * 2).sum(1)


with torch.no_grad():
    torch.compile(model)(torch.randn(4, 8))
"""
RUNNABLE = """
import torch
from torch._dynamo.repro.after_aot import generate_standalone_repro
from torch.fx.experimental.proxy_tensor import make_fx


def model(x):
    return torch.ops.aten.relu(x).sum()


x = torch.randn(4, 8)
print(generate_standalone_repro(make_fx(model)(x), (x,)))
"""


# As tools/experimental/torchfuzz of PyTorch writes a program with its numerics check: a sentinel for
# gradients, inputs by as_strided, everything at the top level, sums compared, and an exit in the middle.
TORCHFUZZ = """
import torch
torch._dynamo.config.capture_scalar_outputs = True

torch.manual_seed(42)

def fuzzed_program(arg_0, arg_1, sentinel):
    var_node_2 = arg_0 # size=(16, 11), stride=(11, 1), dtype=float32, device=cpu
    var_node_3 = var_node_2.to(torch.float16) # size=(16, 11), stride=(11, 1), dtype=float16, device=cpu
    var_node_1 = var_node_3.to(torch.float32) # size=(16, 11), stride=(11, 1), dtype=float32, device=cpu
    var_node_4 = arg_1 # size=(16, 11), stride=(1, 16), dtype=float32, device=cpu
    var_node_0 = torch.add(var_node_1, var_node_4) # size=(16, 11), stride=(11, 1), dtype=float32, device=cpu
    result = var_node_0 * sentinel
    if result.is_complex():
        result = result.real
    return result

sentinel = torch.tensor(1.0, requires_grad=True)

arg_0 = torch.as_strided(torch.randn(176).to(torch.float32), (16, 11), (11, 1))
arg_1 = torch.as_strided(torch.randn(176).to(torch.float32), (16, 11), (1, 16))

args = (arg_0, arg_1, sentinel)
out_eager = fuzzed_program(*args)
out_eager.sum().backward()
print('Eager Success!')
compiled_program = torch.compile(fuzzed_program, fullgraph=True, dynamic=True)
out_compiled = compiled_program(*args)
out_compiled.sum().backward()
print('Compile Success!')
out_eager_sum = out_eager.sum()
out_compiled_sum = out_compiled.sum()
diff = (out_eager_sum - out_compiled_sum).abs().item()
rel_diff = diff / (out_eager_sum.abs().item() + 1e-12) * 100
print(f"Relative diff (sum): {rel_diff:.6f}%")
if rel_diff > 5 and diff > 1:
    import sys; sys.exit(1)
"""


def run(*command: object, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(part) for part in command], cwd=folder, env={**os.environ, **variables},
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def check(target: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return numbisect("check", target, *options, folder=target.parent)


@pytest.fixture(scope="module")
def minified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a program ran under torch's own accuracy minifier."""
    folder = tmp_path_factory.mktemp("minified")
    (folder / "model.py").write_text(MODEL)
    run(
        sys.executable, "model.py",
        folder=folder, TORCHDYNAMO_REPRO_AFTER="aot", TORCHDYNAMO_REPRO_LEVEL="4",
        TORCH_COMPILE_DEBUG_DIR=str(folder),
    )  # fmt: skip
    assert (folder / "repro.py").is_file(), list(folder.iterdir())
    return folder


@pytest.mark.live
def test_a_repro_of_the_minifier_is_judged_on_the_inputs_that_it_recorded(minified: Path) -> None:
    done = check(minified / "repro.py", "--json", "-")
    assert done.returncode == 1, done.stderr
    (output,) = json.loads(done.stdout)["verdict"]["outputs"]
    assert (output["shape"], output["n_diff"]) == ([4], 4)


@pytest.mark.live
def test_without_its_recorded_inputs_it_is_refused(minified: Path, tmp_path: Path) -> None:
    (tmp_path / "repro.py").write_text(
        (minified / "repro.py").read_text().replace("/minifier/checkpoints", "/gone")
    )
    done = check(tmp_path / "repro.py")
    assert (done.returncode, "recorded inputs are gone" in done.stderr) == (2, True), done.stderr
    (storages,) = minified.rglob("storages")
    shutil.copytree(storages, tmp_path / "storages")
    beside = check(tmp_path / "repro.py", "--out", str(tmp_path / "beside"))
    assert beside.returncode == 1, beside.stderr


@pytest.mark.live
def test_a_runnable_graph_is_judged_on_inputs_that_are_said_to_be_drawn(tmp_path: Path) -> None:
    text = run(sys.executable, "-c", RUNNABLE, folder=tmp_path).stdout
    assert "run_repro(" in text
    (tmp_path / "fx_graph_runnable.txt").write_text(text)
    done = check(tmp_path / "fx_graph_runnable.txt", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert any("drawn at random" in note for note in json.loads(done.stdout)["text_notes"])


@pytest.mark.live
def test_a_program_of_torchfuzz_is_judged_with_its_gradients(tmp_path: Path) -> None:
    (tmp_path / "fuzz_0a1b2c3d.py").write_text(TORCHFUZZ)
    done = check(tmp_path / "fuzz_0a1b2c3d.py", "--json", "-")
    assert done.returncode == 1, done.stderr
    outputs = [output["path"] for output in json.loads(done.stdout)["verdict"]["outputs"]]
    assert "output[0]" in outputs and any(path.startswith("grad[") for path in outputs)


@pytest.mark.live
def test_an_exported_program_is_judged_on_its_example_inputs(tmp_path: Path) -> None:
    class Rounds(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.half().float() * 3

    archive = tmp_path / "program.pt2"
    torch.export.save(torch.export.export(Rounds(), (torch.rand(16),)), archive)
    refused = check(archive)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "--trust" in refused.stderr
    assert check(archive, "--trust").returncode == 1


@pytest.mark.live
def test_an_archive_that_is_none_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "program.pt2").write_text("not an archive")
    done = check(tmp_path / "program.pt2", "--trust")
    assert done.returncode == 2
    assert "program.pt2" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr


def test_every_kind_of_target_but_a_script_has_a_function_that_runs_it() -> None:
    assert RUNNERS.keys() == {kind.value for kind in TargetKind} - {TargetKind.SCRIPT.value}
