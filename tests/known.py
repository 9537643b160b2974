"""What is known of the worked cases, asserted of their recorded histories and of live runs alike."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Any

from packaging.version import Version

from bisector.core.decision import DecisionId


@dataclass(frozen=True)
class Known:
    """What is known of a case, decisions by their kind: how many convolutions are denied is the library's
    affair, which picks its kernels by the CPU. flags: those that the first flag fix sets."""

    cause: set[frozenset[str]]
    verdict: str
    flags: set[str]
    most_ops: int
    most_elements: int | None = None

    @property
    def repairs(self) -> set[frozenset[str]]:
        """The smallest sets that take something from each cause."""
        chosen = {frozenset(one) for one in product(*self.cause)}
        return {one for one in chosen if not any(other < one for other in chosen)}


def pair(*members: str) -> frozenset[str]:
    return frozenset(members)


EMULATE, CONTRACT = "emulate_precision_casts", "cpp.enable_floating_point_contract_flag"
SIMDLEN, LAYOUT = "cpp.simdlen", "layout_optimization"
KNOWN = {
    "fp16_round_trip": Known(
        {pair("cast", "inline"), pair("cast", "fuse")}, "elided-rounding", {EMULATE}, 3, 64
    ),
    "softmax_fma": Known({pair("inline", "fma")}, "compiled-worse", {CONTRACT}, 5, 64),
    "softmax_remat": Known({pair("inline", "fma")}, "compiled-worse", {CONTRACT}, 5, 64),
    "e8m0_gelu": Known({pair("vec")}, "amplified-rounding", {SIMDLEN}, 7, 64),
    "e8m0_encoder": Known({pair("layout")}, "amplified-rounding", {LAYOUT}, 5),
    "e8m0_two_causes": Known(
        {pair("layout"), pair("vec")}, "amplified-rounding", {LAYOUT, SIMDLEN}, 6
    ),
}
# Up to 2.12 a pattern of the joint graph drops the two casts too, whatever emulate_precision_casts says
# (pointless_convert in torch/_inductor/fx_passes/joint_graph.py).
BEFORE_2_13 = {
    "fp16_round_trip": Known(
        {pair("match"), pair("cast", "inline"), pair("cast", "fuse")}, "elided-rounding", set(), 3, 64
    ),
}

# There scalar code alone makes the whole agree, and not its repro: no flag is a fix.
ON_AVX2 = {
    "e8m0_two_causes": Known({pair("layout"), pair("vec")}, "amplified-rounding", set(), 6),
}

AMPLIFIERS = {
    "fp16_round_trip": None,
    "softmax_fma": "aten.exp",
    "softmax_remat": "aten.exp",
    "e8m0_gelu": "aten.ceil",
    "e8m0_encoder": "aten.ceil",
    "e8m0_two_causes": "aten.ceil",
}


def known_of(name: str, result: dict[str, Any]) -> Known:
    """What is known of the case on the torch and the processor of a result."""
    if Version(result["environment"]["torch"]) < Version("2.13") and name in BEFORE_2_13:
        return BEFORE_2_13[name]
    on_avx2 = result["environment"]["isa"] == "avx2"
    return ON_AVX2[name] if on_avx2 and name in ON_AVX2 else KNOWN[name]


def has_the_known_answer(name: str, result: dict[str, Any]) -> None:
    known = known_of(name, result)
    assert result["exit_status"] == 0
    assert result["verdict"]["class"] == known.verdict
    causes = [c["decisions"] for c in result["causes"] if c["confirmed"]]
    assert {frozenset(DecisionId(d).kind for d in cause) for cause in causes} == known.cause
    repairs = [r["decisions"] for r in result["repairs"] if r["confirmed"]]
    assert repairs, "no repair was confirmed"
    kinds = {frozenset(DecisionId(d).kind for d in repair) for repair in repairs}
    assert kinds <= known.repairs
    assert {one for one in known.repairs if len(one) == 1} <= kinds


def its_first_flag_fix_sets_the_known_flags(name: str, result: dict[str, Any]) -> None:
    fix = next((f for f in result["fixes"] if f["kind"] == "flag" and f["confirmed"]), {"id": ""})
    flags = {part.partition("=")[0].removeprefix("inductor.") for part in fix["id"].split(" + ")}
    assert flags - {""} == known_of(name, result).flags


def its_origin_has_a_line_and_the_known_operation_amplifies(name: str, result: dict[str, Any]) -> None:
    amplifier = result["amplifier"]
    assert (amplifier and amplifier["op"]) == AMPLIFIERS[name]
    assert result["origin"]["file"].endswith("case.py")
    assert result["origin"]["line"] > 0


def its_decisions_that_need_each_other_are_about_one_node(name: str, result: dict[str, Any]) -> None:
    assert result["causes"]
    for cause in result["causes"]:
        assert len({decision.rpartition("@")[2] for decision in cause["decisions"]}) == 1


def its_minimal_case_is_as_small_as_is_known(name: str, result: dict[str, Any]) -> None:
    known = known_of(name, result)
    assert result["minimal"]["n_ops"] <= known.most_ops
    assert known.most_elements is None or result["minimal"]["input_numel"] <= known.most_elements


TOLD = (
    has_the_known_answer,
    its_first_flag_fix_sets_the_known_flags,
    its_origin_has_a_line_and_the_known_operation_amplifies,
    its_decisions_that_need_each_other_are_about_one_node,
    its_minimal_case_is_as_small_as_is_known,
)
