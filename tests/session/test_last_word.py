"""What becomes of the fixes that were tried in the script itself."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bisector.core.criterion import Criterion
from bisector.core.fix_source import SetFlags
from bisector.core.model import Outcome
from bisector.core.program import CompiledCall, Effect, EffectKind, PlainRun, ScriptResult
from bisector.core.verdict import Verdict, VerdictClass
from bisector.session import last_word
from bisector.session.answer import Answer
from bisector.session.fixes import Fix
from tests.core.measurements import SCRIPT_AGREES

FIXES = tuple((Fix(name, "flag", None, 1.0, 0.0, SetFlags({name: 1})), True) for name in ("first", "second"))
EAGER = PlainRun((CompiledCall(0, "f"),), status=0)
FAILS, AGREES = ScriptResult(Outcome.FAIL, "call 1 differs"), SCRIPT_AGREES


REASON = "the script's own comparison fails with compilation off too; call 1 (`net`) draws random numbers"


def own(eager: PlainRun) -> Verdict | None:
    return Verdict(VerdictClass.OWN_DIFFERENCE, REASON) if eager.refuted else None


def asked(
    monkeypatch: pytest.MonkeyPatch, shown: dict[str, ScriptResult], runs: int, eager: PlainRun = EAGER
) -> Answer:
    """shown: what the script shows under each fix. runs: how many the budget allows."""
    run, left = PlainRun((CompiledCall(0, "f"),)), iter([None] * runs)

    def under(fix: SetFlags, criterion: Criterion) -> tuple[ScriptResult, PlainRun, PlainRun]:
        (name,) = fix.values
        return shown[name], run, eager

    script = SimpleNamespace(under=under, own_difference=own)
    monkeypatch.setattr(last_word, "script_of", lambda session: script)
    session: Any = SimpleNamespace(
        clock=SimpleNamespace(exhausted=lambda: next(left, "the budget is spent")),
        progress=lambda stage, text: None,
    )
    return last_word.LastWord(session, Criterion()).said(Answer("script.py", "run", {}, fixes=FIXES))


def test_the_next_fix_is_tried_where_the_script_still_diverges(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asked(monkeypatch, {"first": FAILS, "second": AGREES}, runs=2)
    assert [ok for _, ok in answer.fixes] == [False, True]
    assert answer.script is not None and (answer.script.fix, answer.unproved) == ("second", None)


def test_what_the_script_refuted_stays_refuted_where_the_budget_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = asked(monkeypatch, {"first": FAILS}, runs=1)
    assert [ok for _, ok in answer.fixes] == [False, True]
    assert answer.stopped_because == "the budget is spent"
    assert answer.script is not None and answer.script.outcome is Outcome.FAIL


def test_a_script_that_agrees_under_a_fix_may_differ_from_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = CompiledCall(0, "net", effects=(Effect(EffectKind.DRAWS, "cpu"),))
    answer = asked(monkeypatch, {"first": AGREES}, 1, PlainRun((draws,), (False,), 1, status=0))
    assert answer.script is not None and answer.script.outcome is Outcome.PASS
    assert answer.script.own_difference == REASON
