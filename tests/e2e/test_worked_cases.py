"""The main job on the project's own cases, from the command line to the repro in a fresh process."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from tests.builds.fake_index import FakeIndex, served
from tests.known import KNOWN, TOLD

REPROS = Path(__file__).parents[2] / "repros"


AS_TEST = ("fp16_round_trip", "softmax_fma")  # a setting of its own, and one of the compiler's command line


# The answers of all are asserted of their recorded journals too (tests/replay): one run is live by default.
QUICK = ("softmax_fma",)
ASKS_BUILDS = "softmax_fma"
EACH = [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in sorted(KNOWN)]


def builds(folder: Path) -> Path:
    """An index with wheels that are tiny: a repro that imports them ends with the status that is in them."""
    index = FakeIndex(folder)
    for version, status in (("2.10.0", 0), ("2.11.0", 1), ("2.12.0", 1)):
        index.add(version, init=f"import sys\nfrom . import version\n\nsys.exit({status})\n")
    return index.folder


@pytest.fixture(scope="module", params=EACH)
def finished(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(name, exit status, result, run directory) of one whole run of each case."""
    out = tmp_path_factory.mktemp("run") / request.param
    case = REPROS / request.param / "case.py"
    options = ["--out", str(out), "--json", "-", *(["--as-test"] if request.param in AS_TEST else [])]
    with contextlib.ExitStack() as stack:
        if request.param == ASKS_BUILDS:
            url = stack.enter_context(served(builds(tmp_path_factory.mktemp("index"))))
            options += ["--builds", "2.10..2.12", "--index-url", url]
        done = subprocess.run(
            [sys.executable, "-m", "bisector", "minimize", str(case), *options],
            capture_output=True, text=True, check=False,
        )
    assert done.returncode in (0, 1, 3), done.stderr
    return request.param, done.returncode, json.loads(done.stdout), out


@pytest.mark.parametrize("told", TOLD, ids=lambda told: told.__name__)
def test_a_worked_case_ends_with_what_is_known_of_it(finished: Any, told: Callable[..., None]) -> None:
    name, status, result, _ = finished
    assert status == 0
    told(name, result)


def test_the_repro_diverges_alone_and_its_fix_repairs_it(finished: Any, tmp_path: Path) -> None:
    _, _, result, out = finished
    for arguments, status in (([], 1), (["--fixed"], 0)):
        done = subprocess.run(
            [sys.executable, "-I", str(out / result["repro"]), *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr


def with_flags(test: str, flags: dict[str, Any]) -> str:
    """The text of a test that runs under these flags of Inductor, whatever it sets itself."""
    values = {name.removeprefix("inductor."): value for name, value in flags.items()}
    test = test.replace("import torch\n", "import torch\nimport torch._inductor.config\n", 1)
    return test.replace("def test_", f"@torch._inductor.config.patch({values})\ndef test_", 1)


def test_the_test_fails_by_its_comparison_and_passes_with_the_fix(finished: Any, tmp_path: Path) -> None:
    name, _, result, out = finished
    if name not in AS_TEST:
        assert result["test"] is None
        return
    text = (out / result["test"]).read_text()
    fix = next(f for f in result["fixes"] if f["kind"] == "flag" and f["confirmed"])
    for source, status in ((text, 1), (with_flags(text, fix["set"]), 0)):
        (tmp_path / "test_repro.py").write_text(source)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_repro.py"],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )
        assert done.returncode == status, done.stdout
        assert ("AssertionError: Tensor-likes are not" in done.stdout) == (status == 1)


def test_the_result_and_the_reports_of_a_run_are_whole(finished: Any) -> None:
    _, _, result, out = finished
    schema = json.loads(resources.files("bisector.report").joinpath("result.schema.json").read_text())
    jsonschema.validate(result, schema)
    assert json.loads((out / "result.json").read_text()) == result
    assert result["repro"] in (out / result["report_markdown"]).read_text()


def test_the_nearest_case_that_agrees_has_other_code(finished: Any) -> None:
    _, _, result, out = finished
    neighbour = result["neighbour"]
    assert neighbour["differs_by"].startswith(("disabling ", "with ", "without "))
    lines = (out / neighbour["artifact_diff"]).read_text().splitlines()
    assert any(line.startswith("+") and not line.startswith("+++") for line in lines)


def test_the_builds_of_the_repro_stand_in_its_result_and_report(finished: Any) -> None:
    name, _, result, out = finished
    if name != ASKS_BUILDS:
        assert result["builds"] is None
        return
    assert (result["builds"]["before"]["name"], result["builds"]["after"]["name"]) == ("2.10.0", "2.11.0")
    assert result["seconds"]["builds"] > 0
    shown = subprocess.run(
        [sys.executable, "-m", "bisector", "report", str(out)], capture_output=True, text=True, check=True
    )
    sentence = "The divergence was introduced between 2.10.0 (agrees) and 2.11.0 (diverges)"
    assert sentence in " ".join(shown.stdout.split())
    assert sentence in (out / result["report_markdown"]).read_text()
