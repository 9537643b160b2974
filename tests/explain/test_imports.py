"""A command imports what it needs and no more: `check` runs in every step of a `git bisect run`."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("git", "elftools", "requests", "pypi_simple", "remotezip", "jinja2")


def _loaded(module: str) -> set[str]:
    """Which of the heavy libraries a fresh interpreter has after importing that module."""
    program = f"import sys, {module}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split()) & set(HEAVY)


@pytest.mark.parametrize("module", ["bisector.cli.main", "bisector.cli.commands"])
def test_a_command_that_probes_imports_nothing_for_builds_or_triage(module: str) -> None:
    assert _loaded(module) == set()


def test_builds_imports_what_reads_indexes_wheels_and_clones() -> None:
    assert _loaded("bisector.cli.builds_command") == set(HEAVY) - {"jinja2"}


def test_triage_imports_what_writes_its_page() -> None:
    assert _loaded("bisector.cli.triage_command") == {"jinja2"}


def test_report_and_resume_import_nothing_before_the_kind_of_run_is_known() -> None:
    assert _loaded("bisector.cli.past_runs") == set()
