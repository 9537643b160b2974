"""What makes the two sides of a script differ with compilation off too is told where it was tried."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import pytest

from bisector.core.own_difference import Trial, own_difference
from bisector.core.program import CompiledCall, Effect, EffectKind, PlainRun
from bisector.core.script_reasons import SidesDiffer
from bisector.core.verdict import Rule, Verdict, VerdictClass
from bisector.report.reasons import words

MUTATES = Effect(EffectKind.MUTATES, "argument 0")
STATE = Effect(EffectKind.CHANGES_STATE, "`bn.running_mean`")
DRAWS = Effect(EffectKind.DRAWS)
LAZY = Effect(EffectKind.MAKES_LAZY)


def run(*effects: Effect, agreed: tuple[bool, ...] = (False,), ended: str | None = None) -> PlainRun:
    """A script whose comparisons raise where they fail."""
    calls = (CompiledCall(0, "quiet"), CompiledCall(1, "step", effects=effects))
    return PlainRun(calls, agreed, agreed.count(False), ended=ended, status=1 if ended else 0)


def mended_by(*kinds: EffectKind) -> Trial:
    """The script passes where one of these is put back."""
    passes = PlainRun(agreed=(True,), status=0)
    return lambda kind: passes if kind in kinds else run(agreed=(False,))


EVERY = tuple(EffectKind)
NOT_FOUND = words(SidesDiffer(()))


def told(eager: PlainRun, mended: Collection[EffectKind] = EVERY) -> Verdict | None:
    return own_difference(eager, mended_by(*mended))


@pytest.mark.parametrize(
    ("effects", "why", "change"),
    [
        ((MUTATES,), "changes argument 0 in place", "give each side a copy of its own"),
        ((DRAWS,), "draws random numbers", "seed before each side, or call `eval()`"),
        (
            (STATE, DRAWS),
            "changes `bn.running_mean`",
            "give each side a module of its own, or call `eval()`",
        ),
        (
            (LAZY, DRAWS),
            "makes the parameters of a lazy module, which are drawn then",
            "call it once before anything is compared",
        ),
    ],
)
def test_what_a_call_does_is_the_reason_once_putting_it_back_makes_the_script_pass(
    effects: tuple[Effect, ...], why: str, change: str
) -> None:
    verdict = told(run(*effects))
    assert verdict is not None
    assert (verdict.kind, verdict.rule) == (VerdictClass.OWN_DIFFERENCE, Rule.PUT_BACK)
    assert words(verdict.reason) == (
        "the script's own comparison fails with compilation off too; "
        f"call 2 (`step`) {why}: where that is put back before each call it passes; {change}"
    )


def test_what_does_not_explain_it_is_no_reason_and_the_next_is_tried() -> None:
    verdict = told(run(STATE, DRAWS), [EffectKind.DRAWS])
    assert verdict is not None and "draws random numbers: where that is put back" in words(verdict.reason)
    verdict = told(run(STATE, DRAWS), [])
    assert verdict is not None and verdict.rule is Rule.SCRIPT
    assert NOT_FOUND in words(verdict.reason) and "give each side" not in words(verdict.reason)
    verdict = told(run(), [])
    assert verdict is not None and words(verdict.reason).endswith(NOT_FOUND)


def test_a_comparison_that_answers_may_be_meant_so() -> None:
    """`assert not torch.equal(before, after)` says nothing of eager and compiled."""
    answers = replace(run(MUTATES), refuted=0)
    assert told(answers, []) is None
    verdict = told(answers)
    assert verdict is not None and verdict.rule is Rule.PUT_BACK, "it is another one where that is put back"


def test_a_script_that_ends_otherwise_where_something_is_put_back_does_not_pass() -> None:
    for unlike in (
        PlainRun(agreed=(True,), status=1), PlainRun(agreed=(True,), ended="ValueError: x", status=1),
        PlainRun(agreed=(True,), status=None), PlainRun(status=0), PlainRun((), (True, False), 1, status=0),
    ):  # fmt: skip
        verdict = own_difference(run(MUTATES), lambda kind, unlike=unlike: unlike)  # type: ignore[misc]
        assert verdict is not None and verdict.rule is Rule.SCRIPT


def test_a_script_that_ends_with_compilation_off_too_is_told_so() -> None:
    verdict = told(run(MUTATES, agreed=(), ended="AssertionError: 0.5"))
    assert verdict is not None
    ends = "the script ends with compilation off too: AssertionError: 0.5; call 2"
    assert words(verdict.reason).startswith(ends)


def test_a_script_that_does_not_fail_has_no_difference_of_its_own() -> None:
    assert told(run(MUTATES, agreed=(True,))) is None
    assert told(PlainRun(agreed=(True,), ended="killed", status=-9)) is None
    assert told(PlainRun(ended="NameError: x", status=1)) is None


def test_an_exit_status_counts_as_an_assertion_does() -> None:
    verdict = told(PlainRun(status=1))
    assert verdict is not None
    assert words(verdict.reason) == f"the script ends with status 1 with compilation off too; {NOT_FOUND}"
