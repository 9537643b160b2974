"""Settings that hold while a test runs, and are as they were after it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ...core.fix_source import MODULES
from .repro_spec import ReproSpec
from .settings_source import setting_statements
from .values import CannotWrite, value_source


@dataclass(frozen=True)
class Restored:
    """decorators: lines above the test; context: the context manager that one of them calls, or nothing;
    imports: whole lines."""

    decorators: tuple[str, ...]
    context: str
    imports: frozenset[str]


def restored(spec: ReproSpec) -> Restored:
    """The settings of a spec, without its fix. Raises CannotWrite for one that cannot be put back."""
    stated = setting_statements(spec.settings)
    if stated.early:
        raise CannotWrite("torch reads an environment variable once, and a test cannot put it back")
    decorators: list[str] = []
    others: dict[str, Any] = {}
    for name, value in spec.settings.items():
        root, _, path = name.partition(".")
        if MODULES[root].endswith(".config"):
            decorators.append(f"@{MODULES[root]}.patch({value_source(path)}, {value_source(value)})")
        else:
            others[name] = value
    if not spec.grad_enabled:
        decorators.append("@torch.no_grad()")
    lines = [*changed_defaults(spec), *setting_statements(others).lines]
    if not lines:
        return Restored(tuple(decorators), "", stated.imports)
    return Restored((*decorators, "@settings()"), _context(lines), stated.imports | {"import contextlib"})


def changed_defaults(spec: ReproSpec) -> list[str]:
    """What a spec changes of torch's defaults that are no flags, as calls of setters."""
    lines = []
    if spec.default_dtype is not torch.float32:
        lines.append(f"torch.set_default_dtype({spec.default_dtype})")
    if spec.num_threads is not None:
        lines.append(f"torch.set_num_threads({spec.num_threads})")
    return lines


def _context(lines: Sequence[str]) -> str:
    """lines: assignments and calls of setters, as `setting_statements` has them."""
    olds, puts = [], []
    for position, line in enumerate(lines):
        old = "before" if len(lines) == 1 else f"before[{position}]"
        path, _, assigned = line.partition(" = ")
        setter = line.partition("(")[0]
        olds.append(path if assigned else f"{_getter(setter)}()")
        puts.append(f"{path} = {old}" if assigned else f"{setter}({old})")
    body = [f"before = {', '.join(olds)}", *lines, "try:", "    yield", "finally:"]
    body += [f"    {put}" for put in puts]
    indented = "".join(f"    {line}\n" for line in body)
    return f"@contextlib.contextmanager\ndef settings():\n{indented}"


def _getter(setter: str) -> str:
    owner, _, name = setter.rpartition(".")
    getter = name.replace("set_", "get_", 1)
    if owner != "torch" or getter == name or not hasattr(torch, getter):
        raise CannotWrite(f"{setter} has no counterpart that says what was set before")
    return f"{owner}.{getter}"
