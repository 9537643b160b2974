"""A script call by call, from its runs."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .accuracy import is_beyond_local
from .criterion import Criterion
from .judge import judge
from .model import OutputMeasurement, family
from .outcome import Outcome
from .program import CompiledCall, PlainRun
from .script_verdict import EqualInputs
from .shown import ScriptResult
from .standing import ByCall, Place, Standing, Value

_DERIVATIVES = ("grad", "tangent")  # which one of the two runs may not make
_OF_ARGUMENT = re.compile(r"(?:grad\[argument |argument\[)(\d+)\]")


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
        paths = _differing(call, criterion)
        known = _in_eager(eager, call)
        values = tuple(
            Value(path, _argument(known, path), _is_kept(known, path), _mismatch(call, path))
            for path in paths
        )
        return Place(call.named, len(compiled.calls), values)
    if shown.call is None or not shown.path:
        return None
    call = compiled.calls[shown.call]
    argument = _argument(_in_eager(eager, call), shown.path)
    value = Value(shown.path, argument, mismatch=_mismatch(call, shown.path))
    return Place(call.named, len(compiled.calls), (value,))


def _in_eager(eager: PlainRun, call: CompiledCall) -> CompiledCall | None:
    """The same call of the run with compilation off; None where it is not known to be the same."""
    same = (one for one in eager.calls if (one.index, one.entry) == (call.index, call.entry))
    return next(same, None)


def _argument(known: CompiledCall | None, path: str) -> str:
    """The name of the argument that a path is about; empty where it is about none, or has no name."""
    found = _OF_ARGUMENT.match(path)
    if found is None or known is None:
        return ""
    number = int(found[1])
    return known.arguments[number] if number < len(known.arguments) else ""


def _is_kept(known: CompiledCall | None, path: str) -> bool:
    """Whether a path is about a tensor argument that eager was seen to leave as it was."""
    found = re.fullmatch(r"argument\[(\d+)\]", path)
    return known is not None and found is not None and f"argument {found[1]}" in known.kept


def _mismatch(call: CompiledCall, path: str) -> str:
    """As of `Value`."""
    if family(path) not in _DERIVATIVES:
        return ""
    measured = (*(call.beside.default.outputs if call.beside is not None else ()), *call.outputs)
    return next((o.alias_mismatch for o in measured if o.path == path and o.alias_mismatch), "")


def _standing(call: CompiledCall, beside: CompiledCall | None, criterion: Criterion) -> Standing:
    groups: dict[str, list[OutputMeasurement]] = {"output": [], "grad": []}
    left = list[OutputMeasurement]()
    for output in call.outputs:
        groups.get(family(output.path), left).append(output)
    worst = _worst(groups["output"]), _worst(groups["grad"]), _worst(left)
    return Standing(call.named, *worst, None if beside is None else _differs(beside, criterion))


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
    if call.beside is None or judge(call.beside.default, criterion).outcome is Outcome.UNRESOLVED:
        return None
    return next(iter(_differing(call, criterion)), "")


def _differing(call: CompiledCall, criterion: Criterion) -> list[str]:
    """The paths of the first value that it returns, and of the first that it leaves behind, of those that do
    not agree on equal inputs."""
    if (beside := call.beside) is None:
        return []
    paths = [signature.path for signature in judge(beside.default, criterion).signatures]
    paths = paths or [output.path for output in beside.default.outputs if is_beyond_local(output, beside)]
    first = {family(path) == "output": path for path in reversed(paths)}
    return sorted(first.values(), key=paths.index)
