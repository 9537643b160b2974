"""Writes the standalone file that shows a divergence: torch and the standard library, nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from ...core.fix_source import Statements, UseBackend, statements
from .comparing import comparison, needs_table, runs
from .parts import Parts, comment, imports_source, joined_blocks, parts_of
from .repro_spec import ReproSpec
from .repro_text import HEAD, IF_FIXED, TAIL
from .restored import changed_defaults
from .settings_source import check_fix, setting_statements
from .values import LINE_WIDTH, value_source


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
        TAIL.substitute(runs=_on_one_line(runs(parts)), comparison=_indented(comparison(spec))),
    ]
    imports = imports_source({*parts.function.imports, *settings.imports, *fix.imports}, blocks)
    return joined_blocks([_head(spec, settings, fix, imports), *blocks])


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
