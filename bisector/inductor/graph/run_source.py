"""The part of a repro that runs the function: eager and compiled get the same fresh inputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ...core.fix_source import UseBackend
from .inputs_source import list_source
from .ops_source import autocast_source
from .repro_spec import ReproSpec
from .source import FunctionSource
from .values import CannotWrite, Place, call_source, value_source

DIRECTLY = "def run(function):\n    return function(*inputs())\n"


@dataclass(frozen=True)
class RunSource:
    """The function `run(function)`; eager and compiled: the texts of what it is called with.

    compared: the table of names and tolerances of what run returns.
    """

    text: str
    eager: str
    compiled: str
    compared: str

    @property
    def directly(self) -> bool:
        """Whether run(function) is no more than function(*inputs())."""
        return self.text == DIRECTLY


def run_source(spec: ReproSpec, function: FunctionSource) -> RunSource:
    """Runs `function`, which of a frozen repro takes its constants (`FunctionSource.given_constants`).

    Raises CannotWrite where the tolerances do not match what is compared.
    """
    parameters = function.parameters
    compared = _compared(spec, parameters)
    owned = _owned(spec, parameters)
    constants = list(function.constants) if is_frozen(spec) else []
    if not owned and not constants:
        return RunSource(
            _run(spec, parameters), "fn", f"torch.compile({_compile_arguments('fn', spec)})", compared
        )
    return RunSource(
        _module(spec, parameters, owned, constants) + "\n\n" + _run(spec, parameters, owned),
        "lambda model: model",
        f"lambda model: torch.compile({_compile_arguments('model', spec)})",
        compared,
    )


def is_frozen(spec: ReproSpec) -> bool:
    """Whether Inductor folds what a module owns: freezing is on, and it acts in inference alone."""
    return bool(spec.settings.get("inductor.freezing")) and not spec.grad_enabled


def _compared(spec: ReproSpec, parameters: Sequence[str]) -> str:
    with_grad = [name for name, flag in zip(parameters, spec.grad_flags, strict=True) if flag]
    tensors = [n for n, v in zip(parameters, spec.inputs, strict=True) if isinstance(v, torch.Tensor)]
    outputs = next(node.args[0] for node in reversed(spec.gm.graph.nodes) if node.op == "output")
    count = len(outputs) if isinstance(outputs, (tuple, list)) else 1
    gradients = [f"gradient of {name}" for name in with_grad] if spec.grad_outputs is not None else []
    afterwards = [f"{name} after the call" for name in tensors] if spec.input_tolerances else []
    rows: list[tuple[str, float, float]] = []
    for names, tolerances, what in (
        ([f"output {i}" for i in range(count)], spec.tolerances, "outputs"),
        (gradients, spec.grad_tolerances, "gradients"),
        (afterwards, spec.input_tolerances, "inputs"),
    ):
        if len(names) != len(tolerances):
            raise CannotWrite(f"{len(tolerances)} tolerances for {len(names)} {what}")
        rows += [(name, rtol, atol) for name, (rtol, atol) in zip(names, tolerances, strict=True)]
    return "\n".join(
        ["COMPARED = [  # what, rtol, atol", *(f"    {value_source(row)}," for row in rows), "]"]
    )


def _run(spec: ReproSpec, parameters: Sequence[str], owned: Sequence[str] | None = None) -> str:
    """owned: the inputs that the module is made of; None where `function` is no maker of a module."""
    gradients = [f"args[{i}].grad" for i, flag in enumerate(spec.grad_flags) if flag]
    tensors = [i for i, value in enumerate(spec.inputs) if isinstance(value, torch.Tensor)]
    more = [
        *(gradients if spec.grad_outputs is not None else []),
        *([f"args[{i}]" for i in tensors] if spec.input_tolerances else []),
    ]
    lines = [] if spec.seed is None else [f"torch.manual_seed({spec.seed})"]
    call = "function(*args)" if more else "function(*inputs())"
    if owned is not None:
        given = [f"args[{i}]" for i, name in enumerate(parameters) if name not in owned]
        members = [f"args[{i}]" for i, name in enumerate(parameters) if name in owned]
        call = f"function({call_source('Model', members)})({', '.join(given)})"
    if owned is not None or more:
        lines.append("args = inputs()")
    for depth, (device_type, dtype) in enumerate(spec.autocast):
        lines.append("    " * depth + f"with {autocast_source(device_type, dtype)}:")
    lines.append("    " * len(spec.autocast) + (f"outputs = {call}" if more else f"return {call}"))
    if spec.grad_outputs is not None:
        roots = [f"outputs[{i}]" for i, grad in enumerate(spec.grad_outputs) if grad is not None]
        lines.append(f"torch.autograd.backward([{', '.join(roots)}], grad_outputs())")
    if more:
        lines.append(f"return {list_source(['*outputs', *more])}")
    return "\n".join(["def run(function):", *("    " + line for line in lines)]) + "\n"


def _compile_arguments(name: str, spec: ReproSpec) -> str:
    kwargs = {key: value_source(value) for key, value in spec.compile_kwargs.items()}
    if isinstance(spec.fix, UseBackend):
        plain = kwargs.get("backend", '"inductor"')
        kwargs["backend"] = f'{value_source(spec.fix.backend)} if "--fixed" in sys.argv else {plain}'
    return ", ".join([name, *(f"{key}={text}" for key, text in kwargs.items())])


def _owned(spec: ReproSpec, parameters: Sequence[str]) -> list[str]:
    """The inputs that must live on a module, for freezing to fold them."""
    placeholders = [str(node.target) for node in spec.gm.graph.nodes if node.op == "placeholder"]
    return [
        name
        for name, value, placeholder in zip(parameters, spec.inputs, placeholders, strict=True)
        if is_frozen(spec) and (isinstance(value, torch.nn.Parameter) or re.search(r"_buffers_", placeholder))
    ]


def _module(
    spec: ReproSpec, parameters: Sequence[str], owned: Sequence[str], constants: Sequence[str]
) -> str:
    values = dict(zip(parameters, spec.inputs, strict=True))
    lines = [
        "class Model(torch.nn.Module):  # freezing folds what a module owns",
        "    " + call_source("def __init__", ["self", *owned], Place(4)) + ":",
        "        super().__init__()",
    ]
    for name in owned:
        if isinstance(values[name], torch.nn.Parameter):
            lines.append(f"        self.{name} = torch.nn.Parameter({name}, requires_grad=False)")
        else:
            lines.append(f'        self.register_buffer("{name}", {name})')
    lines += [f'        self.register_buffer("{name}", {name})' for name in constants]
    given = [p for p in parameters if p not in owned]
    passed = [f"self.{p}" if p in owned else p for p in parameters]
    passed += [f"self.{name}" for name in constants]
    lines += [
        "",
        f"    def forward({', '.join(['self', *given])}):",
        "        " + call_source("return fn", passed, Place(8)),
    ]
    return "\n".join(lines) + "\n"
