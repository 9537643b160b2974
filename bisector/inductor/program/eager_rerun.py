"""Eager run on the very inputs that a compiled call had: where the two part on equal inputs, that call makes
the difference, and where they do not, it was given one.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.autograd import forward_ad

from bisector.core.accuracy import has_other_reference
from bisector.core.evidence import NO_REFERENCE, Evidence
from bisector.core.model import Measurement
from bisector.core.trace import GRADIENT
from bisector.errors import first_line

from .. import tensors
from ..eager_again import FailsAgain, steadiness
from ..generators import Generators
from ..measure import Exact
from ..nudges import Nudged
from ..reference import Float64, widen, widened
from ..rounding import finest_of
from ..run_values import Values, measured
from ..torch_state import Modes
from . import call_values
from .reach import (
    CHANGING,
    PLAIN,
    attributes_of,
    bound,
    functions,
    global_names,
    held,
    hooks_of,
    is_own,
    objects,
    reached,
)

NUDGES = 3  # a discontinuity is met by one ulp in about half of the draws
OTHER_REFERENCE = f"{NO_REFERENCE}in float64 the program computes something else"
FORWARD_MODE = "forward-mode differentiation runs, in which eager was not run again"


class EagerRerun:
    """What is kept of one call from its beginning on.

    index: its place. model: what was compiled; function: what torch.compile returned for it. late: called
    where a gradient comes back to the call after it was compared. coarsest: as in `Evidence`.
    """

    def __init__(
        self, index: int, model: Any, function: Callable[..., Any], args: Any, kwargs: Any,
        late: Callable[[], None],
    ) -> None:  # fmt: skip
        self.index, self.model, self.function, self.late = index, model, function, late
        flat, self.spec = pytree.tree_flatten((args, kwargs))
        self.before = Remembered(model)
        self.inputs = tensors.snapshot(flat)
        self.requires_grad = tensors.grad_flags(flat)
        self.forward_mode = forward_ad._current_level >= 0
        self.state: Values = {}  # of what it reaches, as the call left it
        self.came_back: dict[int, torch.Tensor] = {}  # gradient by output, summed over backward passes
        self.backward_modes: Modes | None = None  # those of the first backward pass
        self.gradients: Values | None = None  # as they were before the first backward pass
        self.compared = False
        self.coarsest = 0.0
        self.accumulates = False  # whether backward passes leave gradients in the leaves

    def returned(self, result: Any) -> None:
        """The call has returned; from now on what comes back to its outputs is kept."""
        self.state = call_values.copied(call_values.state(self.model))
        for index, leaf in enumerate(pytree.tree_leaves(result)):
            if isinstance(leaf, torch.Tensor) and leaf.requires_grad:
                leaf.register_hook(lambda grad, index=index: self._keep(index, grad))

    def _keep(self, index: int, gradient: torch.Tensor) -> None:
        if self.compared:
            self.late()
            return
        self.backward_modes = self.backward_modes or Modes.now()
        kept = self.came_back.get(index)
        self.came_back[index] = gradient.detach().clone() if kept is None else kept + gradient.detach()

    def before_backward(self, given: Any) -> None:
        if self.gradients is None:
            self.gradients = call_values.copied(call_values.gradients(self.model, given))

    def evidence(self, compiled: Values) -> tuple[Evidence | None, str]:
        """What the call gave against eager on its inputs, or why that is not known.

        compiled: the call's values, its gradients among them.
        """
        if self.forward_mode:
            return None, FORWARD_MODE
        after, self.compared = Remembered(self.model), True
        try:
            given = self._comparable(compiled) | self.state
            self.accumulates = any(path.startswith(GRADIENT) for path in given)
            return self._measured(given)
        except FailsAgain as failed:
            return None, str(failed)
        except Exception as error:  # noqa: BLE001 - the user's function may refuse to be run again in any way
            return None, f"eager does not run a second time on its inputs: {first_line(error)}"
        finally:
            after.put_back()

    def _comparable(self, compiled: Values) -> Values:
        """Without gradients where none came back to the call: those that are there are of other calls."""
        return {path: v for path, v in compiled.items() if self.came_back or not path.startswith(GRADIENT)}

    def _measured(self, compiled: Values) -> tuple[Evidence | None, str]:
        eager = self.run()
        found = self.measured(eager, compiled)
        if not any(output.n_diff or _of_another_kind(output) for output in found.outputs):
            return Evidence(found, None, None, (), ()), found.unseen or ""
        steady = steadiness(self, eager, NUDGES)
        reference, notes = self._reference(finest_of(eager.values()))

        def against(reference: Mapping[str, Any]) -> Measurement:
            return self.measured(eager, compiled, steady.moves.references(reference))

        evidence = steady.evidence(against(reference), notes, self.coarsest)
        if has_other_reference(evidence):
            evidence = replace(evidence, default=against({}), notes=(*notes, OTHER_REFERENCE))
        return evidence, found.unseen or ""

    def run(self, mode: AbstractContextManager[Any] | None = None) -> Values:
        return self._eager(mode)

    def run_on(self) -> Values | None:
        return self._eager(put_back=False) if self.before.has_drawn() else None

    def run_moved(self, seed: int, most: int) -> Values:
        mode = Nudged(seed, most)
        try:
            return self._eager(mode)
        finally:
            self.coarsest = max(self.coarsest, mode.coarsest)

    def measured(
        self, eager: Values, other: Mapping[str, Any], reference: Mapping[str, Exact] | None = None
    ) -> Measurement:
        return measured(eager, other, reference, call=self.index)

    def _reference(self, finest: float) -> tuple[Mapping[str, Any], tuple[str, ...]]:
        try:
            return self._eager(Float64(finest), wide=True), ()
        except Exception as error:  # noqa: BLE001 - a function may fail in float64 in any way; it is reported
            return {}, (f"{NO_REFERENCE}{first_line(error)}",)

    def _eager(
        self, mode: AbstractContextManager[Any] | None = None, wide: bool = False, put_back: bool = True
    ) -> Values:
        """What eager gives on the same inputs, under a mode. wide: on inputs in double precision. put_back:
        from the same state; else from where the run before ended."""
        if put_back:
            self.before.put_back()
        flat = tensors.fresh(self.inputs, self.requires_grad)
        flat = widened(flat) if wide else flat
        given = pytree.tree_unflatten(flat, self.spec)
        if wide:
            _widen(self.model)
        with mode or nullcontext():
            with _under(self.before.modes), torch.compiler.set_stance("force_eager"):
                result = self.function(*given[0], **given[1])
            values = call_values.returned(result, given) | call_values.state(self.model)
            values |= self._gradients(result, given, wide)
        return call_values.copied(values)

    def _gradients(self, result: Any, given: Any, wide: bool) -> Values:
        """The gradients of the leaves after the script's backward passes, where they come through the outputs
        of this call alone."""
        leaves = pytree.tree_leaves(result)
        roots = [(leaves[i], gradient) for i, gradient in self.came_back.items()]
        if not roots or self.backward_modes is None or not self.accumulates:
            return {}  # torch.autograd.grad hands gradients to the script, and leaves none to look at
        named = [(f"grad[argument {i}]", leaf) for i, leaf in enumerate(pytree.tree_leaves(given))]
        named += [(f"grad[{name}]", tensor) for name, tensor in held(self.model)]
        named = [(path, t) for path, t in named if call_values.is_tensor(t) and t.is_leaf and t.requires_grad]
        outputs, gradients = zip(*roots, strict=True)
        with _under(self.backward_modes):
            made = torch.autograd.grad(
                outputs,
                [leaf for _, leaf in named],
                [widen(gradient) if wide else gradient for gradient in gradients],
                allow_unused=True,
            )
        found: Values = {}
        for (path, _), gradient in zip(named, made, strict=True):
            known = (self.gradients or {}).get(path)
            known = widen(known) if wide and known is not None else known
            if gradient is not None:
                found[path] = gradient if known is None else known + gradient
            elif known is not None:
                found[path] = known
        return found


@contextmanager
def _under(modes: Modes) -> Iterator[None]:
    """A script may have another autocast where it runs backward, and where the next call makes us compare."""
    with ExitStack() as stack:
        stack.enter_context(torch.inference_mode(modes.inference_mode))
        stack.enter_context(torch.set_grad_enabled(modes.grad_enabled))
        for device, (enabled, dtype) in modes.autocast.items():
            stack.enter_context(torch.autocast(device, dtype=dtype, enabled=enabled))
        yield


def _widen(model: Any) -> None:
    """Put tensors in double precision in the place of those that what was compiled reaches, until its state
    is put back: autograd gives a leaf no gradient of another dtype."""
    made: dict[int, torch.Tensor] = {}
    for tensor, bind in _bindings(model):
        wide = widen(tensor)
        if wide is not tensor:
            # Tied weights stay one.
            kept = made.setdefault(id(tensor), wide.detach().requires_grad_(tensor.requires_grad))
            bind(kept)


def _of_another_kind(output: Any) -> bool:
    return bool(output.shape_compiled or output.dtype_compiled or output.alias_mismatch)


_PLAIN = (*PLAIN, *CHANGING)
_OF_MODULES = ("_parameters", "_buffers")


class Remembered:
    """The state that a call of something compiled begins with, as it is now, to be put back: what the call
    reaches besides its arguments, and the random generators.

    Tensors by what is in their memory, so that autograd does not see that it is put back. Of modules also
    which tensors they hold, their hooks and their plain attributes; of functions and of the user's objects
    their plain variables, containers by what is in them, and generators of Python's `random`. What is reached
    in other ways is not remembered.
    """

    def __init__(self, model: Any) -> None:
        self.modes = Modes.now()
        self._generators = Generators()
        self._undo: list[Callable[[], Any]] = [*_of_tensors(model), *_of_objects(model)]

    def put_back(self) -> None:
        """Make everything as it was; can be done several times."""
        for undo in self._undo:
            undo()
        self._generators.put_back()

    def has_drawn(self) -> bool:
        """Whether random numbers were drawn since."""
        return bool(self._generators.drawn())


def _of_tensors(model: Any) -> Iterator[Callable[[], Any]]:
    seen = set()
    for _, tensor in held(model):
        if tensor.layout is not torch.strided or tensor.device.type == "meta":
            continue
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in seen:
            seen.add(storage.data_ptr())
            yield partial(storage.copy_, storage.clone())


def _of_objects(model: Any) -> Iterator[Callable[[], Any]]:
    for _, owner in reached(model):
        if isinstance(owner, torch.nn.Module):
            for module in owner.modules():
                for name in _OF_MODULES:
                    yield from _variable(module.__dict__[name], dict(module.__dict__[name]))
                own = {k: v for k, v in module.__dict__.items() if is_own(module, k)}
                plain = {name: value for name, value in own.items() if isinstance(value, _PLAIN)}
                yield from _variable(module.__dict__, plain)
                for hooks in hooks_of(module):
                    yield partial(_refill, hooks, hooks.copy())
    for function in functions(model):
        for cell in function.__closure__ or ():
            yield from _cell(cell)
        names = {name: function.__globals__[name] for name in global_names(function)}
        plain = {name: value for name, value in names.items() if _is_remembered(value)}
        yield from _variable(function.__globals__, plain)
    for _, value in objects(model):
        for name, attribute in attributes_of(value).items():
            if _is_remembered(attribute):
                yield partial(_bind, value, name, attribute)
                yield from _content(attribute)
    for value in bound(model):
        yield from _content(value)


def _variable(names: dict[str, Any], values: dict[str, Any]) -> Iterator[Callable[[], Any]]:
    """Variables by name: what they are bound to, and what is in it."""
    yield partial(names.update, values)
    for value in values.values():
        yield from _content(value)


def _bind(owner: Any, name: str, value: Any) -> None:
    """Without what a class of the user's does when an attribute is set."""
    names = getattr(owner, "__dict__", None)
    if isinstance(names, dict) and name in names:
        names[name] = value
    else:
        (type if isinstance(owner, type) else object).__setattr__(owner, name, value)


def _cell(cell: Any) -> Iterator[Callable[[], Any]]:
    value = _value_of(cell)
    if value is not None and _is_remembered(value):
        yield partial(setattr, cell, "cell_contents", value)
        yield from _content(value)


def _is_remembered(value: Any) -> bool:
    return isinstance(value, (*_PLAIN, random.Random, torch.Tensor))


def _bindings(model: Any) -> list[tuple[torch.Tensor, Callable[[torch.Tensor], Any]]]:
    """The tensors that what was compiled reaches by a name, each with what binds the name to another one."""
    found: list[tuple[Any, Callable[[torch.Tensor], Any]]] = []
    for _, owner in reached(model):
        if isinstance(owner, torch.nn.Module):
            for names in (module.__dict__[kind] for module in owner.modules() for kind in _OF_MODULES):
                found += [(value, partial(names.__setitem__, name)) for name, value in names.items()]
    for function in functions(model):
        names = function.__globals__
        found += [(names[n], partial(names.__setitem__, n)) for n in global_names(function)]
        cells = function.__closure__ or ()
        found += [(_value_of(cell), partial(setattr, cell, "cell_contents")) for cell in cells]
    return [(value, bind) for value, bind in found if isinstance(value, torch.Tensor)]


def _value_of(cell: Any) -> Any:
    """None also where nothing was put into it yet."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def _content(value: Any) -> Iterator[Callable[[], Any]]:
    if isinstance(value, random.Random):
        yield partial(value.setstate, value.getstate())
    elif type(value) in CHANGING:
        yield partial(_refill, value, value.copy())


def _refill(value: Any, content: Any) -> None:
    value.clear()
    (value.extend if isinstance(value, (list, deque)) else value.update)(content)
