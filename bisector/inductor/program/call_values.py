"""What one call of something compiled gives: what it returns, what it leaves in its arguments and in what it
reaches, and how these values stand to those of the run with compilation off.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.autograd import forward_ad

from ...core.model import Measurement, OutputMeasurement
from .. import tensors
from ..measure import Exact, compare
from .comparable import Named, Rest, Unseen, leaves, parts, structure
from .reach import CONTAINERS, attributes, held, reached, variables

Values = dict[str, Any]  # path -> tensor, plain value, `Digest`, `Rest` or `Unseen`
SHARED = "shared memory"  # in the place of an output's path
SAMPLE = 1 << 16  # elements of a value too large to keep
MOST_ELEMENTS = 20_000  # of a variable that is looked at before and after each call
MADE_OF = "what it returns"  # in the place of an output's path


@dataclasses.dataclass(frozen=True)
class Digest:
    """A tensor that is too large to keep. bits: a digest of all its elements. sample: some of them, evenly
    spaced."""

    shape: tuple[int, ...]
    dtype: torch.dtype
    bits: str
    sample: torch.Tensor

    @classmethod
    def of(cls, value: torch.Tensor) -> Digest:
        flat = value.detach().reshape(-1)
        step = max(1, -(-flat.numel() // SAMPLE))
        return cls(tuple(value.shape), value.dtype, tensors.digest([value]), flat[::step].clone())


def is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def size_of(values: Values) -> int:
    """Bytes of the tensors among the values."""
    return sum(v.numel() * v.element_size() for v in values.values() if is_tensor(v))


def digests_of(values: Values) -> Values:
    """The values, of the larger tensors their digest alone."""
    return {
        path: Digest.of(value) if is_tensor(value) and value.numel() > SAMPLE else value
        for path, value in values.items()
    }


def digest_of(given: Any) -> str:
    """A short digest of what a call is given, equal for equal values."""
    values = [part for i, leaf in enumerate(leaves(given)) for part in parts(f"argument[{i}]", leaf)]
    return tensors.digest([v if is_tensor(v) else (path, v) for path, v in values])


# -- of one call ------------------------------------------------------------------------------------------


def left(given: Any) -> Values:
    """What its arguments hold after a call."""
    arguments = [part for i, leaf in enumerate(leaves(given)) for part in parts(f"argument[{i}]", leaf)]
    return {path: value for path, value in arguments if not isinstance(value, Unseen)}


def returned(result: Any, given: Any) -> Values:
    """What a call returned, tangents too, and what its arguments hold. given: its arguments."""
    outputs = [part for i, leaf in enumerate(leaves(result)) for part in parts(f"output[{i}]", leaf)]
    values = dict(outputs) | left(given)
    return values | _tangents(result) | {SHARED: _shared(result, given), MADE_OF: structure(result)}


def _tangents(result: Any) -> Values:
    """What forward-mode differentiation carries beside the outputs; None where an output carries nothing."""
    if forward_ad._current_level < 0:
        return {}
    outputs = enumerate(leaves(result))
    return {
        f"tangent[{i}]": forward_ad.unpack_dual(leaf).tangent
        for i, leaf in outputs
        if is_tensor(leaf) and leaf.is_floating_point()
    }


def _shared(result: Any, given: Any) -> str:
    """Which outputs lie in the memory of which arguments: a later write to one then shows in the other."""
    arguments = [(i, _memory(leaf)) for i, leaf in enumerate(leaves(given))]
    outputs = [(i, _memory(leaf)) for i, leaf in enumerate(leaves(result))]
    pairs = [f"output[{o}] with argument[{a}]" for o, m in outputs for a, n in arguments if m and m == n]
    return ", ".join(pairs) or "nothing"


def _memory(value: Any) -> int | None:
    """The address of a tensor's storage; None where it has none of its own to look at."""
    if not is_tensor(value) or value.layout is not torch.strided:
        return None
    try:
        return int(value.untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):  # a subclass that wraps others, a functional tensor
        return None


def state(model: Any) -> Values:
    """The tensors that what was compiled reaches, and its variables and attributes, as far as they are
    known."""
    named = [part for name, value in _variables(model) for part in parts(name, value)]
    seen = [(name, value) for name, value in named if not isinstance(value, Unseen)]
    return {f"state[{name}]": value for name, value in (*held(model), *seen)}


def _variables(model: Any) -> Iterator[Named]:
    for prefix, owner in reached(model):
        for path, module in owner.named_modules() if isinstance(owner, torch.nn.Module) else ():
            where = ".".join(filter(None, (prefix, path)))
            yield from ((f"{where}.{n}" if where else n, value) for n, value in attributes(module))
    for name, value in variables(model):
        if not isinstance(value, CONTAINERS) or len(value) <= MOST_ELEMENTS:
            yield name, value


def gradients(model: Any, given: Any) -> Values:
    """The gradients that its arguments and the tensors that it reaches hold."""
    arguments = [(f"argument {i}", leaf) for i, leaf in enumerate(leaves(given)) if is_tensor(leaf)]
    return {
        f"grad[{name}]": leaf.grad
        for name, leaf in (*arguments, *held(model))
        if leaf.is_leaf and leaf.grad is not None
    }


def copied(values: Values) -> Values:
    """What a later write of the script cannot reach; whether it records gradients is kept."""
    return {path: _copy(value) if is_tensor(value) else value for path, value in values.items()}


def _copy(value: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        made = forward_ad.unpack_dual(value).primal.detach().clone() if _is_dual() else value.detach().clone()
    differentiable = made.is_floating_point() or made.is_complex()
    return made.requires_grad_(value.requires_grad) if differentiable else made


def _is_dual() -> bool:
    return forward_ad._current_level >= 0


# -- two runs ---------------------------------------------------------------------------------------------


_NOTHING = object()  # in the place of a value that one of the two runs does not have


@dataclasses.dataclass(frozen=True)
class Standing:
    """How the values of a call stand to eager's. outputs: those with a measurement; same: how many others are
    equal. unseen: which could not be compared, and why; None where all were."""

    outputs: tuple[OutputMeasurement, ...]
    same: int
    unseen: str | None

    @property
    def measurement(self) -> Measurement:
        return Measurement(self.outputs, same=self.same, unseen=self.unseen)


def measured(
    index: int, eager: Values, compiled: Values, reference: Mapping[str, Exact] | None = None
) -> Standing:
    """How the values of a call stand to eager's: all that either of the two has."""
    found, same, unseen = list[OutputMeasurement](), 0, None
    for path in dict.fromkeys((*eager, *compiled)):
        value, other = eager.get(path, _NOTHING), compiled.get(path, _NOTHING)
        missing: str | None = None
        if value is _NOTHING or other is _NOTHING:
            one = _one_sided(index, path, value, other)
        elif isinstance(value, (Unseen, Rest)) or isinstance(other, (Unseen, Rest)):
            one, missing = None, _unseen(path, value, other)
        elif isinstance(value, Digest):
            one, missing = _compared_by_digest(index, path, value, other)
        else:
            one = _compared(index, path, value, other, (reference or {}).get(path))
        unseen = unseen or missing
        same += one is None and not missing
        found += [one] if one is not None else []
    return Standing(tuple(found), same, unseen)


def _one_sided(index: int, path: str, eager: Any, compiled: Any) -> OutputMeasurement | None:
    """A value that the other run lacks. An output that is None counts as no value."""
    there = compiled if eager is _NOTHING else eager
    if there is None or isinstance(there, Unseen):
        return None
    said = "a value" if isinstance(there, (Digest, Rest)) else f"a {type(there).__name__}"
    told = f"{said} that eager does not have" if eager is _NOTHING else f"nothing instead of {said}"
    return OutputMeasurement(index, path, type(there).__name__, (), 1, alias_mismatch=told)


def _unseen(path: str, eager: Any, compiled: Any) -> str | None:
    if eager == compiled and isinstance(eager, Rest):
        return None
    if isinstance(eager, Rest) and isinstance(compiled, Rest):
        return f"{path}: {eager.count} values were compared by a digest alone, which differs"
    return f"{path}, {next(v.what for v in (eager, compiled) if isinstance(v, Unseen))}, cannot be compared"


def _compared(
    index: int, path: str, eager: Any, compiled: Any, reference: Exact | None = None
) -> OutputMeasurement | None:
    """As values are compared; of equal tensors also whether they record gradients, and where they are."""
    found = compare(index, path, eager, compiled, reference)
    if not (is_tensor(eager) and is_tensor(compiled)):
        return found
    for what in ("requires_grad", "device"):
        one, two = (str(getattr(side, what)) for side in (eager, compiled))
        if one != two and found is not None:
            return dataclasses.replace(found, alias_mismatch=f"{what} {two} instead of {one}")
    return found


def _compared_by_digest(
    index: int, path: str, eager: Digest, compiled: Any
) -> tuple[OutputMeasurement | None, str | None]:
    if not is_tensor(compiled) or tuple(compiled.shape) != eager.shape or compiled.dtype != eager.dtype:
        shape_alone = torch.empty(eager.shape, dtype=eager.dtype, device="meta")
        return compare(index, path, shape_alone, compiled), None
    now = Digest.of(compiled)
    found = compare(index, path, eager.sample, now.sample)
    assert found is not None
    if now.bits == eager.bits:
        return dataclasses.replace(found, shape=eager.shape, numel=compiled.numel()), None
    some = f"{eager.sample.numel()} of its {compiled.numel()} elements were compared"
    return found, f"{path} is too large to keep, and not bit-equal to eager's: {some}"

