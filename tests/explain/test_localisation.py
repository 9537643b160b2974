"""Which trace is believed, what is asked again, and what the answer says where there is none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from bisector.core.case import WHOLE
from bisector.core.criterion import Criterion
from bisector.core.decision import Decision, DecisionId
from bisector.core.followed import Followed
from bisector.core.graphinfo import GraphInfo, NodeInfo
from bisector.core.judge import judge
from bisector.core.model import DivergenceKind, Measurement, OutputMeasurement, ProbeResult, Signature
from bisector.core.notes import Reported
from bisector.core.protocol import DescribeGraph, Failed, RunTrace, Traced
from bisector.core.reasons import Message
from bisector.core.search_notes import AgreesWhenWatched, NothingArises, NotMaterialized, Untraced
from bisector.core.trace import NodeTrace, Reach, Trace
from bisector.explain.localisation import follow
from tests.explain.fake_lab import FakeLab

OUT = OutputMeasurement(
    0, "output[0]", "float32", (8,), 8, n_diff=4, max_abs=1.0, scale=1.0, frontier=((1.0, 1.0),)
)
MUL = NodeTrace("mul", "aten.mul", "f.py:2", ("x",), True)
SUB = NodeTrace("sub", "aten.sub", "f.py:3", ("mul",), True, True, 1e9, 1e-7, True)
EXP = NodeTrace("exp", "aten.exp", "f.py:3", ("sub",), True, gain=1e6, difference=0.5)
INFO = GraphInfo(
    tuple(
        NodeInfo(name, "call", f"aten.{name}", (read,), (8,), "float32", module=f"layers.{read}")
        for name, read in (("mul", "x"), ("sub", "mul"), ("exp", "sub"))
    ),
    ("exp",),
)


def measured(diverges: bool, *decisions: str) -> Measurement:
    output = OUT if diverges else OutputMeasurement(0, "output[0]", "float32", (8,), 8)
    return Measurement((output,), tuple(Decision(DecisionId(d)) for d in decisions))


def answer(diverges: bool, *nodes: NodeTrace) -> Traced:
    return Traced(Trace(nodes or (MUL, SUB, EXP), {"output[0]": "exp"}), measured(diverges))


class Lab(FakeLab):
    """answers: by the nodes that are left out. left_out: of each question."""

    def __init__(self, answers: Mapping[tuple[str, ...], Traced | Failed]) -> None:
        super().__init__({RunTrace: lambda request: answers[request.left_out], DescribeGraph: lambda _: INFO})

    @property
    def left_out(self) -> list[tuple[str, ...]]:
        return [request.left_out for request in self.asked if isinstance(request, RunTrace)]


def default(*decisions: str, path: str = "output[0]") -> ProbeResult:
    found = judge(measured(True, *decisions), Criterion())
    return replace(found, signatures=(Signature(path, DivergenceKind.VALUE),))


def followed(lab: Lab, probe: ProbeResult) -> Followed:
    return follow(lab.study(*probe.signatures), WHOLE, probe)


def test_a_trace_that_diverges_alike_names_origin_and_amplifier() -> None:
    lab = Lab({(): answer(True)})
    found = followed(lab, default("fma:sub@mul"))
    assert (found.origin, found.amplifier, found.notes) == (SUB, EXP, ())
    assert lab.left_out == [()]


def test_contracted_products_are_left_out_where_returning_them_repairs() -> None:
    hidden = NodeTrace("mul", "aten.mul", "f.py:2", ("x",), False)
    lab = Lab({(): answer(False), ("mul",): answer(True, hidden, SUB, EXP)})
    found = followed(lab, default("inline:aten.sub@sub", "fma:sub@mul"))
    assert found.origin == SUB
    assert found.notes == (NotMaterialized(("mul",)),)


def test_what_is_recomputed_is_left_out_where_nothing_is_contracted() -> None:
    lab = Lab({(): answer(False), ("sub",): answer(False)})
    found = followed(lab, default("inline:aten.sub@sub"))
    assert lab.left_out == [(), ("sub",)]
    assert found == Followed(notes=(Untraced(AgreesWhenWatched()),))


def test_a_graph_that_cannot_be_followed_says_why() -> None:
    found = followed(Lab({(): Failed("it draws random numbers")}), default())
    assert found == Followed(notes=(Untraced(Reported(Message("it draws random numbers"))),))
    found = followed(Lab({(): Failed("timeout after 60 s")}), default())
    assert found.notes == (Untraced(Reported(Message("timeout after 60 s"))),)


BACK = NodeTrace("bwd.sub", "aten.neg", "f.py:3", ("sub",), True, True, 1e9, 1e-7, True)
TRAINED = {"output[0]": "exp", "grad[x]": "bwd.sub"}


def test_a_gradient_is_followed_to_the_operation_whose_backward_pass_is_off() -> None:
    told = Traced(Trace((MUL, replace(SUB, beyond=False), EXP, BACK), TRAINED), measured(True))
    lab = Lab({(): told})
    probe = default(path="grad[x]")
    study = replace(lab.study(Signature("output[0]", DivergenceKind.VALUE)), reach=Reach.BACKWARD)
    assert follow(study, WHOLE, probe).origin == BACK
    assert [request.reach for request in lab.asked if isinstance(request, RunTrace)] == [Reach.BACKWARD]


def test_an_output_is_followed_without_gradients_where_handing_these_out_repairs() -> None:
    answers = {Reach.BACKWARD: answer(False), Reach.FORWARD: answer(True)}
    lab = FakeLab({RunTrace: lambda request: answers[request.reach], DescribeGraph: lambda _: INFO})
    probe = default()
    found = follow(replace(lab.study(*probe.signatures), reach=Reach.BACKWARD), WHOLE, probe)
    assert found.origin == SUB
    gradient = default(path="grad[x]")
    found = follow(replace(lab.study(*probe.signatures), reach=Reach.BACKWARD), WHOLE, gradient)
    assert found.trace is None  # without gradients there is nothing to see of them


def test_each_node_is_told_with_its_place_in_the_model_and_its_error_in_units_of_the_last_place() -> None:
    told = Traced(Trace((MUL, SUB, EXP, BACK), TRAINED), measured(True))
    found = followed(Lab({(): told}), default())
    assert found.graph is not None and found.graph.outputs == (("grad[x]", "bwd.sub"), ("output[0]", "exp"))
    mul, sub, exp, back = found.graph.nodes
    assert (mul.module, mul.reads, mul.shape, mul.dtype) == ("layers.x", ("x",), (8,), "float32")
    errors = [(node.ulp, node.carried_ulp) for node in (mul, sub, exp)]
    assert errors == [(0.0, 0.0), (1e9, 0.0), (0.0, 2.0**22)]
    assert back.gradient and (back.module, back.dtype) == (sub.module, sub.dtype) and not exp.gradient


def test_a_trace_in_which_nothing_arises_names_nothing() -> None:
    found = followed(Lab({(): answer(True, MUL, EXP)}), default())
    assert found.trace is None and found.origin is None and found.amplifier is None
    assert found.notes == (Untraced(NothingArises()),)
