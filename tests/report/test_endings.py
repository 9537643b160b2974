"""What the report says of why a run ends with less than was asked for, and of what is not proved."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

from bisector.core import endings as why
from bisector.core.endings import EndedByError, Ending, SecondsSpent, Unproved
from bisector.core.outcome import Outcome
from bisector.core.reasons import Message
from bisector.report import reasons
from bisector.report.endings import words

PASS, FAIL, UNRESOLVED = Outcome.PASS, Outcome.FAIL, Outcome.UNRESOLVED

# With an ending for every way in which a kind of it is said; those without fields are in a table.
SAID: list[tuple[Ending, str]] = [
    (SecondsSpent(30.0), "the budget of 30 s is spent"),
    (why.QuestionsSpent(9), "the search for decisions ended after 9 questions"),
    (why.SetsReached(3), "the limit of 3 sets is reached"),
    (EndedByError("no room"), "no room"),
    (why.SetsDoNotHold(2), "2 of the sets that were found do not hold there"),
    (why.Unconfirmed(EndedByError("no room")), "not confirmed in a second process: no room"),
    (why.AnotherOutcome(None, PASS, FAIL), "as the target is the outcome is PASS and not FAIL"),
    (why.AnotherOutcome("other", FAIL, PASS), "with other the outcome is FAIL and not PASS"),
    (why.SetsNothing("other"), "other sets nothing that the target does not"),
    (why.NoContrast("a", PASS, PASS), "the target agrees as it is, and with the settings of a too"),
    (
        why.NoContrast("a", PASS, UNRESOLVED),
        "the target gives PASS, and with the settings of a UNRESOLVED",
    ),
    (why.BothAlike("1", "2", FAIL, True), "1 and 2 both diverge; name an older --good"),
    (why.BothAlike("1", "2", PASS, False), "1 and 2 both agree; name another --bad"),
    (why.EndUnknown("1", "a crash"), "1 cannot tell (a crash); name another build, or see to it"),
    (why.NothingBefore("2", PASS), "2 agrees; nothing to find before it"),
    (why.NoOlderTells("2"), "no release before 2 could tell; name one with --good"),
    (
        why.AsFarBack("1", True),
        "it diverges as far back as 1, the oldest that this Python can install",
    ),
    (why.AsFarBack("1", False), "it diverges as far back as 1, and what is older cannot tell"),
    (why.AnotherAnswer(("1", "2")), "1 and 2 gave another answer the second time; try --repeat 3"),
    (why.AllAlike(FAIL), "it diverges with each of them"),
    (why.CompilerUnknown("g++", "a crash"), "g++ cannot tell (a crash)"),
]


@pytest.mark.parametrize(("ending", "said"), SAID, ids=[type(ending).__name__ for ending, _ in SAID])
def test_each_ending_is_said_so(ending: Ending, said: str) -> None:
    assert words(ending) == said == reasons.words(ending)


@pytest.mark.parametrize("kind", Ending.__subclasses__())
def test_no_ending_is_without_words(kind: type[Ending]) -> None:
    assert inspect.getdoc(kind)
    assert words(kind()) if not fields(kind) else kind in {type(ending) for ending, _ in SAID}


UNPROVED: list[tuple[Unproved, str]] = [
    (why.NotInSecondProcess(why.AgreesThere()), "in a second process: eager and compiled agree there"),
    (why.ReprosAgree(None), "no repro of it that was tried diverges in plain Python"),
    (
        why.ReprosAgree(SecondsSpent(9)),
        "no repro of it that was tried diverges in plain Python, and the script itself was not tried as one: "
        "the budget of 9 s is spent",
    ),
    (
        why.ScriptStillDiverges("x = 1", Message("call 1 differs")),
        "with x = 1 the script itself still diverges: call 1 differs",
    ),
]


@pytest.mark.parametrize(("doubt", "said"), UNPROVED)
def test_what_is_not_proved_is_said_so(doubt: Unproved, said: str) -> None:
    assert reasons.words(doubt) == said


def test_no_doubt_is_without_words() -> None:
    assert {*Unproved.__subclasses__()} == {type(doubt) for doubt, _ in UNPROVED}
