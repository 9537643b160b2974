"""Settings as statements of plain torch; names of settings and operators are those of the installed torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from ...core.fix_source import (
    MODULES,
    DisablePasses,
    FallBack,
    PlainFix,
    SetFlags,
    Statements,
    flag_statements,
)
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
