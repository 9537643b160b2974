"""The Markdown report: fit for a public issue."""

from __future__ import annotations

import re
from typing import Any

import pytest

from bisector.report import markdown, sections
from bisector.report.markdown import code, without_folders
from tests.report import samples

REPRO = "# made from /home/ada/models/softmax.py\nimport torch\n\nDATA = '/9j/4AAQ/Skz'\n"


def render(result: dict[str, Any], repro: str | None) -> str:
    return markdown.render(sections.report(samples.document(result), repro))


def cells(page: str, first: str) -> list[str]:
    """The cells of the first table row that starts with `first`."""
    row = next(line for line in page.splitlines() if line.startswith(f"| {first} |"))
    return [cell.strip() for cell in row.strip("|").split("|")]


def test_a_pair_has_title_summary_repro_numbers_causes_and_fixes() -> None:
    page = render(samples.softmax_pair(), REPRO)
    assert page.startswith("# [inductor] mul, amax, sub, exp: torch.compile is less accurate than eager\n")
    triage = cells(page, "inductor")
    assert triage[1:3] == ["inline, fma", "`inline:aten.mul@mul`, `fma:sub@mul`"]
    assert triage[3] == '`inductor.cpp.enable_floating_point_contract_flag = "off"`'
    assert cells(page, "out") == [
        "out",
        "float32\\[64\\]",
        "64/64",
        "9.12e+05",
        "inf",
        "1.23e+09",
        "2.1e-08",
        "1.14e+05",
    ]
    assert "```python\n# made from softmax.py\nimport torch\n" in page
    assert "Disabling either the recomputation of `mul` [1] or" in page
    assert "- [1] `inline:aten.mul@mul` (softmax.py:11)\n\n  the product `mul` is" in page
    assert 'options = {"cpp.enable_floating_point_contract_flag": "off"}' in page
    assert cells(page, "`inductor.cpp.simdlen`")[1:] == ["`None`", "`1`", "FAIL", "<1%", "partial"]
    assert "torch_git: 0123456789abcdef" in page


@pytest.mark.parametrize("name", samples.ALL)
def test_no_folder_of_the_machine_is_named(name: str) -> None:
    page = render(samples.ALL[name](), "# /home/ada/x/y.py\nimport torch\n")
    assert not re.search(r"(?<![\w<.])/\w+/", page)
    assert "ada" not in page
    assert "numbisect-out" not in page


def test_the_data_in_a_repro_is_not_taken_for_a_path() -> None:
    assert "DATA = '/9j/4AAQ/Skz'" in render(samples.softmax_pair(), REPRO)


@pytest.mark.parametrize(
    ("text", "public"),
    [
        ("in /home/ada/models/a.py:3", "in a.py:3"),
        ("'/tmp/x/y.so'", "'y.so'"),
        ("C:\\Users\\ada\\a.py", "a.py"),
        ("~/work/a.py", "a.py"),
        ("file:///home/ada/a.py", "file:///home/ada/a.py"),
        ("https://github.com/pytorch/pytorch", "https://github.com/pytorch/pytorch"),
        ("torch/_inductor/config.py", "torch/_inductor/config.py"),
        (
            "match:/joint_graph.mul_softmax_pattern@u/aten.sub",
            "match:/joint_graph.mul_softmax_pattern@u/aten.sub",
        ),
        ("3 / 4 and/or 5", "3 / 4 and/or 5"),
    ],
)
def test_only_absolute_paths_lose_their_folders(text: str, public: str) -> None:
    assert without_folders(text) == public


@pytest.mark.parametrize(("lines", "folded"), [(79, False), (80, True)])
def test_a_long_repro_is_folded_away(lines: int, folded: bool) -> None:
    page = render(samples.two_causes(), "x = 1\n" * lines)
    assert ("<details>\n<summary>repro.py</summary>" in page) is folded


def test_a_repro_that_holds_a_fence_gets_a_longer_one() -> None:
    page = render(samples.two_causes(), 'text = """\n```\n"""\n')
    assert '````python\ntext = """\n```\n"""\n````\n' in page


def test_without_a_repro_there_is_no_section_on_reproducing() -> None:
    assert "## How to reproduce" not in render(samples.place(), None)


def test_two_causes_are_each_listed_and_their_joint_repair_once() -> None:
    page = render(samples.two_causes(), REPRO)
    assert page.count("Enabling only this in an otherwise unoptimized compile reproduces the mismatch") == 2
    assert page.count("Only disabling both the") == 1
    assert "## Causes: 2 independent ones; either is enough to make compiled diverge\n" in page
    assert cells(page, "inductor")[3] == "none known"
    assert "## Fixes" not in page


def test_shares_are_a_table_with_whether_they_add_up() -> None:
    page = render(samples.shares(), None)
    assert "| 80% | 75% | `lower:aten.sum@total` \\[1\\] |" in page
    assert "They add up: 100% in sum, and disabled together they remove 100%." in page
    assert "Its formula is in torch/_inductor/lowering.py:7472." in page


def test_a_pair_is_said_to_need_both() -> None:
    assert "## Causes: both decisions are needed\n" in render(samples.softmax_pair(), None)


def test_a_place_stands_under_where_and_not_under_cause() -> None:
    page = render(samples.place(), None)
    assert "## Where: a place, not a cause\n\n- `lower:aten.gelu.default@gelu` (case.py:7)" in page
    assert "## Causes" not in page


def test_nothing_to_find_claims_nothing() -> None:
    page = render(samples.agrees(), None)
    assert "No divergence: eager and torch.compile agree" in page
    for title in ("## Causes", "## Fixes", "## Flags", "## Not established", "| Backend |"):
        assert title not in page


@pytest.mark.parametrize("name", ["nondeterministic", "unresolved"])
def test_without_a_verdict_the_reason_is_given(name: str) -> None:
    result = samples.ALL[name]()
    assert without_folders(result["verdict"]["reason"]) in render(result, None)


def test_a_spent_budget_is_said() -> None:
    page = render(samples.out_of_budget(), None)
    assert "- Stopped early: the budget of 60 s was spent after 14 of about 40 probes." in page


def test_the_kind_of_a_decision_of_a_script_is_named_without_its_graph() -> None:
    result: dict[str, Any] = samples.two_causes()
    result["causes"] = result["causes"][:1]
    result["causes"][0]["decisions"] = ["g1/cast:float16@half", "g2/cast:float16@half"]
    assert cells(render(result, None), "inductor")[1] == "cast"


def test_a_bar_in_a_decision_does_not_break_the_table() -> None:
    result: dict[str, Any] = samples.two_causes()
    result["causes"] = result["causes"][:1]
    result["causes"][0]["decisions"] = ["fuse:a|b@mul"]
    row = next(line for line in render(result, None).splitlines() if line.startswith("| inductor |"))
    assert "`fuse:a\\|b@mul`" in row
    assert len(re.split(r"(?<!\\)\|", row.strip("|"))) == 5


@pytest.mark.parametrize(("text", "said"), [("a", "`a`"), ("a `b` c", "`` a `b` c ``"), ("a\nb", "`a b`")])
def test_inline_code_survives_backticks_and_line_breaks(text: str, said: str) -> None:
    assert code(text) == said


def test_kinds_that_the_device_lacks_are_named_and_are_not_missing_from_the_answer() -> None:
    result = samples.softmax_pair()
    result["not_here"] = {"split": "taken on cuda alone", "cudagraph": "taken on cuda alone"}
    page = render(result, REPRO)
    assert "There are no decisions of these kinds here: cudagraph and split." in page
    assert "not examined" not in page


def test_the_nearest_case_that_agrees_is_shown_with_the_lines_that_differ() -> None:
    neighbour = {"differs_by": "disabling a", "artifact_diff": "neighbour.diff", "diff": ["-x * y", "+z"]}
    page = render(samples.softmax_pair() | {"neighbour": neighbour}, REPRO)
    assert "The nearest case that agrees: disabling a. How its generated code differs: neighbour.diff" in page
    assert "```diff\n-x * y\n+z\n```" in page
