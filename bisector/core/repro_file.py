"""What every repro has, whatever it compares: the comment on top, and what makes exit statuses of its test.

A repro is a file that pytest collects. Python runs its test too, under `if __name__ == "__main__"`.
"""

from __future__ import annotations

from collections.abc import Iterable

from .own_folders import REPRO

TITLE = "torch.compile differs from eager."
DIFFERS = "class Differs(AssertionError): ...\n"  # the test raises it, and nothing else of the file does
IF_RUN = 'if __name__ == "__main__":'
IF_FIXED = 'if "--fixed" in sys.argv:'
SAID = 'print(f"cannot tell: {kind.__name__}: {error}")'
CANNOT_TELL = (
    "# Any other exception is not a divergence; git bisect skips 125.",
    f"sys.excepthook = lambda kind, error, _: sys.exit({SAID} or 125)",
)


def comment(texts: Iterable[str]) -> str:
    """The texts as a comment, each on lines of its own."""
    lines = [line for text in texts for line in text.splitlines() or [""]]
    return "\n".join(f"# {line}".rstrip() for line in lines)


def usage(fixed: bool, file: str = REPRO) -> str:
    """The ways to run a repro, as the end of the comment on top. fixed: whether it has a fix."""
    ways = {f"python {file}": "exits 1 where compiled differs, 0 where it agrees, 125 where it cannot tell"}
    if fixed:
        ways[f"python {file} --fixed"] = "the same with the fix"
    ways[f"python -m pytest {file}"] = "fails where compiled differs"
    width = max(map(len, ways))
    return comment(["", *(f"{way:<{width}}   {what}" for way, what in ways.items())])


def joined_blocks(blocks: Iterable[str]) -> str:
    """The file: blocks separated by two empty lines, empty ones left out."""
    return "\n\n\n".join(block.strip("\n") for block in blocks if block.strip()) + "\n"


def indented(lines: Iterable[str]) -> list[str]:
    """Lines of a block of Python."""
    return [f"    {line}" if line else line for text in lines for line in text.split("\n")]


def only_if_fixed(lines: Iterable[str]) -> list[str]:
    """The lines, for `--fixed` alone."""
    block = indented(lines)
    return [IF_FIXED, *block] if block else []


def run_by_python(test: str, first: Iterable[str] = ()) -> str:
    """The end of the file: the test as an exit status. first: lines that run before it."""
    ends = ["try:", f"    {test}()", "except Differs as error:", "    sys.exit(print(error) or 1)"]
    return "\n".join([IF_RUN, *indented([*first, *ends])])
