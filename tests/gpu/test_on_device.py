"""The real thing on a CUDA device: decisions, probes in one process, and the bits that were recorded.

Run on an H200 with torch 2.11 and Triton 3.6.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from bisector.core.case import WHOLE
from bisector.core.messages import LoadOptions, WorkerOptions
from bisector.core.model import Base, Candidate, Measurement
from bisector.core.protocol import About, Failed, HooksTested, RunProbe, SelfTest
from bisector.runner.journal import Journal
from bisector.runner.lab import Lab

torch = pytest.importorskip("torch")
numpy = pytest.importorskip("numpy")

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]

HERE = Path(__file__).parent
CASES = sorted((HERE / "cases").glob("*.py"))
GOLDENS = sorted((HERE.parent / "goldens" / "gpu").glob("*/index.json"))
DEFAULT = Candidate()


ABOUT = About(0, WHOLE, None, {})


def probe(candidate: Candidate = DEFAULT, trial: int = 0) -> RunProbe:
    return RunProbe(ABOUT, candidate, trial)


def measured(lab: Lab, request: RunProbe) -> Measurement:
    answer = lab.ask(request)
    assert isinstance(answer, Measurement), answer
    assert answer.error is None
    return answer


def ids(answer: Measurement) -> list[str]:
    return [decision.id for decision in answer.decisions]


def differing(answer: Measurement) -> list[int]:
    return [output.n_diff for output in answer.outputs]


def lab_of(case: Path, folder: Path) -> Lab:
    options = WorkerOptions(
        LoadOptions(str(case)), first=False, log=str(folder / "log"), choices=str(folder / "choices")
    )
    return Lab(options, Journal(folder / "journal"), 4, 300.0, lambda *told: None)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.stem)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = lab_of(request.param, tmp_path_factory.mktemp("gpu"))
    yield made
    made.close()
    made.journal.close()


@pytest.fixture(scope="module")
def softmax(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    made = lab_of(HERE / "cases" / "softmax_fma.py", tmp_path_factory.mktemp("softmax"))
    yield made
    made.close()
    made.journal.close()


def test_a_subject_on_the_device_is_served_one_at_a_time_without_forks(lab: Lab) -> None:
    hello = lab.hello()
    assert hello.one_at_a_time and hello.calls[0].devices == ("cuda",)
    assert lab.jobs == 1


def test_every_hook_of_the_backend_bites(lab: Lab) -> None:
    tested = lab.ask(SelfTest())
    assert isinstance(tested, HooksTested) and tested.off == {}


def test_probes_in_one_process_say_the_same_whatever_came_between(lab: Lab) -> None:
    first = measured(lab, probe())
    for trial, member in enumerate(ids(first)[:8]):
        lab.ask(probe(Candidate.deny([member])))
        again = measured(lab, probe(trial=trial + 1))
        assert replace(again, seconds=0) == replace(first, seconds=0)


def test_the_plain_baseline_compiles_and_runs(lab: Lab) -> None:
    measured(lab, probe(Candidate(base=Base.PLAIN)))


def test_the_contraction_of_one_product_is_what_spoils_the_denominator(softmax: Lab) -> None:
    default = measured(softmax, probe())
    assert "fma:sub@mul_1" in ids(default)
    worst = max(output.max_abs for output in default.outputs)
    denied = measured(softmax, probe(Candidate.deny(["fma:sub@mul_1"])))
    assert worst > 1e-3 > max(output.max_abs for output in denied.outputs)
    assert ids(denied) == ids(default)


def test_a_job_that_takes_too_long_ends_the_worker_and_the_next_one_is_answered(softmax: Lab) -> None:
    expected = differing(measured(softmax, probe()))
    usual, softmax.timeout_s = softmax.timeout_s, 0.001
    late = softmax.ask(probe(trial=100))
    softmax.timeout_s = usual
    assert late == Failed("timeout after 0.001 s")
    assert differing(measured(softmax, probe(trial=101))) == expected


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What this device computes now, by a process of its own with the choices that were timed then."""
    folder = tmp_path_factory.mktemp("recorded")
    for choices in (HERE.parent / "goldens" / "gpu").glob("*/autotuned.jsonl"):
        (folder / choices.parent.name).mkdir()
        shutil.copy(choices, folder / choices.parent.name)
    done = subprocess.run(
        [sys.executable, "-m", "tests.gpu.record", str(folder)],
        cwd=HERE.parents[1], capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


@pytest.mark.skipif(not GOLDENS, reason="nothing was recorded yet: python -m tests.gpu.record does it")
@pytest.mark.parametrize("golden", GOLDENS, ids=lambda path: path.parent.name)
def test_what_was_recorded_on_this_device_comes_again(golden: Path, recorded: Path) -> None:
    before = json.loads(golden.read_text())
    if before["machine"]["gpu"] != torch.cuda.get_device_name():
        pytest.skip(f"recorded on {before['machine']['gpu']}")
    if before["machine"]["torch"] != torch.__version__:
        pytest.skip(f"recorded with torch {before['machine']['torch']}")
    again = recorded / golden.parent.name
    assert json.loads((again / "index.json").read_text())["compiles"] == before["compiles"]
    for path in golden.parent.glob("*.npz"):
        old, new = numpy.load(path), numpy.load(again / path.name)
        assert all((old[name] == new[name]).all() for name in old.files), path.name
