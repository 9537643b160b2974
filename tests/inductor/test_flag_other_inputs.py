"""Candidates on other inputs, with the real compiler, and how the other inputs are drawn."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from bisector.core.case import WHOLE
from bisector.core.criterion import Criterion
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.core.protocol import CannotAnswer, Draw, Draws
from bisector.inductor.capture.load import LoadOptions, load
from bisector.inductor.flags.fix_trials import redrawn, try_candidates

pytestmark = pytest.mark.usefixtures("compiler", "undisturbed")
SCRIPT = """
import torch
torch.manual_seed(0)

def f(x):
    return (x.half().float() * 3).sum(-1)

x = torch.randn(16, 8, requires_grad=True)
torch.compile(f)(x).sum().backward()
"""


@pytest.mark.live
@pytest.mark.parametrize("train", [False, True])
def test_each_draw_has_an_outcome_by_default_and_for_each_candidate(tmp_path: Path, train: bool) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (call,) = load(LoadOptions(str(script))).recorder.calls
    casts = Candidate.with_flags({"inductor.emulate_precision_casts": True})
    idle = Candidate.with_flags({"functorch.cse": False})
    answer = try_candidates(call, WHOLE, [casts, idle], Criterion((1e-5, 1e-6)), train, 3)
    assert answer == Draws((Draw(Outcome.FAIL, (Outcome.PASS, Outcome.FAIL)),) * 3)


def test_a_flag_that_this_torch_lacks_is_said_to_be_the_problem(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    (call,) = load(LoadOptions(str(script))).recorder.calls
    unknown = Candidate.with_flags({"inductor.nothing": 1})
    with pytest.raises(CannotAnswer, match="this torch has no flag"):
        try_candidates(call, WHOLE, [unknown], Criterion(), None, 1)


def test_drawn_values_are_other_ones_in_the_range_and_layout_of_the_recorded() -> None:
    x = torch.rand(5, 3, dtype=torch.float16).t()
    (drawn,) = redrawn([x], 0)
    assert (drawn.shape, drawn.stride(), drawn.dtype) == (x.shape, x.stride(), x.dtype)
    assert bool((drawn >= 0).all() and (drawn <= x.max()).all())
    assert not set(drawn.reshape(-1).tolist()) <= set(x.reshape(-1).tolist())
    assert not torch.equal(drawn, redrawn([x], 1)[0])
    assert torch.equal(drawn, redrawn([x], 0)[0])


def test_a_mask_keeps_its_values_in_other_places() -> None:
    mask = torch.tensor([0.0, float("-inf")] * 50)
    (drawn,) = redrawn([mask], 0)
    assert sorted(drawn.tolist()) == sorted(mask.tolist())
    assert not torch.equal(drawn, mask)


def test_a_small_tensor_in_which_no_value_repeats_is_no_mask() -> None:
    x = torch.rand(8)
    (drawn,) = redrawn([x], 0)
    assert not set(drawn.tolist()) & set(x.tolist())


def test_what_counts_or_shares_memory_or_is_one_number_stays() -> None:
    x = torch.rand(8)
    kept = [torch.arange(9), x, x[2:], torch.rand(1), torch.rand(3, 1).expand(3, 4), 7]
    assert all(a is b for a, b in zip(redrawn(kept, 0), kept, strict=True))
