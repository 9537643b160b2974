"""Writes the standalone file that shows the divergence of a graph: it needs torch and the standard library,
Python runs it, and pytest collects it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from string import Template
from typing import Any

import torch
from torch import fx

from ..core.criterion import Criterion
from ..core.fix_source import Statements, statements
from ..core.protocol import Repro, ScriptSpec
from ..core.repro_file import (
    CANNOT_TELL,
    DIFFERS,
    IF_RUN,
    TITLE,
    comment,
    indented,
    joined_blocks,
    only_if_fixed,
    run_by_python,
    usage,
)
from .execute import Outputs, Subject, eager_program, run, seed
from .graph.parts import Parts, imports_source, parts_of
from .graph.repro_spec import ReproSpec, Tolerance
from .graph.settings_source import Restored, check_fix, restored
from .graph.values import LINE_WIDTH, value_source
from .naming import op_name
from .tensors import dtype_name

# By environment variables: an older torch ignores those that it does not know, where an assignment to a
# missing config would raise. The cache of compiled C++ is keyed by source: it stays.
CACHES_OFF = 'os.environ.update(TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")'
NO_FIX = 'raise NotImplementedError("no fix is known that plain torch can express")'

TAIL = Template("""\
$runs
try:
$comparison
except AssertionError as error:
    raise Differs(f"{error}\\neager {expected}\\ncompiled {actual}") from None
print("compiled agrees with eager")
""")
SAID = """\
def said(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "returns"
"""
# Exceptions are compared by their type, which stands before a colon: what the compiler raises quotes what was
# raised first.
TAIL_RAISES = Template("""\
$runs
raised = [$kind in side for side in (eager, compiled)]
if raised[0] != raised[1]:
    raise Differs(f"eager {eager}\\ncompiled {compiled}")
if eager != compiled and not any(raised):
    raise RuntimeError(f"eager {eager}; compiled {compiled}")
print("compiled raises as eager does" if any(raised) else "both return")
""")
MOST_NAMED = 4  # operations in the name of a test
EACH = """\
for (name, rtol, atol), a, e in zip(COMPARED, actual, expected):
    torch.testing.assert_close(a, e, rtol=rtol, atol=atol, equal_nan=True, msg=lambda m: f"{name}: {m}")
"""
SIGNS = """\
for a, e in zip(actual, expected):  # -0.0 and +0.0 differ
    torch.testing.assert_close(a.signbit() & (a == 0), e.signbit() & (e == 0))
"""
STRIDES = """\
for a, e in zip(actual, expected):  # but for dimensions of one element, whose strides mean nothing
    where = [[s for s, n in zip(t.stride(), t.shape) if n > 1] for t in (a, e)]
    assert where[0] == where[1], f"strides {a.stride()} instead of {e.stride()}"
"""


def write_repro(spec: ReproSpec, parts: Parts | None = None) -> str:
    """The text of the file. parts: those of the spec, if they are there already.

    Whether it diverges, and whether the fix repairs it, is for the caller to find out in a fresh process.
    Raises CannotWrite where something has no exact text, is unknown to this torch, or cannot be put back
    after the test.
    """
    parts, settings, fix = parts or parts_of(spec), restored(spec), Statements()
    if spec.fix is not None:
        check_fix(spec.fix)
        fix = statements(spec.fix)
    blocks = [
        parts.function.text,
        parts.inputs.text,
        parts.grads.text,
        parts.run.compared if needs_table(spec) else "",
        "" if parts.run.directly else parts.run.text,
        settings.context,
        SAID if spec.raises else "",
        DIFFERS,
        _test(spec, parts, settings, fix),
        parts.data,
        run_by_python(name_of_test(spec.gm)),
    ]
    imports = imports_source({*parts.function.imports, *settings.imports, *fix.imports}, blocks)
    return joined_blocks([_head(spec, settings, fix, imports), *blocks])


def _head(spec: ReproSpec, settings: Restored, fix: Statements, imports: str) -> str:
    early = [CACHES_OFF, *settings.early, *only_if_fixed(fix.early), *CANNOT_TELL]
    lines = [comment(spec.header or [TITLE]), usage(spec.fix is not None), "import os", "import sys", ""]
    return "\n".join([*lines, IF_RUN, *indented(early), "", imports])


def _test(spec: ReproSpec, parts: Parts, settings: Restored, fix: Statements) -> str:
    """The fix comes after the settings, which it may change again."""
    fixing = [NO_FIX] if spec.fix is None else fix.lines
    lines = only_if_fixed(fixing) + (_raised(spec, parts) if spec.raises else _tail(spec, parts)).splitlines()
    return "\n".join([*settings.decorators, f"def {name_of_test(spec.gm)}():", *indented(lines)])


def _tail(spec: ReproSpec, parts: Parts) -> str:
    compared = "\n".join(indented(comparison(spec)))
    return TAIL.substitute(runs=_on_one_line(("expected", "actual"), runs(parts)), comparison=compared)


def _raised(spec: ReproSpec, parts: Parts) -> str:
    sides = [f"said(lambda: {call})" for call in runs(parts)]
    kind = value_source(f"{spec.raises}:")
    return TAIL_RAISES.substitute(runs=_on_one_line(("eager", "compiled"), sides), kind=kind)


def _on_one_line(names: Sequence[str], values: Sequence[str]) -> str:
    """`a, b = f(), g()`, where a line of a function holds it."""
    line = f"{', '.join(names)} = {', '.join(values)}"
    apart = (f"{name} = {value}" for name, value in zip(names, values, strict=True))
    return line if len(line) + 4 <= LINE_WIDTH else "\n".join(apart)


def name_of_test(gm: fx.GraphModule) -> str:
    """`test_mul_sub_agrees_with_eager`, after the operations of the graph where they are few."""
    calls = [op_name(node) for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    words = dict.fromkeys(re.sub(r"\W", "_", name.rpartition(".")[2]).strip("_") for name in calls)
    named = "_".join(words) if 0 < len(words) <= MOST_NAMED else "compiled"
    return f"test_{named}_agrees_with_eager"


def runs(parts: Parts) -> list[str]:
    """The calls that give what eager does, and what compiled does."""
    run = parts.run
    if run.directly:
        return [f"{run.eager}(*inputs())", f"{run.compiled}(*inputs())"]
    return [f"run({run.eager})", f"run({run.compiled})"]


def comparison(spec: ReproSpec) -> list[str]:
    """Raises AssertionError where the two differ; a table of tolerances is needed where there are several."""
    lines = EACH.splitlines()
    if spec.assertion:
        lines = ["for a, e in zip(actual, expected):", *indented(spec.assertion.splitlines())]
    elif not needs_table(spec):
        ((rtol, atol),) = _rates(spec)
        within = f"rtol={value_source(rtol)}, atol={value_source(atol)}"
        lines = [f"torch.testing.assert_close(actual, expected, {within}, equal_nan=True)"]
    return [
        *lines,
        *(SIGNS.splitlines() if spec.signed_zero else []),
        *(STRIDES.splitlines() if spec.strides else []),
    ]


def needs_table(spec: ReproSpec) -> bool:
    """Whether the comparison reads the table `COMPARED`."""
    return not spec.raises and not spec.assertion and len(_rates(spec)) > 1


def _rates(spec: ReproSpec) -> set[Tolerance]:
    return {*spec.tolerances, *spec.grad_tolerances, *spec.input_tolerances}


def repro(subject: Subject, asked: ScriptSpec) -> Repro:
    """Raises CannotWrite where the graph or its inputs have no exact text."""
    spec = _spec(subject, asked)
    parts = parts_of(spec)
    return Repro(write_repro(spec, parts), parts.function.text)


def _spec(subject: Subject, asked: ScriptSpec) -> ReproSpec:
    criterion = asked.criterion
    eager = {} if asked.raises else run(subject, eager_program(subject))
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
        raises=asked.raises,
        strides=criterion.strides,
        signed_zero=criterion.signed_zero,
        assertion=criterion.assertion(),
        fix=asked.fix,
        header=list(asked.header),
        decisions=list(asked.decisions),
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
