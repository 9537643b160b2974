"""`numbisect doctor`: what works here, what is missing, and what that costs."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.table import Table

from bisector import processes, wire
from bisector.core.kinds import KINDS
from bisector.core.protocol import HooksTested
from bisector.explain import environment
from bisector.explain.build_question import INSTALL, missing_packages
from bisector.report.literal import on_page

from .display import to_stdout

DISK_NEEDED = 1 << 30  # bytes: the precompiled headers and kernels of a run
TEST_S = 600.0  # for the hooks' own test, which compiles a dozen small programs to source


@dataclass(frozen=True)
class Finding:
    """One line. cost: what does not work without it; empty where all is well."""

    part: str
    found: str
    cost: str = ""
    needed: bool = False


def run(folder: Path) -> int:
    """Print the findings; 0 when nothing that is needed is missing, else 2."""
    checks: list[Callable[[], Finding]] = [_torch, _compiler, _triton, _gpu, _builds, _uv, _git]
    findings = [check() for check in checks] + [_disk(folder)]
    if not findings[0].cost:
        findings.insert(1, _decisions())
    width = os.get_terminal_size().columns if sys.stdout.isatty() else 120
    to_stdout(table(findings, width, sys.stdout.isatty()))
    return 2 if any(f.needed and f.cost for f in findings) else 0


def table(findings: Sequence[Finding], width: int, color: bool) -> str:
    """The findings, one on each row."""
    rows = Table(box=None, show_header=True, header_style="bold")
    for column in ("part", "found", "what is missing costs"):
        rows.add_column(column)
    for finding in findings:
        rows.add_row(finding.part, finding.found, finding.cost or "-")
    console, printed = on_page(width, color)
    console.print(rows)
    return printed.getvalue()


def _torch() -> Finding:
    """Imported in a process of its own: an installation that is broken must not break the doctor."""
    asked = "import torch, torch._inductor; print(torch.__version__)"
    done = processes.run([sys.executable, "-c", asked], environment.IMPORT_S)
    if done.status == 0:
        return Finding("torch", done.out.strip())
    message = done.last_line or f"does not import: {done.how}"
    return Finding("torch", message[:80], "nothing works; install torch >= 2.11", needed=True)


def _decisions() -> Finding:
    """Which kinds of decision this torch lets be denied: each release moves what the hooks take hold of."""
    done = processes.run(processes.module("bisector.inductor.hooks.tested"), TEST_S)
    if done.status != 0:
        message = f"the hooks cannot be tested: {done.last_line or done.how}"
        return Finding("decisions", message[:80], "no cause is found")
    found = wire.load(HooksTested, json.loads(done.out))
    off, none = found.off, found.not_here
    hooked = {kind.name for kind in KINDS.values() if kind.hooked}
    tested = f"{len(hooked - off.keys() - none.keys())} of {len(hooked)} kinds can be denied"
    without = "; ".join(f"no {kind} here: {reason}" for kind, reason in none.items())
    lost = "; ".join(f"{kind} is not examined: {reason}" for kind, reason in off.items())
    return Finding("decisions", f"{tested} ({without})" if without else tested, lost)


def _compiler() -> Finding:
    found = environment.compiler()
    if found is None:
        return Finding("C++ compiler", "none", "no CPU kernel compiles; install g++ or set CXX", needed=True)
    return Finding("C++ compiler", found)


def _triton() -> Finding:
    version = environment.version("triton")
    return Finding("triton", version or "none", "" if version else "no GPU kernels")


def _gpu() -> Finding:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return Finding("GPU", "none", "subjects on a GPU cannot be studied here")
    lines = processes.run([smi, "-L"], environment.VERSION_S).out.splitlines()
    return Finding("GPU", lines[0] if lines else "none", "" if lines else "the driver does not answer")


def _builds() -> Finding:
    missing = missing_packages()
    cost = f"`numbisect builds` cannot run; {INSTALL}" if missing else ""
    return Finding("packages for builds", f"no {', '.join(missing)}" if missing else "there", cost)


def _uv() -> Finding:
    cost = "environments for other torch builds are made with pip, slower"
    return _program("uv", cost, processes.program("uv"))


def _git() -> Finding:
    return _program("git", "commits of PyTorch cannot be looked at", shutil.which("git"))


def _program(name: str, cost: str, path: str | None) -> Finding:
    if path is None:
        return Finding(name, "none", cost)
    return Finding(name, processes.run([path, "--version"], environment.VERSION_S).out.strip() or path)


def _disk(folder: Path) -> Finding:
    free = shutil.disk_usage(folder).free
    text = f"{free / (1 << 30):.0f} GiB free"
    return Finding("disk", text, "" if free > DISK_NEEDED else "kernels may not fit; free 1 GiB", needed=True)
