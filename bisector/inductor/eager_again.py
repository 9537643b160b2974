"""A program run again in eager on the inputs of one run: how steady it is, how far rounding moves it, and
whether its operators do as they declare. It can be a graph or a function of a script.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch
import torch.utils._pytree as pytree
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode

from ..core.evidence import Evidence
from ..core.model import Measurement, OutputMeasurement
from ..errors import first_line
from . import tensors
from .equality import digest
from .higher_order import is_higher_order, run_under
from .measure import Exact
from .moves import Moves
from .run_values import Values


class FailsAgain(Exception):
    """The program gave values once, and raises in another run; the message says in which, and what."""


@contextmanager
def _failing_as(which: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        raise FailsAgain(f"{which}: {first_line(error)}") from error


class EagerAgain(Protocol):
    """One program and the inputs that it had."""

    def run(self, mode: AbstractContextManager[Any] | None = None) -> Values:
        """What it gives from the same state of the random generators, under a mode."""

    def run_on(self) -> Values | None:
        """The same, the generators where the run before left them; None where that run is known to have drawn
        nothing: this one would be its twin."""

    def run_moved(self, seed: int, most: int) -> Values:
        """What it gives where the result of each operation is moved, by as many steps of its dtype."""

    def measured(
        self, eager: Values, other: Mapping[str, Any], reference: Mapping[str, Exact] | None = None
    ) -> Measurement:
        """How another run's values stand to eager's."""


@dataclass(frozen=True)
class Steadiness:
    """again, restored, nudged, undeclared, undeclared_paths: as in `Evidence`. moves: what the runs that were
    moved by one step say of each element."""

    again: Measurement | None
    restored: Measurement
    nudged: tuple[Measurement, ...]
    moves: Moves
    undeclared: str
    undeclared_paths: tuple[str, ...]

    def evidence(self, default: Measurement, notes: Sequence[str], coarsest: float) -> Evidence:
        """What is known of the default compile. coarsest: as in `Evidence`."""
        return Evidence(
            default, self.again, self.restored, self.nudged, tuple(notes), coarsest=coarsest,
            undeclared=self.undeclared, undeclared_paths=self.undeclared_paths,
        )  # fmt: skip


def steadiness(program: EagerAgain, eager: Values, nudges: int) -> Steadiness:
    """eager: what the program gave in the run before. nudges: runs with one step at each operation. Raises
    FailsAgain."""
    undeclared = Undeclared()
    with _failing_as("eager fails when it runs again"):
        run_on = program.run_on()
        again = None if run_on is None else program.measured(eager, run_on)
        restored = program.measured(eager, program.run(undeclared))
    moves = Moves(eager, program.run_moved, nudges)
    with _failing_as("eager fails where each operation is moved by a step of its dtype"):
        nudged = tuple(program.measured(eager, outputs) for outputs in moves.by_one_step())
    paths = _changed_as_declared(program, eager) if undeclared.violation else ()
    return Steadiness(again, restored, nudged, moves, undeclared.violation, paths)


def _changed_as_declared(program: EagerAgain, eager: Values) -> tuple[str, ...]:
    """The values that change where the program's operators do as they declare."""
    try:
        outputs = program.run(AsDeclared())
    except Exception:  # noqa: BLE001 - an operator may refuse a copy; nothing is then known
        return ()
    return tuple(o.path for o in program.measured(eager, outputs).outputs if _is_changed(o))


# A compiler may run what reads an argument before an operator or after it, and reads a result as the fake
# kernel described it: where an operator does other than it declares, two right programs give different
# values, or one stops. One of `torch.library.custom_op` may do both.
_OF_TORCH = frozenset({"aten", "prims", "prim", "higher_order"})
_WRITES = (
    "writes into `{}`, which its schema says it only reads: declare the write (`mutates_args` of "
    "torch.library.custom_op)"
)
_GIVES = "gives {}, which its fake kernel describes as {}: mend that kernel (`register_fake`)"
_Layout = tuple[torch.dtype, tuple[int, ...], tuple[int, ...]]


class Undeclared(TorchDispatchMode):
    """Looks at each call of an operator of the program's own, wherever it is made. violation: what the first
    one does that it does not declare and what to change; empty where none does."""

    supports_higher_order_operators = True
    violation = ""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if is_higher_order(func):
            return run_under(self, func, args, kwargs or {})
        run = partial(func, *args, **(kwargs or {}))
        if self.violation or not _is_own(func):
            return run()
        result, self.violation = _looked_at(func, args, kwargs or {}, run)
        return result


class AsDeclared(TorchDispatchMode):
    """The program's own operators do as they declare: what they write is lost, and what they give is put into
    the layout that is described, where it has the described shape."""

    supports_higher_order_operators = True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if is_higher_order(func):
            return run_under(self, func, args, kwargs)
        if not _is_own(func):
            return func(*args, **kwargs)
        described = iter(_described(func, args, kwargs))
        copies = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        result = func(*copies[0], **copies[1])
        return pytree.tree_map_only(torch.Tensor, lambda t: _laid_out(t, next(described, None)), result)


def _is_changed(o: OutputMeasurement) -> bool:
    """Whether an output is another one where operators do as they declare."""
    return bool(o.n_diff or o.dtype_compiled or o.shape_compiled is not None or o.stride_compiled)


def _looked_at(op: OpOverload, args: Any, kwargs: Any, run: Callable[[], Any]) -> tuple[Any, str]:
    """What a call gives, and in words what it does undeclared and what to change; "" where nothing."""
    read = dict(_read(op, args, kwargs))
    before = {name: digest([value]) for name, value in read.items()}
    described = _described(op, args, kwargs)
    result = run()
    written = [_WRITES.format(name) for name, value in read.items() if digest([value]) != before[name]]
    laid_out = zip(_layouts(result), described, strict=False)
    other = [_GIVES.format(_shown(real), _shown(fake)) for real, fake in laid_out if real != fake]
    violation = next(iter((*written, *other)), "")
    return result, f"the operator {op.overloadpacket} {violation}" if violation else ""


def _is_own(func: Any) -> bool:
    """Whether an operator is none of torch's."""
    return isinstance(func, OpOverload) and func.namespace not in _OF_TORCH


def _read(op: OpOverload, args: Any, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    arguments = op._schema.arguments
    given = dict(zip((argument.name for argument in arguments), args, strict=False)) | dict(kwargs)
    for argument in arguments:
        value = given.get(argument.name)
        if isinstance(value, torch.Tensor) and not (argument.alias_info and argument.alias_info.is_write):
            yield argument.name, value


def _described(op: OpOverload, args: Any, kwargs: Any) -> list[_Layout]:
    """The layouts that the fake kernel describes; none where it cannot, as of a size that hangs on values."""
    mode = FakeTensorMode()
    try:
        fakes = pytree.tree_map_only(torch.Tensor, mode.from_tensor, (args, kwargs))
        with mode:
            return _layouts(op(*fakes[0], **fakes[1]))
    except Exception:  # noqa: BLE001 - a fake kernel is the user's, and the compiler will say what it raises
        return []


def _layouts(result: Any) -> list[_Layout]:
    """dtype, shape and strides of each tensor. The stride of a dimension of length 1 means nothing."""
    found = []
    for tensor in pytree.tree_leaves(result):
        if isinstance(tensor, torch.Tensor):
            shape = tuple(tensor.shape)
            strides = tuple(s if n > 1 else 0 for n, s in zip(shape, tensor.stride(), strict=True))
            found.append((tensor.dtype, shape, strides))
    return found


def _shown(layout: _Layout) -> str:
    dtype, shape, strides = layout
    return f"{tensors.dtype_name(dtype)}{list(shape)} with strides {list(strides)}"


def _laid_out(tensor: torch.Tensor, layout: _Layout | None) -> torch.Tensor:
    if layout is None or tuple(tensor.shape) != layout[1] or _layouts(tensor) == [layout]:
        return tensor
    dtype, shape, strides = layout
    return torch.empty_strided(shape, strides, dtype=dtype, device=tensor.device).copy_(tensor)
