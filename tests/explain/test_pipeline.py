"""The pipeline over made-up histories: what the user is told when all goes as it should, and when not."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bisector.core import protocol as asked
from bisector.core.case import WHOLE
from bisector.core.decision import DecisionId
from bisector.core.endings import Ending, SecondsSpent
from bisector.core.model import Base, Measurement
from bisector.core.options import Against
from bisector.core.outcome import Outcome
from bisector.core.reasons import Message
from bisector.core.shown import ScriptResult
from bisector.errors import BadOption
from bisector.explain import pipeline
from bisector.explain.run import Clock, Session
from bisector.report import sections, sentences, terminal
from bisector.report.document_json import from_json, to_json
from bisector.report.result import document_of
from tests.explain.model import CONTRACTION, Model, killed, modelled, output

pytestmark = pytest.mark.usefixtures("warm_workers")

FMA, INLINE, VEC = "fma:add@c1", "inline:aten.mul@c1", "vec:sin@c2"
FUSE = "fuse:c0@c0"
Result = dict[str, Any]
Explain = Callable[..., Result]


@pytest.fixture
def explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Explain:
    def run(
        model: Model, prepare: Callable[[Session], None] = lambda session: None, **options: Any
    ) -> Result:
        with modelled(model, tmp_path, monkeypatch, **options) as session:
            prepare(session)
            command = getattr(pipeline, session.options.command)
            return dict(json.loads(json.dumps(to_json(document_of(command(session))))))

    return run


def both_needed(**more: Any) -> Model:
    """FMA and recomputation of one product, together: one cause of two, two repairs of one."""
    return Model(
        4, (FMA, INLINE, VEC, FUSE), lambda allowed, calls: {FMA, INLINE} <= allowed, origin="c1", **more
    )


def members(sets: list[dict[str, Any]], confirmed: bool = True) -> list[list[str]]:
    return sorted(found["decisions"] for found in sets if found["confirmed"] is confirmed)


def told(result: Result) -> str:
    """All notes, in one line."""
    return " | ".join(result["text_notes"])


def differing(answer: Measurement) -> Measurement:
    return replace(answer, outputs=tuple(output(o.numel, True) for o in answer.outputs))


def agreeing(answer: Measurement) -> Measurement:
    return replace(answer, outputs=tuple(output(o.numel, False) for o in answer.outputs))


# -- the script itself ----------------------------------------------------------------------------------


def test_the_script_has_the_last_word(explained: Explain) -> None:
    result = explained(both_needed())
    assert result["script"] == {
        "fix": f"{CONTRACTION}=off", "outcome": "PASS", "reason": "", "comparisons": 1, "own_difference": "",
        "remaining": "",
    }  # fmt: skip
    said = f"With {CONTRACTION}=off the script itself agrees with eager, and its own comparison passes."
    assert sentences.answer(from_json(result)).endswith(said)


STILL = ScriptResult(Outcome.FAIL, Message("call 1 of 1 (`f`): output[0] differs"))


def test_where_the_script_still_diverges_under_each_fix_nothing_is_called_explained(
    explained: Explain,
) -> None:
    result = explained(both_needed(script=STILL))
    assert result["exit_status"] == 3
    assert "the script itself still diverges: call 1 of 1" in sentences.answer(from_json(result))
    assert not any(found["confirmed"] for found in (*result["causes"], *result["repairs"]))


def test_a_script_with_a_second_cause_may_still_diverge(explained: Explain) -> None:
    result = explained(replace(alone(FMA), others=(alone(VEC),), script=STILL))
    assert members(result["causes"]) == [[FMA]]
    assert "the script still diverges, as other calls do: call 1 of 1" in sentences.answer(from_json(result))


def test_a_fix_that_could_not_be_tried_in_the_script_is_not_refuted(explained: Explain) -> None:
    late = ScriptResult(Outcome.UNRESOLVED, Message("compiled, the script was stopped, its time being up"))
    result = explained(both_needed(script=late))
    assert members(result["causes"]) == [[FMA, INLINE]]
    assert "could not be told: compiled, the script was stopped" in sentences.answer(from_json(result))


# -- several calls --------------------------------------------------------------------------------------


def alone(decision: str) -> Model:
    return Model(4, (decision, FUSE), lambda allowed, calls: decision in allowed, origin="c2")


def test_of_the_other_calls_that_diverge_it_is_said_whether_they_are_of_the_same_cause(
    explained: Explain,
) -> None:
    result = explained(replace(alone(VEC), others=(alone("vec:sin@c1"), alone(FMA))))
    assert members(result["causes"]) == [[VEC]]
    found = [(other["call"], other["entry"], other["same_cause"]) for other in result["others"]]
    assert found == [(2, "g", True), (3, "h", False)]
    assert "call 2 (`g`) diverges too" in told(result) and "`--call 3` explains it" in told(result)


def test_a_call_that_agrees_is_none_of_the_others(explained: Explain) -> None:
    agrees = Model(4, (VEC,), lambda allowed, calls: False)
    result = explained(replace(agrees, others=(alone(VEC), agrees)))
    assert result["others"] == [] and result["entry"] == "g"


def test_another_call_is_explained_where_it_is_named(explained: Explain) -> None:
    result = explained(replace(alone(VEC), others=(alone(FMA),)), call=2)
    assert members(result["causes"]) == [[FMA]]
    assert result["others"] == [] and result["entry"] == "g"
    assert "the script makes 2 calls of compiled graphs; this is call 2 (`g`)" in told(result)


def test_a_call_that_was_not_recorded_cannot_be_named(explained: Explain) -> None:
    with pytest.raises(BadOption, match="--call 3: 2 compiled calls were recorded; name one by its place"):
        explained(replace(alone(VEC), others=(alone(FMA),)), call=3)


# -- as it should go ------------------------------------------------------------------------------------


def test_two_decisions_that_are_both_needed_are_one_cause_and_two_repairs(explained: Explain) -> None:
    result = explained(both_needed())
    assert result["exit_status"] == 0
    assert members(result["causes"]) == [[FMA, INLINE]]
    assert members(result["repairs"]) == [[FMA], [INLINE]]
    assert result["verdict"]["class"] == "compiled-worse"
    assert result["confirmation"] == {
        "process": "a second worker that ran the script again",
        "default": "FAIL",
        "repairs": ["PASS", "PASS"],
    }
    assert result["fixes"][0]["id"] == f"{CONTRACTION}=off"
    assert result["minimal"]["ops"] == ["aten.sin"]
    assert result["repro"] == "repro.py"


def test_either_of_two_that_suffices_is_two_causes_and_one_repair(explained: Explain) -> None:
    result = explained(Model(4, (FMA, VEC, FUSE), lambda allowed, calls: bool({FMA, VEC} & allowed)))
    assert members(result["causes"]) == [[FMA], [VEC]]
    assert members(result["repairs"]) == [[FMA, VEC]]


def test_a_program_that_agrees_ends_with_its_verdict(explained: Explain) -> None:
    result = explained(Model(4, (FMA,), lambda allowed, calls: False))
    assert (result["exit_status"], result["verdict"]["class"]) == (1, "agrees")
    assert result["causes"] == result["repairs"] == result["fixes"] == []


@pytest.mark.parametrize(("diverges", "status"), [(True, 1), (False, 0)])
def test_the_status_of_check_says_whether_they_agree(
    explained: Explain, diverges: bool, status: int
) -> None:
    result = explained(Model(2, (FMA,), lambda allowed, calls: diverges), command="check")
    assert result["exit_status"] == status


def test_check_cannot_tell_where_the_default_compile_ends_with_an_error(explained: Explain) -> None:
    failed = Measurement(error="compile error: no such lowering")
    model = both_needed(
        first=lambda r, a: replace(a, default=failed) if isinstance(r, asked.RunVerdict) else a
    )
    result = explained(model, command="check")
    assert (result["exit_status"], result["verdict"]["class"]) == (125, "unresolved")


def test_minimize_of_what_cannot_be_judged_ends_with_3_and_its_reason(explained: Explain) -> None:
    failed = asked.Failed("timeout after 60 s")
    model = both_needed(first=lambda r, a: failed if isinstance(r, asked.RunVerdict) else a)
    result = explained(model)
    assert result["exit_status"] == 3
    assert result["verdict"]["reason"] == "timeout after 60 s"
    assert result["causes"] == result["repairs"] == []


def test_a_run_that_is_resumed_asks_nothing_twice_and_answers_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(model: Model) -> Result:
        with modelled(model, tmp_path, monkeypatch) as session:
            return to_json(document_of(pipeline.minimize(session)))

    first, again = both_needed(), both_needed()
    before, after = run(first), run(again)
    assert again.asked == ([], [])
    assert [after[n] for n in ("causes", "repairs", "fixes", "minimal", "repro", "text_notes")] == [
        before[n] for n in ("causes", "repairs", "fixes", "minimal", "repro", "text_notes")
    ]
    # What was only guessed is not asked again.
    assert 0 < after["probes"]["cached"] == after["probes"]["total"] <= before["probes"]["total"]


# -- the second worker ----------------------------------------------------------------------------------


def second_says(change: Callable[[asked.RunProbe, Measurement], Any]) -> Model:
    return both_needed(second=lambda r, a: change(r, a) if isinstance(r, asked.RunProbe) else a)


def nothing_by_decisions_is_confirmed(result: Result) -> None:
    assert members(result["repairs"]) == members(result["causes"]) == []
    assert members(result["repairs"], False) == [[FMA], [INLINE]]
    assert members(result["causes"], False) == [[FMA, INLINE]]
    assert not [fix for fix in result["fixes"] if fix["kind"] == "decision"]


def test_a_second_worker_that_times_out_confirms_nothing_and_says_so(explained: Explain) -> None:
    result = explained(second_says(lambda request, answer: asked.Failed("timeout after 60 s")))
    nothing_by_decisions_is_confirmed(result)
    assert "not confirmed in a second process: timeout after 60 s" in told(result)
    assert "timeout after 60 s" in terminal.render(sections.report(from_json(result)), 100, False)


def test_a_second_worker_whose_default_agrees_confirms_nothing_and_says_so(explained: Explain) -> None:
    result = explained(second_says(lambda request, answer: agreeing(answer)))
    nothing_by_decisions_is_confirmed(result)
    assert result["confirmation"]["default"] == "PASS"
    assert "not confirmed in a second process: eager and compiled agree there" in told(result)
    assert result["exit_status"] == 3
    assert not any(fix["confirmed"] for fix in result["fixes"])
    assert "in a second process: eager and compiled agree there" in sentences.answer(from_json(result))


@pytest.mark.parametrize("second", [agreeing, differing])
def test_a_lower_backend_is_confirmed_where_it_agrees_in_the_second_worker_too(
    explained: Explain, second: Callable[[Measurement], Measurement]
) -> None:
    result = explained(second_says(lambda r, a: a if r.candidate.backend == "inductor" else second(a)))
    confirmed = [fix["confirmed"] for fix in result["fixes"] if fix["kind"] == "backend"]
    assert confirmed and set(confirmed) == {second is agreeing}


@pytest.mark.parametrize(("second", "status"), [(None, 0), ("agrees", 3)])
def test_what_makes_two_configurations_differ_is_confirmed_in_a_second_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, second: str | None, status: int
) -> None:
    model = both_needed() if second is None else second_says(lambda request, answer: agreeing(answer))
    against = Against("other.yaml", {CONTRACTION: "off"})
    with modelled(model, tmp_path, monkeypatch, against=against) as session:
        result = to_json(document_of(pipeline.flags(session)))
    assert result["exit_status"] == status
    assert bool(result["contrast"]["repairs"]) == (status == 0)
    assert model.asked[1], "a second process was asked"
    if status:
        assert "not confirmed in a second process" in result["contrast"]["unknown"]


def test_a_second_worker_that_dies_confirms_nothing_and_says_so(explained: Explain) -> None:
    result = explained(both_needed(second=killed))
    nothing_by_decisions_is_confirmed(result)
    assert "not confirmed in a second process" in told(result)


def test_a_second_worker_that_has_other_inputs_confirms_nothing_and_says_what_to_do(
    explained: Explain,
) -> None:
    result = explained(both_needed(second_digest="other inputs"))
    nothing_by_decisions_is_confirmed(result)
    assert "seed it, or use --seed" in told(result)


def test_a_repair_that_does_not_hold_again_is_not_confirmed_and_the_other_is(explained: Explain) -> None:
    def again(request: asked.RunProbe, answer: Measurement) -> Measurement:
        flaky = request.candidate.base is Base.DEFAULT and request.candidate.members == {FMA}
        return replace(answer, outputs=(output(8, True),)) if flaky else answer

    result = explained(second_says(again))
    assert members(result["repairs"]) == [[INLINE]]
    assert members(result["repairs"], False) == [[FMA]]
    assert result["confirmation"]["repairs"] == ["FAIL", "PASS"]


def test_a_repair_whose_decision_never_came_up_again_is_not_confirmed(explained: Explain) -> None:
    def again(request: asked.RunProbe, answer: Measurement) -> Measurement:
        return replace(answer, vanished=tuple(sorted(request.candidate.members)))

    result = explained(second_says(again))
    assert members(result["repairs"]) == []
    assert members(result["repairs"], False) == [[FMA], [INLINE]]


def test_a_cause_that_does_not_diverge_again_is_not_confirmed(explained: Explain) -> None:
    def again(request: asked.RunProbe, answer: Measurement) -> Measurement:
        return agreeing(answer) if request.candidate.base is Base.PLAIN else answer

    result = explained(second_says(again))
    assert members(result["causes"], False) == [[FMA, INLINE]]
    assert members(result["repairs"]) == [[FMA], [INLINE]]


def test_a_cause_that_diverges_again_without_one_of_its_members_is_not_confirmed(explained: Explain) -> None:
    def again(request: asked.RunProbe, answer: Measurement) -> Measurement:
        without = request.candidate.base is Base.PLAIN and request.candidate.members == {FMA}
        return replace(answer, outputs=(output(8, True),)) if without else answer

    result = explained(second_says(again))
    assert members(result["causes"], False) == [[FMA, INLINE]]
    assert members(result["repairs"]) == [[FMA], [INLINE]]


def test_a_repair_of_two_that_repairs_again_without_one_of_them_is_not_confirmed(explained: Explain) -> None:
    either = Model(4, (FMA, VEC), lambda allowed, calls: bool({FMA, VEC} & allowed), origin="c1")

    def again(request: asked.RunProbe, answer: Measurement) -> Measurement:
        alone = request.candidate.base is Base.DEFAULT and request.candidate.members == {FMA}
        return agreeing(answer) if alone else answer

    changed = replace(either, second=lambda r, a: again(r, a) if isinstance(r, asked.RunProbe) else a)
    assert members(explained(changed)["repairs"], False) == [[FMA, VEC]]


def test_a_flag_that_does_not_repair_again_is_no_confirmed_fix(explained: Explain) -> None:
    def again(request: asked.RunProbe, answer: Measurement) -> Measurement:
        return replace(answer, outputs=(output(8, True),)) if request.candidate.flags else answer

    fixes = explained(second_says(again))["fixes"]
    assert [fix["confirmed"] for fix in fixes if fix["kind"] == "flag"] == [False]
    assert any(fix["confirmed"] for fix in fixes if fix["kind"] == "decision")


def test_the_second_worker_is_asked_the_default_each_repair_on_the_whole_and_each_cause(
    explained: Explain,
) -> None:
    model = both_needed()
    explained(model)
    probes = [r for r in model.asked[1] if isinstance(r, asked.RunProbe)]
    default, *sets = [(r.candidate.base, set(r.candidate.members), r.about.case == WHOLE) for r in probes]
    assert default == (Base.DEFAULT, set(), True)
    assert (Base.DEFAULT, {FMA}, True) in sets and (Base.DEFAULT, {INLINE}, True) in sets
    assert (Base.PLAIN, {FMA, INLINE}) in [found[:2] for found in sets]


# -- hooks ----------------------------------------------------------------------------------------------


def test_a_kind_whose_hook_is_off_is_told_and_never_accused(explained: Explain) -> None:
    model = both_needed(hooks_off={"fma": "it changes nothing"})
    result = explained(model)
    assert result["hooks_off"] == {"fma": "it changes nothing"}
    named = {m for found in (*result["causes"], *result["repairs"]) for m in found["decisions"]}
    assert not {m for m in named if m.startswith("fma:")}


def test_without_minimizing_cause_and_fix_are_confirmed_and_the_graph_stays_whole(explained: Explain) -> None:
    model = both_needed()
    result = explained(model, minimal=False)
    for field in ("causes", "repairs", "fixes"):
        assert result[field] and all(one["confirmed"] for one in result[field])
    probed = [request.about.case for request in model.asked[0] if isinstance(request, asked.RunProbe)]
    assert probed and set(probed) == {WHOLE}
    assert "the case was not made smaller (--no-minimize)" in result["text_notes"]


def test_every_request_after_the_self_test_says_which_hooks_are_off(explained: Explain) -> None:
    model = both_needed(hooks_off={"vec": "it changes nothing"})
    explained(model)
    requests = [r for r in model.asked[0] if isinstance(r, asked.AboutCase)]
    tested = next(i for i, r in enumerate(model.asked[0]) if isinstance(r, asked.SelfTest))
    begun = model.asked[0][: tested + 4]  # beside the verdict: the self-test, the trace and two backends
    later = [r for r in requests if r not in begun]
    assert {type(r) for r in later} >= {
        asked.RunProbe, asked.DigestCode, asked.ReadFlags, asked.DescribeGraph, asked.WriteRepro,
        asked.ShowSource, asked.WarmUp,
    }  # fmt: skip
    assert {tuple(r.about.hooks_off) for r in later} == {("vec",)}
    confirming = [r for r in model.asked[1] if isinstance(r, asked.AboutCase)]
    assert confirming and {tuple(r.about.hooks_off) for r in confirming} == {("vec",)}


def test_other_inputs_are_tried_with_the_same_hooks_where_no_kind_is_proved(explained: Explain) -> None:
    model = both_needed(hooks_off={"vec": "it changes nothing"}, second=killed)
    explained(model)
    tried = [r for r in model.asked[0] if isinstance(r, asked.TryOtherInputs)]
    assert {tuple(r.about.hooks_off) for r in tried} == {("vec",)}


def test_a_self_test_that_fails_switches_every_hook_off_and_says_why(explained: Explain) -> None:
    failed = asked.Failed("crash: signal 11 (SIGSEGV)")
    model = both_needed(first=lambda r, a: failed if isinstance(r, asked.SelfTest) else a)
    result = explained(model)
    assert result["hooks_off"]["fma"] == "the self-test failed: crash: signal 11 (SIGSEGV)"
    assert members(result["causes"]) == []


# -- regions --------------------------------------------------------------------------------------------

FAR, NEAR = "fma:add@c40", "vec:sin@c5"
LONG = (FAR, NEAR, *(f"inline:aten.sin@c{i}" for i in range(60)))


def far_apart(both: bool, **more: Any) -> Model:
    """A graph of 60 calls that diverges by a decision at c40; both: by another one at c5 too."""

    def diverges(allowed: frozenset[str], calls: frozenset[str]) -> bool:
        return FAR in allowed or (both and NEAR in allowed)

    return Model(60, LONG, diverges, flag=lambda decision: False, origin="c40", **more)


def test_of_a_large_graph_a_region_is_searched_and_its_repair_tried_on_the_whole(explained: Explain) -> None:
    result = explained(far_apart(False))
    assert members(result["repairs"]) == [[FAR]]
    assert members(result["causes"]) == [[FAR]]
    assert "searched in a region of" in told(result)
    assert result["exit_status"] == 0


def test_where_a_regions_repair_fails_on_the_whole_the_whole_is_searched_and_nothing_of_the_region_is_kept(
    explained: Explain,
) -> None:
    result = explained(far_apart(True))
    assert members(result["repairs"]) == [[FAR, NEAR]]
    assert "searched in a region of" not in told(result)
    assert "nothing that repairs it repairs the whole" in told(result)
    assert [found["decisions"] for found in result["repairs"] if not found["confirmed"]] == []


EVERYWHERE = tuple(f"cast:float16@c{i}" for i in range(1, 58, 2))


def everywhere(**more: Any) -> Model:
    """A graph of 60 calls that diverges where a cast is left out at any of 29 of them: a region has one."""

    def diverges(allowed: frozenset[str], calls: frozenset[str]) -> bool:
        return any(decision in allowed for decision in EVERYWHERE)

    decisions = (*EVERYWHERE, "vec:sin@c30")
    return Model(60, decisions, diverges, flag=lambda decision: False, origin="c57", **more)


def on_whole(model: Model, worker: int = 0) -> list[asked.RunProbe]:
    """What was asked of Inductor about the whole graph, of the first worker or the second."""
    probes = [r for r in model.asked[worker] if isinstance(r, asked.RunProbe)]
    return [r for r in probes if r.about.case == WHOLE and r.candidate.backend == "inductor"]


def test_where_each_of_many_decisions_carries_a_little_their_family_is_the_answer(explained: Explain) -> None:
    result = explained(everywhere())
    assert result["exit_status"] == 0
    assert result["causes"] == [] and members(result["repairs"], False) == []
    family = result["family"]
    assert (family["kinds"], family["places"], family["confirmed"]) == (["cast"], len(EVERYWHERE), True)
    assert len(family["halves"]) == 2 and max(family["halves"]) < 1
    expected = "elided casts (float16) at 29 places together; no half of them is enough"
    assert expected in sentences.answer(from_json(result))
    assert "the minimal case shows the mechanism alone" in told(result)
    shown = terminal.render(sections.report(from_json(result)), 100, False)
    assert "Family  29 places" in shown and "No cause was found" not in shown


AT = tuple(decision.rpartition("@")[2] for decision in EVERYWHERE)


def test_where_no_single_node_carries_it_one_operation_tells_what_makes_it(explained: Explain) -> None:
    model = everywhere(diffuse=AT)
    result = explained(model)
    assert result["exit_status"] == 0 and result["causes"] == []
    family = result["family"]
    assert (family["groups"], family["places"], family["confirmed"]) == (["cast:float16"], 29, True)
    assert family["operations"][0]["made_by"] == ["cast:float16"]
    assert family["adds_up"] is None  # of one operation there is nothing to sum
    assert "no single node carries the divergence" in told(result)
    # The verdict's compile and the trace apart: the family, its two halves, no region and no flag of it.
    assert len({r.candidate for r in on_whole(model)}) == 3
    assert len({r.candidate for r in on_whole(model, 1)}) == 2
    shown = terminal.render(sections.report(from_json(result)), 100, False)
    assert "made by" in shown and "aten.sin" in shown


def test_a_few_decisions_that_carry_all_are_no_family_but_a_repair(explained: Explain) -> None:
    """What makes each operation differ by itself is not what makes the whole diverge."""

    def diverges(allowed: frozenset[str], calls: frozenset[str]) -> bool:
        if len(calls) == 60:
            return "vec:sin@c30" in allowed
        return any(decision in allowed for decision in (*EVERYWHERE, "vec:sin@c30"))

    model = replace(everywhere(diffuse=AT), diverges=diverges)
    result = explained(model)
    assert result["exit_status"] == 0
    assert ["vec:sin@c30"] in members(result["repairs"])


@pytest.mark.parametrize("at", [(), AT])
def test_a_family_that_the_second_worker_does_not_see_is_not_confirmed(
    explained: Explain, at: tuple[str, ...]
) -> None:
    def again(request: asked.RunProbe, answer: Measurement) -> Measurement:
        return replace(answer, outputs=(output(8, True),)) if len(request.candidate.members) > 20 else answer

    second = {"second": lambda r, a: again(r, a) if isinstance(r, asked.RunProbe) else a}
    result = explained(everywhere(diffuse=at, **second))
    assert result["family"]["confirmed"] is False and result["exit_status"] == 3
    assert "probably because of elided casts (float16) at 29 places" in sentences.answer(from_json(result))


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (None, 0),
        (agreeing, 3),
        (lambda answer: asked.Failed("timeout after 60 s"), 3),
    ],
)
def test_flags_confirms_its_fixes_in_a_second_worker(explained: Explain, second: Any, status: int) -> None:
    model = both_needed() if second is None else second_says(lambda request, answer: second(answer))
    result = explained(model, command="flags")
    assert model.asked[1], "the second worker was asked"
    assert result["exit_status"] == status
    flags = [fix for fix in result["fixes"] if fix["kind"] == "flag"]
    assert flags and all(fix["confirmed"] == (status == 0) for fix in flags)


@pytest.mark.parametrize("questions", range(0, 40, 3))
def test_flags_confirms_nothing_that_its_budget_leaves_unasked(explained: Explain, questions: int) -> None:
    def spend(session: Session) -> None:
        session.clock = Spent(questions)

    model = both_needed()
    result = explained(model, spend, command="flags")
    if any(fix["confirmed"] for fix in result["fixes"] if fix["kind"] == "flag"):
        assert model.asked[1]
    else:
        assert result["exit_status"] == 3


def test_a_set_that_could_not_be_judged_is_told(explained: Explain) -> None:
    """What is missing may be a repair: the list that was found is not called all."""
    crash = asked.Failed("the process ended by SIGSEGV")

    def crashing(request: Any, answer: Any) -> Any:
        alone = isinstance(request, asked.RunProbe) and request.candidate.members == frozenset({INLINE})
        return crash if alone and request.candidate.base is Base.DEFAULT else answer

    result = explained(both_needed(first=crashing, second=crashing))
    assert members(result["repairs"]) == [[FMA]]
    assert f"a repair may be missing: what disabling {INLINE} does could not be judged" in told(result)


# -- the repro ------------------------------------------------------------------------------------------


@pytest.mark.live
def test_a_repro_that_agrees_in_plain_python_is_not_claimed(explained: Explain, tmp_path: Path) -> None:
    result = explained(both_needed(plain=0))
    assert (result["repro"], result["exit_status"]) == (None, 3)
    assert not any(found["confirmed"] for found in (*result["causes"], *result["repairs"]))
    said = "(not confirmed: no repro of it that was tried diverges in plain Python)."
    assert sentences.answer(from_json(result)).endswith(said)
    assert "does not diverge in plain Python (diverges)" in told(result)
    assert not (tmp_path / "run" / "repro.py").exists()


def test_a_fix_that_does_not_mend_the_repro_in_a_fresh_process_is_not_confirmed(explained: Explain) -> None:
    result = explained(both_needed(fixed=1))
    assert result["fixes"][0]["confirmed"] is False
    assert "does not repair the repro in a fresh process" in told(result)
    assert result["repro"] == "repro.py"


@pytest.mark.live
def test_a_repro_that_cannot_be_written_is_told(explained: Explain) -> None:
    failed = asked.Failed("CannotWrite: a sparse tensor")
    result = explained(both_needed(first=lambda r, a: failed if isinstance(r, asked.WriteRepro) else a))
    assert result["repro"] is None
    assert "no repro of the graph alone could be written: CannotWrite: a sparse tensor" in told(result)
    assert "a repro that is the script itself does not diverge in plain Python" in told(result)


# -- budgets --------------------------------------------------------------------------------------------


class Spent(Clock):
    """A budget that is spent after so many questions."""

    def __init__(self, questions: int) -> None:
        super().__init__(None)
        self.left = questions

    def exhausted(self) -> Ending | None:
        self.left -= 1
        return SecondsSpent(9) if self.left < 0 else None


@pytest.mark.parametrize("questions", range(60))
def test_a_budget_that_ends_anywhere_leaves_a_partial_answer_and_accuses_nobody_unproved(
    explained: Explain, questions: int
) -> None:
    def spend(session: Session) -> None:
        session.clock = Spent(questions)

    model = both_needed()
    result = explained(model, spend)
    assert result["exit_status"] in (0, 3)
    assert terminal.render(sections.report(from_json(result)), 80, False)
    if result["stopped_because"] is None:
        assert members(result["causes"]) == [[FMA, INLINE]]
        return
    assert result["stopped_because"] == "the budget of 9 s is spent"
    confirmed = [*members(result["repairs"]), *members(result["causes"])]
    fixes = [fix for fix in result["fixes"] if fix["confirmed"]]
    assert not (confirmed or fixes) or model.asked[1], "a second process was asked about what is confirmed"
    confirmed += [fix["id"] for fix in fixes if fix["kind"] != "backend"]
    assert (result["exit_status"] == 0) == bool(confirmed)


class Interrupted(Spent):
    """Ctrl-C after so many questions."""

    def exhausted(self) -> Ending | None:
        if super().exhausted() is not None:
            raise KeyboardInterrupt
        return None


@pytest.mark.parametrize(("questions", "causes"), [(10, []), (26, [[FMA, INLINE]])])
def test_ctrl_c_gives_the_answer_so_far_with_a_status_of_its_own(
    questions: int, causes: list[list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with modelled(both_needed(), tmp_path, monkeypatch) as session:
        session.clock = Interrupted(questions)
        with pytest.raises(KeyboardInterrupt):
            pipeline.minimize(session)
        ended = pipeline.interrupted(session, None)
    assert ended is not None
    result = to_json(document_of(ended))
    assert (result["exit_status"], result["stopped_because"]) == (130, "it was interrupted")
    assert result["verdict"]["class"] == "compiled-worse"
    assert members(result["causes"]) == causes


def test_a_known_cause_ends_a_run_with_its_two_probes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from bisector.core.clusters import cause_of

    known = cause_of([[DecisionId(FMA)]], [[DecisionId(FMA), DecisionId(INLINE)]], [])
    with modelled(both_needed(), tmp_path, monkeypatch) as session:
        ended, found = pipeline.explain(session, lambda study, default: known)
    result = to_json(document_of(ended))
    assert found == known and result["exit_status"] == 0
    assert result["causes"] == []

