"""Prints what the installed torch says of flags: `python -m bisector.inductor.flags.installed NAMES`.

NAMES: a JSON list.
"""

from __future__ import annotations

import importlib
import json
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from .. import torch_state
from . import env_variables

_TORCH = Path(torch.__file__).parent


def facts(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """{name: {"type", "default", "value", "env"}}, of those that this torch has."""
    return {name: _of(name) for name in names if _has(name)}


def variable(name: str) -> str | None:
    """The environment variable that the flag's default is read from, if any."""
    family, _, key = name.partition(".")
    return _variables(family).get(key) if family in torch_state.CONFIG_MODULES else None


def _has(name: str) -> bool:
    family, _, key = name.partition(".")
    if family not in torch_state.CONFIG_MODULES:
        return torch_state.has_flag(name)
    return key in _module(family)._config


def _of(name: str) -> dict[str, Any]:
    family, _, key = name.partition(".")
    if family not in torch_state.CONFIG_MODULES:
        value = torch_state.current_flag(name)
        return {"type": type(value).__name__, "default": None, "value": value, "env": None}
    entry = _module(family)._config[key]
    return {
        "type": _type(entry.value_type),
        "default": _plain(entry.default),
        "value": _plain(_current(_module(family), key)),
        "env": variable(name),
    }


@cache
def _module(family: str) -> Any:
    """The config module without what its package imports (all of Dynamo, a second and more): the package is
    a bare one, which this process uses for nothing else."""
    name = torch_state.CONFIG_MODULES[family]
    package = name.rpartition(".")[0]
    if package not in sys.modules:
        bare = ModuleType(package)
        bare.__path__ = [str(_file(family).parent)]
        sys.modules[package] = bare
        setattr(torch, package.rpartition(".")[2], bare)
    return importlib.import_module(name)


def _file(family: str) -> Path:
    return _TORCH.parent.joinpath(*torch_state.CONFIG_MODULES[family].split(".")).with_suffix(".py")


@cache
def _variables(family: str) -> dict[str, str | None]:
    return env_variables.of_settings(_file(family).read_text(encoding="utf-8"))


def _current(module: Any, key: str) -> Any:
    for part in key.split("."):
        module = getattr(module, part)
    return module


def _type(value_type: Any) -> str:
    return getattr(value_type, "__name__", None) or str(value_type).replace("typing.", "")


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


if __name__ == "__main__":
    json.dump(facts(json.loads(sys.argv[1])), sys.stdout)
