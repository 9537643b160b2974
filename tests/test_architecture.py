"""Holds the arrows between the packages: who may import whom, and what the pure core may touch."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "bisector").rglob("*.py"))
}

# What each stage may import beside itself.
EVERYWHERE = ("core", "errors", "processes", "request_json", "tracing", "wire")
WIRING = ("explain", "cli", "__main__")  # these alone join stages; a later one may import an earlier one
WORKER = "inductor"  # runs in its own process; the others start it and speak with it
ATTACHED = "attached"  # runs in the user's process, beside torch, and writes with the worker's own means
WORKER_LIBRARIES = {"torch", "triton"}
SERVING = "bisector.inductor.serving"  # the processes; what is done in them knows nothing of them

# The core computes and does nothing else: no process, clock, file, thread or machine.
EFFECTS = {
    "asyncio", "concurrent", "datetime", "importlib", "io", "multiprocessing", "os", "pathlib",
    "shutil", "signal", "socket", "subprocess", "tempfile", "threading", "time", "urllib"
}
EFFECT_CALLS = {"__import__", "eval", "exec", "input", "open", "print"}


def imported(tree: ast.AST, module: str, is_package: bool) -> Iterator[str]:
    """Full dotted names of all that is imported, at any depth of the source; `from a import b` is `a.b`."""
    package = module if is_package else module.rpartition(".")[0]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parts = package.split(".")
            above = parts[: len(parts) + 1 - node.level] if node.level else []
            origin = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def stage_of(name: str) -> str:
    """`runner` of `bisector.runner.journal`; empty for `bisector` itself and its attribute `__version__`."""
    second = name.split(".")[1] if "." in name else ""
    return "" if second == "__version__" else second


def violations(source: str, module: str, is_package: bool = False) -> list[str]:
    """What this source may not do if it is that module; one line each."""
    tree = ast.parse(source)
    stage = stage_of(module)
    found = []
    for name in imported(tree, module, is_package):
        library = name.split(".")[0]
        if library in WORKER_LIBRARIES and stage not in (WORKER, ATTACHED):
            found.append(f"{module} imports {name}: only bisector.{WORKER} imports {library}")
        if stage == "core" and library != "bisector" and library not in sys.stdlib_module_names:
            found.append(f"{module} imports {name}: the core needs nothing but the standard library")
        if stage == "core" and library in EFFECTS:
            found.append(f"{module} imports {name}: the core has no effects")
        if f"{name}.".startswith(f"{SERVING}.") and not f"{module}.".startswith(f"{SERVING}."):
            found.append(f"{module} imports {name}: only {SERVING} does")
        if library == "bisector" and not may_import(stage, stage_of(name)):
            found.append(f"{module} imports {name}: against the arrows")
    if stage == "core":
        calls = (node.func for node in ast.walk(tree) if isinstance(node, ast.Call))
        names = (func.id for func in calls if isinstance(func, ast.Name))
        found += [f"{module} calls {name}: the core has no effects" for name in names if name in EFFECT_CALLS]
    return found


def may_import(importer: str, imported_stage: str) -> bool:
    if imported_stage in ("", importer):
        return True
    if importer in WIRING:
        earlier = WIRING[: WIRING.index(importer)]
        # What finds the answer knows nothing of how it is shown.
        unseen = ("report",) if importer == "explain" else ()
        return imported_stage in earlier or imported_stage not in (WORKER, ATTACHED, *WIRING, *unseen)
    if (importer, imported_stage) in ((ATTACHED, WORKER), ("", ATTACHED)):
        return True
    if importer == "request_json" and imported_stage == "wire":
        return True
    if importer in ("request_json", "wire", "tracing"):
        return imported_stage in ("core", "errors")
    return importer not in ("", *EVERYWHERE) and imported_stage in EVERYWHERE


@pytest.mark.parametrize("module", MODULES)
def test_a_module_keeps_the_arrows(module: str) -> None:
    path = MODULES[module]
    assert violations(path.read_text(encoding="utf-8"), module, path.name == "__init__.py") == []


def test_the_check_sees_the_modules() -> None:
    assert {"bisector", "bisector.errors", "bisector.core.search.sets"} <= MODULES.keys()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("bisector.core.judge", "import torch"),
        ("bisector.core.judge", "import rich"),
        ("bisector.core.judge", "import subprocess"),
        ("bisector.core.judge", "from os import path"),
        ("bisector.core.judge", "def late():\n    from time import monotonic"),
        ("bisector.core.judge", "from bisector.errors import BadTarget"),
        ("bisector.core.judge", "from bisector import runner"),
        ("bisector.core.judge", "from ..runner import journal"),
        ("bisector.core.search.sets", "from ... import errors"),
        ("bisector.core.judge", "print('FAIL')"),
        ("bisector.core.judge", "open('journal')"),
        ("bisector.runner.worker_client", "import torch._inductor.config"),
        ("bisector.report.html", "import triton"),
        ("bisector.cli.main", "def late():\n    import torch"),
        ("bisector.explain", "import bisector.inductor.serving.worker"),
        ("bisector.subject.script", "from bisector.inductor import capture"),
        ("bisector.runner.worker_client", "from bisector.subject import script"),
        ("bisector.report.html", "from bisector.runner.journal import Journal"),
        ("bisector.report.html", "import bisector.runner"),
        ("bisector.inductor.serving.worker", "from bisector.runner.journal import Journal"),
        ("bisector.inductor.serving.worker", "import bisector.subject"),
        ("bisector.inductor.capture.load", "from bisector.attached import scope"),
        ("bisector.attached.direct", "from bisector.inductor.serving import worker"),
        ("bisector.attached.direct", "from bisector.cli import commands"),
        ("bisector.cli.commands", "from bisector.attached import direct"),
        ("bisector.inductor.probing", "from .serving.holders import Holders"),
        ("bisector.inductor.capture.load", "from .. import serving"),
        ("bisector.explain", "from bisector import cli"),
        ("bisector.explain.explanation", "from bisector.report import words"),
        ("bisector.explain.triage.driver", "from bisector.report import words"),
        ("bisector.explain.run", "from bisector.cli import display"),
        ("bisector.runner.worker_client", "from bisector import explain"),
        ("bisector.errors", "from bisector.core import model"),
        ("bisector", "from bisector.core import model"),
    ],
)
def test_a_planted_violation_is_found(module: str, source: str) -> None:
    assert violations(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("bisector.core.judge", "from __future__ import annotations\nimport math, json, re"),
        ("bisector.core.search.sets", "from .minimal import MemoizedTest\nfrom ..model import Outcome"),
        ("bisector.inductor.serving.worker", "import torch\nfrom ...core import model\nfrom . import jobs"),
        ("bisector.runner.worker_client", "import subprocess, os\nfrom bisector.errors import WorkerLost"),
        ("bisector.report.html", "print(open('page'))\nfrom bisector import __version__"),
        ("bisector.cli.output", "from bisector import errors, report, runner, subject\nimport rich"),
        ("bisector.cli.main", "import click\nfrom bisector import explain\nfrom bisector.report import html"),
    ],
)
def test_what_the_arrows_allow_is_not_found(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_every_package_is_installed_where_it_is_not_run_from_the_checkout() -> None:
    found = re.search(r"^packages = (\[.*?\])$", (ROOT / "pyproject.toml").read_text(), re.M | re.S)
    assert found is not None
    listed = ast.literal_eval(found[1])  # an array of strings is the same in TOML
    folders = {".".join(p.relative_to(ROOT).parent.parts) for p in (ROOT / "bisector").rglob("__init__.py")}
    assert set(listed) == folders | {"bisector.configs"}
