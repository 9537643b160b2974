"""A line of plain torch is tried in a worker that has compiled the same graph before."""

from __future__ import annotations

from pathlib import Path

import pytest

from bisector.core.fix import FallBack
from bisector.core.fix_source import paste_lines
from bisector.core.model import Measurement
from bisector.core.protocol import RunPasted, WarmUp
from tests.inductor.workers import ABOUT, answers, working

pytestmark = pytest.mark.usefixtures("compiler")

# AOTAutograd's Python kernel of dropout copies its input; the kernel of eager returns it.
SCRIPT = """
import torch

def f(x):
    y = torch.nn.functional.dropout(x, 0.3, training=False)
    y += 1
    return y

torch.compile(f, dynamic=False)(torch.ones(4))
"""


def differ(measurement: object) -> list[str]:
    assert isinstance(measurement, Measurement), measurement
    assert measurement.error is None, measurement.error
    return [output.path for output in measurement.outputs if output.n_diff]


@pytest.mark.live
def test_a_line_that_takes_a_python_kernel_away_acts_though_torch_had_chosen_it(tmp_path: Path) -> None:
    (line,) = paste_lines(FallBack(("aten.dropout",), decomposed=True))
    with working(tmp_path / "script.py", SCRIPT) as worker:
        answers(worker, WarmUp(ABOUT))
        [without] = answers(worker, RunPasted(ABOUT, "pass"))
        [pasted] = answers(worker, RunPasted(ABOUT, line))
    assert differ(without) == ["mutated[l_x_]"]
    assert differ(pasted) == []
