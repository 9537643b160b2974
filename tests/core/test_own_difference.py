"""A script that fails with compilation off too is told what makes its two sides differ."""

from __future__ import annotations

import pytest

from bisector.core.own_difference import NOT_COMPARED, UNSEEN, own_difference
from bisector.core.program import CompiledCall, Effect, EffectKind, PlainRun
from bisector.core.verdict import VerdictClass

MUTATES = Effect(EffectKind.MUTATES, "argument 0")
STATE = Effect(EffectKind.CHANGES_STATE, "`bn.running_mean`")
DRAWS = Effect(EffectKind.DRAWS)
LAZY = Effect(EffectKind.MAKES_LAZY)


def run(*effects: Effect, agreed: tuple[bool, ...] = (False,), ended: str | None = None) -> PlainRun:
    calls = (CompiledCall(0, "quiet"), CompiledCall(1, "step", effects=effects))
    return PlainRun(calls, agreed, ended=ended, status=1 if ended else 0)


@pytest.mark.parametrize(
    ("effects", "why"),
    [
        ((MUTATES,), "call 2 (`step`) changes argument 0 in place: give each side a copy of its own"),
        ((DRAWS,), "call 2 (`step`) draws random numbers: seed before each side, or call `eval()`"),
        (
            (STATE, DRAWS),
            "call 2 (`step`) changes `bn.running_mean`: give each side a module of its own, or call `eval()`",
        ),
        (
            (LAZY, DRAWS),
            "call 2 (`step`) makes the parameters of a lazy module, which are drawn then: "
            "call it once before anything is compared",
        ),
        ((), UNSEEN),
    ],
)
def test_what_a_call_does_says_why_and_what_to_change(effects: tuple[Effect, ...], why: str) -> None:
    verdict = own_difference(run(*effects))
    assert verdict is not None and verdict.kind is VerdictClass.OWN_DIFFERENCE
    assert verdict.reason == f"the script's own comparison fails with compilation off too; {why}"


def test_a_script_that_ends_with_compilation_off_too_is_told_so() -> None:
    verdict = own_difference(run(MUTATES, agreed=(), ended="AssertionError: 0.5"))
    assert verdict is not None
    assert verdict.reason.startswith("the script ends with compilation off too: AssertionError: 0.5; call 2")


def test_a_script_that_does_not_fail_has_no_difference_of_its_own() -> None:
    assert own_difference(run(MUTATES, agreed=(True,))) is None
    assert own_difference(PlainRun(agreed=(True,), ended="killed", status=-9)) is None
    assert own_difference(PlainRun(ended="NameError: x", status=1)) is None


def test_an_exit_status_counts_as_an_assertion_does() -> None:
    verdict = own_difference(PlainRun(status=1))
    assert verdict is not None
    assert verdict.reason == f"the script ends with status 1 with compilation off too; {NOT_COMPARED}"
