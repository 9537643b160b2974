"""From a subject and a request to the text of its repro."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from ..core.criterion import Criterion
from ..core.protocol import Repro, ScriptSpec, TestFile
from .execute import Outputs, Subject, eager_program, run, seed
from .graph.parts import parts_of
from .graph.repro_spec import ReproSpec
from .graph.scripts import name_of_test, write_repro, write_test
from .tensors import dtype_name


def repro(subject: Subject, asked: ScriptSpec) -> Repro:
    """Raises CannotWrite where the graph or its inputs have no exact text."""
    spec = _spec(subject, asked)
    parts = parts_of(spec)
    return Repro(write_repro(spec, parts), parts.function.text)


def test_file(subject: Subject, asked: ScriptSpec) -> TestFile:
    """Raises CannotWrite as `write_test` does."""
    spec = _spec(subject, asked)
    return TestFile(write_test(spec), name_of_test(spec.gm))


def _spec(subject: Subject, asked: ScriptSpec) -> ReproSpec:
    criterion = asked.criterion
    eager = run(subject, eager_program(subject))
    call = subject.call
    return ReproSpec(
        gm=subject.edited.gm,
        inputs=subject.edited.args,
        tolerances=_tolerances(criterion, eager, "output"),
        requires_grad=subject.edited.requires_grad if subject.train else [False] * len(subject.edited.args),
        grad_outputs=_grad_outputs(subject, eager) if subject.train else None,
        grad_tolerances=_tolerances(criterion, eager, "grad") if subject.train else (),
        input_tolerances=_input_tolerances(subject, criterion, eager),
        settings={**call.state.settings(), **_named(call.graph.entry.options)},
        compile_kwargs=_compile_kwargs(subject),
        grad_enabled=call.state.grad_enabled or subject.train,
        autocast=call.state.autocast_on(),
        default_dtype=call.state.default_dtype,
        num_threads=None,
        seed=asked.seed,
        signed_zero=criterion.signed_zero,
        fix=asked.fix,
        header=list(asked.header),
        decisions=list(asked.decisions),
        file=asked.file,
        wording=asked.wording,
    )


def _tolerances(criterion: Criterion, eager: Outputs, family: str) -> list[tuple[float, float]]:
    return [_tolerance(criterion, p, v) for p, v in eager.items() if p.startswith(f"{family}[")]


def _tolerance(criterion: Criterion, path: str, value: Any) -> tuple[float, float]:
    dtype = dtype_name(value.dtype) if isinstance(value, torch.Tensor) else ""
    return criterion.tolerance(path, dtype)


def _input_tolerances(subject: Subject, criterion: Criterion, eager: Outputs) -> list[tuple[float, float]]:
    if not any(path.startswith("mutated[") for path in eager):
        return []
    tensors = [
        (n, a) for n, a in zip(subject.names, subject.edited.args, strict=True) if isinstance(a, torch.Tensor)
    ]
    return [_tolerance(criterion, f"mutated[{name}]", value) for name, value in tensors]


def _grad_outputs(subject: Subject, eager: Outputs) -> list[torch.Tensor | None]:
    outputs = [v for p, v in eager.items() if p.startswith("output[")]
    kept = subject.call.grad_outputs if subject.edited.outputs_kept else {}
    if kept:
        return [None if i not in kept else seed(kept[i], value) for i, value in enumerate(outputs)]
    return [
        torch.ones_like(v) if isinstance(v, torch.Tensor) and v.is_floating_point() else None for v in outputs
    ]


def _named(options: Mapping[str, Any]) -> dict[str, Any]:
    return {f"inductor.{key}": value for key, value in options.items()}


def _compile_kwargs(subject: Subject) -> dict[str, Any]:
    entry = subject.call.graph.entry
    kwargs: dict[str, Any] = {}
    if entry.dynamic is not None:
        kwargs["dynamic"] = entry.dynamic
    if isinstance(entry.backend, str) and entry.backend != "inductor":
        kwargs["backend"] = entry.backend
    return kwargs
