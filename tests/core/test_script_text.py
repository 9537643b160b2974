"""The text of a script without statements: what is left is Python, on the lines it had."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bisector.core.script_text import program_lines, shortened, statements, without

SCRIPT = '''\
"""What it is about."""
import torch

# the model
@torch.compile
def model(x):
    """Twice."""
    if x.sum() > 0:
        print("positive")
    elif x.sum() < 0:
        print("negative")
    else:
        print("none")
    return 2 * x  # the result


class Held: pass


a = 1; b = 2
try:
    out = model(torch.ones(3))
except ValueError:
    print("raised")
print("""
several
lines""", out)
'''

OUT = SCRIPT.splitlines().index("    out = model(torch.ones(3))") + 1


def test_a_statement_keeps_its_line_where_others_are_left_out() -> None:
    left = without(SCRIPT, [5])
    assert left.splitlines()[OUT - 1].strip() == "out = model(torch.ones(3))"
    assert "def model" not in left and "@torch.compile" not in left


def test_a_block_without_statements_holds_pass_and_an_elif_is_gone() -> None:
    left = without(SCRIPT, [9, 10, 13])
    ast.parse(left)
    assert left.splitlines()[8] == "        pass"
    assert "elif" not in left and left.splitlines()[12] == ""


def test_statements_that_share_a_line_are_never_left_out() -> None:
    assert not {one.first for one in statements(SCRIPT)} & {19}
    assert without(SCRIPT, [19]) == SCRIPT


def test_a_form_feed_ends_no_line() -> None:
    branches = "    if x:\n        return 1\n    elif x > 2:\n        return 2\n    return 3\n"
    script = f"x = 1\n\x0cdef f():\n{branches}"
    assert [one.first for one in statements(script)] == [1, 2, 3, 4, 5, 6, 7]
    assert without(script, [5]).split("\n")[3:] == ["        return 1", "", "", "    return 3", ""]
    text = "s = 'a\x0bb'\nprint(s)\n"
    assert without(text, [2]) == "s = 'a\x0bb'\n\n"


@pytest.mark.parametrize(
    ("script", "left_out"),
    [
        ('s = """\n# kept"""\nprint(s)\n', [3]),
        ("x = 1; \\\nprint(2)\ndef g():\n    pass\n", [2]),
        ("@(\n    staticmethod\n)\ndef g():\n    pass\nx = 1\n", [1]),
        ("if x:\n    y = 1\nelif z:\n    y = 2\nelse:\n    y = 3\n", [3]),
    ],
)
def test_what_looks_like_a_statement_or_a_comment_and_is_none_is_kept(
    script: str, left_out: list[int]
) -> None:
    measured, written = without(script, left_out), shortened(script, left_out)[0]
    assert ast.dump(ast.parse(written)) == ast.dump(ast.parse(measured))


def test_what_stands_behind_a_colon_goes_with_its_statement_alone() -> None:
    assert [one.first for one in statements("class Held: pass\n")] == [1]


def test_the_shortened_text_says_where_each_line_went() -> None:
    text, places = shortened(SCRIPT, [5, OUT + 3])
    assert "# the model" not in text and "several" not in text
    assert text.splitlines()[places[OUT] - 1].strip() == "out = model(torch.ones(3))"


def test_comments_docstrings_and_blank_lines_are_no_program() -> None:
    assert program_lines('"""Doc."""\n\n# comment\nx = (1,\n     2)\n') == 2


@given(st.sets(st.sampled_from([one.first for one in statements(SCRIPT)])))
def test_whatever_is_left_out_the_rest_is_python(left_out: set[int]) -> None:
    left = without(SCRIPT, left_out)
    ast.parse(left)
    assert len(left.splitlines()) == len(SCRIPT.splitlines())
    text, places = shortened(SCRIPT, left_out)
    ast.parse(text)
    assert all(text.split("\n")[now - 1] == left.split("\n")[was - 1] for was, now in places.items())
