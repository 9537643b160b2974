"""A command of numbisect run in the process of the tests: what it prints and its status, without a start."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from bisector.cli import main as cli


def numbisect(*arguments: object, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
    """As `subprocess.run` would have it. folder: the working folder, the present one by default."""
    told = list(map(str, arguments))
    with pytest.MonkeyPatch.context() as patch:
        if folder is not None:
            patch.chdir(folder)
        patch.setattr(sys, "argv", ["numbisect", *told])  # where the command line looks for errors
        done = CliRunner().invoke(cli.main, told)
    return subprocess.CompletedProcess(told, done.exit_code, done.stdout, done.stderr)
