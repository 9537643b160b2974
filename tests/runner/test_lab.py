"""The lab: each question is asked once, a dead worker is started again, and who kills it is blamed alone."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from bisector import wire
from bisector.core.case import WHOLE
from bisector.core.messages import LoadOptions, Reply, WorkerOptions
from bisector.core.model import Candidate, Machine, Measurement
from bisector.core.protocol import About, Failed, Request, RunProbe
from bisector.core.recorded import Recorded, RecordedCall
from bisector.errors import BadTarget, WorkerLost
from bisector.runner import lab as lab_module
from bisector.runner.journal import Journal
from bisector.runner.lab import LOST, STARTS, Known, Lab


@dataclass(frozen=True)
class Named:
    """An answer that says what was asked."""

    name: str


@dataclass(frozen=True)
class Ask(Request[Named], job="test of the lab", answers=Named):
    name: str


@dataclass(frozen=True)
class Probe(Request[Named], job="test of the lab: a probe", answers=Named):
    name: str


class Plan:
    """What the workers of a test do, and what they were asked, one list for each worker that was started."""

    def __init__(self) -> None:
        self.asked: list[list[str]] = []
        self.most_at_once = 0
        self.killers: set[str] = set()  # requests that kill the worker
        self.spares: list[Any] = []  # that each start was given
        self.hellos: list[
            Any
        ] = []  # of each start in turn, the last one for all later; an exception is raised


class FakeWorker:
    """Has `jobs` requests in flight and answers the oldest; dies when a killer is the oldest."""

    plan: Plan

    def __init__(self, options: WorkerOptions, spare: Any = None) -> None:
        self.plan.asked.append([])
        self.plan.spares.append(spare)
        self.closed = False

    def take_spare(self, options: WorkerOptions) -> str:
        return f"of the worker with log {options.log}"

    def wait_until_ready(self) -> Recorded:
        hellos = self.plan.hellos
        hello = hellos.pop(0) if len(hellos) > 1 else hellos[0]
        if isinstance(hello, Exception):
            raise hello
        return hello  # type: ignore[no-any-return]

    def ask(
        self,
        requests: Sequence[Any],
        timeout_s: float,
        jobs: int,
        done: Callable[[int, Reply], None],
        started: Callable[[int], None] = lambda index: None,
    ) -> None:
        waiting: list[int] = []
        left = list(range(len(requests)))
        while left or waiting:
            while left and len(waiting) < jobs:
                started(left[0])
                waiting.append(left.pop(0))
            self.plan.most_at_once = max(self.plan.most_at_once, len(waiting))
            oldest = waiting.pop(0)
            name = requests[oldest]["name"]
            self.plan.asked[-1].append(name)
            if name in self.plan.killers:
                raise WorkerLost("died")
            answer = wire.dump(Named(name))
            done(oldest, Reply(0, error="no") if name == "refused" else Reply(0, answer))

    def close(self) -> None:
        self.closed = True


def hello(digest: str, **more: Any) -> Recorded:
    call = RecordedCall(0, 0, "f", 1, False, {}, digest, 1, ("cpu",), {}, "inductor")
    return Recorded((call,), True, 0, "", 0, (), Machine("2.13.0"), **more)


HELLO = hello("1")


@pytest.fixture
def plan(monkeypatch: pytest.MonkeyPatch) -> Plan:
    made = Plan()
    made.hellos = [HELLO]
    monkeypatch.setattr(FakeWorker, "plan", made, raising=False)
    monkeypatch.setattr(lab_module, "Worker", FakeWorker)
    return made


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    made = Journal(tmp_path / "journal.jsonl")
    yield made
    made.close()


@pytest.fixture
def told() -> list[tuple[str, Known]]:
    return []


@pytest.fixture
def lab(journal: Journal, told: list[tuple[str, Known]]) -> Lab:
    return new_lab(journal, told)


def new_lab(
    journal: Journal, told: list[tuple[str, Known]], name: str = "", labs: Sequence[Lab] = ()
) -> Lab:
    options = WorkerOptions(LoadOptions("case.py"))
    return Lab(options, journal, 2, 5.0, lambda r, a, known: told.append((r.name, known)), name, labs=labs)


def requests(names: str) -> list[Ask]:
    return [Ask(name) for name in names]


def test_answers_come_in_the_order_of_the_requests(plan: Plan, lab: Lab) -> None:
    assert lab.ask_all(requests("cab")) == [Named("c"), Named("a"), Named("b")]


def test_no_worker_starts_before_a_question_needs_one(plan: Plan, lab: Lab, journal: Journal) -> None:
    lab.ask_all(requests("ab"))
    assert len(plan.asked) == 1
    again = new_lab(journal, [])
    assert again.hello() == HELLO
    assert again.ask_all(requests("ba")) == [Named("b"), Named("a")]
    assert len(plan.asked) == 1


def test_a_worker_that_is_started_early_answers_the_first_question(plan: Plan, lab: Lab) -> None:
    lab.start_early()
    assert plan.asked == [[]]
    assert lab.ask_all(requests("a")) == [Named("a")]
    lab.start_early()
    assert plan.asked == [["a"]]


def test_an_early_start_needs_no_worker_where_the_journal_has_its_hello(
    plan: Plan, lab: Lab, journal: Journal
) -> None:
    lab.hello()
    again = new_lab(journal, [])
    again.start_early()
    assert again.worker is None
    assert len(plan.asked) == 1


@pytest.mark.parametrize("on_cuda", [False, True])
def test_of_the_workers_of_a_run_one_at_a_time_is_on_a_gpu(
    plan: Plan, journal: Journal, on_cuda: bool
) -> None:
    plan.hellos = [hello("1", on_cuda=on_cuda)]
    labs: list[Lab] = []
    labs += [new_lab(journal, [], name, labs) for name in ("", "confirm")]
    first, second = labs
    first.ask(Ask("a"))
    second.start_early()
    assert (second.worker is None) is on_cuda
    assert second.ask(Ask("a")) == Named("a")
    assert (first.worker is None) is on_cuda
    assert first.ask(Ask("b")) == Named("b")
    assert (second.worker is None) is on_cuda


def test_equal_requests_are_run_once(
    plan: Plan, lab: Lab, told: list[tuple[str, Known]]
) -> None:
    assert lab.ask_all(requests("aa")) == [Named("a")] * 2
    lab.ask(Ask("a"))
    assert plan.asked == [["a"]]
    assert told == [("a", Known.WORKER), ("a", Known.JOURNAL)]


def test_what_is_asked_ahead_goes_with_the_next_probes_and_second_in_their_order(
    plan: Plan, lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lab_module, "PROBES", (Probe,))
    lab.ask(Ask("known"))
    lab.ahead([Ask("known"), Ask("later"), Probe("both")])
    assert lab.ask(Ask("no probe")) == Named("no probe") and plan.asked == [["known", "no probe"]]
    assert lab.ask_all([Probe("one"), Probe("both")]) == [Named("one"), Named("both")]
    assert plan.asked == [["known", "no probe", "one", "later", "both"]]
    assert lab.ask_all([Probe("next"), Ask("later")]) == [Named("next"), Named("later")]
    assert plan.asked[0][5:] == ["next"], "it was asked once, and has its answer"


def test_an_error_is_an_answer_and_not_asked_again(plan: Plan, lab: Lab) -> None:
    assert [lab.ask(Ask("refused")) for _ in range(2)] == [Failed("no")] * 2
    assert plan.asked == [["refused"]]


def test_labs_with_other_names_share_a_journal_and_no_answers(plan: Plan, lab: Lab, journal: Journal) -> None:
    lab.ask(Ask("a"))
    second = new_lab(journal, [], "confirm")
    second.ask(Ask("a"))
    assert plan.asked == [["a"], ["a"]]
    assert lab.ask(Ask("a")) == second.ask(Ask("a")) == Named("a")
    assert len(plan.asked) == 2


def test_a_worker_is_what_another_one_has_forked_where_one_runs(
    plan: Plan, lab: Lab, journal: Journal
) -> None:
    second = new_lab(journal, [], "confirm")
    second.labs = lab.labs = [lab, second]
    second.ask(Ask("a"))
    second.close()
    lab.ask(Ask("a"))
    second.ask(Ask("b"))
    assert plan.spares == [None, None, "of the worker with log /dev/null"]


def test_a_dead_worker_is_started_again_and_asked_what_is_left(plan: Plan, lab: Lab) -> None:
    plan.killers = {"k"}
    answers = lab.ask_all(requests("abkcd"))
    assert answers == [Named("a"), Named("b"), LOST, Named("c"), Named("d")]
    # k and c were in flight at the death; then k alone, and only then the others.
    assert plan.asked == [["a", "b", "k"], ["k"], ["c", "d"]]


def test_the_neighbour_of_two_deaths_is_not_blamed_for_them(plan: Plan, lab: Lab) -> None:
    plan.killers = {"k"}
    assert lab.ask_all(requests("ka")) == [LOST, Named("a")]
    assert lab.ask_all(requests("bkc")) == [Named("b"), LOST, Named("c")]


def test_requests_that_were_never_sent_are_not_blamed(plan: Plan, lab: Lab, journal: Journal) -> None:
    plan.killers = {"k"}
    lab.ask_all(requests("k" + "abcdefg"))
    assert sum(journal.losses.values()) == 3  # k twice, and once the one beside it


def test_a_worker_that_cannot_fork_has_one_request_at_a_time_also_after_a_resume(
    plan: Plan, lab: Lab, journal: Journal
) -> None:
    lab.ask_all(requests("ab"))
    assert plan.most_at_once == 2
    plan.hellos, plan.most_at_once = [hello("1", one_at_a_time=True)], 0
    resident = new_lab(journal, [], "resident")
    resident.ask_all(requests("abc"))
    again = new_lab(journal, [], "resident")
    again.hello()
    assert (plan.most_at_once, resident.jobs, again.jobs) == (1, 1, 1)


def test_two_that_kill_are_both_given_up(plan: Plan, lab: Lab) -> None:
    plan.killers = {"k", "l"}
    assert lab.ask_all(requests("akl")) == [Named("a"), LOST, LOST]


def test_a_worker_that_dies_whatever_it_is_asked_is_given_up(plan: Plan, lab: Lab) -> None:
    names = "abcdefghij"
    plan.killers = set(names)
    with pytest.raises(WorkerLost, match="keeps dying"):
        lab.ask_all(requests(names))
    assert len(plan.asked) == STARTS


def test_deaths_far_apart_do_not_add_up(plan: Plan, lab: Lab) -> None:
    plan.killers = set("klmnop")
    for killer in "klmnop":
        assert lab.ask_all(requests(f"{killer}")) == [LOST]
        assert lab.ask(Ask(f"after {killer}")) == Named(f"after {killer}")


def test_what_killed_the_worker_in_an_earlier_run_has_one_try_left(
    plan: Plan, journal: Journal, tmp_path: Path
) -> None:
    first = new_lab(journal, [])
    first.hello()
    journal.lost(first.key(Ask("k")))
    plan.killers = {"k"}
    assert new_lab(journal, []).ask(Ask("k")) == LOST
    assert [asked for asked in plan.asked if asked] == [["k"]]


def test_a_script_that_cannot_be_loaded_is_the_users_business(plan: Plan, lab: Lab) -> None:
    plan.hellos = [BadTarget("model.py never compiles anything")]
    with pytest.raises(BadTarget, match="never compiles"):
        lab.hello()
    assert lab.worker is None


def test_a_script_that_fails_only_the_second_time_ends_the_run_as_a_lost_worker(plan: Plan, lab: Lab) -> None:
    plan.hellos = [HELLO, BadTarget("model.py ended the process that ran it")]
    plan.killers = {"k"}
    with pytest.raises(WorkerLost, match=r"started again, and now: model\.py ended"):
        lab.ask(Ask("k"))


def test_a_script_that_gives_other_inputs_the_second_time_is_not_mixed_with_the_first(
    plan: Plan, lab: Lab, journal: Journal
) -> None:
    plan.hellos = [HELLO, hello("2")]
    plan.killers = {"k"}
    with pytest.raises(WorkerLost, match="seed it, or use --seed"):
        lab.ask_all(requests("ka"))
    assert lab.hello() == HELLO
    assert lab.worker is None


def test_closing_twice_is_closing_once(plan: Plan, lab: Lab) -> None:
    lab.ask(Ask("a"))
    lab.close()
    lab.close()
    assert lab.worker is None


# -- with a real worker --------------------------------------------------------------------------------

SCRIPT = """
import torch
def double(x):
    return x * 2
torch.compile(double)({})
"""
ABOUT = About(0, WHOLE, None, {})
PROBE = RunProbe(ABOUT, Candidate(backend="eager"))


@pytest.mark.live
@pytest.mark.parametrize("inputs", ["torch.arange(4.0)", "torch.randn(4)"], ids=["fixed", "unseeded"])
def test_a_real_worker_that_is_killed_is_started_again_and_says_the_same(
    inputs: str, tmp_path: Path, journal: Journal
) -> None:
    pytest.importorskip("torch")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(inputs))
    lab = Lab(
        WorkerOptions(LoadOptions(str(script)), log=str(tmp_path / "log")),
        journal,
        1,
        60.0,
        lambda *given: None,
    )
    try:
        first = lab.ask(PROBE)
        assert isinstance(first, Measurement)
        assert [o.n_diff for o in first.outputs] == [0]
        assert lab.worker is not None
        os.kill(lab.worker.process.pid, signal.SIGKILL)
        second = lab.ask(replace(PROBE, trial=1))
        assert isinstance(second, Measurement)
        assert second.outputs == first.outputs
        assert lab.worker.process.poll() is None
        pid = lab.worker.process.pid
    finally:
        lab.close()
    assert not Path(f"/proc/{pid}").exists()
