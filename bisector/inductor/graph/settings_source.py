"""Settings as statements of plain torch, and such that they hold while a test runs and are as they were after
it; names of settings and operators are those of the installed torch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from bisector.core.fix import DisablePasses, FallBack, PlainFix, SetFlags

from ...core.fix_source import MODULES, Statements, flag_statements
from .repro_spec import ReproSpec
from .values import CannotWrite, value_source


def setting_statements(flags: Mapping[str, Any]) -> Statements:
    """One assignment, or call of a torch function such as set_float32_matmul_precision, for each flag.

    Raises CannotWrite for a name that this torch does not have.
    """
    setters = _checked(flags)
    sources = {n: value_source(str(v) if n.startswith("env.") else v) for n, v in flags.items()}
    return flag_statements(sources, setters)


def check_fix(fix: PlainFix) -> None:
    """Raises CannotWrite for a fix with a flag or an operator that this torch does not have."""
    if isinstance(fix, (SetFlags, DisablePasses)):
        _checked(fix.values)
    elif isinstance(fix, FallBack):
        for name in fix.operators:
            _lookup(f"torch.ops.{name}", f"op {name}")


def _checked(names: Iterable[str]) -> list[str]:
    """Those of the flags that are functions. Raises CannotWrite for one that this torch does not have."""
    setters = []
    for name in names:
        root, _, path = name.partition(".")
        if root == "env":
            continue
        if root not in MODULES or not re.fullmatch(r"\w+(\.\w+)*", path):
            raise CannotWrite(f"{name} is not the name of a setting")
        if root != "triton":  # Triton may not be installed here, and is taken at its word
            found = _lookup(f"{MODULES[root]}.{path}", f"setting {name}")
            setters += [name] if callable(found) and root in ("torch", "backends") else []
    return setters


def _lookup(path: str, named: str) -> Any:
    found: Any = torch
    for part in path.split(".")[1:]:
        if not hasattr(found, part):
            raise CannotWrite(f"this torch has no {named}")
        found = getattr(found, part)
    return found


@dataclass(frozen=True)
class Restored:
    """decorators: lines above the test; context: the context manager that one of them calls, or nothing.
    early: lines that must run before torch is imported, which nothing puts back; imports: whole lines."""

    decorators: tuple[str, ...]
    context: str
    early: tuple[str, ...]
    imports: frozenset[str]


def restored(spec: ReproSpec) -> Restored:
    """The settings of a spec, without its fix. Raises CannotWrite for one that cannot be put back."""
    stated = setting_statements(spec.settings)
    decorators: list[str] = []
    others: dict[str, Any] = {}
    for name, value in spec.settings.items():
        root, _, path = name.partition(".")
        if MODULES.get(root, "").endswith(".config"):
            given = value_source({path: value}) if value is None else value_source((path, value))[1:-1]
            decorators.append(f"@{MODULES[root]}.patch({given})")
        else:
            others[name] = value
    if not spec.grad_enabled:
        decorators.append("@torch.no_grad()")
    lines = [*_changed_defaults(spec), *setting_statements(others).lines]
    if not lines:
        return Restored(tuple(decorators), "", stated.early, stated.imports)
    imports = stated.imports | {"import contextlib"}
    return Restored((*decorators, "@settings()"), _context(lines), stated.early, imports)


def _changed_defaults(spec: ReproSpec) -> list[str]:
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
