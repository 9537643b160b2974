"""Settings that came with the newest release and move bits on a CPU, each in a program of which it decides:
`numbisect flags` names it. Plain torch of that release says first that it does.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from bisector.builds.predicate import Interpreter
from studies.versions.matrix import numbisect

pytestmark = pytest.mark.network

# What narrows the values before one of two variances narrows them before both: where float64 is asked for too
# (merge_std_var in torch/_inductor/fx_passes/post_grad.py of 2.15).
VARIANCES = """
import torch

torch._inductor.config.var_std_reduction_dedup = {setting}


def program(x):
    return x.var(-1), x.float().var(-1)


torch.manual_seed(0)
x = torch.randn(3, 50, dtype=torch.float64) + 1000
wide, narrow = torch.compile(program)(x)
torch.testing.assert_close(wide, program(x)[0])
"""
# Of so many operations that many uses have it stored, and its length alone does not: each of four uses
# computes the value again, without its rounding to float16.
USES = """
import torch

torch._inductor.config.realize_opusers_threshold = {setting}


def program(x):
    for _ in range(23):
        x = x * 1.01 + 0.1
    half = x.half()
    return tuple(half.flip(k % 2).float() * (k + 2) for k in range(4))


torch.manual_seed(0)
x = torch.randn(32, 32)
torch.testing.assert_close(torch.compile(program)(x), program(x))
"""


@pytest.mark.parametrize(
    ("flag", "diverging", "agreeing", "script"),
    [
        ("inductor.var_std_reduction_dedup", True, False, VARIANCES),
        ("inductor.realize_opusers_threshold", 5, 1, USES),
    ],
)
def test_a_newer_setting_that_decides_is_named(
    newest: Interpreter,
    tmp_path: Path,
    flag: str,
    diverging: object,
    agreeing: object,
    script: str,
) -> None:
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "kernels")}
    variables = {**os.environ, **newest.variables, **caches}
    path = tmp_path / "program.py"
    for value, agrees in ((agreeing, True), (diverging, False)):
        path.write_text(script.format(setting=value))
        command = [str(newest.python), str(path)]
        plain = subprocess.run(command, env=variables, capture_output=True, check=False)
        assert (plain.returncode == 0) is agrees, plain.stderr.decode()
    done = numbisect(["flags", str(path), "--out", str(tmp_path / "run"), "--json", "-"], newest, tmp_path)
    assert done.returncode == 0, done.stderr
    fixes = [fix["id"] for fix in json.loads(done.stdout)["fixes"] if fix["confirmed"]]
    assert f"{flag}={agreeing}" in fixes
