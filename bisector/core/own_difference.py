"""Scripts that differ from themselves: they fail with compilation off as they do compiled, and eager and
compiled agree. Why is tried: what a call leaves behind is put back before the next one, and the script must
then pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .program import CompiledCall, EffectKind, PlainRun
from .reasons import Reason, Together
from .script_reasons import (
    CallLeaves,
    ComparisonsFail,
    EndsAlike,
    PassesPutBack,
    SidesDiffer,
    StatusAlike,
)
from .verdict import Rule, Verdict, VerdictClass, decided

# What a call does that a second call then meets. Of several the first that is the reason: a module in
# training draws too, and what it changes says more.
_TRIED = (EffectKind.MUTATES, EffectKind.MAKES_LAZY, EffectKind.CHANGES_STATE, EffectKind.DRAWS)
Trial = Callable[[EffectKind], PlainRun]  # the script with compilation off, what calls do so put back


def own_difference(eager: PlainRun, trial: Trial) -> Verdict | None:
    """The verdict where the script itself says with compilation off that its sides differ: by a comparison
    that raises, by the assertion or the status that it ends with. A comparison that merely answers may be
    meant so; it counts where the answer is another one once the reason is taken away. None where the script
    says nothing of the kind."""
    says = _says(eager)
    if says is None and all(eager.agreed):
        return None
    tried = list[CallLeaves]()
    for kind, call in _candidates(eager):
        leaves = CallLeaves(call.named, kind, _names(call, kind))
        if _passes(eager, trial(kind)):
            fails = says or ComparisonsFail(eager.agreed.count(False))
            reason = Together((fails, PassesPutBack(leaves)))
            return decided(VerdictClass.OWN_DIFFERENCE, reason, rule=Rule.PUT_BACK)
        tried.append(leaves)
    if says is None:
        return None
    unexplained = Together((says, SidesDiffer(tuple(tried))))
    return decided(VerdictClass.OWN_DIFFERENCE, unexplained, rule=Rule.SCRIPT)


def _says(eager: PlainRun) -> Reason | None:
    """How the script says that its sides differ; None where it does not."""
    if eager.refuted:
        return ComparisonsFail(eager.refuted)
    if eager.ended is not None and eager.ended.startswith("AssertionError"):
        return EndsAlike(eager.ended)
    if eager.ended is None and eager.status:
        return StatusAlike(eager.status)
    return None


def _candidates(eager: PlainRun) -> Iterator[tuple[EffectKind, CompiledCall]]:
    """Each thing that a call does, with the first call that does it."""
    for kind in _TRIED:
        for call in eager.calls:
            if any(effect.kind is kind for effect in call.effects):
                yield kind, call
                break


def _names(call: CompiledCall, kind: EffectKind) -> tuple[str, ...]:
    return tuple(sorted(effect.name for effect in call.effects if effect.kind is kind))


def _passes(eager: PlainRun, tried: PlainRun) -> bool:
    """Whether the script no longer says so: it ends well, and every comparison that failed passes."""
    if tried.unfinished or tried.ended is not None or tried.status:
        return False
    several = len(tried.agreed) >= len(eager.agreed)
    pairs = zip(eager.agreed, tried.agreed, strict=False)
    return several and not tried.refuted and all(now for before, now in pairs if not before)
