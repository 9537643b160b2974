"""What becomes of the fixes that were tried in the script itself."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from bisector.core.answer import Answer
from bisector.core.criterion import Criterion
from bisector.core.endings import SecondsSpent
from bisector.core.fix import Fix, SetFlags
from bisector.core.outcome import Outcome
from bisector.core.program import CompiledCall, Effect, EffectKind, PlainRun
from bisector.core.reasons import Message
from bisector.core.shown import ScriptResult
from bisector.core.verdict import Rule, Verdict, VerdictClass
from bisector.explain import last_word
from tests.core.measurements import SCRIPT_AGREES, off_by, output

FIXES = tuple((Fix(name, "flag", None, 1.0, 0.0, SetFlags({name: 1})), True) for name in ("first", "second"))
EAGER = PlainRun((CompiledCall(0, "f"),), status=0)
FAILS, AGREES = ScriptResult(Outcome.FAIL, Message("call 1 differs")), SCRIPT_AGREES


REASON = "the script's own comparison fails with compilation off too; call 1 (`net`) draws random numbers"


def own(eager: PlainRun) -> Verdict | None:
    return Verdict(VerdictClass.OWN_DIFFERENCE, Message(REASON), rule=Rule.SCRIPT) if eager.refuted else None


def asked(
    monkeypatch: pytest.MonkeyPatch,
    shown: dict[str, ScriptResult],
    runs: int,
    eager: PlainRun = EAGER,
    compiled: PlainRun = EAGER,
    under_fix: PlainRun = EAGER,
) -> Answer:
    """shown: what the script shows under each fix. runs: how many the budget allows. compiled, under_fix: the
    script without and with any of them."""
    run, left = under_fix, iter([None] * runs)

    def under(fix: SetFlags, criterion: Criterion) -> tuple[ScriptResult, PlainRun, PlainRun]:
        (name,) = fix.values
        return shown[name], run, eager

    script = SimpleNamespace(under=under, own_difference=own, compiled=lambda: compiled)
    monkeypatch.setattr(last_word, "script_of", lambda session: script)
    session: Any = SimpleNamespace(
        clock=SimpleNamespace(exhausted=lambda: next(left, SecondsSpent(9))),
        progress=lambda stage, text: None,
    )
    answer = Answer("script.py", "run", {}, fixes=FIXES)
    return answer.with_script(last_word.LastWord(session, Criterion()).ask(answer))


def test_the_next_fix_is_tried_where_the_script_still_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asked(monkeypatch, {"first": FAILS, "second": AGREES}, runs=2)
    assert [ok for _, ok in answer.fixes] == [False, True]
    assert answer.script is not None and (answer.script.fix, answer.unproved) == ("second", None)


def test_what_the_script_refuted_stays_refuted_where_the_budget_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asked(monkeypatch, {"first": FAILS}, runs=1)
    assert [ok for _, ok in answer.fixes] == [False, True]
    assert answer.stopped_because == SecondsSpent(9)
    assert answer.script is not None and answer.script.outcome is Outcome.FAIL


def test_a_script_that_agrees_under_a_fix_may_differ_from_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = CompiledCall(0, "net", effects=(Effect(EffectKind.DRAWS, "cpu"),))
    answer = asked(monkeypatch, {"first": AGREES}, 1, PlainRun((draws,), (False,), 1, status=0))
    assert answer.script is not None and answer.script.outcome is Outcome.PASS
    assert answer.script.own_difference == Message(REASON)


TWO = PlainRun((CompiledCall(0, "f"), CompiledCall(1, "g")), status=0)
BOTH = replace(TWO, calls=tuple(replace(call, outputs=(off_by(1.0),)) for call in TWO.calls))
ONE = replace(TWO, calls=(replace(TWO.calls[0], outputs=(output(),)), BOTH.calls[1]))
SECOND = ScriptResult(Outcome.FAIL, Message("call 2 of 2 (`g`): output[0] differs"), 1)


def under_first(monkeypatch: pytest.MonkeyPatch, compiled: PlainRun, under_fix: PlainRun) -> Answer:
    shown = {"first": SECOND, "second": SECOND}
    return asked(monkeypatch, shown, 2, TWO, compiled, under_fix)


def test_a_fix_that_mends_one_of_two_differences_is_not_refuted_by_the_other(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = under_first(monkeypatch, BOTH, ONE)
    assert answer.script is not None and answer.script.mends_some and answer.script.reason == SECOND.reason
    assert answer.unproved is None and [ok for _, ok in answer.fixes] == [True, True]


@pytest.mark.parametrize(
    ("compiled", "under_fix"),
    [
        (BOTH, BOTH),  # it mends nothing
        (ONE, BOTH),  # something else has come up
        (BOTH, replace(ONE, status=1)),  # the script's own end differs
    ],
)
def test_a_fix_that_does_not_mend_a_part_alone_is_refuted(
    monkeypatch: pytest.MonkeyPatch, compiled: PlainRun, under_fix: PlainRun
) -> None:
    answer = under_first(monkeypatch, compiled, under_fix)
    assert answer.script is not None and not answer.script.mends_some
    assert answer.unproved is not None and [ok for _, ok in answer.fixes] == [False, False]


def test_a_fix_that_could_not_be_told_hides_none_that_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    late = ScriptResult(Outcome.UNRESOLVED, Message("compiled, the script was stopped, its time being up"))
    for shown in ({"first": late, "second": FAILS}, {"first": FAILS, "second": late}):
        answer = asked(monkeypatch, shown, runs=2)
        assert answer.unproved is not None
