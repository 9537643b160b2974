"""`numbisect flags` from its recordings: what repairs, what brings it back, what makes the difference."""

from __future__ import annotations

from collections.abc import Callable

from .recording import Ended
from .runs import CONTRACTION

RECOMPUTATION = "inductor.realize_reads_threshold"
ReplayOf = Callable[[str], Ended]


def test_either_of_two_flags_repairs_and_both_as_they_were_bring_it_back(replay_of: ReplayOf) -> None:
    ended = replay_of("flags-softmax-remat")
    result = ended.result
    fixes = {name for fix in result["fixes"] for name in fix["set"]}
    assert {CONTRACTION, RECOMPUTATION} <= fixes
    assert not fixes & {
        "inductor.cpp.simdlen",
        "inductor.max_fusion_size",
        "inductor.pattern_matcher",
        "inductor.unroll_reductions_threshold",
    }
    assert ended.status == 0
    [cause] = result["contrast"]["causes"]
    assert {CONTRACTION, RECOMPUTATION} <= cause.keys()
    assert all(name.startswith("inductor.realize_") for name in cause if name != CONTRACTION)
    assert all(fix["slowdown"] > 0 for fix in result["fixes"])
    assert {flag["told_by"] for flag in result["flags"]} == {"run", "code"}


def test_two_configurations_are_compared_in_both_directions(replay_of: ReplayOf) -> None:
    contrast = replay_of("flags-against-one-that-agrees").result["contrast"]
    assert (contrast["with"], contrast["target"]) == ("good.yaml", "FAIL")
    assert contrast["repairs"] == [{CONTRACTION: "off"}]
    assert contrast["causes"] == [{CONTRACTION: "fast"}]


def test_a_target_that_agrees_is_compared_with_a_configuration_that_does_not(replay_of: ReplayOf) -> None:
    contrast = replay_of("flags-against-one-that-diverges").result["contrast"]
    assert (contrast["target"], contrast["causes"]) == ("PASS", [{CONTRACTION: "fast"}])
