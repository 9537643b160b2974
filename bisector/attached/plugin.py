"""The pytest plugin: a test that fails on what torch.compile computed leaves a bundle, or its answer.

    pytest --numbisect=bundle      a folder for each such test; `numbisect minimize` it when there is time
    pytest --numbisect=minimize    and the answer next to the failure

Torch is imported with the first test, and not at all where the plugin is off.
"""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .recording import Recording

OFF, BUNDLE, MINIMIZE = "off", "bundle", "minimize"
FOLDER = "numbisect-bundles"
PROPERTY = "numbisect"  # of a report, which pytest-xdist carries from its workers
_RECORDED: pytest.StashKey[Recording] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("numbisect", "why torch.compile gives another answer")
    group.addoption(
        "--numbisect", choices=[OFF, BUNDLE, MINIMIZE], default=OFF,
        help="What a test that fails in assert_close on compiled outputs leaves.  [default: off]",
    )
    group.addoption(
        "--numbisect-dir", default=FOLDER, metavar="DIR", help=f"Where bundles go.  [default: {FOLDER}]"
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    if item.config.getoption("--numbisect") == OFF:
        return (yield)
    from .listeners import install
    from .recording import recording

    install()
    with recording() as item.stash[_RECORDED]:
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
    report = yield
    recorded = item.stash.get(_RECORDED, None)
    failed = call.when == "call" and report.failed and call.excinfo is not None
    if recorded is not None and failed and _is_divergence(recorded, call.excinfo.value):
        left = _left(item, recorded, call.excinfo.value)
        report.sections.append(("numbisect", left["text"]))
        report.user_properties.append((PROPERTY, left["line"]))
    return report


def _is_divergence(recorded: Recording, error: BaseException) -> bool:
    return isinstance(error, AssertionError) and recorded.failed and bool(recorded.calls)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    reports = terminalreporter.getreports("failed")
    lines = [(r.nodeid, line) for r in reports for name, line in r.user_properties if name == PROPERTY]
    if lines:
        terminalreporter.section("numbisect")
        for nodeid, line in lines:
            terminalreporter.line(f"{nodeid}: {line}")


@pytest.fixture
def numbisect_check() -> Any:
    """`numbisect_check(fn, *args, rtol=None, atol=None, **compile_options)`: fails where `torch.compile(fn)`
    gives another answer than `fn` on copies of the same arguments."""
    return _check


def _check(fn: Any, *args: Any, rtol: float | None = None, atol: float | None = None, **options: Any) -> None:
    import torch

    from ..inductor.tensors import fresh, grad_flags

    flags = grad_flags(args)
    state = torch.get_rng_state()
    expected = fn(*fresh(args, flags))
    torch.set_rng_state(state)
    actual = torch.compile(fn, **options)(*fresh(args, flags))
    torch.testing.assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=True)


def _left(item: pytest.Item, recorded: Recording, error: BaseException) -> dict[str, str]:
    """text: the section of the failure; line: for the summary."""
    from bisector.errors import first_line

    from .scope import attach

    name = item.nodeid.rpartition("/")[2]
    attached = attach(item.config.getoption("--numbisect-dir"), name=name, note={"test": item.nodeid})
    scope = attached.kept(recorded, first_line(error))
    if scope.problem is not None:
        return {"text": scope.problem, "line": scope.problem}
    (folder,) = scope.bundles
    if item.config.getoption("--numbisect") == BUNDLE:
        line = f"numbisect minimize {folder}"
        return {"text": f"What was computed is in {folder}; why it differs says `{line}`.", "line": line}
    return _answered(folder)


def _answered(folder: Path) -> dict[str, str]:
    from ..errors import NumbisectError
    from .bundle import minimize_bundle

    try:
        found = minimize_bundle(folder)
    except NumbisectError as error:
        return {"text": str(error), "line": str(error)}
    return {"text": found.summary, "line": found.in_a_line}
