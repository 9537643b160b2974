"""What one call of something compiled gives: what it returns, what it leaves in its arguments and in what it
reaches, and how these values stand to those of the run with compilation off.
"""

from __future__ import annotations

import dataclasses
import dis
import inspect
import random
import types
from collections.abc import Iterator, Mapping
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.autograd import forward_ad

from ...core.model import OutputMeasurement
from .. import tensors
from ..measure import compare

Values = dict[str, Any]  # path -> tensor, `Digest` or plain value
SHARED = "shared memory"  # in the place of an output's path
SAMPLE = 1 << 16  # elements of a value too large to keep
MOST_LEAVES = 64  # of a container that a compiled function takes from around it
# torch/nn/modules/module.py, torch/_tensor.py
_HOOKS = (
    "_backward_hooks", "_post_accumulate_grad_hooks", "_forward_hooks", "_forward_pre_hooks",
    "_backward_pre_hooks",
)  # fmt: skip
DEPTH = 3  # functions that call functions, in which a compiled function is looked through


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


# -- of one call ------------------------------------------------------------------------------------------


def returned(result: Any, given: Any) -> Values:
    """What a call returned, tangents too, and what its arguments hold. given: its arguments."""
    values = {f"output[{i}]": leaf for i, leaf in enumerate(pytree.tree_leaves(result))}
    values |= {f"argument[{i}]": leaf for i, leaf in enumerate(pytree.tree_leaves(given)) if is_tensor(leaf)}
    values = {path: leaf for path, leaf in values.items() if is_tensor(leaf) or _is_plain(leaf)}
    return values | _tangents(result) | {SHARED: _shared(result, given)}


def _tangents(result: Any) -> Values:
    """What forward-mode differentiation carries beside the outputs; None where an output carries nothing."""
    if forward_ad._current_level < 0:
        return {}
    leaves = enumerate(pytree.tree_leaves(result))
    return {
        f"tangent[{i}]": forward_ad.unpack_dual(leaf).tangent
        for i, leaf in leaves
        if is_tensor(leaf) and leaf.is_floating_point()
    }


def _shared(result: Any, given: Any) -> str:
    """Which outputs lie in the memory of which arguments: a later write to one then shows in the other."""
    arguments = [(i, _memory(leaf)) for i, leaf in enumerate(pytree.tree_leaves(given))]
    outputs = [(i, _memory(leaf)) for i, leaf in enumerate(pytree.tree_leaves(result))]
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


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, str))


def held(model: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors that what was compiled reaches beside its arguments, by name."""
    for prefix, owner in reached(model):
        if isinstance(owner, torch.Tensor):
            yield prefix, owner
            continue
        for name, tensor in _held_by(owner):
            yield f"{prefix}.{name}" if prefix else name, tensor


def _held_by(owner: Any) -> Iterator[tuple[str, torch.Tensor]]:
    if isinstance(owner, torch.nn.Module):
        yield from owner.named_parameters()
        yield from owner.named_buffers()
    elif isinstance(owner, torch.optim.Optimizer):
        parameters = [p for group in owner.param_groups for p in group["params"]]
        for i, parameter in enumerate(parameters):
            yield f"parameter {i}", parameter
            kept = owner.state.get(parameter, {})
            yield from ((f"{name} of parameter {i}", v) for name, v in kept.items() if is_tensor(v))


_OWNERS = (torch.nn.Module, torch.optim.Optimizer, torch.Tensor)


def reached(model: Any) -> list[tuple[str, Any]]:
    """The modules, optimizers and tensors that a compiled module, method or function uses: itself, the object
    of the method, and what the functions take from around them, by name."""
    owner = getattr(model, "__self__", model)
    found: dict[str, Any] = {"": owner} if isinstance(owner, _OWNERS) else {}
    for function in functions(model):
        for name, value in _around(function).items():
            if isinstance(value, _OWNERS) and value is not owner:
                found.setdefault(name, value)
    return list(found.items())


def functions(model: Any) -> list[types.FunctionType]:
    """The function that was compiled, of a module its `forward`, and those of its own file that it calls."""
    found: list[types.FunctionType] = []
    made = type(model).forward if isinstance(model, torch.nn.Module) else getattr(model, "__func__", model)
    left = [(inspect.unwrap(made), DEPTH)] if callable(made) else []
    while left:
        function, depth = left.pop(0)
        if not inspect.isfunction(function) or function in found:
            continue
        found.append(function)
        if depth > 1:
            for value in _around(function).values():
                if getattr(value, "__globals__", None) is function.__globals__:
                    left.append((value, depth - 1))
    return found


def _around(function: types.FunctionType) -> dict[str, Any]:
    """What the function takes from around it, by name."""
    names = {name: function.__globals__[name] for name in global_names(function)}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            names[name] = cell.cell_contents
        except ValueError:  # nothing was put into it yet
            continue
    return names


def global_names(function: types.FunctionType) -> list[str]:
    """The global variables that the function reads or writes and that are there. Its code's `co_names` has
    the names of attributes too."""
    loads = (i.argval for i in dis.get_instructions(function.__code__) if i.opname.endswith("_GLOBAL"))
    return [name for name in dict.fromkeys(loads) if name in function.__globals__]


def state(model: Any) -> Values:
    """The tensors that what was compiled reaches, and its plain variables and attributes."""
    return {f"state[{name}]": value for name, value in (*held(model), *_objects(model))}


def variables(function: types.FunctionType) -> Iterator[tuple[str, Any]]:
    """What the function takes from around it that is plain, holds what is plain, or draws random numbers."""
    for name, value in _around(function).items():
        if _is_plain(value) or type(value) in (list, dict, set) or isinstance(value, random.Random):
            yield name, value


def attributes(module: torch.nn.Module) -> Iterator[tuple[str, Any]]:
    """The plain attributes of one module."""
    for name, value in vars(module).items():
        if _is_plain(value) and not name.startswith("_") and name != "training":
            yield name, value


def hooks_of(owner: torch.nn.Module | torch.Tensor) -> list[dict[int, Any]]:
    """The containers of what is registered to run with the forward or backward pass of a module or tensor."""
    return [hooks for name in _HOOKS if (hooks := getattr(owner, name, None)) is not None]


def _objects(model: Any) -> Iterator[tuple[str, Any]]:
    for prefix, owner in reached(model):
        for path, module in owner.named_modules() if isinstance(owner, torch.nn.Module) else ():
            where = ".".join(filter(None, (prefix, path)))
            yield from ((f"{where}.{n}" if where else n, value) for n, value in attributes(module))
    for function in functions(model):
        for name, value in variables(function):
            if isinstance(value, random.Random):
                yield name, f"state {hash(value.getstate()[1])}"
                continue
            leaves = sorted(value, key=repr) if type(value) is set else pytree.tree_leaves(value)
            several = not _is_plain(value)
            if several:
                yield f"the length of {name}", len(value)
            for i, leaf in enumerate(leaves[:MOST_LEAVES]):
                if is_tensor(leaf) or _is_plain(leaf):
                    yield f"{name}, value {i}" if several else name, leaf


def gradients(model: Any, given: Any) -> Values:
    """The gradients that its arguments and the tensors that it reaches hold."""
    leaves = [(f"argument {i}", leaf) for i, leaf in enumerate(pytree.tree_leaves(given)) if is_tensor(leaf)]
    return {
        f"grad[{name}]": leaf.grad
        for name, leaf in (*leaves, *held(model))
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


def measured(
    index: int, eager: Values, compiled: Values, reference: Mapping[str, Any] | None = None
) -> tuple[list[OutputMeasurement], str | None]:
    """How the values of a call stand to eager's. With which of them could not be compared, and why; None
    where all were."""
    found, unseen = [], None
    for path, value in eager.items():
        other = compiled.get(path)
        if isinstance(value, Digest):
            one, missing = _compared_by_digest(index, path, value, other)
            unseen = unseen or missing
        else:
            one = _compared(index, path, value, other, (reference or {}).get(path))
        if one is not None:
            found.append(one)
    return found, unseen


def _compared(
    index: int, path: str, eager: Any, compiled: Any, reference: torch.Tensor | None = None
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

