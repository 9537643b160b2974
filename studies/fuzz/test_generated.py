"""numbisect on programs that nobody chose: 500 run under `bisector.attach`, those that diverge triaged.

It takes an hour: pytest studies/fuzz/test_generated.py -n 0
"""

from __future__ import annotations

import json
import random
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from studies.fuzz.fuzzing import AT_ONCE, fuzz
from studies.fuzz.grammar import programs

COUNT = 500
SAMPLE = 30
COMPILED = re.compile(r"torch\.compile\(program(, dynamic=True)?(, options=\{.*\})?\)")


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs())
def test_a_generated_program_is_whole(text: str) -> None:
    assert text.count("torch.compile(program") == 1
    names: dict[str, Any] = {}
    exec(text[: text.index("expected =")], names)
    assert names["program"].__code__.co_argcount == len(names["inputs"])


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the programs: ran.jsonl, and `out`, the triage of those that diverge or died."""
    folder = tmp_path_factory.mktemp("generated")
    ends = fuzz(folder, COUNT)
    kept = [f"bundles/{name}" for end in ends for name in end.get("bundles", [])]
    without = [end for end in ends if end["outcome"] in ("diverges", "died") and not end.get("bundles")]
    paths = [*kept, *(f"programs/{end['number']}.py" for end in without)]
    command = [sys.executable, "-m", "bisector", "triage", *paths, "--out", "out", "--no-color"]
    with (folder / "triage.txt").open("w") as log:
        done = subprocess.run(command, cwd=folder, stdout=log, stderr=subprocess.STDOUT, check=False)
    assert done.returncode in (0, 3), (folder / "triage.txt").read_text()
    return folder


def test_no_program_makes_numbisect_itself_fail(fuzzed: Path) -> None:
    ends = ended(fuzzed)
    assert len(ends) == COUNT
    assert not [end for end in ends if end.get("ours")]
    assert "Traceback" not in (fuzzed / "triage.txt").read_text()


def test_every_divergence_has_a_verdict(fuzzed: Path) -> None:
    looked = {Path(one["target"]).name: one for one in told(fuzzed)["failures"]}
    diverging = [end for end in ended(fuzzed) if end["outcome"] == "diverges"]
    assert diverging
    for end in diverging:
        for name in end["bundles"] or [f"{end['number']}.py"]:
            one = looked[name]
            assert (one["outcome"], bool(one["verdict"]), bool(one["reason"])) == ("FAIL", True, True), one


def test_confirmed_fixes_hold_in_plain_torch_around_the_program_as_it_is(fuzzed: Path) -> None:
    fixes = confirmed(fuzzed)
    sample = random.Random(0).sample(fixes, min(SAMPLE, len(fixes)))
    with ThreadPoolExecutor(AT_ONCE) as lanes:
        ends = list(lanes.map(lambda fix: replayed(fuzzed, *fix), sample))
    (fuzzed / "replayed.json").write_text(json.dumps([*zip(sample, ends, strict=True)], indent=1))
    assert ends == [("fails", "passes")] * len(sample)


def ended(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "ran.jsonl").read_text().splitlines()]


def told(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "out" / "triage.json").read_text())
    return found


def confirmed(folder: Path) -> list[tuple[str, str]]:
    """(program, line to paste) of each fix that a run confirmed and that needs no numbisect; and of each
    program of a cluster, whose cause was confirmed on it, the line that repairs the one it was found on."""
    looked = told(folder)["failures"]
    lines = {one["id"]: pasted(folder, one) for one in looked if one["explained"] and not one["known"]}
    first = {one["key"]: line for one in looked for line in lines.get(one["id"], [])[:1] if alone(line)}
    pairs = [(number(one), line) for one in looked for line in lines.get(one["id"], [])]
    joined = [(number(one), first[one["key"]]) for one in looked if one["known"] and one["key"] in first]
    return [*dict.fromkeys(pairs + joined)]


def pasted(folder: Path, one: dict[str, Any]) -> list[str]:
    """The lines of the confirmed fixes of a failure that a full run explained."""
    result = json.loads((folder / "out" / "failures" / one["run"] / "result.json").read_text())
    return [fix["paste"][0] for fix in result["fixes"] if fix["confirmed"] and fix["paste"]]


def alone(line: str) -> bool:
    """Whether it stands anywhere before the program: a backend is for the call."""
    return not line.startswith("backend = ")


def number(one: dict[str, Any]) -> str:
    return Path(one["target"]).stem.partition("-")[0]


def replayed(folder: Path, program: str, line: str) -> tuple[str, str]:
    """How the program ends without the line and with it."""
    text = (folder / "programs" / f"{program}.py").read_text()
    fixed = f"import torch\nimport torch._inductor.config\n{line}\n{text}"
    if not alone(line):
        fixed, calls = COMPILED.subn(r"torch.compile(program, backend=backend\1)", fixed)
        assert calls == 1
    return ends(folder, text), ends(folder, fixed)


def ends(folder: Path, program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
    )
    last = (done.stderr.strip().splitlines() or [""])[-1]
    return "passes" if done.returncode == 0 else "fails" if "AssertionError" in done.stderr else last
