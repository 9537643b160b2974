"""Compile a small program with a Control and see what came of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch

from bisector.core.model import Base
from bisector.inductor import source_capture
from bisector.inductor.control import Control, activate

Program = Callable[..., Any]


@dataclass(frozen=True)
class Ran:
    """outputs: a list, whatever the program returns; source: normalised."""

    outputs: list[torch.Tensor]
    source: str
    control: Control

    @property
    def ids(self) -> list[str]:
        return [decision.id for decision in self.control.decisions()]

    def agrees_with(self, expected: list[torch.Tensor]) -> bool:
        return all(same(a, b) for a, b in zip(self.outputs, expected, strict=True))


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Bit-equal, NaN equal to NaN, -0.0 not equal to 0.0."""
    return torch.equal(a.isnan(), b.isnan()) and torch.equal(_bits(a), _bits(b))


def _bits(x: torch.Tensor) -> torch.Tensor:
    if not x.is_floating_point():
        return x
    integer = {2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()]
    return torch.where(x.isnan(), torch.zeros_like(x), x).contiguous().view(integer)


def flat(result: Any) -> list[torch.Tensor]:
    return list(result) if isinstance(result, (tuple, list)) else [result]


def deny(*members: str) -> Control:
    return Control(Base.DEFAULT, members)


def allow(*members: str) -> Control:
    return Control(Base.PLAIN, members)


def allow_all(*members: str) -> Control:
    """All of them allowed over the plain baseline, which keeps places unless they are members."""
    return allow(*(member for member in members if not member.startswith("lower:")))


def compile_and_run(fn: Program, args: Sequence[Any], control: Control | None = None) -> Ran:
    """Compiles `fn` anew under the Control (None: the hooks are passive) and runs it once."""
    torch._dynamo.reset()
    with nullcontext() if control is None else activate(control), source_capture.collected() as sources:
        outputs = flat(torch.compile(fn, dynamic=False)(*args))
    return Ran(outputs, "\n".join(map(source_capture.normalized, sources)), control or Control())


def compile_only(fn: Program, args: Sequence[Any], control: Control | None = None) -> Ran:
    """The same up to the source: no C++ compiler starts."""
    torch._dynamo.reset()
    with nullcontext() if control is None else activate(control):
        sources = source_capture.source_only(lambda: torch.compile(fn, dynamic=False)(*args))
    return Ran([], "\n".join(map(source_capture.normalized, sources)), control or Control())
