"""The text report: the answer first, all that must be said, nothing that is not known."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from bisector.report import sections, terminal
from bisector.report.blocks import Detail
from tests.report import samples

GOLDEN = Path(__file__).parents[1] / "golden"
ANSI = re.compile(r"\x1b\[[0-9;]*m")


def render(result: dict[str, Any], width: int = 100) -> str:
    return terminal.render(sections.report(samples.document(result)), width, color=False)


def flat(page: str) -> str:
    """The page as one line, so that a test does not depend on where lines break."""
    return " ".join(page.split())


@pytest.mark.parametrize(("name", "width"), [("softmax_pair", 100), ("two_causes", 80)])
def test_the_page_is_as_it_was_read_and_approved(name: str, width: int) -> None:
    """NUMBISECT_UPDATE_GOLDEN=1 writes the files anew: read them before they are kept."""
    path = GOLDEN / f"report_{name}_{width}.txt"
    page = render(samples.ALL[name](), width)
    if os.environ.get("NUMBISECT_UPDATE_GOLDEN") == "1":
        path.write_text(page, encoding="utf-8")
    assert page == path.read_text(encoding="utf-8")


def gist(result: dict[str, Any]) -> str:
    return terminal.render(sections.report(samples.document(result)), 100, color=False, detail=Detail.GIST)


@pytest.mark.parametrize("name", samples.ALL)
def test_what_a_run_prints_fits_a_screen_and_says_what_must_be_said(name: str) -> None:
    result = samples.ALL[name]()
    page, whole = gist(result), render(result)
    assert len(page.splitlines()) <= 40
    assert page.splitlines()[0] == whole.splitlines()[0]
    decisions = [decision for cause in result["causes"] for decision in cause["decisions"]]
    for line in (*result.get("text_notes", []), *decisions):
        assert flat(line) in flat(page)
    for name_of_file in (result["repro"], result["report_html"]):
        assert name_of_file is None or name_of_file in page
    if result["stopped_because"]:
        assert f"numbisect resume {result['run']}" in page


@pytest.mark.parametrize("name", [n for n in samples.ALL if samples.ALL[n]()["repro"]])
def test_a_stranger_reads_in_fifteen_lines_what_it_is_where_it_is_and_what_to_send(name: str) -> None:
    result = samples.ALL[name]()
    read = flat("\n".join(gist(result).splitlines()[:15]))
    assert result["verdict"]["class"] in read
    assert result["repro"] in read
    assert (result["report_markdown"] or "") in read
    if (origin := result["origin"]) is not None:
        assert f"Starts at `{origin['node']}`" in read


def test_of_the_fixes_a_screen_has_the_best_with_one_line_to_paste() -> None:
    result = samples.softmax_pair()
    page = gist(result)
    assert result["fixes"][0]["paste"][0] in page and result["fixes"][0]["paste"][1] not in page
    assert "Flags" not in page and "Repairs" not in page and "Cost" not in page


def test_where_flags_alone_were_asked_for_a_screen_has_all_of_them() -> None:
    result = samples.softmax_pair()
    result["causes"], result["repairs"], result["minimal"] = [], [], None
    page = gist(result)
    assert all(line in page for fix in result["fixes"] for line in fix["paste"])
    assert "tried alone" in page


def test_a_pair_is_said_to_need_both_and_either_repairs_it() -> None:
    page = render(samples.softmax_pair())
    assert flat(page).startswith(
        "torch.compile is farther from the float64 reference than eager, because of the recomputation of "
        "`mul` and the FMA contraction of `mul` together."
    )
    assert "Causes  both decisions are needed" in page
    assert "Disabling either the recomputation of `mul` [1] or the FMA" in flat(page)
    assert "[2] fma:sub@mul  /home/ada/models/softmax.py:11" in page
    assert "become one multiply-add" in page


def test_a_fix_is_given_as_lines_to_paste_with_its_residual() -> None:
    page = render(samples.softmax_pair(), width=40)
    options = '{"cpp.enable_floating_point_contract_flag": "off"}'
    assert f"\n       options = {options}  # torch.compile(..., options=options)\n" in page
    assert "residual max abs 0" in flat(page)
    assert "Plain torch has no setting for this." in flat(page)


def test_a_test_is_among_the_files_where_there_is_one() -> None:
    result = samples.softmax_pair()
    assert "pytest" not in render(result)
    result["test"] = "test_repro.py"
    assert re.search(r"\n  test_repro\.py +for pytest; fails while it diverges\n", render(result))


def test_the_flags_show_what_they_remove_and_the_idle_ones_share_a_line() -> None:
    page = render(samples.softmax_pair())
    assert re.search(r"████████  100%  fix +inductor\.cpp\.enable_floating_point_contract_flag", page)
    assert re.search(r"█░░░░░░░ +<1%  partial +inductor\.cpp\.simdlen = 1", page)
    assert 'flag = "off"  (was "fast")' in page  # the subject's own value, not torch's default
    assert "No effect: inductor.emulate_precision_casts and inductor.pattern_matcher." in page


def test_the_minimal_case_is_shown_as_source() -> None:
    page = render(samples.softmax_pair(), width=40)
    assert "4 ops on float32[1, 2] and float32[1]" in flat(page)
    assert "\n        mul = x * scale\n        top = mul.amax(-1, keepdim=True)\n" in page


def test_two_causes_are_said_to_be_independent_and_need_one_repair_of_both() -> None:
    page = flat(render(samples.two_causes()))
    assert "for 2 independent reasons: (1) the layout change of `conv2d_2`; (2) the vectorization" in page
    assert "2 independent ones; either is enough to make compiled diverge" in page
    assert "Only disabling both the layout change of `conv2d_2` [1] and the" in page
    assert "No single change is known that makes compiled agree with eager." in page
    assert "Disabling either" not in page


def test_a_place_is_not_called_a_cause_and_the_kind_not_examined_is_named() -> None:
    page = flat(render(samples.place()))
    assert "it happens at `gelu`, but which decision there is to blame is not known." in page
    assert "Where a place, not a cause" in page
    assert "Causes" not in page
    assert "Decisions of kind fma (FMA contraction) were not examined: its self-test failed" in page


def test_a_lowering_that_is_a_cause_has_its_formula_blamed() -> None:
    result = samples.two_causes()
    result["causes"] = result["causes"][:1]
    result["causes"][0]["decisions"] = ["lower:aten.gelu.default@gelu"]
    assert "the formula in Inductor's lowering is to blame" in flat(render(result))


def test_the_formula_of_a_lowering_is_shown_where_torch_writes_it() -> None:
    page = flat(render(samples.shares()))
    assert "aten.sum of total. Its formula is in torch/_inductor/lowering.py:7472." in page


def test_the_shares_stand_with_whether_they_add_up() -> None:
    result = samples.shares()
    page = render(result)
    assert "80%" in page
    assert "75%  lower:aten.sum@total [1]" in page
    assert "They add up: 100% in sum, and disabled together they remove 100%." in flat(page)
    result["adds_up"] = False
    assert "They do not add up: 100% in sum, but disabled together" in flat(render(result))
    assert "Whether they add up was not established." in flat(render(result | {"adds_up": None}))
    assert "Shares" not in render(result | {"graded": []})


def test_a_repair_by_fallbacks_alone_is_called_a_place() -> None:
    result = samples.place()
    result["repairs"] = [{"decisions": result["places"], "confirmed": True, "removed_fraction": 1.0}]
    assert "it happens at `gelu`, but which decision there is to blame is not known." in flat(render(result))


def test_nothing_to_find_is_short() -> None:
    page = render(samples.agrees())
    assert page.startswith("No divergence: eager and torch.compile agree on 1 output, bit for bit.\n")
    assert len(page.splitlines()) < 12
    for title in ("Verdict", "Causes", "Repairs", "Fixes", "Flags", "Minimal", "Not established"):
        assert f"\n{title}" not in page


def test_agreement_of_a_script_says_what_of_it_was_compared() -> None:
    result = samples.agrees()
    ends = ["exit status 0"] * 2
    compared = {"values": 8, "calls": 2, "comparisons": 0, "lines": 1, "ends": ends, "unseen": []}
    result["verdict"]["proof"] = {"experiment": "measured", "compared": compared, "reference": None}
    said = "bit for bit (compared of the script: 2 calls, 8 values, 1 written line and its end)."
    assert said in flat(render(result))


def test_agreement_within_the_tolerance_shows_the_numbers() -> None:
    result = samples.agrees()
    result["verdict"]["outputs"] = [samples.output(n_diff=3, max_abs=1e-9)]
    page = render(result)
    assert "agree on 1 output, within the tolerance." in page
    assert "1e-09" in page


@pytest.mark.parametrize("name", ["nondeterministic", "unresolved"])
def test_without_a_verdict_the_reason_comes_first_and_no_cause_is_claimed(name: str) -> None:
    result = samples.ALL[name]()
    page = flat(render(result))
    assert page.startswith(f"No verdict: {result['verdict']['reason']}")
    assert page.count(result["verdict"]["reason"]) == 1
    assert "because of" not in page


def test_a_spent_budget_is_said_with_the_partial_answer_and_how_to_go_on() -> None:
    page = flat(render(samples.out_of_budget()))
    assert "disabling the vectorization of `erf_1` seems to make compiled agree with eager, but" in page
    assert "disabling this set seems to make compiled match eager" in page
    assert "Stopped early: the budget of 60 s was spent after 14 of about 40 probes." in page
    assert "(not confirmed; removes >99% of the difference)" in page
    assert "To go on: numbisect resume numbisect-out/case-1" in page


def test_a_verdict_alone_says_that_the_cause_was_not_looked_for() -> None:
    result = samples.place()
    result |= {"places": [], "hooks_off": {}}
    result["seconds"] |= {"localise": None, "causes": None}
    page = flat(render(result))
    assert "The cause was not looked for" in page
    assert "No cause was found" not in page


def test_a_cause_that_is_not_confirmed_is_not_stated_as_one() -> None:
    result = samples.softmax_pair()
    result["causes"][0] |= {"confirmed": False, "evidence": {"alone": "UNRESOLVED", "without_each": []}}
    page = flat(render(result))
    assert "probably because of the recomputation of `mul`" in page
    assert "Not confirmed. Enabling only these in an otherwise unoptimized compile gives UNRESOLVED" in page


@pytest.mark.parametrize("name", samples.ALL)
@pytest.mark.parametrize("width", [40, 80, 100, 200])
def test_only_lines_to_copy_are_longer_than_the_terminal(name: str, width: int) -> None:
    pasted = ("torch._inductor", "from torch._inductor", "options = ", "patch = ", "backend = ", "export ")
    copied = (*pasted, "# File:", "To go on:", "mul", "top", "return", "def ")
    long = [line for line in render(samples.ALL[name](), width).splitlines() if len(line) > width]
    assert [line for line in long if not line.strip().startswith(copied)] == []


@pytest.mark.parametrize("name", samples.ALL)
def test_color_changes_nothing_but_the_color(name: str) -> None:
    result = samples.ALL[name]()
    colored = terminal.render(sections.report(samples.document(result)), 100, color=True)
    assert ANSI.search(colored)
    plain = "\n".join(line.rstrip() for line in ANSI.sub("", colored).splitlines())
    assert plain == render(result).rstrip("\n")


def test_brackets_in_names_are_not_read_as_markup() -> None:
    result = samples.nondeterministic()
    result["verdict"]["reason"] = "output ['loss'][bold] differs :warning:"
    assert "output ['loss'][bold] differs :warning:." in render(result)


def test_a_column_without_numbers_is_left_out() -> None:
    page = render(samples.two_causes())
    assert "uint8[4, 128, 32, 32]  2/524,288" in page
    assert "max ulp" not in page
    assert "rms error" not in page


def test_a_large_cause_is_cut_in_the_first_line_and_listed_below() -> None:
    result = samples.softmax_pair()
    result["causes"][0]["decisions"] = [f"fma:sub@mul_{i}" for i in range(9)]
    page = render(result)
    assert "the FMA contraction of `mul_3` and 5 more together." in flat(page)
    assert "all 9 decisions are needed" in page
    assert "[9] fma:sub@mul_8" in page


def test_many_outputs_and_flags_are_cut_with_a_count() -> None:
    result = samples.softmax_pair()
    result["verdict"]["outputs"] = [samples.output(index=i, path=f"[{i}]", n_diff=1) for i in range(11)]
    result["flags"] = [
        samples.flag(f"inductor.f{i}", True, False, "FAIL", 0.0, "no effect") for i in range(20)
    ]
    page = flat(render(result))
    assert "3 more outputs differ: see result.json." in page
    assert "inductor.f11 and 8 more." in page
    assert "inductor.f12" not in page


@pytest.mark.parametrize(
    ("fraction", "drawn"),
    [
        (0, "░░░░░░░░"),
        (0.001, "█░░░░░░░"),
        (0.5, "████░░░░"),
        (0.999, "███████░"),
        (1, "████████"),
        (None, ""),
    ],
)
def test_a_bar_is_full_or_empty_only_where_that_is_exact(fraction: float | None, drawn: str) -> None:
    assert terminal.bar(fraction) == drawn


def test_members_that_read_alike_are_told_apart_by_as_much_of_their_ids_as_it_takes() -> None:
    result = samples.softmax_pair()
    members = ["cast:bfloat16/first@bwd.gelu", "cast:bfloat16/second@bwd.gelu"]
    result["causes"][0]["decisions"] = members
    sentence = flat(render(result))
    assert "`bwd.gelu` (bfloat16/first) and the elided cast of `bwd.gelu` (bfloat16/second)" in sentence
