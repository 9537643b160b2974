"""Prints what the installed torch says of flags: `python -m bisector.inductor.flags.installed NAMES`, a JSON
list.

The environment variable that a setting is read from is not kept when its module is imported. It is parsed as
text, so torch is not imported for it; exercised on the modules of torch 2.1 to 2.15
(torch/_inductor/config.py, torch/_functorch/config.py, torch/_dynamo/config.py).
"""

from __future__ import annotations

import ast
import importlib
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from .. import torch_state

_TORCH = Path(torch.__file__).parent
# Arguments of torch.utils._config_module.Config that name an environment variable.
_ENV_ARGUMENTS = ("env_name_default", "env_name_force")


def facts(names: Sequence[str]) -> dict[str, dict[str, Any]]:
    """{name: {"type", "default", "value", "env", "implied_by"}}, of those that this torch has."""
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
        kind = type(value).__name__
        return {"type": kind, "default": None, "value": value, "env": None, "implied_by": None}
    entry = _module(family)._config[key]
    implied = torch_state.implied(name)
    return {
        "type": _type(entry.value_type),
        "default": _plain(entry.default),
        "value": _plain(_current(_module(family), key)),
        "env": variable(name),
        "implied_by": None if implied is None else implied.by,
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
    return of_settings(_file(family).read_text(encoding="utf-8"))


def _current(module: Any, key: str) -> Any:
    for part in key.split("."):
        module = getattr(module, part)
    return module


def _type(value_type: Any) -> str:
    return getattr(value_type, "__name__", None) or str(value_type).replace("typing.", "")


def _plain(value: Any) -> Any:
    return value if isinstance(value, (bool, int, float, str, type(None))) else repr(value)


def of_settings(source: str) -> dict[str, str | None]:
    """The variable of each setting, None where it has none; a setting of a class is named `class.name`."""
    tree = ast.parse(source)
    functions = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    found: dict[str, str | None] = {}
    for name, value in _assignments(tree.body, ""):
        if name not in found:  # a later one is another branch of an `if`
            found[name] = _variable(value, functions)
    return found


def _assignments(body: list[ast.stmt], prefix: str) -> Iterator[tuple[str, ast.expr]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _assignments(node.body, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If):
            yield from _assignments([*node.body, *node.orelse], prefix)
        elif isinstance(node, ast.AnnAssign) and node.value and isinstance(node.target, ast.Name):
            yield prefix + node.target.id, node.value
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield prefix + target.id, node.value


def _variable(value: ast.expr, functions: Mapping[str, ast.FunctionDef]) -> str | None:
    """The first variable that the value reads, by itself or by a function of the module that it calls."""
    for node in ast.walk(value):
        if (name := _read_by(node)) is not None:
            return name
    for node in ast.walk(value):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in functions:
            read = filter(None, map(_read_by, ast.walk(functions[node.func.id])))
            if (name := next(read, None)) is not None:
                return name
    return None


def _read_by(node: ast.AST) -> str | None:
    """The variable that this very node reads: `os.environ.get`, `os.getenv`, `os.environ[…]`, `Config(…)`."""
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "os.environ":
        return _text(node.slice)
    if not isinstance(node, ast.Call):
        return None
    if ast.unparse(node.func) in ("os.environ.get", "os.getenv") and node.args:
        return _text(node.args[0])
    named = {k.arg: k.value for k in node.keywords}
    return next((_text(named[a]) for a in _ENV_ARGUMENTS if a in named), None)


def _text(node: ast.expr) -> str | None:
    """The text of a literal; of a list of them the first."""
    if isinstance(node, (ast.List, ast.Tuple)) and node.elts:
        node = node.elts[0]
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None



if __name__ == "__main__":
    json.dump(facts(json.loads(sys.argv[1])), sys.stdout)
