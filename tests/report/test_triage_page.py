"""A triage as text, Markdown and HTML.

The page in a real Chromium: pip install axe-playwright-python; pytest -m browser tests/report -n 0
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bisector.core.clusters import Cause
from bisector.core.outcome import Outcome
from bisector.explain.triage.failure import Looked
from bisector.report import triage
from tests.report.conftest import violations

HOSTILE = "/in/<script>document.title='taken'</script>\x1b[31m\n# heading.py"
WIDE, NARROW = 1280, 360  # pixels


def looked(number: int, target: str, outcome: Outcome, cause: Cause | None, **more: Any) -> dict[str, Any]:
    verdict = {"FAIL": "compiled-worse", "PASS": "agrees", "UNRESOLVED": "unresolved"}[outcome.value]
    one = Looked(
        id=f"{number:012x}", target=target, first_seen="2026-11-23T05:43:51Z", outcome=outcome,
        verdict=verdict, reason="output[0]: compiled is farther", signature="", cause=cause, **more,
    )  # fmt: skip
    return one.to_json() | {"key": cause.key if cause else None}


def told() -> dict[str, Any]:
    cause = Cause(frozenset({"cast:float16"}))
    failures = [
        looked(0, "/in/first.py", Outcome.FAIL, cause, run="0/run", repro="0/run/repro.py"),
        looked(1, HOSTILE, Outcome.FAIL, cause, run="1/run", known=True),
        looked(2, "/in/" + "very_" * 40 + "long.py", Outcome.FAIL, None, problem="no cause was confirmed"),
        looked(3, "/in/broken.py", Outcome.UNRESOLVED, None, problem="broken.py, line 3: ends too early"),
        looked(4, "/in/agrees.py", Outcome.PASS, None),
    ]
    cluster = {
        "name": "cast-float16", "key": cause.key, "cause": cause.to_json(), "size": 2,
        "first_seen": "2026-11-23T05:43:51Z", "verdicts": ["compiled-worse"], "reason": "output[0]: farther",
        "fix": "inductor.emulate_precision_casts=True", "representative": "/in/first.py",
        "repro": "clusters/cast-float16/repro.py", "report": "clusters/cast-float16/report.html",
        "members": [failures[0]["id"], failures[1]["id"]],
    }  # fmt: skip
    skipped = [{"path": "/in/notes.txt", "reason": "/in/notes.txt: not a script"}]
    return triage.summary([cluster], failures, skipped, None, 3)


@pytest.mark.parametrize("render", [triage.text, triage.markdown, triage.html])
def test_every_failure_is_told_and_no_name_is_taken_for_more(render: Any) -> None:
    text = render(told())
    assert "5 failures, 1 cause" in text
    names = ["long.py", "broken.py", "notes.txt"]
    names += [] if render is triage.text else ["first.py", "agrees.py", "heading.py"]
    assert all(name in text for name in names)
    assert "\x1b" not in text
    assert not [line for line in text.splitlines() if line.startswith("# heading")]


def test_each_failure_is_counted_where_it_belongs() -> None:
    summed = told()
    by_target = {Path(one["target"]).name: one["id"] for one in summed["failures"]}
    long = next(name for name in by_target if name.endswith("long.py"))
    assert summed["not_explained"] == [by_target[long]]
    assert summed["cannot_tell"] == [by_target["broken.py"]]
    assert summed["agree"] == [by_target["agrees.py"]]
    assert summed["full_runs"] == 1, "that of the first; the second's cause was known"


def test_every_field_of_the_json_is_documented() -> None:
    page = (Path(__file__).parents[2] / "docs" / "fuzzers.md").read_text()
    page = page[page.index("### triage.json") :]
    shown = told()
    fields = {*shown, *shown["failures"][0], *shown["clusters"][0], *shown["clusters"][0]["cause"]}
    assert not [field for field in fields if f"`{field}`" not in page]


@pytest.mark.browser
@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_the_page_reads_well_in_a_browser(browser: Any, tmp_path: Path, width: int) -> None:
    (tmp_path / "triage.html").write_text(triage.html(told()), encoding="utf-8")
    page = browser.new_page(viewport={"width": width, "height": 800})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto((tmp_path / "triage.html").as_uri())
    page.screenshot(path=tmp_path / f"{width}.png", full_page=True)
    assert (page.title(), said) == ("5 failures, 1 cause", [])
    assert page.locator("script").count() == 0
    assert page.locator("h2").all_text_contents()[1:3] == ["Not explained", "Cannot tell"]
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("link", name="cast:float16").click()
    assert page.url.endswith("#c1")
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_has_no_violation_that_axe_knows(browser: Any, tmp_path: Path, theme: str) -> None:
    (tmp_path / "triage.html").write_text(triage.html(told()), encoding="utf-8")
    assert violations(browser, tmp_path / "triage.html", theme) == []


def test_a_triage_of_an_earlier_version_is_shown_without_pages() -> None:
    earlier = told()
    del earlier["clusters"][0]["report"]
    assert "report.html" not in triage.html(earlier)
