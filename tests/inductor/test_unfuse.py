"""A composite taken apart computes what it did, to the bit, and its parts are named by it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch._inductor.compile_fx import compile_fx

from bisector.core.case import WHOLE, Case
from bisector.inductor.control import Control, activate
from bisector.inductor.graph.edit import CannotEdit
from bisector.inductor.naming import named_by
from tests.inductor.test_edit import Captured, calls, run

torch.manual_seed(0)
X = torch.randn(4, 8)
W = torch.randn(24, 8)
TARGETS = torch.tensor([1, 2, 3, 0])


def attention(x: Any, w: Any, o: Any) -> Any:
    out, _ = F.multi_head_attention_forward(
        x, x, x, 8, 2, w, None, None, None, False, 0.0, o, None, need_weights=False
    )
    return out + 1


COMPOSITES: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "normalize": (lambda x: F.normalize(x * 2) + 1, (X,)),
    "rms_norm": (lambda x: F.rms_norm(x * 2, (8,)) + 1, (X,)),
    "cosine_similarity": (lambda x: F.cosine_similarity(x, x * 2) + 1, (X,)),
    "cross_entropy": (lambda x: F.cross_entropy(x * 2, TARGETS) + 1, (X,)),
    "kl_div": (lambda x: F.kl_div(x, x.exp(), reduction="sum") + 1, (X,)),
    "multi_head_attention_forward": (attention, (X[None], W, W[:8])),
}


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_composite_taken_apart_gives_the_same_bits_under_the_names_that_were(name: str) -> None:
    fn, args = COMPOSITES[name]
    captured = Captured(fn, *args)
    [composite] = [c for c in captured.calls if c.removesuffix("_1") in (name, "loss", "kl_div", name[:5])]
    edited = captured.apply(WHOLE.with_unfused(composite))
    assert torch.equal(run(edited)[0], fn(*args))
    parts = [c for c in calls(edited.gm) if c.startswith(f"{composite}__")]
    assert parts
    assert {c for c in calls(edited.gm) if c not in parts} <= set(captured.calls)


@pytest.fixture(scope="module")
def normalized() -> Captured:
    return Captured(lambda x: F.normalize(x * 2) + 1, X)


def test_parts_are_cut_bypassed_and_returned_by_their_names(normalized: Captured) -> None:
    case = WHOLE.with_unfused("normalize")
    edited = normalized.apply(
        Case(unfuse=case.unfuse, cut=("normalize__linalg_vector_norm",), outputs=("normalize",))
    )
    norm = edited.args[edited.input_names().index("normalize__linalg_vector_norm")]
    assert torch.equal(norm, torch.linalg.vector_norm(X * 2, dim=1, keepdim=True))
    assert calls(edited.gm)[1:] == ["normalize__clamp_min", "normalize__expand", "normalize"]
    past = case.rebased().with_bypass("normalize__clamp_min", "normalize__linalg_vector_norm")
    later = normalized.apply(past)
    assert "normalize__clamp_min" not in calls(later.gm)
    assert torch.equal(run(later)[0], F.normalize(X * 2) + 1)


def test_what_is_no_call_cannot_be_taken_apart(normalized: Captured) -> None:
    with pytest.raises(CannotEdit):
        normalized.apply(WHOLE.with_unfused("nobody"))


def test_gradients_flow_through_the_parts_of_a_composite() -> None:
    captured = Captured(lambda x: F.normalize(x * 2).sum(), X.clone().requires_grad_())
    edited = captured.apply(WHOLE.with_unfused("normalize"))
    ours, plain = X.clone().requires_grad_(), X.clone().requires_grad_()
    torch.fx.Interpreter(edited.gm).run(ours)[0].backward()
    F.normalize(plain * 2).sum().backward()
    assert torch.equal(ours.grad, plain.grad)


@pytest.mark.usefixtures("compiler")
def test_decisions_about_a_part_are_named_by_the_composite(normalized: Captured) -> None:
    edited = normalized.apply(WHOLE.with_unfused("normalize"))
    control = Control()
    torch._dynamo.reset()
    with activate(control):
        compile_fx(edited.gm, edited.args)(*edited.args)
    names = set(calls(edited.gm))
    named = {n for d in control.decisions() for n in named_by(d.id, names)}
    assert "normalize" in named
    assert not [n for n in named if "__" in n]
