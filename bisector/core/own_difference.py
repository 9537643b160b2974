"""Scripts that differ from themselves: their own comparison fails with compilation off too, since what they
compare is not the same computation on the same values. What the calls do says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from .program import CompiledCall, EffectKind, PlainRun
from .verdict import Rule, Verdict, VerdictClass

MOST_NAMED = 3  # tensors of one call
_ADVICE = {
    EffectKind.MUTATES: ("changes {} in place", "give each side a copy of its own"),
    EffectKind.MAKES_LAZY: (
        "makes the parameters of a lazy module, which are drawn then",
        "call it once before anything is compared",
    ),
    EffectKind.CHANGES_STATE: ("changes {}", "give each side a module of its own, or call `eval()`"),
    EffectKind.DRAWS: ("draws random numbers", "seed before each side, or call `eval()`"),
}
UNSEEN = (
    "no call of what is compiled was seen to change or draw anything, so the two sides are not the same "
    "function, parameters or inputs"
)
NOT_COMPARED = (
    "no comparison of tensors was seen to fail, and no call of what is compiled to change or draw anything, "
    "so what the status says is not known"
)


def own_difference(eager: PlainRun) -> Verdict | None:
    """The verdict where a comparison of the script fails with compilation off, or it ends by one, as it does
    compiled. None where it does not, or ends otherwise."""
    failed = eager.agreed.count(False)
    if failed:
        several = "comparison fails" if failed == 1 else f"{failed} comparisons fail"
        says = f"the script's own {several} with compilation off too"
    elif (eager.ended or "").startswith("AssertionError"):
        says = f"the script ends with compilation off too: {eager.ended}"
    elif eager.ended is None and eager.status:
        says = f"the script ends with status {eager.status} with compilation off too"
    else:
        return None
    compares = failed or eager.ended is not None
    why = _why(eager.calls, UNSEEN if compares else NOT_COMPARED)
    return Verdict(VerdictClass.OWN_DIFFERENCE, f"{says}; {why}", rule=Rule.SCRIPT)


def _why(calls: Sequence[CompiledCall], unseen: str) -> str:
    """What a call does that a second call then meets, and what to change; `unseen` where none does anything.
    Of several kinds the first of the table: a module in training draws too, and what it changes says more."""
    for kind, (does, change) in _ADVICE.items():
        for call in calls:
            if names := sorted(effect.name for effect in call.effects if effect.kind is kind):
                said = does.format(" and ".join(names[:MOST_NAMED]))
                return f"call {call.index + 1} (`{call.entry}`) {said}: {change}"
    return unseen
