"""The text of a script without some of its statements.

A statement is known by the line on which it begins, its decorators included. One that shares a line with
another is never left out.
"""

from __future__ import annotations

import ast
import tokenize
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

_NO_CODE = frozenset({
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
})  # fmt: skip
_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")


@dataclass(frozen=True)
class Statement:
    """outer: what it stands in. first, last: its lines, from 1. block: the first lines of all statements of
    its block. may_empty: whether that block may be left without a statement."""

    node: ast.stmt
    outer: ast.AST
    first: int
    last: int
    block: tuple[int, ...]
    may_empty: bool

    def holds(self, other: Statement) -> bool:
        """Whether the other stands within this one."""
        return self.first <= other.first and other.last <= self.last and self is not other


def statements(source: str) -> tuple[Statement, ...]:
    """Every statement that has its lines for itself, an outer one before those within it. Raises SyntaxError
    where the text is no Python."""
    lines = source.split("\n")  # as Python does: `splitlines` ends lines at form feeds too
    return tuple(one for one in _within(ast.parse(source), lines) if _has_its_lines(one.node, lines))


def _within(node: ast.AST, lines: Sequence[str]) -> Iterator[Statement]:
    for field in _BLOCKS:
        inner = getattr(node, field, None)
        if not isinstance(inner, list):  # that of a lambda is an expression
            continue
        block = tuple(_first(one, lines) for one in inner if isinstance(one, ast.stmt))
        may_empty = isinstance(node, ast.Module) or _is_elif(inner, lines)
        for one in inner:
            if isinstance(one, ast.stmt):
                yield Statement(one, node, _first(one, lines), one.end_lineno or one.lineno, block, may_empty)
            yield from _within(one, lines)


def _first(node: ast.stmt, lines: Sequence[str]) -> int:
    line = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", []))])
    while line < node.lineno and not lines[line - 1].lstrip().startswith("@"):
        line -= 1  # a decorator in parentheses
    return line


def _is_elif(block: Sequence[ast.AST], lines: Sequence[str]) -> bool:
    one = block[0] if len(block) == 1 else None
    return isinstance(one, ast.If) and lines[one.lineno - 1].lstrip().startswith("elif")


def _has_its_lines(node: ast.stmt, lines: Sequence[str]) -> bool:
    before = lines[node.lineno - 1].encode()[: node.col_offset]
    behind = lines[(node.end_lineno or node.lineno) - 1].encode()[node.end_col_offset :].strip()
    goes_on = node.lineno > 1 and lines[node.lineno - 2].endswith("\\")
    return not goes_on and not before.strip() and (not behind or behind.startswith(b"#"))


def without(source: str, left_out: Collection[int]) -> str:
    """The text without the statements that begin on these lines; all others stay on the lines they had."""
    if not left_out:
        return source
    lines, firsts = source.split("\n"), set(left_out)
    gone = [one for one in statements(source) if one.first in firsts]
    outermost = [one for one in gone if not any(other.holds(one) for other in gone)]
    for one in outermost:
        indent = lines[one.first - 1][: -len(lines[one.first - 1].lstrip())]
        lines[one.first - 1 : one.last] = [""] * (one.last - one.first + 1)
        if not one.may_empty and one.first == one.block[0] and firsts.issuperset(one.block):
            lines[one.first - 1] = f"{indent}pass"
    return "\n".join(lines)


def shortened(source: str, left_out: Collection[int]) -> tuple[str, Mapping[int, int]]:
    """The text without these statements, their lines and the comments right above them; and, by each line
    that stays, the line that it has there."""
    before, after = source.split("\n"), without(source, left_out).split("\n")
    gone = {number for number, (was, now) in enumerate(zip(before, after, strict=True), 1) if was and not now}
    comments = {token.start[0] for token in _tokens(source) if token.type == tokenize.COMMENT}
    for number in range(len(before), 0, -1):
        if number in comments and number + 1 in gone and before[number - 1].lstrip().startswith("#"):
            gone.add(number)
    kept, places = list[str](), dict[int, int]()
    for number, line in enumerate(after, 1):
        blank = not line.strip()
        if blank and (not kept or not kept[-1].strip()) and number - 1 in gone | {0}:
            gone.add(number)
        if number not in gone:
            kept.append(line)
            places[number] = len(kept)
    return "\n".join(kept).rstrip("\n") + "\n", places


def program_lines(source: str) -> int:
    """How many lines hold code: no comments, no docstrings, no blank lines."""
    spans = [(one.start[0], one.end[0]) for one in _tokens(source) if one.type not in _NO_CODE]
    texts = [(one.first, one.last) for one in statements(source) if _is_text(one.node)]
    return len(_lines(spans) - _lines(texts))


def _tokens(source: str) -> Iterator[tokenize.TokenInfo]:
    return tokenize.generate_tokens(iter([f"{line}\n" for line in source.split("\n")]).__next__)


def _lines(spans: Sequence[tuple[int, int]]) -> frozenset[int]:
    return frozenset(line for first, last in spans for line in range(first, last + 1))


def _is_text(node: ast.stmt) -> bool:
    """Whether it is a string that nobody reads, such as a docstring."""
    constant = node.value if isinstance(node, ast.Expr) else None
    return isinstance(constant, ast.Constant) and isinstance(constant.value, str)
