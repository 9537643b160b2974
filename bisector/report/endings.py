"""The words of why a run, or a part of one, ends with less than was asked for: a sentence without its full
stop.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import singledispatch

from bisector.core import endings as why
from bisector.core.endings import Ending
from bisector.core.outcome import Outcome

OUTCOMES = {Outcome.PASS: "agrees", Outcome.FAIL: "diverges", Outcome.UNRESOLVED: "cannot tell"}


_FIXED: Mapping[type[Ending], str] = {
    why.Interrupted: "it was interrupted",
    why.AgreesThere: "eager and compiled agree there",
    why.OtherInputs: "a second run of the script gave other inputs; seed it, or use --seed",
    why.OtherGraph: "a second run of the script gave another graph or other settings",
}


@singledispatch
def words(ending: Ending) -> str:
    """What the report says of it."""
    return _FIXED[type(ending)]


@words.register
def _(ending: why.SecondsSpent) -> str:
    return f"the budget of {ending.seconds:g} s is spent"


@words.register
def _(ending: why.QuestionsSpent) -> str:
    return f"the search for decisions ended after {ending.questions} questions"


@words.register
def _(ending: why.SetsReached) -> str:
    return f"the limit of {ending.limit} sets is reached"


@words.register
def _(ending: why.EndedByError) -> str:
    return ending.text


@words.register
def _(ending: why.SetsDoNotHold) -> str:
    return f"{ending.number} of the sets that were found do not hold there"


@words.register
def _(ending: why.Unconfirmed) -> str:
    return f"not confirmed in a second process: {words(ending.why)}"


@words.register
def _(ending: why.AnotherOutcome) -> str:
    which = "as the target is" if ending.settings is None else f"with {ending.settings}"
    return f"{which} the outcome is {ending.outcome.value} and not {ending.wanted.value}"


@words.register
def _(ending: why.SetsNothing) -> str:
    return f"{ending.settings} sets nothing that the target does not"


@words.register
def _(ending: why.NoContrast) -> str:
    there = f"with the settings of {ending.settings}"
    if ending.here is ending.there is Outcome.PASS:
        return f"the target agrees as it is, and {there} too"
    return f"the target gives {ending.here.value}, and {there} {ending.there.value}"


@words.register
def _(ending: why.BothAlike) -> str:
    plural = {Outcome.PASS: "agree", Outcome.FAIL: "diverge"}[ending.outcome]
    advice = "name an older --good" if ending.older else "name another --bad"
    return f"{ending.before} and {ending.after} both {plural}; {advice}"


@words.register
def _(ending: why.EndUnknown) -> str:
    return f"{ending.name} cannot tell ({ending.reason}); name another build, or see to it"


@words.register
def _(ending: why.NothingBefore) -> str:
    return f"{ending.name} {OUTCOMES[ending.outcome]}; nothing to find before it"


@words.register
def _(ending: why.NoOlderTells) -> str:
    return f"no release before {ending.name} could tell; name one with --good"


@words.register
def _(ending: why.AsFarBack) -> str:
    oldest = "the oldest that this Python can install"
    rest = oldest if ending.is_oldest else "and what is older cannot tell"
    return f"it diverges as far back as {ending.name}, {rest}"


@words.register
def _(ending: why.AnotherAnswer) -> str:
    return f"{' and '.join(ending.names)} gave another answer the second time; try --repeat 3"


@words.register
def _(ending: why.AllAlike) -> str:
    return f"it {OUTCOMES[ending.outcome]} with each of them"


@words.register
def _(ending: why.CompilerUnknown) -> str:
    return f"{ending.name} cannot tell ({ending.reason})"
