"""Whether a difference went from call to call through the values of the calls: the script is run with
compilation off, each call giving what it gave in the compiled run. Where a later call is then given what it
was given in the compiled run, the values carried the difference; where not, something else did, such as a
side effect or a clock. And whether rounding alone makes of a script what it shows compiled: with compilation
off, each operation of its calls is moved by some steps of its dtype.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils._pytree as pytree

from ...core.program import Carrier
from ..equality import same
from ..moves import WIDE
from ..nudges import Nudged, nudge
from ..run_values import Values, size_of
from . import call_values
from .reach import held

Note = Callable[..., None]
GIVEN, GAVE, GRADIENT = "given", "gave", "gradient"
SECONDS = "seconds"  # among what a call gave: how long it took
MOST_BYTES = 2 << 30  # of what is kept, over all calls
UNKNOWN = ""  # in the place of what a call was given: it is not there, or cannot stand for eager's
_PLAIN = (bool, int, float, complex, str)


class Kept:
    """Of a compiled run: what each call was given and what it gave, and how long it took, in files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bytes = 0
        self.began_s = 0.0

    def before(self, index: int, model: Any, given: Any) -> None:
        """The call is about to begin."""
        self._save(index, GIVEN, call_values.copied(_given(model, given)))
        self.began_s = time.monotonic()

    def mode(self) -> AbstractContextManager[Any]:
        """Under which the call runs."""
        return nullcontext()

    def returned(self, index: int, model: Any, result: Any, given: Any) -> Any:
        """The call has returned; gives what the script gets."""
        took: Values = {SECONDS: time.monotonic() - self.began_s}
        left = _left_by(model, given)
        self._save(index, GAVE, took | call_values.copied(_outputs(result) | left))
        _watch_gradients(left, lambda *met: self._gradient(index, *met))
        return result

    def _gradient(self, index: int, path: str, count: int, value: torch.Tensor) -> None:
        self._save(index, _of_gradient(path, count), call_values.copied({GRADIENT: value}))

    def _save(self, index: int, what: str, values: Values) -> None:
        self.bytes += size_of(values)
        if self.bytes <= MOST_BYTES:
            torch.save(values, _file(self.folder, index, what))


class Substituted:
    """Gives the script the kept values. note: receives the first call that is given something else, once.
    too: as of `RunOptions`."""

    def __init__(self, folder: Path, note: Note, too: Carrier | None) -> None:
        self.folder = folder
        self.note = note
        self.too = too
        self.began_s = 0.0
        self.parted = False

    def before(self, index: int, model: Any, given: Any) -> None:
        kept, now = self._load(index, GIVEN), _given(model, given)
        paths = dict.fromkeys((*(kept or {}), *now))
        if kept is None:
            self._part(index, UNKNOWN)
        elif unlike := [p for p in paths if p not in kept or p not in now or not same(kept[p], now[p])]:
            self._part(index, unlike[0])
        self.began_s = time.monotonic()

    def mode(self) -> AbstractContextManager[Any]:
        return nullcontext()

    def returned(self, index: int, model: Any, result: Any, given: Any) -> Any:
        left = _left_by(model, given)
        _watch_gradients(left, lambda *met: self._gradient(index, *met))
        kept, now = self._load(index, GAVE), _outputs(result) | left
        if kept is None or any(p not in kept or not _fits(v, kept[p]) for p, v in now.items()):
            self._part(index, UNKNOWN)
            return result
        if self.too is Carrier.TIME:
            _work_until(self.began_s + kept[SECONDS])
        for path, value in now.items():
            if isinstance(value, torch.Tensor):
                _overwrite(value, kept[path])
        if not all(same(kept[path], v) for path, v in now.items() if isinstance(v, torch.Tensor)):
            self._part(index, UNKNOWN)  # two of them lie in one memory here, and did not compiled
        flat, spec = pytree.tree_flatten(result)
        made = [self._as_kept(one, kept[f"output[{i}]"]) for i, one in enumerate(flat)]
        return pytree.tree_unflatten(made, spec)

    def _as_kept(self, value: Any, kept: Any) -> Any:
        """An output whose values are those that were kept."""
        if not isinstance(value, torch.Tensor):
            return _scalar(kept) if isinstance(value, np.generic) else kept
        if self.too is not Carrier.LAYOUT or value.stride() == kept.stride():
            return value
        laid = torch.empty_strided(kept.shape, kept.stride(), dtype=value.dtype, device=value.device)
        return laid.copy_(value)

    def _gradient(self, index: int, path: str, count: int, value: torch.Tensor) -> torch.Tensor | None:
        kept = self._load(index, _of_gradient(path, count))
        if kept is None or not _fits(value, kept[GRADIENT]):
            self._part(index, UNKNOWN)
            return None
        made = value.clone()  # another operation may hold the same one; a second derivative goes through it
        _overwrite(made, kept[GRADIENT])
        return made

    def _part(self, index: int, what: str) -> None:
        if not self.parted:
            self.parted = True
            self.note(parted=index, at=what)

    def _load(self, index: int, what: str) -> Values | None:
        path = _file(self.folder, index, what)
        return torch.load(path, weights_only=False) if path.exists() else None


class Rounded:
    """Moves each operation of the calls. seed: of the draws."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.drawn = 0

    def before(self, index: int, model: Any, given: Any) -> None:
        """The call is about to begin."""

    def mode(self) -> AbstractContextManager[Any]:
        """Under which the call runs."""
        return Nudged(self._next(), WIDE)

    def returned(self, index: int, model: Any, result: Any, given: Any) -> Any:
        """The call has returned; gives what the script gets."""
        _watch_gradients(_left_by(model, given), lambda path, count, gradient: self._moved(gradient))
        return result

    def _moved(self, gradient: torch.Tensor) -> torch.Tensor | None:
        plain = gradient.layout is torch.strided and gradient.is_floating_point()
        return nudge(gradient, self._next(), WIDE) if plain else None

    def _next(self) -> int:
        self.drawn += 1
        return self.seed * 1_000_003 + self.drawn


def _of_gradient(path: str, count: int) -> str:
    return f"{GRADIENT} {count} of {path}"


def _scalar(kept: Any) -> Any:
    """A scalar of NumPy's, as eager has it, where Dynamo makes an array, which can be changed."""
    return kept[()] if isinstance(kept, np.ndarray) else kept


def _work_until(end_s: float) -> None:
    """A compile takes time of the processor too, which a script may ask for."""
    while time.monotonic() < end_s:
        pass


def _file(folder: Path, index: int, what: str) -> Path:
    """what: may name a path of attributes and keys of the script's."""
    return folder / f"compiled-{index}-{hashlib.sha256(what.encode()).hexdigest()[:16]}.pt"


def _given(model: Any, given: Any) -> Values:
    """The tensors and plain values of the arguments, and the tensors that it reaches."""
    values = {f"argument[{i}]": leaf for i, leaf in enumerate(pytree.tree_leaves(given))}
    known = {path: v for path, v in values.items() if isinstance(v, (torch.Tensor, *_PLAIN))}
    return known | {f"state[{name}]": tensor for name, tensor in held(model)}


def _outputs(result: Any) -> Values:
    return {f"output[{i}]": leaf for i, leaf in enumerate(pytree.tree_leaves(result))}


def _left_by(model: Any, given: Any) -> Values:
    """What a call leaves in the tensors of its arguments, and in those that it reaches."""
    arguments = {f"argument[{i}]": leaf for i, leaf in enumerate(pytree.tree_leaves(given))}
    changed = {path: leaf for path, leaf in arguments.items() if isinstance(leaf, torch.Tensor)}
    return changed | {f"state[{name}]": tensor for name, tensor in held(model)}


def _fits(value: Any, kept: Any) -> bool:
    """Whether the kept value can stand in the place of eager's."""
    if not isinstance(value, torch.Tensor):
        return not isinstance(kept, torch.Tensor)
    equal_meta = isinstance(kept, torch.Tensor) and (value.shape, value.dtype) == (kept.shape, kept.dtype)
    return equal_meta and value.layout is torch.strided


def _overwrite(value: torch.Tensor, kept: torch.Tensor) -> None:
    """Change what is in memory without autograd seeing it."""
    if not same(value.detach(), kept):
        value.data.copy_(kept)  # `detach` would share the version, and a backward pass would refuse it


# Told the path of a tensor, how many gradients came to it with this one, and the gradient; gives the one that
# takes its place, None where it stays.
_Met = Callable[[str, int, torch.Tensor], torch.Tensor | None]


class _Hook:
    """On one tensor."""

    __torch_unserializable__ = True  # so that torch does not warn where the script saves the tensor

    def __init__(self, path: str, met: _Met) -> None:
        self.path, self.met = path, met
        self.count = 0

    def __call__(self, gradient: torch.Tensor) -> torch.Tensor | None:
        self.count += 1
        return self.met(self.path, self.count, gradient)


def _watch_gradients(values: Mapping[str, Any], met: _Met) -> None:
    """What backward passes bring to those among the values that record gradients, as it is met by a hook: the
    passes may be the script's own, through more than one call. A tensor that several calls reach is watched
    once."""
    for path, value in values.items():
        if isinstance(value, torch.Tensor) and value.requires_grad:
            hooks = (value._backward_hooks or {}).values()
            if not any(isinstance(hook, _Hook) for hook in hooks):
                value.register_hook(_Hook(path, met))
