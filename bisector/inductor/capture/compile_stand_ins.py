"""Stand-ins for the functions of torch by which a program compiles: the one module that replaces them.

Every form of compiling ends in `torch.compile` or `torch._dynamo.optimize` (`nn.Module.compile`, decorators
and `from torch import compile` included), and every use of the backend `inductor` in
`torch._inductor.compile_fx.compile_fx`. What torch compiles for itself is left alone. Nothing of the compiler
is imported before it is replaced: a script may set variables for it after it imported torch.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import torch

from ..threads import ThreadFlag
from .wrapped_calls import is_of_torch

StandIn = tuple[Any, str, Callable[..., Any]]  # owner, name, and what is put there
# Given torch's own function, what is compiled, and the arguments by name; returns the compiled form.
Compiled = Callable[[Callable[..., Any], Any, dict[str, Any]], Any]
# Given torch's own function, the graph, its inputs and the other arguments; returns the compiled graph.
Lowered = Callable[[Callable[..., Any], Any, Any, Mapping[str, Any]], Any]
_COMPILING = ThreadFlag()  # torch.compile of ours runs, which calls torch._dynamo.optimize


def of_compile(compiled: Compiled) -> StandIn:
    """For torch.compile."""
    original = torch.compile

    @functools.wraps(original)
    def compile(model: Any = None, **given: Any) -> Any:
        if model is None:
            return functools.partial(compile, **given)
        if is_of_torch(sys._getframe(1)):
            return original(model, **given)
        with _COMPILING.set():
            return compiled(original, model, given)

    return torch, "compile", compile


def of_optimize(compiled: Compiled) -> StandIn:
    """For torch._dynamo.optimize, where a program calls it itself. Among the arguments is `backend`."""
    import torch._dynamo

    original = torch._dynamo.optimize

    @functools.wraps(original)
    def optimize(backend: Any = "inductor", *args: Any, **given: Any) -> Any:
        if _COMPILING.is_set or given.get("disable") or is_of_torch(sys._getframe(1)):
            return original(backend, *args, **given)

        def optimized(model: Any, **changed: Any) -> Any:
            named = {"backend": backend, **given, **changed}
            return original(named.pop("backend"), *args, **named)(model)

        return lambda model: compiled(optimized, model, {"backend": backend, **given})

    return torch._dynamo, "optimize", optimize


def of_compile_fx(lowered: Lowered) -> StandIn:
    """For Inductor's compile_fx, which also calls itself, with its options set.

    Raises AttributeError where this torch has none.
    """
    import torch._inductor.compile_fx as module

    original: Callable[..., Any] = module.compile_fx

    @functools.wraps(original)
    def compile_fx(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
        def function(model: Any, inputs: Any, **named: Any) -> Any:
            return original(model, inputs, *args, **named)

        return lowered(function, model_, example_inputs_, kwargs)

    return module, "compile_fx", compile_fx


def outermost(lowered: Lowered) -> Lowered:
    """The same for what a program compiles, without the calls that compile_fx then makes of itself."""
    running = ThreadFlag()

    def once(original: Callable[..., Any], model: Any, inputs: Any, given: Mapping[str, Any]) -> Any:
        if running.is_set:
            return original(model, inputs, **given)
        with running.set():
            return lowered(original, model, inputs, given)

    return once
