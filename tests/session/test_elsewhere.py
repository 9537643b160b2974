"""Fixes on other inputs: what fails there and takes no cause away is no fix."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pytest

from bisector.core.case import Case
from bisector.core.criterion import Criterion
from bisector.core.model import Candidate
from bisector.core.trace import NodeTrace, Trace
from bisector.session.flags.elsewhere import DRAWS, Elsewhere, elsewhere
from bisector.session.study import Study

Errors = dict[str, float]  # of each node that rounds otherwise than eager
FIX = Candidate.with_flags({"inductor.f": 1})


@dataclass
class FakeLab:
    """outcomes: (default, with the fix) for each draw. arising: errors of nodes, by default and with the
    fix, None where the graph cannot be followed. takes: whether the graph takes other shapes."""

    outcomes: Sequence[tuple[str, str]]
    arising: tuple[Errors, Errors] | None = None
    takes: bool = False
    shape: tuple[int, ...] = (12, 6)
    asked: list[Mapping[str, Any]] = field(default_factory=list)

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        return self.ask_all([request])[0]

    def ask_all(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        self.asked += requests
        jobs = {"info": self.info, "elsewhere": self.draws, "trace": self.trace}
        return [jobs[r["job"]](r) for r in requests]

    def info(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if request["case"]["slices"] and not self.takes:
            return {"error": "a view of another size"}
        node = {"name": "x", "op": "input", "target": "x", "reads": [], "integers": [], "dtype": "float32"}
        return {"nodes": [node | {"shape": self.shape}], "outputs": ["x"], "aten": [], "n_ops": 0}

    def draws(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if not self.outcomes:
            return {"problem": "compile error"}
        many = [self.outcomes[i % len(self.outcomes)] for i in range(request["draws"])]
        return {"draws": [{"default": default, "fixed": [fixed]} for default, fixed in many]}

    def trace(self, request: Mapping[str, Any]) -> dict[str, Any]:
        if self.arising is None:
            return {"problem": "it draws random numbers"}
        errors = self.arising[bool(request["candidate"]["flags"])].items()
        nodes = tuple(NodeTrace(n, "aten.add", "", (), True, True, ulp) for n, ulp in errors)
        return {"trace": asdict(Trace(nodes, ()))}


def found(lab: FakeLab) -> Elsewhere:
    (result,) = elsewhere(Study(lab, 0, Criterion(), Criterion()), [FIX])  # type: ignore[arg-type]
    assert result is not None
    return result


def test_a_fix_that_holds_on_every_other_input_is_followed_no_further() -> None:
    lab = FakeLab([("FAIL", "PASS"), ("PASS", "PASS")])
    held = found(lab)
    assert held == Elsewhere(tried=DRAWS, diverging=2, held=2, failed=0)
    assert not held.perturbs
    assert {request["job"] for request in lab.asked} == {"info", "elsewhere"}


CONV, ERF = {"conv": 3.0}, {"erf": 9.0}


@pytest.mark.parametrize(
    "arising", [(CONV | ERF, CONV | ERF), (ERF, CONV | ERF), (ERF, {"erf": 5.0}), None]
)
def test_a_fix_that_fails_there_and_mends_no_node_only_moves_rounding(
    arising: tuple[Errors, Errors] | None,
) -> None:
    failed = found(FakeLab([("FAIL", "FAIL"), ("PASS", "FAIL")], arising))
    assert (failed.held, failed.failed, failed.perturbs) == (0, DRAWS, True)
    assert failed.nearer == (None if arising is None else ())


@pytest.mark.parametrize("after", [ERF, ERF | {"conv": 0.5}])
def test_a_fix_that_fails_there_and_mends_a_node_leaves_something(after: Errors) -> None:
    failed = found(FakeLab([("FAIL", "PASS"), ("FAIL", "FAIL")], (CONV | ERF, after)))
    assert (failed.held, failed.failed, failed.nearer, failed.perturbs) == (2, 2, ("conv",), False)


def test_another_shape_is_tried_where_the_graph_takes_one() -> None:
    lab = FakeLab([("FAIL", "PASS")], takes=True)
    assert found(lab).tried == DRAWS + 1
    cases = [Case.from_json(r["case"]) for r in lab.asked if r["job"] == "elsewhere"]
    assert [s.length for s in cases[1].slices] == [9]


def test_many_elements_are_drawn_less_often() -> None:
    assert found(FakeLab([("FAIL", "PASS")], shape=(4096, 512))).tried == 1


def test_what_cannot_be_compiled_again_is_not_judged() -> None:
    assert elsewhere(Study(FakeLab([]), 0, Criterion(), Criterion()), [FIX]) == [None]  # type: ignore[arg-type]
