"""Causes and repairs of planted divergences, each probe a real compile of a real program."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from bisector.core.case import WHOLE
from bisector.core.judge import proof
from bisector.core.model import Outcome
from bisector.core.search.sets import SetsFound
from bisector.session.culprit_search import decide
from tests.core.helpers import any_of, as_sets, ddmin
from tests.session.planted import Planted, planted

SMALL = """
def fn(x, w):
    for _ in range(2):
        x = torch.tanh(x @ w) * 2
    return (x,)

torch.manual_seed(0)
torch.compile(fn)(torch.randn(4, 16), torch.randn(16, 16) / 4)
"""
# Products that are decomposed one by one, and layers that share the source of their kernels: many decisions,
# few C++ compiles.
LARGE = SMALL.replace("range(2)", "range(16)").replace("x @ w", "x @ w @ w @ w")

A, B, C, D = "vec:tanh@tanh", "decomp:aten.matmul@matmul_1", "inline:aten.tanh@tanh", "vec:loop@x_1"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    with planted(tmp_path_factory.mktemp("small"), SMALL) as program:
        yield program


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Planted]:
    with planted(tmp_path_factory.mktemp("large"), LARGE) as program:
        yield program


def decided(program: Planted, *culprits: set[str]) -> SetsFound:
    study = program.plant(culprits)
    found = decide(study, WHOLE, program.default, [])
    assert found.checks == []
    assert found.sets.stopped_because is None
    assert all(s.confirmed for s in (*found.sets.causes, *found.sets.repairs))
    return found.sets


@pytest.mark.parametrize(
    ("culprits", "repairs"),
    [
        pytest.param([{A, B}], [{A}, {B}], id="both are needed: one cause of two, two repairs of one"),
        pytest.param([{A}, {B}], [{A, B}], id="either suffices: two causes of one, one repair of two"),
        pytest.param([{A, B}, {C}], [{A, C}, {B, C}], id="one of each: a pair and a single"),
        pytest.param([{A, C}, {B, C}], [{C}, {A, B}], id="(a or b) and c"),
        pytest.param([{A, B}, {C, D}], [{A, C}, {A, D}, {B, C}, {B, D}], id="two pairs"),
    ],
)
def test_a_planted_truth_comes_back_in_both_views(
    small: Planted, culprits: list[set[str]], repairs: list[set[str]]
) -> None:
    found = decided(small, *culprits)
    assert as_sets(found.causes) == {frozenset(c) for c in culprits}
    assert as_sets(found.repairs) == {frozenset(r) for r in repairs}


X, Y, Z = "vec:tanh@tanh_2", "decomp:aten.matmul@matmul_7", "inline:aten.tanh@tanh_11"


@pytest.mark.parametrize(
    ("culprits", "repairs"),
    [
        pytest.param([{X, Y}], [{X}, {Y}], id="both are needed"),
        pytest.param([{X}, {Y}], [{X, Y}], id="either suffices", marks=pytest.mark.slow),
        pytest.param([{X, Z}, {Y, Z}], [{Z}, {X, Y}], id="(a or b) and c", marks=pytest.mark.slow),
    ],
)
def test_among_a_hundred_decisions_both_views_cost_less_than_three_perfect_ddmins(
    large: Planted, culprits: list[set[str]], repairs: list[set[str]]
) -> None:
    ids = [d.id for d in large.default.measurement.decisions if d.kind != "lower"]
    assert len(ids) > 100
    found = decided(large, *culprits)
    assert as_sets(found.causes) == {frozenset(c) for c in culprits}
    assert as_sets(found.repairs) == {frozenset(r) for r in repairs}
    # What an oracle that always knows is asked for one set of two; here all sets of both views are found.
    cause, repair = any_of(*culprits), any_of(*repairs)
    asked = max(ddmin(ids, cause)[1], ddmin(ids, repair)[1])
    assert large.probes <= 3 * asked


FUSED = """
def fn(x, y):
    a = x.amax(1, keepdim=True)
    b = torch.exp(x - a)
    c = (x * y).sum(1)
    return (b, c)

torch.manual_seed(0)
torch.compile(fn)(torch.rand(16, 16), torch.rand(16, 16))
"""


@pytest.mark.slow
def test_a_fusion_that_appears_where_another_is_denied_joins_the_search(tmp_path: Path) -> None:
    with planted(tmp_path, FUSED) as program:
        ids = {d.id for d in program.default.measurement.decisions}
        assert "fuse:c@a" in ids
        assert "fuse:c@b" not in ids
        study = program.plant([{"fuse:c@a"}, {"fuse:c@b"}], seen=True)
        found = decide(study, WHOLE, program.default, [])
        assert frozenset({"fuse:c@a"}) not in as_sets(found.sets.repairs)
        assert frozenset({"fuse:c@a", "fuse:c@b"}) in as_sets(found.sets.repairs)
        assert "fuse:c@b" in {d.id for d in found.decisions}, "it would be named without a word of what it is"


SOFTMAX = SMALL.replace("torch.tanh(x @ w) * 2", "torch.softmax(x, 1)").replace("range(2)", "range(1)")


def test_a_decision_that_vanishes_with_another_is_no_part_of_a_repair(tmp_path: Path) -> None:
    whole, part = "decomp:aten._softmax@x", "vec:exp@x"
    with planted(tmp_path, SOFTMAX) as program:
        study = program.plant([{part}], seen=True)
        both = study.denied(frozenset({whole, part}))
        assert both.measurement.vanished == (part,)
        assert (both.outcome, proof(both, {whole, part}).outcome) == (Outcome.PASS, Outcome.UNRESOLVED)
        found = decide(study, WHOLE, program.default, [])
        assert as_sets(found.sets.repairs) == {frozenset({whole}), frozenset({part})}
        assert as_sets(found.sets.causes) == {frozenset({whole, part})}
