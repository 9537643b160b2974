"""Settings and fixes as statements of plain torch."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import torch
import torch._dynamo.config
import torch._functorch.config
import torch._inductor.config

from .values import CannotWrite, value_source

LOWERING = "torch._inductor.lowering"
MANY_OVERLOADS = 3  # of one op; so many are written as a loop
# First word of a flag's name to the module that holds it.
ROOTS = {
    "inductor": "torch._inductor.config",
    "functorch": "torch._functorch.config",
    "dynamo": "torch._dynamo.config",
    "triton": "triton.knobs",
    "backends": "torch.backends",
    "torch": "torch",
}


@dataclass(frozen=True)
class SetFlags:
    """Other values for flags, by the contract's names (`inductor.cpp.simdlen`)."""

    values: Mapping[str, Any]


@dataclass(frozen=True)
class FallBack:
    """Ops (`aten.mul.Tensor`) that Inductor is to leave to eager's kernel, decomposed or not."""

    ops: tuple[str, ...]


@dataclass(frozen=True)
class DisablePasses:
    """Names of graph passes as torch._inductor.config.disabled_passes takes them."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class UseBackend:
    """Another backend for torch.compile (`aot_eager`)."""

    name: str


Fix = SetFlags | FallBack | DisablePasses | UseBackend


@dataclass(frozen=True)
class Statements:
    """Lines of the emitted file. early: they must run before torch is imported; imports: whole lines."""

    lines: tuple[str, ...] = ()
    early: tuple[str, ...] = ()
    imports: frozenset[str] = field(default_factory=frozenset)


def setting_statements(flags: Mapping[str, Any]) -> Statements:
    """One assignment, or call of a torch function such as set_float32_matmul_precision, for each flag.

    Raises CannotWrite for a name that this torch does not have.
    """
    lines, early, imports = [], [], set()
    for name, value in flags.items():
        root, _, path = name.partition(".")
        if root == "env":
            early.append(f"os.environ[{value_source(path)}] = {value_source(str(value))}")
            continue
        if root not in ROOTS or not re.fullmatch(r"\w+(\.\w+)*", path):
            raise CannotWrite(f"{name} is not the name of a setting")
        module = ROOTS[root]
        if module.endswith(".config") or root == "triton":
            imports.add(f"import {module}")
        called = callable(_setting(module, path, name)) and root in ("torch", "backends")
        text = value_source(value)
        lines.append(f"{module}.{path}({text})" if called else f"{module}.{path} = {text}")
    return Statements(tuple(lines), tuple(early), frozenset(imports))


def fix_statements(fix: Fix) -> Statements:
    """What `--fixed` runs; nothing for UseBackend, which the call of torch.compile itself takes."""
    if isinstance(fix, SetFlags):
        return setting_statements(fix.values)
    if isinstance(fix, DisablePasses):
        return setting_statements({"inductor.disabled_passes": ",".join(fix.names)})
    if isinstance(fix, FallBack):
        return Statements(tuple(_falling_back(fix.ops)), imports=frozenset([f"import {LOWERING}"]))
    return Statements()


def _falling_back(names: Sequence[str]) -> Iterator[str]:
    """Lines by which these ops, given with their overloads, run as ATen kernels."""
    for packet, group in groupby(sorted(names), key=lambda name: name.rpartition(".")[0]):
        ops = list(_ops(group))
        if len(ops) < MANY_OVERLOADS:
            yield from (line for op in ops for line in _fallback_of(op))
            continue
        overloads = tuple(op.rpartition(".")[2] for op in ops)
        yield f"for overload in {value_source(overloads)}:"
        yield f"    op = getattr(torch.ops.{packet}, overload)"
        yield from (f"    {line}" for line in _fallback_of("op"))


def _fallback_of(op: str) -> Iterator[str]:
    # An op that is still decomposed never reaches its lowering. The fallback is asked for because Inductor's
    # own, for an op it no longer knows, is refused where the environment has CI set.
    yield f"{LOWERING}.decompositions.pop({op}, None)"
    yield f"{LOWERING}.make_fallback({op}, warn=False)"


def _setting(module: str, path: str, name: str) -> Any:
    """The setting as it is now; Triton may not be installed here, and is then taken at its word."""
    return None if module == "triton.knobs" else _lookup(f"{module}.{path}", name)


def _lookup(path: str, name: str) -> Any:
    found: Any = torch
    for part in path.split(".")[1:]:
        if not hasattr(found, part):
            raise CannotWrite(f"this torch has no setting {name}")
        found = getattr(found, part)
    return found


def _ops(names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if not re.fullmatch(r"\w+\.\w+\.\w+", name):
            raise CannotWrite(f"{name} is not an op with its overload, such as aten.gelu.default")
        _lookup(f"torch.ops.{name}", name)
        yield f"torch.ops.{name}"
