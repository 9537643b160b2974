"""Parts of the repro of a graph: the function, its inputs, how eager and compiled are run, and the data."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from bisector.core.fix import UseBackend

from ..equality import same
from .ops_source import autocast_source
from .repro_spec import ReproSpec
from .source import FunctionSource, function_source, verify
from .tensor_literals import UNPACK, Source, check_plain, literal, text_names
from .values import LINE_WIDTH, CannotWrite, Place, call_source, concrete, filled, value_source

BLOB_WIDTH = 100
DIRECTLY = "def run(function):\n    return function(*inputs())\n"


@dataclass(frozen=True)
class Parts:
    """Texts of one file. data: what nobody reads; it stands last."""

    function: FunctionSource
    inputs: Source
    grads: Source
    run: RunSource
    data: str


def parts_of(spec: ReproSpec) -> Parts:
    """The parts. The function and the inputs have been run in this process: they are bit-equal to the graph
    and its inputs. Raises CannotWrite where something has no exact text, or is unknown to this torch.
    """
    with _ambient(spec):
        function = function_source(spec.gm, decisions=spec.decisions)
        verify(function, spec.gm, spec.inputs, spec.seed or 0)
    if is_frozen(spec):
        function = function.given_constants()
    inputs, grads = _inputs(spec, function), _grad_outputs(spec)
    blobs = _joined([inputs.blobs, grads.blobs, *(c.blobs for c in function.constants.values())])
    return Parts(function, inputs, grads, run_source(spec, function), _data(blobs, function.constants))


def imports_source(lines: set[str], blocks: Iterable[str]) -> str:
    """The import lines: what the blocks use of the standard library, then torch, then torch's own modules."""
    text = "\n".join(blocks)
    first = ["import base64", "import zlib"] if "unpack(" in text else []
    first += sorted(line for line in lines if not line.startswith("import torch"))
    numbers = [name for name in ("inf", "nan") if re.search(rf"(?<![\w\"']){name}\b(?![\"'])", text)]
    if numbers:
        first.append(f"from math import {', '.join(numbers)}")
    rest = sorted(line for line in lines if line.startswith("import torch"))
    return "\n".join([*first, *([""] if first else []), "import torch", *rest])


@contextlib.contextmanager
def _ambient(spec: ReproSpec) -> Iterator[None]:
    """The modes in which the file runs its function."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.set_grad_enabled(spec.grad_enabled))
        for device_type, dtype in spec.autocast:
            stack.enter_context(torch.autocast(device_type, dtype=dtype))
        yield


def _text_dtype(spec: ReproSpec) -> torch.dtype | None:
    """float32, or None where the file changes the default dtype: then every literal names its own."""
    return spec.default_dtype if spec.default_dtype is torch.float32 else None


def _inputs(spec: ReproSpec, function: FunctionSource) -> Source:
    return arguments_source(
        "inputs",
        function.parameters,
        spec.inputs,
        spec.grad_flags,
        default_dtype=_text_dtype(spec),
    )


def _grad_outputs(spec: ReproSpec) -> Source:
    given = {f"output_{i}_grad": grad for i, grad in enumerate(spec.grad_outputs or ()) if grad is not None}
    if not given:
        return Source()
    values, flags = list(given.values()), [False] * len(given)
    return arguments_source("grad_outputs", list(given), values, flags, default_dtype=_text_dtype(spec))


def _joined(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    blobs: dict[str, str] = {}
    for part in parts:
        if clash := blobs.keys() & part.keys():
            raise CannotWrite(f"two tensors would both be called {min(clash)}")
        blobs.update(part)
    return blobs


def _data(blobs: Mapping[str, str], constants: Mapping[str, Source]) -> str:
    """Blobs, and constants made of them."""
    parts = [UNPACK + "\n"] if blobs else []
    for name, data in blobs.items():
        rows = [data[i : i + BLOB_WIDTH] for i in range(0, len(data), BLOB_WIDTH)]
        parts.append("\n".join([f'{name} = """', *rows, '"""']))
    parts += [f"{name} = {source.text}" for name, source in constants.items()]
    return "\n".join(parts) + "\n"


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
    if spec.raises:
        return ""
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
        lines.append(f"return {_list_source(['*outputs', *more])}")
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


def arguments_source(
    name: str,
    parameters: Sequence[str],
    values: Sequence[Any],
    requires_grad: Sequence[bool],
    default_dtype: torch.dtype | None = torch.float32,
) -> Source:
    """`def name(): ...` that returns a list of `values`, made afresh, under the names `parameters`. Storages
    that they share stay shared.

    default_dtype: as of `literal`. Raises CannotWrite where a value has no exact text.
    """
    values = [concrete(value) for value in values]
    sources = _sources(parameters, values, default_dtype)
    grads = dict(zip(parameters, requires_grad, strict=True))
    lines = [f"def {name}():"]
    blobs: dict[str, str] = {}
    for target, source in sources:
        lines.append(f"    {target} = {source.text}{'.requires_grad_()' if grads.get(target) else ''}")
        blobs.update(source.blobs)
    lines.append("    return " + _list_source(parameters))
    arguments = Source("\n".join(lines) + "\n", blobs)
    _check(name, arguments, values, requires_grad)
    return arguments


def _list_source(names: Sequence[str]) -> str:
    line = f"[{', '.join(names)}]"
    return line if len(line) < LINE_WIDTH - 12 else "[\n" + filled(names, " " * 8) + "\n    ]"


def _sources(
    parameters: Sequence[str],
    values: Sequence[Any],
    default_dtype: torch.dtype | None,
) -> Iterator[tuple[str, Source]]:
    """(name, text) pairs in the order in which they must stand; a storage comes before its views."""
    groups: dict[int, list[int]] = {}
    for position, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            check_plain(value)
            groups.setdefault(value.untyped_storage()._cdata, []).append(position)
    shared = {position: group for group in groups.values() if len(group) > 1 for position in group}
    for position, (name, value) in enumerate(zip(parameters, values, strict=True)):
        if not isinstance(value, torch.Tensor):
            yield name, Source(value_source(value))
        elif position not in shared:
            yield name, literal(value, name, default_dtype=default_dtype)
        else:
            yield from _view(position, shared[position], parameters, values, default_dtype)


def _view(
    position: int, group: Sequence[int], parameters: Sequence[str], values: Sequence[Any],
    default_dtype: torch.dtype | None,
) -> Iterator[tuple[str, Source]]:  # fmt: skip
    """One of several inputs over one storage; the first of them brings the storage along."""
    members = [values[p] for p in group]
    storage = parameters[group[0]] + "_storage"
    if len({member.dtype for member in members}) > 1:
        raise CannotWrite("inputs share a storage under different dtypes")
    start = min(member.storage_offset() for member in members)
    if position == group[0]:
        end = max(map(_end, members))
        whole = members[0].detach().as_strided((end - start,), (1,), start)
        yield storage, literal(whole, storage, default_dtype=default_dtype)
    value = values[position]
    where = [tuple(value.shape), tuple(value.stride()), value.storage_offset() - start]
    yield (
        parameters[position],
        Source(call_source(f"{storage}.as_strided", [value_source(w) for w in where])),
    )


def _end(tensor: torch.Tensor) -> int:
    reach: int = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return int(tensor.storage_offset()) + (reach + 1 if tensor.numel() else 0)


def _check(name: str, arguments: Source, values: Sequence[Any], requires_grad: Sequence[bool]) -> None:
    names = text_names(arguments.blobs)
    exec(arguments.text, names)
    made = names[name]()
    for value, copy, grad in zip(values, made, requires_grad, strict=True):
        equal = same(value, copy)
        if equal and isinstance(value, torch.Tensor):
            equal = (copy.stride(), copy.requires_grad, copy.is_leaf) == (value.stride(), grad, True)
        if not equal:
            raise CannotWrite(f"the source of {name}() does not give the same values")
