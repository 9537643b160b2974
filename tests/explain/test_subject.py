"""Which of several recorded calls is taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from bisector.core import protocol as asked
from bisector.core.criterion import Criterion
from bisector.core.evidence import NO_REFERENCE, Evidence
from bisector.core.model import Machine, Measurement, ProbeResult
from bisector.core.notes import CallName, NoReference, OneOfSeveralCalls, Reported
from bisector.core.outcome import Outcome
from bisector.core.probe_reasons import NothingToCompare
from bisector.core.reasons import Message
from bisector.core.recorded import Recorded, RecordedCall
from bisector.explain import subject
from bisector.explain.study import Study
from tests.core.measurements import judged, off_by, output
from tests.explain.fake_lab import FakeLab, bytes_that_differ


def call(index: int) -> RecordedCall:
    return RecordedCall(index, index, "f", 1, False, {}, "inputs", 8, ("cpu",), {}, "inductor")


def test_a_call_of_which_one_run_of_three_diverges_is_not_one_that_agrees() -> None:
    differing: Iterator[int] = iter([0, 0, 0, 0, 0, 5])  # bytes: three runs of each call

    def probe(request: Any) -> Measurement:
        return bytes_that_differ(next(differing))

    lab: Any = FakeLab({asked.RunProbe: probe})
    results = subject._looked_at(
        [call(0), call(1)], lambda c: Study(lab, c.index, Criterion(), Criterion(), repeat=3)
    )
    assert [results[index].outcome for index in (0, 1)] == [Outcome.PASS, Outcome.UNRESOLVED]
    assert subject._worst_first(results[1]) < subject._worst_first(results[0])
    assert [request.about.call for request in lab.asked] == [0, 0, 0, 1, 1, 1]


def step(index: int, graph: int, **more: Any) -> RecordedCall:
    return replace(call(index), graph=graph, **more)


def looked_at(calls: list[RecordedCall], lab: Any) -> dict[int, ProbeResult]:
    return subject._looked_at(calls, lambda c: Study(lab, c.index, Criterion(), Criterion()))


def test_calls_of_one_graph_share_a_compile() -> None:
    """Another graph, other settings or a backward pass are another program."""
    calls = [step(0, 0), step(1, 1), step(2, 0), step(3, 0, settings={"x": 1}), step(4, 0, backward=True)]
    several = lambda request: asked.OfCalls(tuple(bytes_that_differ(i) for i in request.calls))  # noqa: E731
    alone = lambda request: bytes_that_differ(request.about.call)  # noqa: E731
    lab: Any = FakeLab({asked.RunCalls: several, asked.RunProbe: alone})
    results = looked_at(calls, lab)
    assert {i: r.measurement for i, r in results.items()} == {i: bytes_that_differ(i) for i in range(5)}
    assert asked.RunCalls((0, 2), None) in lab.asked
    assert lab.rounds == [4]


def test_calls_of_one_graph_of_which_one_raises_are_looked_at_alone() -> None:
    several = lambda request: asked.Failed("it raises")  # noqa: E731
    alone = lambda request: bytes_that_differ(request.about.call)  # noqa: E731
    lab: Any = FakeLab({asked.RunCalls: several, asked.RunProbe: alone})
    assert sorted(looked_at([step(0, 0), step(1, 0)], lab)) == [0, 1]
    assert lab.rounds == [1, 2]


def test_of_calls_that_agree_the_one_whose_small_values_are_off_is_taken() -> None:
    """By the evidence: in the second call rounding makes as much of them."""
    near, small = output(), replace(off_by(6e-9, scale=6e-9), n_diff=90)
    noise, lost = (small, small), (small, off_by(1e-16, scale=6e-9))
    made = [(near, near), noise, lost, *[lost] * subject.MOST_SMALL]

    def evidence(request: Any) -> Evidence:
        default, moved = (Measurement((one,)) for one in made[request.about.call])
        return Evidence(default, None, None, (moved,), ())

    lab: Any = FakeLab({asked.RunVerdict: evidence})
    calls = [call(index) for index in range(len(made))]
    results = {c.index: judged(Outcome.PASS, "", Measurement((made[c.index][0],))) for c in calls}

    def taken(some: list[RecordedCall]) -> int | None:
        studied = lambda c: Study(lab, c.index, Criterion(), Criterion())  # noqa: E731
        found = subject._small_call(some, results, studied)
        return None if found is None else found.index

    assert taken(calls) == 2
    assert [request.about.call for request in lab.asked] == [1, 2], "the first has no small values"
    assert taken([*[calls[1]] * subject.MOST_SMALL, calls[2]]) is None, "not all are looked at"


def test_a_graph_that_gives_nothing_comes_last() -> None:
    empty = ProbeResult(Outcome.UNRESOLVED, NothingToCompare())
    results = [empty, judged(Outcome.PASS), judged(Outcome.UNRESOLVED)]
    assert sorted(results, key=subject._worst_first) == [results[2], results[1], results[0]]


LOOP = Recorded(tuple(map(call, range(4))), True, 2, "", 0, (), Machine("cpu", "avx2", "g++"))


def test_of_a_loop_it_is_noted_how_many_calls_were_recorded_and_which_is_the_first_that_diverges() -> None:
    diverges = ProbeResult(Outcome.FAIL, Message("differs"))
    earlier = [subject.Other(call(2), diverges), subject.Other(call(1), diverges)]
    last = OneOfSeveralCalls(made=6, recorded=4, examined=CallName(4, "f"), first=CallName(2, "f"))
    assert subject._place(LOOP, call(3), earlier) == last
    assert subject._place(LOOP, call(3), []) == replace(last, first=None)
    assert subject._place(LOOP, call(0), earlier) == replace(last, examined=CallName(1, "f"), first=None)


def test_why_there_is_no_reference_is_a_note_of_its_own() -> None:
    assert subject._reported(f"{NO_REFERENCE}it draws") == NoReference("it draws")
    assert subject._reported("aten.sum ran narrow") == Reported(Message("aten.sum ran narrow"))
