"""The search over runs of a whole script: a made-up script stands where a worker runs the real one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from bisector.core import protocol as asked
from bisector.core.answer import Answer
from bisector.core.case import WHOLE, Case
from bisector.core.criterion import Criterion
from bisector.core.endings import AgreesThere, NotInSecondProcess
from bisector.core.model import Candidate, Measurement
from bisector.core.notes import Note
from bisector.core.program import PROGRAM
from bisector.core.reasons import Message
from bisector.core.recorded import Recorded
from bisector.core.search_notes import EndedAtCall, GraphsRefuted, LaterCallsDiverge
from bisector.core.verdict import Rule, Verdict, VerdictClass
from bisector.explain import pipeline, subject
from bisector.explain.confirmation import STEADY_RUNS
from bisector.explain.divergence import RUNS_OF_A_SCRIPT
from bisector.explain.repro_writers import ScriptWriter
from bisector.explain.run import Session
from bisector.runner.lab import Lab
from tests.explain.model import REPRO, Model, modelled, output

FMA, INLINE, VEC = "g1/fma:add@c1", "g1/inline:aten.mul@c1", "g1/vec:sin@c2"
ENVIRONMENT = {"torch": "2", "cxx": "g++", "cpu": "a", "isa": "b"}
VERDICT = Verdict(VerdictClass.COMPILED_WORSE, Message("the script says so"), rule=Rule.SCRIPT)
ASKED_OF_A_SCRIPT = {
    asked.RunProbe, asked.RunVerdict, asked.SelfTest, asked.ReadFlags, asked.FindFormulas, asked.DigestCode,
}  # fmt: skip
Explain = Callable[[Model], Answer]


@pytest.fixture
def explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Explain:
    """What is found of a script. The first worker is the one of the search, the other confirms."""

    def program_lab(session: Session, name: str, *told: Any) -> Lab:
        return session.new_lab("" if name == "program" else name)

    def run(model: Model) -> Answer:
        monkeypatch.setattr(Session, "program_lab", program_lab)
        repro = asked.Repro(REPRO.format(plain=model.plain, fixed=model.fixed))
        monkeypatch.setattr(ScriptWriter, "write", lambda writer, case, spec: repro)
        with modelled(model, tmp_path, monkeypatch) as session:
            script = subject.whole_script(session, Criterion(), VERDICT)
            so_far = Answer("model.py", "run", ENVIRONMENT)
            explanation = pipeline._explanation(session, script, so_far)
            explanation.explain()
            return explanation.answer()

    return run


class Script(Model):
    """A model whose one call is the whole script, of which no question about one graph is answered."""

    def answer(self, request: asked.Request[Any]) -> Any:
        assert type(request) in ASKED_OF_A_SCRIPT, request.job
        return super().answer(request)

    def hello(self, digest: str) -> Recorded:
        recorded = super().hello(digest)
        return replace(recorded, calls=(replace(recorded.calls[0], index=PROGRAM),))


def together(**more: Any) -> Model:
    return Script(4, (FMA, INLINE, VEC), lambda allowed, calls: {FMA, INLINE} <= allowed, **more)


def test_the_decisions_of_a_script_are_confirmed_by_a_second_worker(explained: Explain) -> None:
    answer = explained(together())
    assert [(set(found.members), proved) for found, proved in answer.causes] == [({FMA, INLINE}, True)]
    assert sorted(r.found.members for r in answer.repairs if r.confirmed) == [(FMA,), (INLINE,)]
    assert any(proved for _, proved in answer.fixes)
    assert answer.not_shown is None


def test_where_the_second_worker_sees_no_divergence_nothing_is_confirmed_and_that_is_the_doubt(
    explained: Explain,
) -> None:
    def agrees(request: asked.Request[Any], answer: Any) -> Any:
        if isinstance(request, asked.RunProbe):
            return replace(answer, outputs=tuple(output(o.numel, False) for o in answer.outputs))
        return answer

    answer = explained(together(second=agrees))
    assert answer.causes and not any(proved for _, proved in answer.causes)
    assert answer.repairs and not any(repair.confirmed for repair in answer.repairs)
    assert answer.fixes and not any(proved for _, proved in answer.fixes)
    assert answer.not_shown == AgreesThere()
    assert answer.unproved == NotInSecondProcess(AgreesThere())


@dataclass
class TwoCalls(Script):
    """Calls it compiles twice. later: whether the second call diverges with these decisions."""

    later: Callable[[frozenset[str]], bool] = lambda allowed: False

    def probe(self, about: asked.About, candidate: Candidate) -> Measurement:
        first = super().probe(about, candidate)
        diverges = candidate.backend == "inductor" and self.later(self.allowed(about.case, candidate))
        outputs = [*first.outputs, output(first.outputs[0].numel, diverges)]
        named = [replace(o, index=i, path=f"call[{i}].output[0]") for i, o in enumerate(outputs)]
        until = len(named) if about.case.until is None else about.case.until + 1
        return replace(first, outputs=tuple(named[:until]))


def two_calls(later: Callable[[frozenset[str]], bool], **more: Any) -> TwoCalls:
    first = lambda allowed, calls: {FMA, INLINE} <= allowed  # noqa: E731
    return TwoCalls(4, (FMA, INLINE, VEC), first, later=later, **more)


def cases_of(model: Model) -> set[Case]:
    """What the first worker was asked about."""
    return {request.about.case for request in model.asked[0] if isinstance(request, asked.RunProbe)}


def test_sets_are_searched_up_to_the_first_call_that_diverges(explained: Explain) -> None:
    model = two_calls(later=lambda allowed: {FMA, INLINE} <= allowed)
    answer = explained(model)
    assert [(set(found.members), proved) for found, proved in answer.causes] == [({FMA, INLINE}, True)]
    assert sorted(r.found.members for r in answer.repairs if r.confirmed) == [(FMA,), (INLINE,)]
    denied = [r.about.case for r in model.asked[0] if isinstance(r, asked.RunProbe) and r.candidate.members]
    assert denied.count(WHOLE) <= 1 < denied.count(WHOLE.with_end(0))
    assert EndedAtCall(1, 2) in answer.notes


def by_no_flag(decision: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("more", "note"), [({}, GraphsRefuted()), ({"flag": by_no_flag}, LaterCallsDiverge())]
)
def test_what_a_later_call_has_to_itself_is_searched_where_the_script_comes_to_its_end(
    more: dict[str, Any], note: Note, explained: Explain
) -> None:
    answer = explained(two_calls(later=lambda allowed: VEC in allowed, **more))
    causes = [set(found.members) for found, proved in answer.causes if proved]
    assert sorted(causes, key=sorted) == [{FMA, INLINE}, {VEC}]
    repairs = [set(repair.found.members) for repair in answer.repairs if repair.confirmed]
    assert sorted(repairs, key=sorted) == [{FMA, VEC}, {INLINE, VEC}]
    assert note in answer.notes


def test_where_later_calls_cannot_be_judged_sets_are_searched_where_the_script_comes_to_its_end(
    explained: Explain,
) -> None:
    """What repairs the first call is no repair of the script."""

    def unseen(request: asked.Request[Any], answer: Any) -> Any:
        to_its_end = isinstance(request, asked.RunProbe) and request.about.case.until is None
        return replace(answer, unseen="a gradient comes later") if to_its_end else answer

    model = two_calls(later=lambda allowed: False, flag=by_no_flag, first=unseen, second=unseen)
    answer = explained(model)
    assert LaterCallsDiverge() in answer.notes
    assert not any(proved for _, proved in answer.causes)


def runs_of(model: Model) -> Counter[Candidate]:
    """How many runs the second worker makes of each program."""
    return Counter(r.candidate for r in model.asked[1] if isinstance(r, asked.RunProbe))


def test_of_a_script_that_repeats_to_the_last_bit_fewer_runs_show_each_set(explained: Explain) -> None:
    model = together()
    explained(model)
    runs = runs_of(model)
    assert runs.pop(Candidate()) == RUNS_OF_A_SCRIPT
    assert runs and set(runs.values()) == {STEADY_RUNS}


def test_where_the_runs_of_a_script_differ_each_set_is_asked_of_several(explained: Explain) -> None:
    sizes = count(1)

    def differs(request: asked.Request[Any], answer: Any) -> Any:
        if isinstance(request, asked.RunProbe) and request.candidate == Candidate():
            size = float(next(sizes))
            return replace(answer, outputs=tuple(replace(o, scale=size) for o in answer.outputs))
        return answer

    model = together(second=differs)
    explained(model)
    runs = runs_of(model)
    assert len(runs) > 1 and set(runs.values()) == {RUNS_OF_A_SCRIPT}
