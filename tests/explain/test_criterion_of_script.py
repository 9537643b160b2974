"""What the outputs of a script's calls are held to, beside the script's own comparisons."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from bisector.core.criterion import EXACT, Criterion
from bisector.core.model import Measurement, Tolerance
from bisector.core.options import Options
from bisector.explain.criteria import criterion_of_outputs, criterion_of_script
from tests.core.measurements import off_by


def criterion(*own: Tolerance, rtol: float | None = None) -> Criterion:
    """own: tolerances of the script's comparisons. rtol: of the command line."""
    options = Options("script.py", rtol=rtol, atol=None if rtol is None else 0.0)
    call: Any = SimpleNamespace(tolerances={"output[0]": own} if own else {})
    return criterion_of_script(options, [call], options.criterion or Criterion())


@pytest.mark.parametrize(
    ("own", "dtype", "held"),
    [
        ([(0.0, 0.0)], "float32", (1.3e-6, 1e-5)),  # codes are compared exactly, floats are not
        ([(0.0, 0.0)], "uint8", (0.0, 0.0)),
        ([(1e-2, 1e-2), (0.0, 0.0)], "float32", (1e-2, 1e-2)),
        ([(1e-2, 1e-2)], "bfloat16", (1e-2, 1e-2)),
        ([(0.0, 1.0)], "int64", (0.0, 1.0)),
        ([], "float32", (1.3e-6, 1e-5)),
    ],
)
def test_the_looser_of_the_scripts_own_and_the_default_holds(
    own: list[Tolerance], dtype: str, held: Tolerance
) -> None:
    assert criterion(*own).tolerances("output[0]", dtype) == (held,)


def test_a_tolerance_of_the_command_line_holds_for_everything() -> None:
    assert criterion((1e-2, 1e-2), rtol=1e-9).tolerances("output[0]", "float32") == ((1e-9, 0.0),)


@pytest.mark.parametrize(
    ("path", "off", "held"),
    [
        ("*", 0.5, (1.3e-6, 1e-5)),  # a mask of the outputs is compared exactly
        ("*", 1e-6, EXACT),  # only where the last bit counts does the mask differ
        ("output[0]", 0.5, EXACT),  # the outputs themselves are compared
    ],
)
def test_what_a_script_computes_from_outputs_holds_them_where_no_more_differs(
    path: str, off: float, held: Tolerance
) -> None:
    call: Any = SimpleNamespace(tolerances={path: (EXACT,)})
    own = Criterion(by_path={path: (EXACT,)})
    found = criterion_of_outputs(Options("script.py"), call, own, Measurement((off_by(off),)))
    assert found.tolerances("output[0]", "float32") == (held,)
