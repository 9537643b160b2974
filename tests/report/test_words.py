"""Sentences, each alone."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bisector.core.decision import DecisionId
from bisector.core.fix import Elsewhere
from bisector.core.outcome import Outcome
from bisector.core.verdict import EXPERIMENTS, VerdictClass
from bisector.report import facts, sentences, words
from bisector.report.document import Cause, Evidence, Fix, FlagTried, Repair, VerdictPart
from tests.report import samples


def fix(kind: str = "flag", id: str = "flag:x", **values: Any) -> Fix:
    result = samples.document(samples.softmax_pair())
    return replace(result.fixes[0], id=id, kind=kind, **{"set_": None, "slowdown": None, **values})


def elsewhere(**values: Any) -> Elsewhere:
    return replace(Elsewhere(tried=5, diverging=4, held=4), **values)


def verdict(kind: VerdictClass) -> VerdictPart:
    return replace(samples.document(samples.softmax_pair()).verdict, class_=kind)


def flag(**values: Any) -> FlagTried:
    return replace(samples.document(samples.softmax_pair()).flags[0], **values)


@pytest.mark.parametrize(
    ("others", "told"),
    [
        (elsewhere(), "holds on 4 of 4 other inputs that diverge"),
        (elsewhere(held=3), "holds on 3 of 4 other inputs that diverge"),
        (elsewhere(diverging=0, held=0), "none of 5 other inputs diverges"),
        (elsewhere(failed=2), "fails on 2 of 5 other inputs (not known to remove a cause)"),
        (elsewhere(failed=1, tried=1, nearer=()), "fails on 1 of 1 other input (it only changes rounding)"),
        (
            elsewhere(failed=2, nearer=("conv", "conv_1")),
            "fails on 2 of 5 other inputs "
            "(it brings conv and conv_1 nearer to eager, and a difference remains)",
        ),
    ],
)
def test_a_fix_says_how_it_does_on_other_inputs(others: Elsewhere, told: str) -> None:
    assert told in facts.fix_facts(fix(other_inputs=others), verdict(VerdictClass.COMPILED_WORSE))


@pytest.mark.parametrize(
    ("grown", "removed", "word"),
    [
        (2.0, 0.0, "worse"),
        (math.inf, 0.0, "worse"),
        (1.2, 0.0, "no effect"),
        (0.5, 0.5, "partial"),
        (None, 0.0, "no effect"),
    ],
)
def test_a_flag_that_repairs_nothing_says_which_way_it_moves_the_difference(
    grown: float | None, removed: float, word: str
) -> None:
    assert facts.role_words(flag(role="no effect", removed_fraction=removed, grown=grown)) == word
    assert facts.role_words(flag(role="unresolved", removed_fraction=None, grown=grown)) == "unresolved"


@pytest.mark.parametrize(
    ("change", "title"),
    [
        (fix(id="inductor.a=1", set_={"inductor.a": 1}), "inductor.a = 1"),
        (fix("pass", "pass:reinplace@graph"), "without the pass reinplace"),
        (fix("lowering", "lower:aten.mul@mul + lower:aten.mul@mul_1"), "the ATen kernel for every aten.mul"),
        (fix("decomposition", "decomp:aten.gelu@gelu"), "no decomposition of aten.gelu"),
        (fix("backend", "backend=aot_eager"), "the backend aot_eager"),
        (
            fix("decision", "fma:sub@mul + fuse:exp@sub"),
            "without the FMA contraction of `mul` and the fusion of `sub`",
        ),
    ],
)
def test_a_fix_has_a_title(change: Fix, title: str) -> None:
    assert words.fix_title(change) == title


@pytest.mark.parametrize(
    ("decision", "said"),
    [
        ("fma:sub@mul", "the FMA contraction of `mul`"),
        ("pass:reinplace@graph", "the graph pass `reinplace`"),
        ("config:inductor.freezing@graph", "the setting `inductor.freezing`"),
        ("newer:x@y", "`newer:x@y`"),
    ],
)
def test_a_decision_has_a_short_name(decision: str, said: str) -> None:
    assert words.short_decision(DecisionId(decision)) == said


def test_decisions_with_one_short_name_are_told_apart_in_the_first_line() -> None:
    result = samples.two_causes()
    result["causes"] = [result["causes"][0] | {"decisions": ["vec:erf@gelu", "vec:loop/mul_1@gelu"]}]
    first = "the vectorization of `gelu` (erf) and the vectorization of `gelu` (loop) together."
    assert sentences.answer(samples.document(result)).endswith(first)


def test_a_verdict_without_a_reference_still_names_the_cause() -> None:
    result = samples.two_causes()
    result["verdict"]["class"] = "unresolved"
    said = "torch.compile differs from eager, for 2 independent reasons"
    assert sentences.answer(samples.document(result)).startswith(said)


def test_causes_that_share_a_decision_are_not_called_independent() -> None:
    result = samples.two_causes()
    for cause, more in zip(result["causes"], (["inline:aten.mul@y", "lower:aten.mul@z"], []), strict=True):
        cause["decisions"] = [*cause["decisions"], "fuse:y@z", *more]
    result["causes"].append(result["causes"][1] | {"decisions": ["inline:aten.mul@y", "lower:aten.mul@z"]})
    document = samples.document(result)
    assert "for 3 reasons, each of which is enough: (1)" in sentences.answer(document)
    said = "3 that share decisions; any one is enough"
    assert sentences.cause_heading(document.causes).startswith(said)


@pytest.mark.parametrize(
    ("causes", "told"),
    [
        (
            [["cast:float16@half", "inline:aten.mul@half"], ["cast:float16@half", "fuse:rounded@half"]],
            "the elided cast of `half` together with the recomputation of `half` or the fusion of `half`",
        ),
        (
            [
                ["pass:reinplace@post_grad", "pass:no_op@joint"],
                ["pass:no_op@post_grad", "pass:reinplace@post_grad"],
            ],
            "the graph pass `reinplace` together with the graph pass `no_op` (joint) or the graph pass "
            "`no_op` (post_grad)",
        ),
        (
            [["fma:a@b", "inline:aten.mul@b"], ["fma:a@b", "fuse:c@d", "inline:aten.add@d"]],
            "the FMA contraction of `b` together with any of: (1) the recomputation of `b`; (2) the fusion "
            "of `d` and the recomputation of `d`",
        ),
    ],
)
def test_what_causes_share_is_said_once(causes: list[list[str]], told: str) -> None:
    result = samples.two_causes()
    first = result["causes"][0]
    result["causes"] = [first | {"decisions": decisions} for decisions in causes]
    assert f", because of {told}." in sentences.answer(samples.document(result))


def test_of_what_raises_no_report_speaks_of_values() -> None:
    assert facts.fix_facts(fix(), verdict(VerdictClass.RAISES)) == "speed not measured, confirmed"


def test_minimize_does_not_send_its_reader_to_minimize() -> None:
    result = samples.two_causes() | {"causes": [], "repairs": [], "fixes": []}
    result["verdict"]["first_bad_backend"] = "aot_eager"
    stages = dict.fromkeys(result["seconds"], None) | {"cpu": 1.0}
    result["seconds"] = stages | {"total": 9.0, "capture": 5.0, "minimize": 4.0}
    said = "Not a decision of Inductor: backend='aot_eager' diverges already."
    assert said in sentences.not_established(samples.document(result))[-1]
    result["seconds"] = stages | {"total": 5.0, "capture": 5.0}
    assert "`numbisect minimize` does that" in sentences.not_established(samples.document(result))[-1]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (None, "?"),
        (math.inf, "inf"),
        (0, "0"),
        (0.0, "0"),
        (524288, "524,288"),
        (1231241216, "1.23e+09"),
        (1e-9, "1e-09"),
    ],
)
def test_numbers_are_short_and_null_is_a_question_mark(value: Any, said: str) -> None:
    assert words.number(value) == said


@pytest.mark.parametrize(
    ("fraction", "said"),
    [(None, "?"), (0, "0%"), (0.0001, "<1%"), (0.5, "50%"), (0.9999, ">99%"), (1.0, "100%")],
)
def test_a_percentage_is_rounded_to_an_end_only_where_it_is_there(fraction: Any, said: str) -> None:
    assert words.percent(fraction) == said


@pytest.mark.parametrize(
    ("items", "said"), [([], ""), (["a"], "a"), (["a", "b"], "a and b"), (["a", "b", "c"], "a, b and c")]
)
def test_a_conjunction_reads_as_english(items: list[str], said: str) -> None:
    assert words.conjunction(items) == said


def repair(*members: str, confirmed: bool = True, removed: float = 1.0) -> Repair:
    return Repair(
        decisions=tuple(map(DecisionId, members)), confirmed=confirmed, removed_fraction=removed
    )


@pytest.mark.parametrize(
    ("repairs", "lines"),
    [
        ([], []),
        ([repair("a")], ["Disabling a makes compiled agree with eager."]),
        ([repair("a"), repair("b")], ["Disabling either a or b makes compiled agree with eager."]),
        ([repair(x) for x in "abc"], ["Disabling any one of a, b or c makes compiled agree with eager."]),
        (
            [repair("a", confirmed=False, removed=0.5), repair("b")],
            [
                "Disabling b makes compiled agree with eager.",
                "Disabling a does not (not confirmed; removes 50% of the difference).",
            ],
        ),
        (
            [repair("a"), repair("b", "c"), repair("d", "e", "f")],
            [
                "Disabling a makes compiled agree with eager.",
                "Disabling both b and c makes compiled agree with eager.",
                "Disabling all of d, e and f makes compiled agree with eager.",
            ],
        ),
    ],
)
def test_repairs_are_said_in_words(repairs: list[Repair], lines: list[str]) -> None:
    assert sentences.repair_lines(repairs, str) == lines


def test_evidence_that_differs_from_member_to_member_is_listed() -> None:
    cause = Cause(
        decisions=(DecisionId("fma:sub@mul"), DecisionId("inline:mul@mul")),
        confirmed=False,
        evidence=Evidence(alone=Outcome.FAIL, without_each=(Outcome.PASS, Outcome.FAIL)),
    )
    assert "the outcomes are PASS, FAIL" in sentences.cause_evidence(cause)


def test_the_docs_say_which_experiments_show_each_class() -> None:
    text = (Path(__file__).parents[2] / "docs" / "words.md").read_text(encoding="utf-8")
    section = text.partition("### What shows a class")[2].partition("###")[0]
    rows = dict(re.findall(r"^\| `([a-z-]+)` \| (.*) \|$", section, re.MULTILINE))
    told = {kind: set(re.findall(r"`([a-z-]+)`", rules)) for kind, rules in rows.items()}
    shown = {kind.value: {rule.value for rule in rules} for kind, rules in EXPERIMENTS.items()}
    assert told == shown | {"unresolved": set()}
