"""Stand-ins by which this process tells an open recording what it compiles, runs and compares.

Two functions of torch are replaced, once and for good, since what runs in a scope may have been compiled
before it: `torch._inductor.compile_fx.compile_fx`, by which every use of the backend `inductor` goes, and
`torch.testing._comparison.not_close_error_metas`, by which `torch.testing.assert_close` compares, under
whatever name a program holds it. Torch looks both up in their modules each time.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.testing._comparison
from torch import fx

from bisector.errors import first_line
from bisector.inductor import torch_state
from bisector.inductor.capture.compile_stand_ins import of_compile_fx, outermost

from .recording import Call, Graph, Recording, current

STAND_IN = "numbisect_stand_in"
NOT_CLOSE = "not_close_error_metas"


def install() -> None:
    """From now on recordings are notified; a second call does nothing. They hear of no comparison where this
    torch has no such function."""
    stand_ins = [of_compile_fx(outermost(_lowered))]
    if (comparing := getattr(torch.testing._comparison, NOT_CLOSE, None)) is not None:
        stand_ins.append((torch.testing._comparison, NOT_CLOSE, _comparing(comparing)))
    for module, name, stand_in in stand_ins:
        if not hasattr(getattr(module, name), STAND_IN):
            setattr(stand_in, STAND_IN, True)
            setattr(module, name, stand_in)


def eager_backend(gm: fx.GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
    """A backend of torch.compile that runs the graph in eager mode, and tells of it."""
    return _telling(fx.Interpreter(gm).run, _graph(gm, example_inputs, {}))


def _lowered(original: Callable[..., Any], gm: Any, inputs: Sequence[Any], given: Mapping[str, Any]) -> Any:
    if not isinstance(gm, fx.GraphModule):
        return original(gm, inputs, **given)
    graph = _graph(gm, inputs, dict(given.get("config_patches") or {}))
    return _telling(original(gm, inputs, **given), graph)


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


def _telling(compiled: Callable[..., Any], graph: Graph | str) -> Callable[..., Any]:
    """graph: or why there is none."""

    @functools.wraps(compiled)
    def run(*args: Any) -> Any:
        recording = current()
        if recording is None:
            return compiled(*args)
        boxed = len(args) == 1 and isinstance(args[0], list)  # as AOTAutograd passes arguments on
        call = _begun(recording, graph, args[0] if boxed else args)
        outputs = compiled(*args)
        if call is not None:
            call.returned(outputs)
        return outputs

    return run


def _graph(gm: fx.GraphModule, example_inputs: Sequence[Any], options: Mapping[str, Any]) -> Graph | str:
    """The graph as it is now, or why it cannot be had: the user's compile must go on."""
    try:
        # The same nodes over the same parameters: Inductor changes the graph that it is given.
        own = fx.GraphModule(gm, copy.deepcopy(gm.graph))
        around = torch_state.take(torch_state.default_values())
        return Graph(own, options, _is_dynamic(example_inputs), around)
    except Exception as error:  # noqa: BLE001 - whatever the graph holds
        return f"its graph cannot be copied: {first_line(error)}"


def _begun(recording: Recording, graph: Graph | str, args: Sequence[Any]) -> Call | None:
    if isinstance(graph, str):
        recording.lost = graph
        return None
    try:
        return recording.begin(graph, args)
    except Exception as error:  # noqa: BLE001 - whatever the arguments are: the user's call must go on
        recording.lost = f"its inputs cannot be copied: {first_line(error)}"
        return None


def _is_dynamic(example_inputs: Sequence[Any]) -> bool:
    sizes = [s for v in example_inputs if isinstance(v, torch.Tensor) for s in v.shape]
    return any(isinstance(value, torch.SymInt) for value in [*example_inputs, *sizes])
