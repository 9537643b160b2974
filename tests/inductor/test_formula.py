"""Where torch writes the formula of a lowering or a decomposition."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from bisector.core.decision import DecisionId  # noqa: E402
from bisector.inductor.formula import source_of  # noqa: E402

pytestmark = pytest.mark.usefixtures("compiler")  # as in a worker, where the hooks stand around the formulas

TORCH = Path(torch.__file__).parents[1]


def line_of(source: str) -> str:
    """The lines of torch that a source names."""
    places = (place.rpartition(":") for place in source.split(", "))
    return "\n".join((TORCH / f).read_text().splitlines()[int(n) - 1] for f, _, n in places)


@pytest.mark.parametrize(
    ("decision", "file", "head"),
    [
        ("lower:aten.sum@total", "torch/_inductor/lowering.py", "def sum_"),
        ("lower:aten.sum#1@total", "torch/_inductor/lowering.py", "def sum_"),
        ("lower:aten.tanh@h", "torch/_inductor/codegen/cpp.py", "def tanh"),
        ("decomp:aten._softmax@s", "torch/_decomp/decompositions.py", "def _softmax"),
        ("decomp:aten.std@s", "torch/_refs/__init__.py", "def std"),
        ("decomp:aten.upsample_nearest2d@up", "torch/_decomp/decompositions.py", "def _upsample_nearest_vec"),
    ],
)
def test_the_source_of_a_formula_is_a_line_of_torch(decision: str, file: str, head: str) -> None:
    source = source_of(DecisionId(decision), "cpu")
    assert source.startswith(file)
    assert head in line_of(source)


@pytest.mark.parametrize("decision", ["lower:aten.no_such_op@x", "decomp:nowhere.op@x", "lower:mul@x"])
def test_an_op_without_a_formula_has_no_source(decision: str) -> None:
    assert source_of(DecisionId(decision), "cpu") == ""
