"""What the pages that jinja renders have in common."""

from __future__ import annotations

from importlib import resources

from jinja2 import Environment, PackageLoader, StrictUndefined


def templates(*, autoescape: bool) -> Environment:
    """Where the templates of this package are. autoescape: for HTML."""
    return Environment(
        loader=PackageLoader("bisector.report"),
        autoescape=autoescape,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=StrictUndefined,
        keep_trailing_newline=True,
    )


def part(name: str) -> str:
    """The text of a file in the folder of the templates: the style of all pages, or a script."""
    return resources.files("bisector.report").joinpath("templates").joinpath(name).read_text(encoding="utf-8")


def printable(name: str) -> str:
    """A name from a file system such that a terminal or a page takes no part of it for its own."""
    plain = name.encode(errors="surrogateescape").decode(errors="replace")
    return "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in plain)
