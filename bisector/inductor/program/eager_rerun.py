"""Eager run on the very inputs that a compiled call had: where the two part on equal inputs, that call makes
the difference, and where they do not, it was given one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import replace
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
from ..measure import Exact
from ..nudges import Nudged
from ..reference import Float64, widen, widened
from ..rounding import finest_of
from ..run_values import Values, measured
from ..torch_state import Modes
from . import call_values
from .call_state import Change, State
from .given import objects_given
from .reach import held

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
        self.objects = objects_given(model, args, kwargs)
        self.before = State(model, self.objects)
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
        after, self.compared = State(self.model, self.objects), True
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

    def run_without(self, changes: Sequence[Change]) -> Values:
        """As if these had not changed since an earlier call."""
        try:
            return self._eager(without=changes)
        finally:
            for change in reversed(changes):
                change.take_away()

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
        self,
        mode: AbstractContextManager[Any] | None = None,
        wide: bool = False,
        put_back: bool = True,
        without: Sequence[Change] = (),
    ) -> Values:
        """What eager gives on the same inputs, under a mode. wide: on inputs in double precision. put_back:
        from the same state; else from where the run before ended. without: what is as it was in an earlier
        call."""
        if put_back:
            self.before.put_back()
        modes, flat = self.before.modes, tensors.fresh(self.inputs, self.requires_grad)
        flat = widened(flat) if wide else flat
        for change in without:
            change.put_back()
            flat, modes = list(change.of_inputs(flat)), change.of_modes(modes)
        given = pytree.tree_unflatten(flat, self.spec)
        if wide:
            _widen(self.before)
        with mode or nullcontext():
            with _under(modes), torch.compiler.set_stance("force_eager"):
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


def _widen(state: State) -> None:
    """Put tensors in double precision in the place of those that what was compiled reaches, until its state
    is put back: autograd gives a leaf no gradient of another dtype."""
    made: dict[int, torch.Tensor] = {}
    for tensor, place in state.tensors():
        wide = widen(tensor)
        if wide is not tensor:
            # Tied weights stay one.
            place.write(made.setdefault(id(tensor), wide.detach().requires_grad_(tensor.requires_grad)))


def _of_another_kind(output: Any) -> bool:
    return bool(output.shape_compiled or output.dtype_compiled or output.alias_mismatch)
