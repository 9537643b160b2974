"""Recorded calls as a script: plain torch, with the inputs in a file next to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..core.repro_file import comment, joined_blocks
from ..inductor.graph.ops_source import autocast_source
from ..inductor.graph.parts import imports_source
from ..inductor.graph.settings_source import setting_statements
from ..inductor.graph.source import Writer
from ..inductor.graph.tensor_literals import Source, check_plain
from ..inductor.graph.values import CannotWrite, call_source, concrete, value_source
from ..inductor.torch_state import Modes, TorchState
from .recording import Call, Graph

KEPT = "inputs.pt"
LOAD = f'''\
def load():
    """What was kept beside this file."""
    return torch.load(Path(__file__).with_name("{KEPT}"), weights_only=True)
'''


@dataclass(frozen=True)
class WrittenProgram:
    """text: of the script; functions: the part of it that says what is computed, which two divergences of one
    program share; kept: what the script reads from `KEPT`, of types that `torch.load` takes without
    unpickling."""

    text: str
    functions: str
    kept: Mapping[str, Any]


class _Functions(Writer):
    """Functions whose constants are tensors of the file, not literals."""

    def __init__(self) -> None:
        super().__init__()
        for name in ("load", "Path"):
            self.globals.take(name)
        self.tensors: dict[str, torch.Tensor] = {}

    def constant(self, tensor: torch.Tensor, wanted: str) -> str:
        check_plain(tensor)
        name = self.globals.take(wanted.strip("_").upper())
        self.tensors[name] = tensor.detach()
        self.constants[name] = Source(f'load()["constants"]["{name}"]')
        return name


def program(
    calls: Sequence[Call], tolerance: tuple[float, float] | None, header: Sequence[str]
) -> WrittenProgram:
    """The script that makes the calls again, compiled and eager, and compares what they return.

    tolerance: (rtol, atol), None for those of `torch.testing.assert_close`. header: lines of the comment on
    top. Settings are those under which the last of the calls was compiled. Raises CannotWrite where
    a graph or an input has no exact plain form.
    """
    functions = _Functions()
    names: dict[int, str] = {}
    for call in calls:
        if id(call.graph.gm) not in names:
            names[id(call.graph.gm)] = functions.globals.take("graph")
            functions.function(call.graph.gm, names[id(call.graph.gm)])
    around = calls[-1].graph.around
    settings = setting_statements(around.script_settings())
    blocks = [
        "\n".join([*_defaults(around), *settings.lines]),
        *functions.functions,
        LOAD,
        "\n".join(f"{name} = {source.text}" for name, source in functions.constants.items()),
        _run(calls),
        "\n".join(_comparison(call, place, names, tolerance) for place, call in enumerate(calls)),
    ]
    imports = imports_source({*functions.imports, *settings.imports, "from pathlib import Path"}, blocks)
    kept = {"calls": [_kept(call) for call in calls], "constants": functions.tensors}
    text = joined_blocks([comment(header) + "\n\n" + imports, *blocks])
    return WrittenProgram(text, "\n\n".join(functions.functions), kept)


def _defaults(around: TorchState) -> list[str]:
    lines = [f"torch.set_num_threads({around.num_threads})"]
    if around.default_dtype is not torch.float32:
        lines.append(f"torch.set_default_dtype({around.default_dtype})")
    return lines


def _run(calls: Sequence[Call]) -> str:
    """The function that makes one call, with no more in it than some call needs."""
    lines = [
        "def run(function, call):",
        '    """What the function returns for the inputs of this call, and the gradients of the inputs."""',
        '    kept = load()["calls"][call]',
    ]
    if any(call.drew for call in calls):
        lines += ['    if "rng" in kept:', '        torch.set_rng_state(kept["rng"])']
    if not any(call.grad_outputs for call in calls):
        lines[1] = lines[1].replace(", and the gradients of the inputs", "")
        return "\n".join([*lines, '    return function(*kept["inputs"])'])
    return "\n".join([
        *lines,
        '    outputs = function(*kept["inputs"])',
        '    if "grads" in kept:',
        '        torch.autograd.backward([outputs[i] for i in kept["grads"]], list(kept["grads"].values()))',
        '    return outputs, [getattr(value, "grad", None) for value in kept["inputs"]]',
    ])


def _comparison(
    call: Call, place: int, names: Mapping[int, str], tolerance: tuple[float, float] | None
) -> str:
    name = names[id(call.graph.gm)]
    compiled = call_source("torch.compile", [name, *_compile_arguments(call.graph)])
    arguments = [f"run({compiled}, {place})", f"run({name}, {place})"]
    if tolerance is not None:
        rtol, atol = tolerance
        arguments += [f"rtol={rtol!r}", f"atol={atol!r}"]
    modes = _with(call.modes)
    line = call_source("torch.testing.assert_close", [*arguments, "equal_nan=True"])
    if not modes:
        return line
    return f"with {', '.join(modes)}:\n" + "\n".join(f"    {part}" for part in line.splitlines())


def _compile_arguments(graph: Graph) -> list[str]:
    arguments = ["dynamic=True"] if graph.dynamic else []
    if graph.options:
        arguments.append(f"options={value_source(graph.options)}")
    return arguments


def _with(modes: Modes) -> list[str]:
    grad = [] if modes.grad_enabled else ["torch.no_grad()"]
    first = ["torch.inference_mode()"] if modes.inference_mode else grad
    return first + [autocast_source(device, dtype) for device, dtype in modes.autocast_on()]


def _kept(call: Call) -> dict[str, Any]:
    if call.overwritten:
        raise CannotWrite("an input too large to be copied was written into after the call")
    inputs = [concrete(value) for value in call.args]
    for value in inputs:
        if isinstance(value, torch.Tensor):
            check_plain(value)
        else:
            value_source(value)  # what has no source form is no number either that a file would hold
    flags = zip(inputs, call.requires_grad, strict=True)
    kept: dict[str, Any] = {"inputs": [_leaf(value, flag) for value, flag in flags]}
    if call.drew:
        kept["rng"] = call.modes.rng
    if call.grad_outputs:
        kept["grads"] = dict(call.grad_outputs)
    return kept


def _leaf(value: Any, requires_grad: bool) -> Any:
    return value.detach().requires_grad_(requires_grad) if isinstance(value, torch.Tensor) else value
