"""The newest release of torch, beside the one that the tests run with: that a small case is answered there
(`just versions` asks the worked cases), and what is said of settings that another setting decides over.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from bisector.builds.predicate import Interpreter
from bisector.core.decision import DecisionId
from studies.versions.matrix import numbisect
from tests.cli.test_flag_catalogue import unknown
from tests.replay.recording import confirmed

pytestmark = pytest.mark.live  # in the lane that CI runs, though it reads the package index too

STRICT = {"TORCHINDUCTOR_NUMERICS": "strict"}
IMPLIED = ("emulate_precision_casts", "eager_numerics.division_rounding", "eager_numerics.disable_ftz")
EMULATE = f"inductor.{IMPLIED[0]}"
ROUND_TRIP = """
import torch
{setting}

def program(x):
    return (x * 1.001).half().float() * 3


x = torch.linspace(-4, 4, 512)
torch.testing.assert_close(torch.compile(program)(x), program(x), rtol=0, atol=0)
"""


def test_each_setting_is_curated_or_left_out_for_a_reason(newest: Interpreter) -> None:
    listing = "from bisector.inductor import torch_state as s; d = s.default_values(); "
    printing = "print(*[f'{family}.{key}' for family in d for key in d[family]])"
    done = subprocess.run(
        [str(newest.python), "-c", listing + printing], env={**os.environ, **newest.variables},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert unknown(done.stdout.split()) == []


def test_a_flag_that_another_implies_is_listed_as_that(newest: Interpreter, tmp_path: Path) -> None:
    done = numbisect(["flags", "--json", "-"], newest, tmp_path, STRICT)
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    implied = {name: row["value"] for name, row in rows.items() if row["implied_by"]}
    assert implied == {f"inductor.{name}": True for name in IMPLIED}
    assert rows[EMULATE]["implied_by"] == "inductor.numerics=strict"


def test_a_setting_of_the_command_line_that_the_script_overrules_is_an_error(
    newest: Interpreter, tmp_path: Path
) -> None:
    script = tmp_path / "strict.py"
    script.write_text(ROUND_TRIP.format(setting='torch._inductor.config.numerics = "strict"'))
    done = numbisect(["check", str(script), "-c", f"{EMULATE}=False"], newest, tmp_path)
    assert done.returncode == 2
    assert f"{EMULATE}=False: inductor.numerics=strict makes it True" in done.stderr


def test_a_left_out_cast_is_the_cause_and_the_flags_that_execute_it_are_fixes(
    newest: Interpreter, tmp_path: Path
) -> None:
    result = answered("minimize", newest, tmp_path, {}, "--no-minimize")
    assert (result["verdict"]["class"], result["hooks_off"]) == ("elided-rounding", {})
    causes = confirmed(result["causes"])
    assert causes and {"cast"} <= {DecisionId(member).kind for cause in causes for member in cause}
    fixes = {flag["name"] for flag in result["flags"] if flag["role"] == "fix"}
    assert fixes >= {EMULATE, "inductor.numerics"}


def test_no_flag_without_effect_is_tried(newest: Interpreter, tmp_path: Path) -> None:
    result = answered("flags", newest, tmp_path, STRICT)
    acting = {flag["name"] for flag in result["flags"] if flag["told_by"] == "run"}
    assert result["verdict"]["class"] == "agrees"
    assert not acting & {f"inductor.{name}" for name in IMPLIED}


def answered(
    command: str, newest: Interpreter, folder: Path, variables: Mapping[str, str], *options: str
) -> dict[str, Any]:
    """The result of a command on a round trip through float16."""
    script, out = folder / "round_trip.py", folder / "run"
    script.write_text(ROUND_TRIP.format(setting=""))
    numbisect([command, str(script), "--out", str(out), *options], newest, folder, variables)
    result: dict[str, Any] = json.loads((out / "result.json").read_text())
    return result
