"""Fixes in their order, and which of them are tried on other inputs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bisector.core.decision import DecisionId
from bisector.core.fix import Cost, Elsewhere, FallBack, Fix
from bisector.core.protocol import TryOtherInputs
from bisector.explain.fixes import DRAWS, on_other_inputs, ranked
from tests.explain.test_elsewhere import Lab

VEC = frozenset({"vec"})
CHEAP = Fix("inductor.f=1", "flag", {"inductor.f": 1}, 1e-6, 1.0, {"kind": "flags"}, kinds=VEC, program="a")
ALIKE = replace(CHEAP, id="inductor.g=1", values={"inductor.g": 1})
BACKEND = Fix("backend=aot_eager", "backend", None, 0.0, 1.0, {"kind": "backend"})


def tried(lab: Lab, fixes: list[Fix], proved: frozenset[str] = frozenset()) -> list[Fix]:
    return on_other_inputs(lab.study(), fixes, 3, proved)


def test_what_only_moves_rounding_comes_last_and_a_backend_that_gives_up_before_it() -> None:
    moving = replace(CHEAP, id="moves", others=Elsewhere(tried=4, failed=1, nearer=()))
    slow = replace(CHEAP, id="slow", cost=Cost(3.0, (2.9, 3.1)))
    assert ranked([moving, BACKEND, slow, CHEAP]) == [CHEAP, slow, BACKEND, moving]


def test_a_setting_comes_before_a_line_that_edits_torchs_tables() -> None:
    plain = FallBack(("aten._softmax",), True)
    fallen_back = Fix("decomp:aten._softmax", "decomposition", None, 0.0, 1.0, plain)
    slow = replace(CHEAP, cost=Cost(3.0, (2.9, 3.1)))
    assert ranked([fallen_back, slow]) == [slow, fallen_back]


def test_of_two_flags_that_make_the_same_program_the_one_that_governs_less_comes_first() -> None:
    wide = replace(CHEAP, id="all passes", kinds=VEC | {"pass"})
    assert ranked([wide, CHEAP]) == [CHEAP, wide]


def test_a_repair_that_is_a_flag_stands_once_among_the_fixes() -> None:
    denied = replace(
        CHEAP, id="config:inductor.f@graph", kind="decision", values=None,
        decisions=(DecisionId("config:inductor.f@graph"),),
    )  # fmt: skip
    with_another = replace(denied, id="both", decisions=(*denied.decisions, DecisionId("vec:exp@exp")))
    assert ranked([denied, CHEAP, with_another]) == [CHEAP, with_another]
    assert ranked([denied]) == [denied], "no flag says it"


@pytest.mark.parametrize(
    ("spread", "first"), [((0.9, 1.4), "inductor.g=1"), ((1.1, 1.4), "inductor.f=1")]
)
def test_a_slowdown_within_noise_does_not_count_against_a_smaller_residual(
    spread: tuple[float, float], first: str
) -> None:
    exact = replace(ALIKE, residual_max_abs=0.0, cost=Cost(1.2, spread))
    assert ranked([CHEAP, exact])[0].id == first


def test_fixes_of_one_program_are_tried_on_other_inputs_once() -> None:
    lab = Lab([("FAIL", "PASS")])
    found = tried(lab, [CHEAP, ALIKE, BACKEND])
    assert [fix.others and fix.others.held for fix in found] == [DRAWS, DRAWS, None]
    assert [len(r.candidates) for r in lab.asked if isinstance(r, TryOtherInputs)] == [1]


def test_a_flag_that_governs_a_proved_kind_needs_no_other_inputs() -> None:
    lab = Lab([("FAIL", "FAIL")])
    assert tried(lab, [CHEAP, BACKEND], VEC | {"inline"}) == [CHEAP, BACKEND]
    assert lab.asked == []
    assert tried(lab, [CHEAP], frozenset({"inline"}))[0].perturbs
