"""The report as a page: what it shows, that nothing in it runs or is fetched, and how it is laid out.

The page in a real Chromium: pip install axe-playwright-python; pytest -m browser tests/report -n 0
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from bisector.report import graph, page, sections
from tests.report import samples
from tests.report.conftest import violations

WIDE, NARROW = 1600, 400  # pixels
HOSTILE = "</code></script><script>document.title='taken'</script>\x1b[31m`\"'&"
SCRIPT = "import torch\n" + "\n".join(f"x{i} = {i}" for i in range(9)) + "\ny = x.exp()  # <b>bold</b>\n"


def shown(result: dict[str, Any], script: str | None = None, repro: str | None = None) -> str:
    document = samples.document(result)
    return page.render(sections.report(document, repro), document, script)


class Tags(HTMLParser):
    """started: tags with their attributes; open: those that are not closed at the end."""

    VOID = frozenset({"meta", "input", "path", "rect", "line", "polyline"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.started: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.started.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.started.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


@pytest.mark.parametrize("name", samples.ALL)
def test_every_kind_of_answer_is_a_page_whose_tags_are_closed_and_whose_links_lead_somewhere(
    name: str,
) -> None:
    result = samples.ALL[name]()
    tags = Tags(shown(result, SCRIPT, "print(1)\n"))
    assert tags.open == []
    ids = [attributes["id"] for _, attributes in tags.started if "id" in attributes]
    assert len(ids) == len(set(ids))
    links = [attributes["href"] or "" for tag, attributes in tags.started if tag == "a"]
    assert {link.removeprefix("#") for link in links if link.startswith("#")} <= set(ids)


@pytest.mark.parametrize("name", samples.ALL)
def test_nothing_is_fetched_and_only_its_own_script_may_run(name: str) -> None:
    text = shown(samples.ALL[name](), SCRIPT)
    tags = Tags(text)
    assert not [attributes for _, attributes in tags.started if "src" in attributes]
    assert "url(" not in text and "@import" not in text
    [program] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(program.encode()).digest()).decode()
    [policy] = [a["content"] for tag, a in tags.started if a.get("http-equiv") == "Content-Security-Policy"]
    assert policy == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"


def test_the_fix_the_repro_and_what_the_script_does_stand_above_all_else() -> None:
    result = samples.softmax_pair()
    text = shown(result)
    first = text[: text.index("<nav")]
    assert result["fixes"][0]["paste"][0].partition(" ")[0] in first
    assert f"python {result['repro']}" in first


def test_no_fix_that_was_not_confirmed_stands_above() -> None:
    result = samples.softmax_pair()
    doubtful = result["fixes"][0] | {"confirmed": False, "paste": ["unproved = True"]}
    result["fixes"] = [doubtful, *result["fixes"]]
    text = shown(result)
    first = text[: text.index("<nav")]
    assert "unproved" not in first
    assert result["fixes"][1]["paste"][0].partition(" ")[0] in first


def test_names_and_texts_mean_nothing_in_the_page() -> None:
    result = samples.softmax_pair()
    result["target"] = f"/in/{HOSTILE}.py"
    result["text_notes"] = [HOSTILE]
    result["verdict"]["reason"] = HOSTILE
    for one in result["graph"]["nodes"]:
        one |= {"where": HOSTILE, "module": HOSTILE, "op": HOSTILE}
    result["graph"]["nodes"][0]["name"] = HOSTILE
    text = shown(result, HOSTILE, HOSTILE)
    tags = Tags(text)
    assert tags.open == [] and "\x1b" not in text
    assert sum(tag == "script" for tag, _ in tags.started) == 1
    assert "<script>document" not in text and "&lt;script&gt;document" in text


def test_each_call_is_coloured_by_both_errors_and_carries_its_decisions() -> None:
    [drawn] = graph.drawings(samples.document(samples.softmax_pair()))
    boxes = {box.key: box for box in drawn.boxes}
    assert {key: (box.local, box.carried) for key, box in boxes.items()} == {
        "mul": (0, 0), "amax": (0, 0), "sub": (2, 2), "exp": (1, 4),
    }  # fmt: skip
    assert boxes["mul"].decisions == (samples.INLINE, samples.FMA)
    assert boxes["sub"].marks == ("starts here",)
    assert boxes["exp"].marks == ("grows most", "output[0]")
    ends = {(source, target) for _, source, target in drawn.edges}
    assert ends == {("mul", "amax"), ("mul", "sub"), ("amax", "sub"), ("sub", "exp")}


def test_what_reads_stands_below_what_is_read_and_no_two_boxes_overlap() -> None:
    [drawn] = graph.drawings(samples.document(samples.softmax_pair()))
    at = {box.key: (box.x, box.y) for box in drawn.boxes}
    assert all(at[source][1] < at[target][1] for _, source, target in drawn.edges)
    places = sorted(at.values())
    for one in places:
        for other in places:
            apart = abs(one[0] - other[0]) >= graph.WIDTH or abs(one[1] - other[1]) >= graph.HEIGHT
            assert one == other or apart
    assert all(x + graph.WIDTH <= drawn.width and y + graph.HEIGHT <= drawn.height for x, y in places)


def model(layers: int, origin: str) -> dict[str, Any]:
    """A chain of calls, ten in each layer of a model."""
    result = samples.softmax_pair()
    names = [f"n{i}" for i in range(layers * 10)]
    nodes = [
        samples.node(name, names[i - 1] if i else "x", module=f"layers.{i // 10}.mlp", op="aten.add")
        for i, name in enumerate(names)
    ]
    result["graph"] = {"nodes": nodes, "outputs": {"output[0]": names[-1]}}
    result["origin"] |= {"node": origin}
    result["amplifier"] = None
    result["causes"], result["repairs"] = [], []
    return result


def test_a_model_is_opened_down_to_where_the_error_begins() -> None:
    result = model(8, "n34")
    [drawn] = graph.drawings(samples.document(result))
    keys = [box.key for box in drawn.boxes]
    assert {f"n{i}" for i in range(30, 40)} == {key for key in keys if key.startswith("n3")}
    assert "module layers.0" in keys and "module layers.3" not in keys
    ids = [attributes.get("id") for _, attributes in Tags(shown(result)).started]
    assert all(ids.count(page.anchor(key)) == 1 for key in keys)
    [collapsed] = [box for box in drawn.boxes if box.key == "module layers.0"]
    assert collapsed.calls == 10 and collapsed.below == "10 calls"


def test_a_module_of_one_call_says_which() -> None:
    result = model(8, "n34")
    result["graph"]["nodes"][0]["module"] = "embed"
    [drawn] = graph.drawings(samples.document(result))
    [alone] = [box for box in drawn.boxes if box.key == "module embed"]
    assert alone.below.startswith("add ")


def test_the_page_of_a_model_of_600_calls_fits_a_mail() -> None:
    assert len(shown(model(60, "n34"), SCRIPT)) < 1_000_000


def test_the_calls_of_the_minimal_case_are_outlined_and_their_modules_opened() -> None:
    result = model(8, "n34")
    result["minimal"]["calls"] = ["n71", "n34"]
    [drawn] = graph.drawings(samples.document(result))
    assert {box.key for box in drawn.boxes if box.minimal} == {"n34", "n71"}
    page_text = shown(result)
    assert page_text.count('class="around"') == 2 and "in the minimal case</span>" in page_text
    result["minimal"] = None
    assert "in the minimal case" not in shown(result)


def test_forward_and_backward_are_drawn_apart() -> None:
    result = samples.softmax_pair()
    result["graph"]["nodes"].append(samples.node("bwd.exp", "exp", gradient=True))
    assert [drawn.title for drawn in graph.drawings(samples.document(result))] == ["Forward", "Backward"]


def test_a_graph_of_too_many_boxes_is_a_table_alone() -> None:
    result = model(40, "n34")
    for one in result["graph"]["nodes"]:
        one["module"] = ""
    assert graph.drawings(samples.document(result)) == []
    assert "too many calls to be drawn" in shown(result)


@pytest.mark.parametrize(
    ("ulp", "step"), [(None, 0), (0.0, 0), (0.5, 1), (1, 1), (16, 2), (17, 3), (math.inf, 4)]
)
def test_the_colour_says_how_many_units_it_is_off(ulp: Any, step: int) -> None:
    assert graph.colour(ulp) == step


def test_a_difference_stands_in_two_columns_line_by_line() -> None:
    diff = ["--- diverges", "+++ agrees", "@@ -1,3 +1,4 @@", " same", "-old", "+new", "+more", " end"]
    rows = [(left.text, left.changed, right.text, right.changed) for left, right in page.side_by_side(diff)]
    assert rows == [
        ("⋯", False, "⋯", False), ("same", False, "same", False), ("old", True, "new", True),
        ("", False, "more", True), ("end", False, "end", False),
    ]  # fmt: skip


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, NARROW])
@pytest.mark.parametrize("name", samples.ALL)
def test_the_page_reads_well_in_a_browser(
    browser: Any, tmp_path: Path, name: str, width: int, theme: str
) -> None:
    result = samples.ALL[name]()
    result["text_notes"] = [HOSTILE]
    (tmp_path / "report.html").write_text(shown(result, SCRIPT, "print(1)\n"), encoding="utf-8")
    opened = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=theme)
    said: list[str] = []
    asked: list[str] = []
    opened.on("console", lambda message: said.append(message.text))
    opened.on("pageerror", lambda error: said.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.goto((tmp_path / "report.html").as_uri())
    assert (said, len(asked)) == ([], 1)
    assert "taken" not in opened.title()
    assert opened.evaluate("document.documentElement.scrollWidth") <= width
    opened.close()


@pytest.mark.browser
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("name", samples.ALL)
def test_the_page_has_no_violation_that_axe_knows(
    browser: Any, tmp_path: Path, name: str, theme: str
) -> None:
    (tmp_path / "report.html").write_text(shown(samples.ALL[name](), SCRIPT, "print(1)\n"), encoding="utf-8")
    assert violations(browser, tmp_path / "report.html", theme) == []


@pytest.mark.browser
def test_the_switch_and_the_links_work_by_keyboard(browser: Any, tmp_path: Path) -> None:
    (tmp_path / "report.html").write_text(shown(samples.softmax_pair(), SCRIPT), encoding="utf-8")
    opened = browser.new_page()
    opened.goto((tmp_path / "report.html").as_uri())
    opened.locator("input[value=local]").focus()
    opened.keyboard.press("ArrowRight")
    assert opened.locator(".drawing svg").get_attribute("class") == "carried"
    opened.locator("svg a").last.focus()
    opened.keyboard.press("Enter")
    assert opened.url.endswith("#n-exp")
    assert opened.locator("tr:target code").first.text_content() == "exp"
    opened.close()
