"""fuse: which computations share a loop nest. Source alone."""

from __future__ import annotations

import pytest
import torch

from bisector.inductor.control import Control
from tests.inductor.helpers import allow, allow_all, compile_only, deny

pytestmark = pytest.mark.usefixtures("compiler")


def norm(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    gate = torch.sigmoid(x) * 2
    mean = gate.mean(-1, keepdim=True)
    centred = gate - mean
    variance = (centred * centred).mean(-1, keepdim=True)
    out = centred * torch.rsqrt(variance + 1e-5)
    return out, torch.relu(x + w), out.sum(0)


INPUTS = [torch.ones(64, 64), torch.ones(64)]


def nests(source: str) -> int:
    return source.count("for(int64_t x0=")


def test_denying_a_fusion_separates_the_two_and_it_stays_denied() -> None:
    default = compile_only(norm, INPUTS, Control())
    fusions = [i for i in default.ids if i.startswith("fuse:")]
    assert fusions
    for fusion in fusions:
        denied = compile_only(norm, INPUTS, deny(fusion))
        assert denied.source != default.source
        assert nests(denied.source) >= nests(default.source)
        assert denied.control.vanished() == ()


def through_a_third(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    a = x.sum(1, keepdim=True)
    c = y.sum(1, keepdim=True)
    b = a * 2 + y
    return a, b, c


def test_two_whose_fusion_is_denied_do_not_come_together_through_a_third() -> None:
    args = [torch.ones(64, 64), torch.ones(64, 64)]
    default = compile_only(through_a_third, args, Control())
    assert {"fuse:b@a", "fuse:c@b"} <= set(default.ids)
    apart = compile_only(through_a_third, args, deny("fuse:c@a"))
    assert nests(apart.source) > nests(default.source)
    assert apart.control.vanished() == ()


def test_the_plain_baseline_fuses_nothing() -> None:
    plain = compile_only(norm, INPUTS, allow())
    assert nests(plain.source) > 2 * nests(compile_only(norm, INPUTS, Control()).source)
    assert not [i for i in plain.ids if i.startswith("fuse:")]


def test_allowing_all_decisions_over_the_plain_baseline_is_the_default_compile() -> None:
    default = compile_only(norm, INPUTS, Control())
    allowed = compile_only(norm, INPUTS, allow_all(*default.ids))
    assert allowed.source == default.source
    assert allowed.control.vanished() == ()
