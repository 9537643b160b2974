"""The words of what a fresh process did not show, so that nothing is confirmed: a part of a sentence."""

from __future__ import annotations

from functools import singledispatch

from bisector.core import unproved as found
from bisector.core.unproved import Unproved

from .endings import words as words_of_ending
from .reasons import words as words_of_reason


@singledispatch
def words(unproved: Unproved) -> str:
    """What the report says of it."""
    raise TypeError(type(unproved))


@words.register
def _(unproved: found.NotInSecondProcess) -> str:
    return f"in a second process: {words_of_reason(unproved.why)}"


@words.register
def _(unproved: found.ReprosAgree) -> str:
    agree = "no repro of it that was tried diverges in plain Python"
    if unproved.untried is None:
        return agree
    return f"{agree}, and the script itself was not tried as one: {words_of_ending(unproved.untried)}"


@words.register
def _(unproved: found.ScriptStillDiverges) -> str:
    return f"with {unproved.fix} the script itself still diverges: {words_of_reason(unproved.why)}"
