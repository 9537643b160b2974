"""Scripts that differ from themselves: they fail with compilation off as they do compiled, and eager and
compiled agree. Why is tried: what a call leaves behind is put back before the next one, and the script must
then pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from .program import CompiledCall, EffectKind, PlainRun
from .reasons import Told
from .verdict import Rule, Verdict, VerdictClass, decided

MOST_NAMED = 3  # tensors of one call
# What a call does that a second call then meets, and what to change. Of several the first that is the reason:
# a module in training draws too, and what it changes says more.
_ADVICE = {
    EffectKind.MUTATES: ("changes {} in place", "give each side a copy of its own"),
    EffectKind.MAKES_LAZY: (
        "makes the parameters of a lazy module, which are drawn then",
        "call it once before anything is compared",
    ),
    EffectKind.CHANGES_STATE: ("changes {}", "give each side a module of its own, or call `eval()`"),
    EffectKind.DRAWS: ("draws random numbers", "seed before each side, or call `eval()`"),
}
NOT_FOUND = "what makes its two sides differ was not found"
Trial = Callable[[EffectKind], PlainRun]  # the script with compilation off, what calls do so put back


def own_difference(eager: PlainRun, trial: Trial) -> Verdict | None:
    """The verdict where the script itself says with compilation off that its sides differ: by a comparison
    that raises, by the assertion or the status that it ends with. A comparison that merely answers may be
    meant so; it counts where the answer is another one once the reason is taken away. None where the script
    says nothing of the kind."""
    says = _says(eager)
    if says is None and all(eager.agreed):
        return None
    tried = list[str]()
    for kind, call in _candidates(eager):
        does, change = _ADVICE[kind]
        effect = f"call {call.index + 1} (`{call.entry}`) {does.format(_names(call, kind))}"
        if _passes(eager, trial(kind)):
            passes = f"{effect}: where that is put back before each call it passes; {change}"
            reason = f"{says or _answers(eager)}; {passes}"
            return decided(VerdictClass.OWN_DIFFERENCE, Told(reason), rule=Rule.PUT_BACK)
        tried.append(effect)
    if says is None:
        return None
    looked_at = f" ({', and '.join(tried)}, which does not explain it)" if tried else ""
    return decided(VerdictClass.OWN_DIFFERENCE, Told(f"{says}; {NOT_FOUND}{looked_at}"), rule=Rule.SCRIPT)


def _says(eager: PlainRun) -> str | None:
    """How the script says that its sides differ; None where it does not."""
    if eager.refuted:
        several = "comparison fails" if eager.refuted == 1 else f"{eager.refuted} comparisons fail"
        return f"the script's own {several} with compilation off too"
    if (eager.ended or "").startswith("AssertionError"):
        return f"the script ends with compilation off too: {eager.ended}"
    if eager.ended is None and eager.status:
        return f"the script ends with status {eager.status} with compilation off too"
    return None


def _answers(eager: PlainRun) -> str:
    failed = eager.agreed.count(False)
    several = "comparison fails" if failed == 1 else f"{failed} comparisons fail"
    return f"the script's own {several} with compilation off too"


def _candidates(eager: PlainRun) -> Iterator[tuple[EffectKind, CompiledCall]]:
    """Each thing that a call does, with the first call that does it."""
    for kind in _ADVICE:
        for call in eager.calls:
            if any(effect.kind is kind for effect in call.effects):
                yield kind, call
                break


def _names(call: CompiledCall, kind: EffectKind) -> str:
    names = sorted(effect.name for effect in call.effects if effect.kind is kind)
    more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    return " and ".join(names[:MOST_NAMED]) + more


def _passes(eager: PlainRun, tried: PlainRun) -> bool:
    """Whether the script no longer says so: it ends well, and every comparison that failed passes."""
    if tried.unfinished or tried.ended is not None or tried.status:
        return False
    several = len(tried.agreed) >= len(eager.agreed)
    pairs = zip(eager.agreed, tried.agreed, strict=False)
    return several and not tried.refuted and all(now for before, now in pairs if not before)
