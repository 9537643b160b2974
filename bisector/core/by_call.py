"""A script call by call, from its runs."""

from __future__ import annotations

from collections.abc import Iterable

from .accuracy import is_beyond_local
from .criterion import Criterion
from .judge import judge
from .model import OutputMeasurement, family
from .notes import CallName
from .outcome import Outcome
from .program import CompiledCall, EffectKind, PlainRun
from .script_verdict import EqualInputs
from .shown import ScriptResult
from .standing import ByCall, Place, Standing

ARGUMENT = "argument"


def by_call(
    eager: PlainRun, compiled: PlainRun, shown: ScriptResult, equal: EqualInputs, criterion: Criterion
) -> ByCall:
    """eager, compiled: the runs that were compared. shown: in what they differ; equal: on equal inputs."""
    beside = {call.index: call for call in equal.calls}
    standings = tuple(_standing(call, beside.get(call.index), criterion) for call in compiled.calls)
    return ByCall(_place(eager, compiled, shown, equal, criterion), standings)


def _place(
    eager: PlainRun, compiled: PlainRun, shown: ScriptResult, equal: EqualInputs, criterion: Criterion
) -> Place | None:
    if (call := equal.place) is not None:
        path = _differs(call, criterion) or ""
        return Place(_named(call), len(compiled.calls), path, not _eager_changes(eager, call, path))
    if shown.call is None or not shown.path:
        return None
    return Place(_named(compiled.calls[shown.call]), len(compiled.calls), shown.path)


def _eager_changes(eager: PlainRun, call: CompiledCall, path: str) -> bool:
    """Whether eager may change what the path names; only an argument is known not to be changed."""
    same = [one for one in eager.calls if (one.index, one.entry) == (call.index, call.entry)]
    if family(path) != ARGUMENT or not same:
        return True
    name = path.replace("[", " ").partition("]")[0]
    return any(effect.kind is EffectKind.MUTATES and effect.name == name for effect in same[0].effects)


def _named(call: CompiledCall) -> CallName:
    return CallName(call.index + 1, call.entry)


def _standing(call: CompiledCall, beside: CompiledCall | None, criterion: Criterion) -> Standing:
    groups: dict[str, list[OutputMeasurement]] = {"output": [], "grad": []}
    left = list[OutputMeasurement]()
    for output in call.outputs:
        groups.get(family(output.path), left).append(output)
    differs = None if beside is None else _differs(beside, criterion)
    return Standing(_named(call), _worst(groups["output"]), _worst(groups["grad"]), _worst(left), differs)


def _worst(outputs: Iterable[OutputMeasurement]) -> float | None:
    return max(map(_distance, outputs), default=None)


def _distance(output: OutputMeasurement) -> float:
    if output.max_abs and output.scale and not output.nonfinite_mismatches:
        return output.max_abs / output.scale
    return float("inf") if output.n_diff > output.sign_diff or _is_of_another_form(output) else 0.0


def _is_of_another_form(output: OutputMeasurement) -> bool:
    return Criterion().divergence(output) is not None


def _differs(call: CompiledCall, criterion: Criterion) -> str | None:
    """As of `Standing`, of a call that eager was run beside."""
    if call.beside is None:
        return None
    found = judge(call.beside.default, criterion)
    if found.signatures:
        return found.signatures[0].path
    if found.outcome is Outcome.UNRESOLVED:
        return None
    beside = call.beside
    return next((o.path for o in beside.default.outputs if is_beyond_local(o, beside)), "")
