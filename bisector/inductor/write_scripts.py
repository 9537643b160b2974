"""Writes the standalone file that shows a divergence (torch and the standard library, nothing else), and the
same as a test for pytest, which fails while compiled differs from eager.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from string import Template
from typing import Any

import torch
from torch import fx

from bisector.core.fix import PlainFix, UseBackend

from ..core.criterion import Criterion
from ..core.fix_source import Statements, statements, uncached_lines
from ..core.protocol import Repro, ScriptSpec, TestFile
from .execute import Outputs, Subject, eager_program, run, seed
from .graph.parts import Parts, comment, imports_source, joined_blocks, parts_of
from .graph.repro_spec import ReproSpec, Tolerance
from .graph.settings_source import changed_defaults, check_fix, restored, setting_statements
from .graph.values import LINE_WIDTH, value_source
from .naming import op_name
from .tensors import dtype_name

# The caches are turned off by environment variables: an older torch ignores those that it does not know,
# where an assignment to a missing config would raise. The cache of compiled C++ is keyed by source: it stays.
HEAD = Template("""\
$header
#
# python $file           exits 1 where compiled differs, 0 where it agrees, 125 where it cannot tell
# python $file --fixed   the same with the fix
import os
import sys

os.environ.update(TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
$early\
# Any other exception is not a divergence; git bisect skips 125.
sys.excepthook = lambda kind, error, trace: sys.exit(print(f"cannot tell: {kind.__name__}: {error}") or 125)

$imports
""")

IF_FIXED = 'if "--fixed" in sys.argv:'

TAIL = Template("""\
$runs
try:
$comparison
except AssertionError as error:
    print(error, f"eager {expected}", f"compiled {actual}", sep="\\n")
    sys.exit(1)
print("compiled agrees with eager")
""")
# Exceptions are compared by their type, which stands before a colon: what the compiler raises quotes what was
# raised first.
TAIL_RAISES = Template("""\
def said(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "returns"


eager, compiled = $runs
raised = [$kind in side for side in (eager, compiled)]
if raised[0] != raised[1]:
    print(f"eager {eager}", f"compiled {compiled}", sep="\\n")
    sys.exit(1)
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
    Raises CannotWrite where something has no exact text, or is unknown to this torch.
    """
    parts = parts or parts_of(spec)
    settings = _settings(spec)
    fix = Statements()
    if spec.fix is not None:
        check_fix(spec.fix)
        fix = statements(spec.fix)
    blocks = [
        _settings_text(spec, settings, fix),
        parts.function.text,
        parts.inputs.text,
        parts.grads.text,
        parts.run.compared if needs_table(spec) else "",
        "" if parts.run.directly else parts.run.text,
        parts.data,
        _raised(spec, parts) if spec.raises else _tail(spec, parts),
    ]
    imports = imports_source({*parts.function.imports, *settings.imports, *fix.imports}, blocks)
    return joined_blocks([_head(spec, settings, fix, imports), *blocks])


def _tail(spec: ReproSpec, parts: Parts) -> str:
    return TAIL.substitute(runs=_on_one_line(runs(parts)), comparison=_indented(comparison(spec)))


def _raised(spec: ReproSpec, parts: Parts) -> str:
    sides = ", ".join(f"said(lambda: {line.split(' = ', 1)[1]})" for line in runs(parts))
    return TAIL_RAISES.substitute(runs=sides, kind=value_source(f"{spec.raises}:"))


def _head(spec: ReproSpec, settings: Statements, fix: Statements, imports: str) -> str:
    return HEAD.substitute(
        header=comment(spec.header or ["torch.compile differs from eager."]),
        file=spec.file,
        early="".join(line + "\n" for line in [*settings.early, *_only_if_fixed(fix.early)]),
        imports=imports,
    )


def _settings(spec: ReproSpec) -> Statements:
    stated = setting_statements(spec.settings)
    lines = changed_defaults(spec)
    if not spec.grad_enabled:
        lines.append("torch.set_grad_enabled(False)")
    return Statements((*lines, *stated.lines), stated.early, stated.imports)


def _settings_text(spec: ReproSpec, settings: Statements, fix: Statements) -> str:
    lines = [*settings.lines]
    if spec.fix is None:
        no_fix = "no fix is known that plain torch can express"
        lines += [IF_FIXED, f"    raise NotImplementedError({value_source(no_fix)})"]
    elif not isinstance(spec.fix, UseBackend):
        lines += _only_if_fixed(fix.lines)
    return "\n".join(lines)


def _only_if_fixed(lines: Sequence[str]) -> list[str]:
    return [IF_FIXED, _indented(lines)] if lines else []


def _indented(lines: Sequence[str]) -> str:
    return "\n".join(f"    {line}" for line in lines)


def _on_one_line(assignments: Sequence[str]) -> str:
    """`a, b = f(), g()` of `a = f()` and `b = g()`, where a line holds it."""
    names, values = zip(*(line.split(" = ", 1) for line in assignments), strict=True)
    line = f"{', '.join(names)} = {', '.join(values)}"
    return line if len(line) <= LINE_WIDTH else "\n".join(assignments)


def write_test(spec: ReproSpec) -> str:
    """The text of the file: what the repro of the spec compares. The fix is a comment.

    Whether the test fails is for the caller to find out in a fresh process. Raises CannotWrite where
    something has no exact text, is unknown to this torch, or could not be put back after the test.
    """
    parts, settings = parts_of(replace(spec, fix=None)), restored(spec)
    lines = ["torch._dynamo.reset()", *runs(parts), *comparison(spec)]
    test = [*settings.decorators, f"def {name_of_test(spec.gm)}():", *(f"    {line}" for line in lines)]
    blocks = [
        parts.function.text,
        parts.inputs.text,
        parts.grads.text,
        parts.run.compared if needs_table(spec) else "",
        "" if parts.run.directly else parts.run.text,
        settings.context,
        "\n".join(test),
        parts.data,
    ]
    imports = imports_source({*parts.function.imports, *settings.imports}, blocks)
    return joined_blocks([f"{_test_head(spec)}\n{imports}", *blocks])


def name_of_test(gm: fx.GraphModule) -> str:
    """`test_mul_sub_agrees_with_eager`, after the operations of the graph where they are few."""
    calls = [op_name(node) for node in gm.graph.nodes if node.op in ("call_function", "call_method")]
    words = dict.fromkeys(re.sub(r"\W", "_", name.rpartition(".")[2]).strip("_") for name in calls)
    named = "_".join(words) if 0 < len(words) <= MOST_NAMED else "compiled"
    return f"test_{named}_agrees_with_eager"


def _test_head(spec: ReproSpec) -> str:
    lines = [*(spec.header or ["torch.compile differs from eager."])]
    lines += [("     " if position else "Fix: ") + line for position, line in enumerate(_fixing(spec.fix))]
    return comment([*lines, "", f"python -m pytest {spec.file}   fails while compiled differs"])


def _fixing(fix: PlainFix | None) -> Iterator[str]:
    """The fix as lines of Python."""
    if isinstance(fix, UseBackend):
        yield f"torch.compile(..., backend={value_source(fix.backend)})"
    elif fix is not None:
        check_fix(fix)
        yield from uncached_lines(fix)


def runs(parts: Parts) -> list[str]:
    """`expected` is what eager gives, `actual` what compiled does."""
    run = parts.run
    if run.directly:
        return [f"expected = {run.eager}(*inputs())", f"actual = {run.compiled}(*inputs())"]
    return [f"expected = run({run.eager})", f"actual = run({run.compiled})"]


def comparison(spec: ReproSpec) -> list[str]:
    """Raises AssertionError where the two differ; a table of tolerances is needed where there are several."""
    lines = EACH.splitlines()
    if spec.assertion:
        lines = ["for a, e in zip(actual, expected):", *_indented(spec.assertion.splitlines()).splitlines()]
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


def test_file(subject: Subject, asked: ScriptSpec) -> TestFile:
    """Raises CannotWrite as `write_test` does."""
    spec = _spec(subject, asked)
    return TestFile(write_test(spec), name_of_test(spec.gm))


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
        file=asked.file,
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
