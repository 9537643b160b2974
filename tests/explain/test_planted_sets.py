"""Causes and repairs of planted divergences: in real compiles of real programs, and in a made-up one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from bisector.core.case import WHOLE
from bisector.core.confirmed import Decided
from bisector.core.decision import DecisionId
from bisector.core.judge import proof
from bisector.core.model import Candidate
from bisector.core.outcome import Outcome
from bisector.core.search.sets import SetsFound
from bisector.explain.culprit_search import decide
from tests.core.helpers import any_of, as_sets, ddmin
from tests.explain.model import Model, modelled
from tests.explain.planted import planted

pytestmark = pytest.mark.usefixtures("warm_workers")

SMALL = """
def fn(x, w):
    for _ in range(2):
        x = torch.tanh(x @ w) * 2
    return (x,)

torch.manual_seed(0)
torch.compile(fn)(torch.randn(4, 16), torch.randn(16, 16) / 4)
"""

A, B, C, D = "vec:tanh@tanh", "decomp:aten.matmul@matmul_1", "inline:aten.tanh@tanh", "vec:loop@x_1"
Truth = list[set[str]]


def proved(found: Decided) -> SetsFound:
    assert found.checks == ()
    assert found.sets.stopped_because is None
    assert all(s.confirmed for s in (*found.sets.causes, *found.sets.repairs))
    return found.sets


# Below, a probe is arithmetic: the decisions of a made-up chain, and the truth about them.
P, Q, R, S = "vec:tanh@c2", "decomp:aten.matmul@c7", "inline:aten.tanh@c11", "vec:loop@c20"
KINDS = ("vec:tanh", "decomp:aten.matmul", "inline:aten.tanh", "vec:loop")
HUNDRED = tuple(f"{kind}@c{i}" for i in range(32) for kind in KINDS)


def decided(
    truth: Truth, decisions: Sequence[str], folder: Path, patch: pytest.MonkeyPatch
) -> tuple[SetsFound, int]:
    """The sets, and how many probes they took."""
    model = Model(32, decisions, lambda allowed, calls: any(some <= allowed for some in truth))
    with modelled(model, folder, patch, jobs=1) as session:
        study = session.study(session.lab.hello().calls[0])
        default = study.probe(Candidate())
        study = replace(study, signatures=default.signatures)
        found = proved(decide(study, WHOLE, default, []))
        return found, session.counts["run"]


SIX = (P, Q, R, S, "fuse:c1@c1", "unroll:x@c3")


@pytest.mark.parametrize("decisions", [SIX, HUNDRED], ids=["six", "128"])
@pytest.mark.parametrize(
    ("truth", "repairs"),
    [
        pytest.param([{P, Q}], [{P}, {Q}], id="both are needed: one cause of two, two repairs of one"),
        pytest.param([{P}, {Q}], [{P, Q}], id="either suffices: two causes of one, one repair of two"),
        pytest.param([{P, Q}, {R}], [{P, R}, {Q, R}], id="one of each: a pair and a single"),
        pytest.param([{P, R}, {Q, R}], [{R}, {P, Q}], id="(a or b) and c"),
        pytest.param([{P, Q}, {R, S}], [{P, R}, {P, S}, {Q, R}, {Q, S}], id="two pairs"),
    ],
)
def test_a_planted_truth_comes_back_in_both_views(
    truth: Truth, repairs: Truth, decisions: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, _ = decided(truth, decisions, tmp_path, monkeypatch)
    assert as_sets(found.causes) == {frozenset(c) for c in truth}
    assert as_sets(found.repairs) == {frozenset(r) for r in repairs}


@pytest.mark.parametrize(
    ("truth", "repairs"),
    [
        pytest.param([{P, Q}], [{P}, {Q}], id="both are needed"),
        pytest.param([{P}, {Q}], [{P, Q}], id="either suffices"),
        pytest.param([{P, R}, {Q, R}], [{R}, {P, Q}], id="(a or b) and c"),
    ],
)
def test_among_a_hundred_decisions_both_views_cost_less_than_three_perfect_ddmins(
    truth: Truth, repairs: Truth, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, probes = decided(truth, HUNDRED, tmp_path, monkeypatch)
    # What an oracle that always knows is asked for one set of two; here all sets of both views are found.
    cause, repair = any_of(*truth), any_of(*repairs)
    asked = max(ddmin(list(HUNDRED), cause)[1], ddmin(list(HUNDRED), repair)[1])
    assert probes <= 3 * asked


SOFTMAX = SMALL.replace("torch.tanh(x @ w) * 2", "torch.softmax(x, 1)").replace("range(2)", "range(1)")


@pytest.mark.live
def test_a_decision_that_vanishes_with_another_is_not_proved_to_be_part_of_a_repair(tmp_path: Path) -> None:
    whole, part = DecisionId("decomp:aten._softmax@x"), DecisionId("vec:exp@x")
    with planted(tmp_path, SOFTMAX) as program:
        study = program.plant([{part}], seen=True)
        both = study.denied(frozenset({whole, part}))
        assert both.measurement.vanished == (part,)
        assert (both.outcome, proof(both, {whole, part}).outcome) == (Outcome.PASS, Outcome.UNRESOLVED)
