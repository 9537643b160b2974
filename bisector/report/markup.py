"""Pieces of Markdown, and the care for what a public text may show."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

# The folders of an absolute path. "@" cannot be in one, so that no decision ID (`match:/pass.name@node`) is
# taken for a path; after a letter, digit, dot, slash or hyphen it is part of a relative path or a URL.
_PATH = re.compile(r"""(?<![\w./\\-])(?:[A-Za-z]:[\\/]|~?/)(?:[^\s:'"`<>|()@,;\\/]+[\\/])+""")


def without_folders(text: str) -> str:
    """The text with every absolute path cut down to its last part."""
    return _PATH.sub("", text)


def without_folders_in_comments(source: str) -> str:
    """Code is left alone: embedded base64 data looks like paths."""
    return "\n".join(
        without_folders(line) if line.lstrip().startswith("#") else line for line in source.splitlines()
    )


def fenced(text: str, language: str = "") -> list[str]:
    """A code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return [f"{fence}{language}", text.rstrip("\n"), fence]


def table(
    header: Sequence[str], rows: Iterable[Sequence[str]], right: frozenset[int] = frozenset()
) -> list[str]:
    """A table whose cells are Markdown already; a bar ends a cell even inside inline code."""
    rule = ["---:" if index in right else "---" for index in range(len(header))]
    escaped = ([cell.replace("|", "\\|") for cell in row] for row in (header, rule, *rows))
    return [f"| {' | '.join(row)} |" for row in escaped]


def code(text: str) -> str:
    """Inline code on one line, whatever backticks are in it."""
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    inner = text.replace("\n", " ")
    return f"{ticks} {inner} {ticks}" if "`" in text else f"{ticks}{inner}{ticks}"


def escape(text: str) -> str:
    """Plain text for a table cell."""
    return re.sub(r"([\\*_<\[\]`])", r"\\\1", text.replace("\n", " "))
