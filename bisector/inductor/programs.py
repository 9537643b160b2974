"""Compiled forms of one subject side by side: each under flags of its own, to be run again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from ..core.case import Case
from ..core.model import Candidate
from . import execute, tensors, torch_state
from .graph import edit


@dataclass(frozen=True)
class Program:
    """One compiled form of a subject, and the flags that it runs under."""

    subject: execute.Subject
    compiled: Callable[..., Any]
    flags: Mapping[str, Any]

    @contextmanager
    def flags_set(self) -> Iterator[None]:
        with torch_state.kept(self.flags):
            torch_state.apply_flags(self.flags)
            yield

    def inputs(self) -> list[Any]:
        """The subject's own, for one run or for many."""
        return tensors.fresh(self.subject.edited.args, self.subject.edited.requires_grad)


def program(subject: execute.Subject, case: Case, candidate: Candidate) -> Program:
    """Compiled from a copy of the graph, with static shapes: a second compile would find the call's own
    tracing context changed by the first. Raises NotCompiled.

    It has run once: a backward graph is compiled when it first runs, under the settings of then.
    """
    call, flags = subject.call, dict(candidate.flags)
    edited = edit.apply(call.graph.gm, call.args, call.requires_grad, case, lambda: None)
    copied = replace(subject, edited=edited, whole=False)
    with torch_state.kept([*flags, execute.HEADER_FLAG]), execute.active(execute.control_for(candidate)):
        made = Program(copied, execute.compile_subject(copied, candidate), flags)
        execute.run(copied, made.compiled)
    return made
