"""Run a captured call once in eager and once compiled: the body of a probe, in a process of its own."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from ..core.case import WHOLE, Case
from ..core.model import Base, Candidate, Measurement
from ..errors import first_line
from . import compilation, control, run_values, tensors, torch_state
from .capture.record import Call
from .equality import same
from .graph import edit
from .measure import Exact

Outputs = dict[str, Any]  # path (`output[0]`, `grad[x]`, `mutated[x]`) -> value


# Kernels of one probe that are compiled side by side; more would only wait for each other and for memory.
COMPILERS = min(4, os.cpu_count() or 1)


class NotCompiled(Exception):
    """There is no compiled program. The message is the reason of an UNRESOLVED probe.

    cause: what the compiler raised, None where it was never asked.
    """

    def __init__(self, reason: str, cause: Exception | None = None) -> None:
        super().__init__(reason)
        self.cause = cause


@dataclass
class Subject:
    """A call with a case applied: what is run, on what, and how its backward is seeded.

    own_outputs: how many outputs take part in the backward pass, if not all; the others are there to be seen.
    """

    call: Call
    edited: edit.Edited
    whole: bool
    train: bool
    own_outputs: int | None = None

    @property
    def names(self) -> list[str]:
        return self.edited.input_names()


def prepare(call: Call, case: Case, train: bool | None) -> Subject:
    """Apply the case. train: compare gradients too; None: as the script did (it called backward or not)."""
    torch_state.restore(call.state)
    training = bool(call.grad_outputs) if train is None else train
    if case == WHOLE:
        edited = edit.Edited(call.graph.gm, call.args, call.requires_grad, True)
    else:
        edited = edit.apply(
            call.graph.gm, call.args, call.requires_grad, case, lambda: torch_state.restore_rng(call.state)
        )
    return Subject(call, edited, case == WHOLE, training)


def run(subject: Subject, fn: Callable[..., Any], args: list[Any] | None = None) -> Outputs:
    """Outputs, gradients and mutated inputs of one run from the recorded state of the generators."""
    torch_state.restore_rng(subject.call.state)
    return run_again(subject, fn, args)


def run_again(subject: Subject, fn: Callable[..., Any], args: list[Any] | None = None) -> Outputs:
    """The same without putting the generators back: random programs then differ from their first run."""
    edited = subject.edited
    with _disable_current_modes():  # bookkeeping is no part of the program that a mode looks at
        before = edited.args if args is None else tensors.snapshot(args)
    inputs = tensors.fresh(edited.args, edited.requires_grad) if args is None else list(args)
    flat = tensors.as_list(fn(*inputs))
    outputs: Outputs = {f"output[{i}]": _detached(v) for i, v in enumerate(flat)}
    if subject.train:
        backward(subject, flat[: subject.own_outputs])
        for name, value in zip(subject.names, inputs, strict=True):
            if isinstance(value, torch.Tensor) and value.requires_grad:
                outputs[f"grad[{name}]"] = None if value.grad is None else value.grad.detach()
    with _disable_current_modes():
        outputs.update(_mutated(subject, before, inputs))
    return outputs


def _detached(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, torch.Tensor) else value


def backward(subject: Subject, flat: list[Any]) -> None:
    """The backward pass from the outputs of a forward one, seeded as the script seeded it, else by ones."""
    roots, grads = [], []
    for i, output in enumerate(flat):
        if not isinstance(output, torch.Tensor) or not output.requires_grad:
            continue
        grad = subject.call.grad_outputs.get(i) if subject.edited.outputs_kept else None
        if grad is None and subject.edited.outputs_kept and subject.call.grad_outputs:
            continue  # the script's loss did not use this output
        roots.append(output)
        grads.append(seed(grad, output))
    if roots:
        torch.autograd.backward(roots, grads)


def seed(grad: torch.Tensor | None, output: torch.Tensor) -> torch.Tensor:
    """What the backward pass starts from at an output: the script's gradient where it fits, else ones."""
    fits = grad is not None and grad.shape == output.shape
    return grad.to(output.dtype) if grad is not None and fits else torch.ones_like(output)


def _mutated(subject: Subject, before: Sequence[Any], after: Sequence[Any]) -> Outputs:
    changed: Outputs = {}
    for name, old, new in zip(subject.names, before, after, strict=True):
        if not isinstance(old, torch.Tensor) or old.layout is not torch.strided:
            continue
        if not same(old, new):
            changed[f"mutated[{name}]"] = new.detach()
    return changed


def measured(
    subject: Subject,
    eager: Mapping[str, Any],
    other: Mapping[str, Any],
    reference: Mapping[str, Exact] | None = None,
    args: Sequence[Any] | None = None,
) -> Measurement:
    """How the outputs of another run stand to eager's. An input that only one of the two wrote into is, on
    the other side, the input as it was. args: the inputs, where they are not the subject's own."""
    inputs = zip(subject.names, subject.edited.args if args is None else args, strict=True)
    as_given = {f"mutated[{name}]": value for name, value in inputs if isinstance(value, torch.Tensor)}

    def whole(one: Mapping[str, Any], two: Mapping[str, Any]) -> Outputs:
        unwritten = (path for path in two if path not in one and path in as_given)
        return {**one} | {path: as_given[path].detach() for path in unwritten}

    return run_values.measured(whole(eager, other), whole(other, eager), reference)


def eager_program(subject: Subject) -> Callable[..., Any]:
    """The graph in eager, node by node: generated code differs for a negative literal's power."""
    return torch.fx.Interpreter(subject.edited.gm).run


def control_for(candidate: Candidate) -> control.Control | None:
    """The control of a candidate; None where the compile must be plain torch's own, hooks asleep."""
    if candidate.backend != "inductor":
        return None
    if candidate.needs_hooks or not candidate.flags:
        return control.Control(candidate.base, candidate.members)
    return None


@contextlib.contextmanager
def active(decisions: control.Control | None, threads: int = COMPILERS) -> Iterator[None]:
    with compilation.probe_caches(threads), contextlib.ExitStack() as stack:
        if decisions is not None:
            stack.enter_context(control.activate(decisions))
        yield


def compile_once(call: Call, case: Case, train: bool | None) -> None:
    """Compile a copy of the case's graph for what it leaves in Python's caches; run nothing.

    With shapes of its own: the call's tracing context and graph stay as Dynamo left them.
    """
    subject = prepare(call, case, train)
    before = partial(torch_state.restore_rng, call.state)
    edited = edit.apply(call.graph.gm, call.args, call.requires_grad, case, before)
    with active(control_for(Candidate()), threads=1):  # children will be forked from here
        compile_subject(replace(subject, edited=edited, whole=False), Candidate())


# These change the C++ compiler's command line. A precompiled header for a command line of its own costs
# more than it saves on the few kernels of one probe (7 s against 2 s a kernel).
HEADER_FLAG = "inductor.cpp_cache_precompile_headers"
CONTRACTION = "inductor.cpp.enable_floating_point_contract_flag"
COMMAND_LINE_FLAGS = {
    CONTRACTION,
    "inductor.cpp.enable_unsafe_math_opt_flag",
    "inductor.cpp.simdlen",
}


def compile_subject(subject: Subject, candidate: Candidate) -> Callable[..., Any]:
    entry = subject.call.graph.entry
    flags = dict(candidate.flags)
    options = {k: v for k, v in entry.options.items() if f"inductor.{k}" not in flags}
    try:
        torch_state.apply_flags(flags, options)
        if COMMAND_LINE_FLAGS & flags.keys() and torch_state.has_flag(HEADER_FLAG):
            torch_state.apply_flags({HEADER_FLAG: False})
    except torch_state.CannotSet as error:
        raise NotCompiled(str(error)) from error
    backend: Any = candidate.backend
    if backend == "inductor" and entry.backend != "inductor" and candidate.base is Base.DEFAULT:
        backend = entry.backend
    subject.call.put_back_originals()
    context = subject.call.graph.tracing_context if subject.whole else None
    inputs = subject.call.graph.example_inputs if context is not None else _leaves(subject)
    compiled = partial(compilation.compile_graph, subject.edited.gm, inputs, context, backend, options)
    try:
        return _built(compiled)
    except Exception as error:
        raise NotCompiled(f"compile error: {first_line(error)}", error) from error


def _built(compiled: Callable[[], Callable[..., Any]]) -> Callable[..., Any]:
    """Once more where a kernel was cut short."""
    try:
        return compiled()
    except Exception as error:  # the compiler wraps what the loader raises
        if not _removed(error):
            raise
        return compiled()


# What the dynamic loader says of a kernel whose compiler was killed while it wrote it. Inductor takes a file
# that is there for a whole one (torch/_inductor/codecache.py).
_CUT_SHORT = re.compile(r"(/\S+\.so): (?:file too short|invalid ELF header|failed to map segment)")


def _removed(error: Exception) -> bool:
    """Whether it was such a kernel, which is deleted, so that it is built anew."""
    found = _CUT_SHORT.search(str(error))
    if found is None:
        return False
    Path(found[1]).unlink(missing_ok=True)
    return True


def _leaves(subject: Subject) -> list[Any]:
    return tensors.fresh(subject.edited.args, subject.edited.requires_grad)
