"""Watches a script from within: what its compiled calls return and leave behind, what its comparisons say.

Passive: what is compiled is compiled by torch, and what is called is called as it was. With compilation off
the values are kept in files, one for each call; in the compiled run they are measured against these.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.utils._pytree as pytree

from ...core.model import OutputMeasurement
from ...errors import first_line
from .. import torch_state
from ..capture.wrapping import wrapped
from ..measure import compare

KEPT_BYTES = 512 << 20  # of values, over all calls; of later ones it is only known whether they are finite
Note = Callable[..., None]
SHARED = "shared memory"  # in the place of an output's path
Values = dict[str, Any]  # path -> tensor or plain value


def begin(options: Mapping[str, Any], note: Note) -> Callable[[], None]:
    """Replace torch.compile and the comparisons. Returns what must be called when the script ends."""
    torch_state.seed(options["seed"])
    watch = Watch(Path(options["folder"]), options["mode"] == "eager", note, options.get("only", ()))
    torch.compile = _compile(watch, torch.compile, options["backend"])
    _watch_backward(watch)
    _watch_comparisons(note)
    return watch.finish


class Watch:
    """The compiled calls so far. pending: the last one, whose gradients and parameters are not seen yet.
    raised: what its backward pass did.

    only: the calls that run compiled, by their place; none: all of them.
    """

    def __init__(self, folder: Path, keeps: bool, note: Note, only: Sequence[int] = ()) -> None:
        self.folder = folder
        self.keeps = keeps
        self.note = note
        self.only = frozenset(only)
        self.count = 0
        self.kept = 0
        self.pending: tuple[int, str, Any, Any, Values] | None = None
        self.raised: str | None = None

    def call(self, entry: str, function: Callable[..., Any], owner: Any, args: Any, kwargs: Any) -> Any:
        """Call the function, and note it. owner: the module whose parameters it uses, or None."""
        self.finish()
        index, self.count = self.count, self.count + 1
        in_eager = bool(self.only) and index not in self.only
        try:
            with torch.compiler.set_stance("force_eager") if in_eager else nullcontext():
                result = function(*args, **kwargs)
        except Exception as error:
            self.note(index=index, entry=entry, raised=first_line(error), outputs=[])
            raise
        given = (args, kwargs)
        values = _copied(_returned(result, given)) | {SHARED: _shared(result, given)}
        self.pending = (index, entry, owner, given, values)
        return result

    def finish(self) -> None:
        """What the last call and what came after it left behind."""
        if self.pending is None:
            return
        (index, entry, owner, given, values), self.pending = self.pending, None
        raised, self.raised = self.raised, None
        values |= _copied(_left(owner, given))
        outputs: list[Any] = []
        if self.keeps:
            self._keep(index, values)
        elif (kept := self._kept(index)) is not None:
            measured = (
                _compare(index, path, value, values.get(path)) for path, value in kept.items()
            )
            outputs = [dataclasses.asdict(found) for found in measured if found is not None]
        self.note(index=index, entry=entry, raised=raised, outputs=outputs)

    def _keep(self, index: int, values: Values) -> None:
        self.kept += sum(v.numel() * v.element_size() for v in values.values() if _is_tensor(v))
        if self.kept <= KEPT_BYTES:
            torch.save(values, self.folder / f"{index}.pt")

    def _kept(self, index: int) -> Values | None:
        path = self.folder / f"{index}.pt"
        if not path.exists():
            return None
        kept: Values = torch.load(path, weights_only=False)
        return kept


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _compare(index: int, path: str, eager: Any, compiled: Any) -> OutputMeasurement | None:
    """As values are compared; of equal tensors also whether they record gradients, and where they are."""
    found = compare(index, path, eager, compiled)
    if not (_is_tensor(eager) and _is_tensor(compiled)):
        return found
    for what in ("requires_grad", "device"):
        one, two = (str(getattr(side, what)) for side in (eager, compiled))
        if one != two and found is not None:
            return dataclasses.replace(found, alias_mismatch=f"{what} {two} instead of {one}")
    return found


def _returned(result: Any, given: Any) -> Values:
    values = {f"output[{i}]": leaf for i, leaf in enumerate(pytree.tree_leaves(result))}
    values |= {f"argument[{i}]": leaf for i, leaf in enumerate(pytree.tree_leaves(given)) if _is_tensor(leaf)}
    return {path: leaf for path, leaf in values.items() if _is_tensor(leaf) or _is_plain(leaf)}


def _shared(result: Any, given: Any) -> str:
    """Which outputs lie in the memory of which arguments: a later write to one then shows in the other."""
    arguments = [(i, _memory(leaf)) for i, leaf in enumerate(pytree.tree_leaves(given))]
    outputs = [(i, _memory(leaf)) for i, leaf in enumerate(pytree.tree_leaves(result))]
    pairs = [f"output[{o}] with argument[{a}]" for o, m in outputs for a, n in arguments if m and m == n]
    return ", ".join(pairs) or "nothing"


def _memory(value: Any) -> int | None:
    """The address of a tensor's storage; None where it has none of its own to look at."""
    if not _is_tensor(value) or value.layout is not torch.strided:
        return None
    try:
        return int(value.untyped_storage().data_ptr())
    except (NotImplementedError, RuntimeError):  # a subclass that wraps others, a functional tensor
        return None


def _is_plain(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex, str))


def _left(owner: Any, given: Any) -> Values:
    """Gradients of the arguments; tensors and gradients of what the compiled method belongs to."""
    values: Values = {}
    for i, leaf in enumerate(pytree.tree_leaves(given)):
        if _is_tensor(leaf) and leaf.is_leaf and leaf.grad is not None:
            values[f"grad[argument {i}]"] = leaf.grad
    for name, tensor in _held(owner):
        values[f"state[{name}]"] = tensor
        if tensor.is_leaf and tensor.grad is not None:
            values[f"grad[{name}]"] = tensor.grad
    return values


def _held(owner: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """The tensors of what a compiled method belongs to."""
    if isinstance(owner, torch.nn.Module):
        yield from owner.named_parameters()
        yield from owner.named_buffers()
    elif isinstance(owner, torch.optim.Optimizer):
        parameters = [p for group in owner.param_groups for p in group["params"]]
        for i, parameter in enumerate(parameters):
            yield f"parameter {i}", parameter
            kept = owner.state.get(parameter, {})
            yield from ((f"{name} of parameter {i}", v) for name, v in kept.items() if _is_tensor(v))


def _copied(values: Values) -> Values:
    """What a later write of the script cannot reach; whether it records gradients is kept."""
    return {path: _copy(value) if _is_tensor(value) else value for path, value in values.items()}


def _copy(value: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        made = value.detach().clone()
    differentiable = made.is_floating_point() or made.is_complex()
    return made.requires_grad_(value.requires_grad) if differentiable else made


# -- what is replaced -------------------------------------------------------------------------------------


def _compile(watch: Watch, original: Callable[..., Any], backend: str | None) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile(model: Any = None, **given: Any) -> Any:
        if model is None:
            return functools.partial(compile, **given)
        if backend is not None and given.get("backend", "inductor") == "inductor":
            given = _for_backend(given, backend)
        made = original(model, **given)
        return made if given.get("disable") else wrapped(model, made, watch.call)

    return compile


def _for_backend(given: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """The same call of torch.compile for another rung: of what it was told, Inductor's own settings are left
    out, and what concerns Dynamo stays."""
    kept = {k: v for k, v in given.items() if k not in ("mode", "options")}
    options = {k: v for k, v in (given.get("options") or {}).items() if k == "guard_filter_fn"}
    return kept | {"backend": backend} | ({"options": options} if options else {})


def _watch_backward(watch: Watch) -> None:
    """What a backward pass raises belongs to the last call, whose graph it most often runs."""

    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(*args: Any, **kwargs: Any) -> Any:
            try:
                return original(*args, **kwargs)
            except Exception as error:
                watch.raised = watch.raised or first_line(error)
                raise

        return backward

    for name in ("backward", "grad"):  # Tensor.backward calls the first
        setattr(torch.autograd, name, watched(getattr(torch.autograd, name)))


def _watch_comparisons(note: Note) -> None:
    def watched(original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def compared(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or _is_of_torch(sys._getframe(1).f_code.co_filename):
                return original(*args, **kwargs)
            agreed = False
            try:
                answer = original(*args, **kwargs)
                agreed = answer is None or bool(answer)
            finally:
                note(agreed=agreed)
            return answer

        return compared

    for owner, name in _COMPARISONS:
        setattr(owner, name, watched(getattr(owner, name)))


def _is_of_torch(file: str) -> bool:
    """The compiler makes comparisons of its own."""
    return file.startswith(_TORCH)


_TORCH = str(Path(torch.__file__).parent) + os.sep
_COMPARISONS: list[tuple[Any, str]] = [
    (torch.testing, "assert_close"),
    (torch, "allclose"),
    (torch.Tensor, "allclose"),
    (torch, "equal"),
    (torch.Tensor, "equal"),
]
