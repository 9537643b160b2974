"""What is kept of the compiled calls that a scope saw: graphs, inputs, modes, and what was compared.

`inductor.capture` keeps more of a script that it runs itself: every setting and the first calls of each
graph, in place of the compile. This records during the user's own run, which may make a million calls, so it
keeps what is cheap to read at a call, and the last calls. Both keep a `GraphCall`.
"""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from ..inductor import tensors
from ..inductor.capture.record import GraphCall
from ..inductor.torch_state import Modes, TorchState

# Calls beyond these are forgotten, the oldest first: an oracle fails on what it ran last.
MOST_CALLS = 64
MOST_BYTES = 256 << 20  # of inputs, over all calls of a recording
# Inputs of more bytes in one call are not copied before it, which would cost a fuzzer more than it gains.
COPIED_BYTES = 8 << 20


@dataclass(frozen=True)
class Graph:
    """One graph as Dynamo gave it to the backend.

    gm: nobody changes it; parameters are those of the program itself. options: those of torch.compile.
    dynamic: whether some size in it is symbolic. around: the state of torch when it was compiled, which a
    scope may have left by the time of a failure.
    """

    gm: fx.GraphModule
    options: Mapping[str, Any]
    dynamic: bool
    around: TorchState


@dataclass(kw_only=True)
class Call(GraphCall):
    """One run of a graph. modes: those of its thread before it; drew: whether it moved the CPU's generator.
    versions: of inputs that were not copied, to see whether they were written into since."""

    graph: Graph
    modes: Modes
    drew: bool = True
    versions: list[int | None] = field(default_factory=list)

    @property
    def overwritten(self) -> list[int]:
        """Positions of the inputs that are no longer what the call was given."""
        pairs = zip(self.versions, map(_version, self.args), strict=False)
        return [position for position, (then, now) in enumerate(pairs) if then != now]

    def returned(self, outputs: Any) -> None:
        self.drew = not torch.equal(self.modes.rng, torch.get_rng_state())
        self.keep_gradients(tensors.as_list(outputs))


class Recording:
    """The calls of one scope, in order, and the comparisons between them.

    failed: whether a comparison failed; tolerance: the (rtol, atol) that the last such one named. lost: why
    some call is not among them, or None.
    """

    def __init__(self) -> None:
        self.calls: deque[Call] = deque()
        self.failed = False
        self.lost: str | None = None
        self.tolerance: tuple[float, float] | None = None
        self._bytes: deque[int] = deque()
        self._made = 0
        self._rounds = (0, 0)  # calls before the round that was compared last, and with it
        self._failed_from = 0

    def begin(self, graph: Graph, args: Sequence[Any]) -> Call:
        size = tensors.nbytes(args)
        while self.calls and (len(self.calls) == MOST_CALLS or sum(self._bytes) + size > MOST_BYTES):
            self.calls.popleft()
            self._bytes.popleft()
        copied = size <= COPIED_BYTES
        call = Call(
            index=self._made,
            graph=graph,
            args=tensors.snapshot(args) if copied else list(args),
            requires_grad=tensors.grad_flags(args),
            modes=Modes.now(),
            versions=[] if copied else [_version(value) for value in args],
        )
        self._made += 1
        self.calls.append(call)
        self._bytes.append(size)
        return call

    def compared(self, differ: bool, tolerance: tuple[float, float] | None) -> None:
        """A comparison was made. Calls since the one before it, if there are any, are what it is about."""
        if self._made != self._rounds[1]:
            self._rounds = (self._rounds[1], self._made)
        if differ:
            self.failed, self.tolerance, self._failed_from = True, tolerance, self._rounds[0]

    def suspects(self) -> list[Call]:
        """The calls that the last failed comparison was about; all of them where none was seen to fail."""
        return [call for call in self.calls if call.index >= self._failed_from]


_OPEN: ContextVar[Recording | None] = ContextVar("open", default=None)


@contextlib.contextmanager
def recording() -> Iterator[Recording]:
    """What this thread runs in the block, and nobody else; an inner block takes it from an outer one."""
    made = Recording()
    token = _OPEN.set(made)
    try:
        yield made
    finally:
        _OPEN.reset(token)


def current() -> Recording | None:
    """The innermost open recording of this thread."""
    return _OPEN.get()


def _version(value: Any) -> int | None:
    if not isinstance(value, torch.Tensor) or value.is_inference():
        return None  # the tensors of inference mode do not count how often they are written into
    return int(value._version)
