"""Writes the standalone file that shows a divergence: torch and the standard library, nothing else."""

from __future__ import annotations

from collections.abc import Iterable

from .fixes import Statements, UseBackend, fix_statements, setting_statements
from .parts import Parts, comment, imports_source, joined_blocks, parts_of
from .repro_spec import ReproSpec
from .repro_text import DIFFERENCE, HEAD, MAIN, SIGNED_ZERO, TAIL
from .restored import changed_defaults
from .values import value_source


def write_repro(spec: ReproSpec, parts: Parts | None = None) -> str:
    """The text of the file. parts: those of the spec, if they are there already.

    Whether it diverges, and whether the fix repairs it, is for the caller to find out in a fresh process.
    Raises CannotWrite where something has no exact text, or is unknown to this torch.
    """
    parts = parts or parts_of(spec)
    settings = _settings(spec)
    fix = fix_statements(spec.fix) if spec.fix is not None else Statements()
    blocks = [
        parts.function.text,
        parts.inputs.text,
        parts.grads.text,
        _settings_text(spec, settings, fix),
        parts.run.compared,
        parts.run.text,
        DIFFERENCE.substitute(signed_zero=SIGNED_ZERO if spec.signed_zero else ""),
        MAIN.substitute(eager=parts.run.eager, compiled=parts.run.compiled),
        parts.data,
        TAIL,
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
        lines += ["if FIXED:", f"    raise NotImplementedError({value_source(no_fix)})"]
    elif not isinstance(spec.fix, UseBackend):
        lines += _only_if_fixed(fix.lines)
    return "\n".join(lines)


def _only_if_fixed(lines: Iterable[str]) -> list[str]:
    indented = [f"    {line}" for line in lines]
    return ["if FIXED:", *indented] if indented else []
