"""Writes the standalone file that shows a divergence: torch and the standard library, nothing else."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator, Mapping

import torch

from .fixes import Statements, UseBackend, fix_statements, setting_statements
from .inputs_source import ArgumentsSource, arguments_source
from .literals import UNPACK, TensorSource
from .repro_spec import ReproSpec
from .repro_text import DIFFERENCE, HEAD, MAIN, SIGNED_ZERO, TAIL
from .run_source import is_frozen, run_source
from .source import FunctionSource, function_source, verify
from .values import CannotWrite, value_source

BLOB_WIDTH = 100


def write_repro(spec: ReproSpec) -> str:
    """The text of the file.

    Its function and its inputs have been run in this process: they are bit-equal to the graph and its inputs.
    Whether it diverges, and whether the fix repairs it, is for the caller to find out in a fresh process.
    Raises CannotWrite where something has no exact text, or is unknown to this torch.
    """
    function = function_source(spec.gm, decisions=spec.decisions)
    with _ambient(spec):
        verify(function, spec.gm, spec.inputs, spec.seed or 0)
    if is_frozen(spec):
        function = function.given_constants()
    inputs, grads = _inputs(spec, function), _grad_outputs(spec)
    settings = _settings(spec)
    fix = fix_statements(spec.fix) if spec.fix is not None else Statements()
    run = run_source(spec, function)
    blobs = _joined([inputs.blobs, grads.blobs, *(c.blobs for c in function.constants.values())])
    blocks = [
        function.text,
        inputs.text,
        grads.text,
        _settings_text(spec, settings, fix),
        run.compared,
        run.text,
        DIFFERENCE.substitute(signed_zero=SIGNED_ZERO if spec.signed_zero else ""),
        MAIN.substitute(eager=run.eager, compiled=run.compiled),
        _data(blobs, function.constants),
        TAIL,
    ]
    head = _head(spec, settings, fix, _imports({*function.imports, *settings.imports, *fix.imports}, blocks))
    return "\n\n\n".join(block.strip("\n") for block in [head, *blocks] if block.strip()) + "\n"


def _head(spec: ReproSpec, settings: Statements, fix: Statements, imports: str) -> str:
    comment = spec.header or ["torch.compile differs from eager."]
    return HEAD.substitute(
        header="\n".join(f"# {line}".rstrip() for line in comment),
        file=spec.file,
        early="".join(line + "\n" for line in [*settings.early, *_only_if_fixed(fix.early)]),
        imports=imports,
    )


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


def _inputs(spec: ReproSpec, function: FunctionSource) -> ArgumentsSource:
    flags = spec.grad_flags
    return arguments_source(
        "inputs",
        function.parameters,
        spec.inputs,
        flags,
        recipes=spec.recipes,
        default_dtype=_text_dtype(spec),
    )


def _grad_outputs(spec: ReproSpec) -> ArgumentsSource:
    given = {f"output_{i}_grad": grad for i, grad in enumerate(spec.grad_outputs or ()) if grad is not None}
    if not given:
        return ArgumentsSource()
    values, flags = list(given.values()), [False] * len(given)
    return arguments_source("grad_outputs", list(given), values, flags, default_dtype=_text_dtype(spec))


def _settings(spec: ReproSpec) -> Statements:
    stated = setting_statements(spec.settings)
    lines = []
    if spec.default_dtype is not torch.float32:
        lines.append(f"torch.set_default_dtype({spec.default_dtype})")
    if spec.num_threads is not None:
        lines.append(f"torch.set_num_threads({spec.num_threads})")
    if not spec.grad_enabled:
        lines.append("torch.set_grad_enabled(False)")
    return Statements((*lines, *stated.lines), stated.early, stated.imports)


def _settings_text(spec: ReproSpec, settings: Statements, fix: Statements) -> str:
    lines = [*settings.lines]
    if spec.fix is None:
        no_fix = "no fix is known that plain torch can express"
        lines += ["if FIXED:", f"    raise NotImplementedError({value_source(no_fix)})"]
    elif not isinstance(spec.fix, UseBackend):
        lines += _only_if_fixed(fix.lines)
    return "\n".join(lines)


def _only_if_fixed(lines: Iterable[str]) -> list[str]:
    indented = [f"    {line}" for line in lines]
    return ["if FIXED:", *indented] if indented else []


def _imports(lines: set[str], blocks: Iterable[str]) -> str:
    """The import lines: what the blocks use of the standard library, then torch, then torch's own modules."""
    text = "\n".join(blocks)
    first = ["import base64", "import zlib"] if "unpack(" in text else []
    first += sorted(line for line in lines if not line.startswith("import torch"))
    numbers = [name for name in ("inf", "nan") if re.search(rf"(?<![\w\"']){name}\b(?![\"'])", text)]
    if numbers:
        first.append(f"from math import {', '.join(numbers)}")
    rest = sorted(line for line in lines if line.startswith("import torch"))
    return "\n".join([*first, *([""] if first else []), "import torch", *rest])


def _joined(parts: Iterable[Mapping[str, str]]) -> dict[str, str]:
    blobs: dict[str, str] = {}
    for part in parts:
        if clash := blobs.keys() & part.keys():
            raise CannotWrite(f"two tensors would both be called {min(clash)}")
        blobs.update(part)
    return blobs


def _data(blobs: Mapping[str, str], constants: Mapping[str, TensorSource]) -> str:
    """What nobody reads, after what everybody reads: blobs, and constants made of them."""
    parts = [UNPACK + "\n"] if blobs else []
    for name, data in blobs.items():
        rows = [data[i : i + BLOB_WIDTH] for i in range(0, len(data), BLOB_WIDTH)]
        parts.append("\n".join([f'{name} = """', *rows, '"""']))
    parts += [f"{name} = {source.text}" for name, source in constants.items()]
    return "\n".join(parts) + "\n"
