"""Fixes on other inputs: what fails there and takes no cause away is no fix."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from bisector.core.fix import Elsewhere
from bisector.core.graphinfo import GraphInfo, NodeInfo
from bisector.core.model import Candidate, Measurement
from bisector.core.outcome import Outcome
from bisector.core.protocol import DescribeGraph, Draw, Draws, Failed, RunTrace, Traced, TryOtherInputs
from bisector.core.trace import NodeTrace, Trace
from bisector.explain.fixes import DRAWS, elsewhere
from tests.explain.fake_lab import FakeLab

Errors = dict[str, float]  # of each node that rounds otherwise than eager
FIX = Candidate.with_flags({"inductor.f": 1})


class Lab(FakeLab):
    """outcomes: (default, with the fix) for each draw. arising: errors of nodes, by default and with the
    fix, None where the graph cannot be followed. takes: whether the graph takes other shapes."""

    def __init__(
        self,
        outcomes: Sequence[tuple[str, str]],
        arising: tuple[Errors, Errors] | None = None,
        takes: bool = False,
        shape: tuple[int, ...] = (12, 6),
    ) -> None:
        super().__init__({DescribeGraph: self.info, TryOtherInputs: self.draws, RunTrace: self.trace})
        self.outcomes, self.arising, self.takes, self.shape = outcomes, arising, takes, shape

    def info(self, request: DescribeGraph) -> GraphInfo | Failed:
        if request.about.case.slices and not self.takes:
            return Failed("a view of another size")
        return GraphInfo((NodeInfo("x", "input", "x", (), self.shape, "float32"),), ("x",))

    def draws(self, request: TryOtherInputs) -> Draws | Failed:
        if not self.outcomes:
            return Failed("compile error")
        many = [self.outcomes[i % len(self.outcomes)] for i in range(request.draws)]
        return Draws(tuple(Draw(Outcome(default), (Outcome(fixed),)) for default, fixed in many))

    def trace(self, request: RunTrace) -> Traced | Failed:
        if self.arising is None:
            return Failed("it draws random numbers")
        errors = self.arising[bool(request.candidate.flags)].items()
        nodes = tuple(NodeTrace(n, "aten.add", "", (), True, True, ulp) for n, ulp in errors)
        return Traced(Trace(nodes, {}), Measurement())


def found(lab: Lab) -> Elsewhere:
    (result,) = elsewhere(lab.study(), [FIX])
    assert result is not None
    return result


def test_a_fix_that_holds_on_every_other_input_is_followed_no_further() -> None:
    lab = Lab([("FAIL", "PASS"), ("PASS", "PASS")])
    held = found(lab)
    assert held == Elsewhere(tried=DRAWS, diverging=2, held=2, failed=0)
    assert not held.perturbs
    assert {type(request) for request in lab.asked} == {DescribeGraph, TryOtherInputs}


CONV, ERF = {"conv": 3.0}, {"erf": 9.0}


@pytest.mark.parametrize(
    "arising", [(CONV | ERF, CONV | ERF), (ERF, CONV | ERF), (ERF, {"erf": 5.0}), None]
)
def test_a_fix_that_fails_there_and_mends_no_node_only_moves_rounding(
    arising: tuple[Errors, Errors] | None,
) -> None:
    failed = found(Lab([("FAIL", "FAIL"), ("PASS", "FAIL")], arising))
    assert (failed.held, failed.failed, failed.perturbs) == (0, DRAWS, True)
    assert failed.nearer == (None if arising is None else ())


@pytest.mark.parametrize("after", [ERF, ERF | {"conv": 0.5}])
def test_a_fix_that_fails_there_and_mends_a_node_leaves_something(after: Errors) -> None:
    failed = found(Lab([("FAIL", "PASS"), ("FAIL", "FAIL")], (CONV | ERF, after)))
    assert (failed.held, failed.failed, failed.nearer, failed.perturbs) == (2, 2, ("conv",), False)


def test_another_shape_is_tried_where_the_graph_takes_one() -> None:
    lab = Lab([("FAIL", "PASS")], takes=True)
    assert found(lab).tried == DRAWS + 1
    cases = [r.about.case for r in lab.asked if isinstance(r, TryOtherInputs)]
    assert [s.length for s in cases[1].slices] == [9]


def test_many_elements_are_drawn_less_often() -> None:
    assert found(Lab([("FAIL", "PASS")], shape=(4096, 512))).tried == 1


def test_what_cannot_be_compiled_again_is_not_judged() -> None:
    assert elsewhere(Lab([]).study(), [FIX]) == [None]
