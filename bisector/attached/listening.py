"""Stand-ins by which this process tells an open recording what it compiles, runs and compares.

Two functions of torch are replaced, once and for good, since what runs in a scope may have been compiled
before it: `torch._inductor.compile_fx.compile_fx`, by which every use of the backend `inductor` goes, and
`torch.testing._comparison.not_close_error_metas`, by which `torch.testing.assert_close` compares, under
whatever name a program holds it. Torch looks both up in their modules each time.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import torch
import torch._inductor.compile_fx
import torch.testing._comparison
from torch import fx

from .recording import Graph, current

STAND_IN = "numbisect_stand_in"
_COMPILING: ContextVar[bool] = ContextVar("compiling", default=False)


def install() -> None:
    """From now on recordings are told; a second call does nothing. Of a function that this torch does not
    have, nothing is told."""
    for module, name, stand_in in (
        (torch._inductor.compile_fx, "compile_fx", _compiling),
        (torch.testing._comparison, "not_close_error_metas", _comparing),
    ):
        original = getattr(module, name, None)
        if original is not None and not hasattr(original, STAND_IN):
            replaced = stand_in(original)
            setattr(replaced, STAND_IN, True)
            setattr(module, name, replaced)


def eager_backend(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend of torch.compile that runs the graph in eager mode, and tells of it."""
    graph = Graph(_own_copy(gm), {}, _is_dynamic(example_inputs))
    return _telling(fx.Interpreter(gm).run, graph)


def _compiling(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def compile_fx(model_: Any, example_inputs_: Any, *args: Any, **kwargs: Any) -> Any:
        if _COMPILING.get() or not isinstance(model_, fx.GraphModule):
            return original(model_, example_inputs_, *args, **kwargs)
        options = dict(kwargs.get("config_patches") or {})
        graph = Graph(_own_copy(model_), options, _is_dynamic(example_inputs_))
        token = _COMPILING.set(True)  # it calls itself, with its options set
        try:
            compiled = original(model_, example_inputs_, *args, **kwargs)
        finally:
            _COMPILING.reset(token)
        return _telling(compiled, graph)

    return compile_fx


def _comparing(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def not_close_error_metas(*args: Any, **kwargs: Any) -> Any:
        errors = original(*args, **kwargs)
        recording = current()
        if recording is not None:
            rtol, atol = kwargs.get("rtol"), kwargs.get("atol")
            recording.compared(bool(errors), None if rtol is None or atol is None else (rtol, atol))
        return errors

    return not_close_error_metas


def _telling(compiled: Callable[..., Any], graph: Graph) -> Callable[..., Any]:
    @functools.wraps(compiled)
    def run(*args: Any) -> Any:
        recording = current()
        if recording is None:
            return compiled(*args)
        boxed = len(args) == 1 and isinstance(args[0], list)  # as AOTAutograd passes arguments on
        call = recording.begin(graph, args[0] if boxed else args)
        outputs = compiled(*args)
        call.returned(outputs)
        return outputs

    return run


def _own_copy(gm: fx.GraphModule) -> fx.GraphModule:
    """The same nodes over the same parameters: Inductor changes the graph that it is given."""
    return fx.GraphModule(gm, copy.deepcopy(gm.graph))


def _is_dynamic(example_inputs: Sequence[Any]) -> bool:
    sizes = [s for v in example_inputs if isinstance(v, torch.Tensor) for s in v.shape]
    return any(isinstance(value, torch.SymInt) for value in [*example_inputs, *sizes])
