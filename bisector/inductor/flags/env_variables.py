"""The environment variable that each setting of a config module is read from, by the module's source.

It is not kept when the module is imported. Parsed as text, so torch is not imported for it; exercised on the
modules of torch 2.1 to 2.15 (torch/_inductor/config.py, torch/_functorch/config.py, torch/_dynamo/config.py).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

# Arguments of torch.utils._config_module.Config that name an environment variable.
_ENV_ARGUMENTS = ("env_name_default", "env_name_force")


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
