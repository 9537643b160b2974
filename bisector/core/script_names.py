"""What the text of a script says of its statements: which only look at results, which bind names that nothing
reads. It is a guess, since Python says so only as it runs.
"""

from __future__ import annotations

import ast
import symtable
from collections.abc import Iterable, Iterator
from functools import cached_property

from .script_text import Statement, statements, without

_COMPARES = frozenset({"print", "assert_close", "exit", "write"})  # calls whose results nobody reads
_ENDS = frozenset({"SystemExit", "AssertionError"})
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_NEVER_ALONE = (ast.Return, ast.Global, ast.Nonlocal, ast.Pass, ast.Break, ast.Continue)
LeftOut = frozenset[int]  # the first lines of statements


class ScriptNames:
    """Raises SyntaxError where the source is no Python."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.all = [one for one in statements(source) if not isinstance(one.node, _NEVER_ALONE)]

    @cached_property
    def reports(self) -> LeftOut:
        """The statements that only compare, print or end the script."""
        return frozenset(one.first for one in self.all if self._reports(one.node))

    def cleaned(self, left_out: LeftOut) -> LeftOut:
        """These, and the statements that bind names which nothing reads without these, and call nothing that
        is compiled."""
        while dead := self._dead(left_out):
            left_out |= dead
        return left_out

    def binds_as_before(self, left_out: LeftOut) -> bool:
        """Whether each name that stays is bound, if it was."""
        try:
            return _unbound(without(self.source, left_out)) <= self._unbound
        except SyntaxError:  # what is left declares a name `nonlocal` that nothing binds
            return False

    @cached_property
    def _unbound(self) -> frozenset[str]:
        return _unbound(self.source)

    @cached_property
    def _compiled(self) -> frozenset[str]:
        """The names of what runs something compiled when it is called."""
        names = frozenset[str]()
        while new := {name for one in self.all for name in _compiled_by(one.node, names)} - names:
            names |= new
        return names

    def _reports(self, node: ast.stmt) -> bool:
        if isinstance(node, ast.If | ast.For):
            return all(map(self._reports, (*node.body, *node.orelse))) and not self._calls(node)
        if isinstance(node, ast.Raise):
            return not _ENDS.isdisjoint(_loaded(node))
        value = node.value if isinstance(node, ast.Expr) else None
        compares = isinstance(value, ast.Call) and _last_name(value.func) in _COMPARES
        return (isinstance(node, ast.Assert) or compares) and not self._calls(node)

    def _calls(self, node: ast.stmt) -> bool:
        return _calls_compiled(node, self._compiled)

    def _dead(self, left_out: LeftOut) -> LeftOut:
        tree = ast.parse(without(self.source, left_out))
        read = list(_read(tree))
        stay = [one for one in self.all if one.first not in left_out]
        return frozenset(one.first for one in stay if self._is_dead(one, read, left_out))

    def _is_dead(self, one: Statement, read: Iterable[tuple[int, str]], left_out: LeftOut) -> bool:
        if isinstance(one.node, ast.If | ast.For):
            inner = {inner.first for inner in self.all if inner.outer is one.node}
            all_of_it = len(inner) == len([*one.node.body, *one.node.orelse]) and inner <= left_out
            return all_of_it and not self._calls(one.node)
        bound = set(_bound(one.node))
        of_a_class = isinstance(one.outer, ast.ClassDef)  # read as an attribute
        if not bound or of_a_class or (not isinstance(one.node, _DEFINITIONS) and self._calls(one.node)):
            return False
        return bound.isdisjoint(name for line, name in read if not one.first <= line <= one.last)


def _compiled_by(node: ast.stmt, known: frozenset[str]) -> Iterator[str]:
    """The names that a statement gives to what runs something compiled."""
    if isinstance(node, _DEFINITIONS):
        if _calls_compiled(node, known) or any(map(_mentions_compile, node.decorator_list)):
            yield node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.For):
        value = node.iter if isinstance(node, ast.For) else node.value
        if value is not None and _is_compiled(value, known):
            yield from _stored(node)
    elif isinstance(node, ast.Expr) and _mentions_compile(node.value):  # `model.compile()`
        yield from _loaded(node)


def _is_compiled(value: ast.expr, known: frozenset[str]) -> bool:
    """Whether a value is, or holds, something compiled; what a call of it gives does not."""
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Call):
        return _last_name(value.func.func) == "compile" and not value.func.args  # torch.compile(...)(model)
    if isinstance(value, ast.Call):
        return _last_name(value.func) == "compile"
    if isinstance(value, ast.Name):
        return value.id in known
    inner = (child for child in ast.iter_child_nodes(value) if isinstance(child, ast.expr))
    return any(_is_compiled(one, known) for one in inner)


def _calls_compiled(node: ast.AST, known: frozenset[str]) -> bool:
    """Whether a call within it runs, or is given, something compiled."""
    calls = [inner for inner in ast.walk(node) if isinstance(inner, ast.Call)]
    return any(_mentions_compile(call.func) or not known.isdisjoint(_loaded(call)) for call in calls)


def _mentions_compile(node: ast.AST) -> bool:
    return any(_last_name(inner) == "compile" for inner in ast.walk(node))


def _last_name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _bound(node: ast.stmt) -> Iterator[str]:
    """The names that a statement binds and that it does nothing besides."""
    if isinstance(node, _DEFINITIONS):
        yield from [] if node.decorator_list else [node.name]
    elif isinstance(node, ast.ImportFrom) and node.module == "__future__":
        return  # it holds for the whole file
    elif isinstance(node, ast.Import | ast.ImportFrom):
        yield from ((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        plain = all(isinstance(inner, ast.Name | ast.Tuple | ast.List) for inner in targets)
        yield from _stored(node) if plain else ()


def _stored(node: ast.AST) -> Iterator[str]:
    stored = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
    return (name.id for name in stored if isinstance(name.ctx, ast.Store))


def _loaded(node: ast.AST) -> Iterator[str]:
    return (inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name))


def _read(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Where which name is read; `x += 1` reads what it binds."""
    for node in ast.walk(tree):
        if isinstance(node, ast.AugAssign):
            yield from ((node.lineno, name) for name in _stored(node.target))
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.lineno, node.id


def _unbound(source: str) -> frozenset[str]:
    """The names that are read and that the text binds nowhere: builtins, and what was left out of it."""
    module = symtable.symtable(source, "script", "exec")
    tables, read, bound = [module], set[str](), set[str]()
    while tables:
        table = tables.pop()
        tables += table.get_children()
        for name in table.get_symbols():
            if name.is_global() and name.is_referenced():
                read.add(name.get_name())
            if (table is module or name.is_declared_global()) and (name.is_assigned() or name.is_imported()):
                bound.add(name.get_name())
    return frozenset(read - bound)
