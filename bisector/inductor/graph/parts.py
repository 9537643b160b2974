"""What a repro and a test have in common: the function, its inputs, how it is run, and the data."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import fx

from ...core.case import Wording
from .inputs_source import arguments_source
from .public_calls import in_public_calls
from .repro_spec import ReproSpec
from .run_source import RunSource, is_frozen, run_source
from .source import FunctionSource, function_source, verify
from .tensor_literals import UNPACK, Source
from .values import CannotWrite

BLOB_WIDTH = 100


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
        function = _function(spec)
    if is_frozen(spec):
        function = function.given_constants()
    inputs, grads = _inputs(spec, function), _grad_outputs(spec)
    blobs = _joined([inputs.blobs, grads.blobs, *(c.blobs for c in function.constants.values())])
    return Parts(function, inputs, grads, run_source(spec, function), _data(blobs, function.constants))


def comment(lines: Sequence[str]) -> str:
    """The lines as a comment."""
    return "\n".join(f"# {line}".rstrip() for line in lines)


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


def joined_blocks(blocks: Iterable[str]) -> str:
    """The file: blocks two empty lines apart, empty ones left out."""
    return "\n\n\n".join(block.strip("\n") for block in blocks if block.strip()) + "\n"


def _function(spec: ReproSpec) -> FunctionSource:
    if spec.wording is Wording.PUBLIC:
        with contextlib.suppress(CannotWrite):  # as it was captured it may do
            return _verified(in_public_calls(spec.gm, spec.inputs, spec.grad_flags), spec)
    return _verified(spec.gm, spec)


def _verified(gm: fx.GraphModule, spec: ReproSpec) -> FunctionSource:
    """The source of a graph that stands for the spec's."""
    function = function_source(gm, decisions=spec.decisions)
    verify(function, spec.gm, spec.inputs, spec.seed or 0)
    return function


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
