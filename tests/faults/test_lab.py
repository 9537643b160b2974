"""What the machine spoils is no answer: it is asked again or ends the run, and no journal holds it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bisector import wire
from bisector.core.budget import BudgetSpent
from bisector.core.messages import LoadOptions, Reply, WorkerOptions
from bisector.core.model import Machine
from bisector.core.protocol import Failed, HooksTested, Request, SelfTest
from bisector.core.recorded import Recorded
from bisector.errors import CannotWrite, MissingTool, OutOfTime
from bisector.explain import environment
from bisector.explain.pipeline import begin
from bisector.explain.run import Options, Session
from bisector.report.reasons import words
from bisector.runner import lab as labs
from bisector.runner import rundir
from bisector.runner.journal import Journal
from bisector.runner.lab import Lab

NOTHING: dict[str, Any] = {"off": {}, "not_here": {}}
HELLO = Recorded((), True, 0, "", 0, (), Machine("2"))
KILLED = "crash: signal 9 (SIGKILL)"
NO_ROOM = "compile error: InductorError: CppCompileError: C++ compile error (No space left on device)"


class FakeWorker:
    """Gives these replies in turn."""

    replies: list[Reply | Exception]
    asked: int

    def __init__(self, options: WorkerOptions, spare: Any = None) -> None:
        self.options = options

    def take_spare(self, options: WorkerOptions) -> None:
        """It forks nothing."""

    def wait_until_ready(self) -> Recorded:
        if self.replies and isinstance(self.replies[0], OutOfTime):
            raise self.replies.pop(0)
        return HELLO

    def ask(
        self,
        requests: Sequence[Request[Any]],
        timeout_s: float,
        jobs: int,
        done: Callable[[int, Reply], None],
        started: Callable[[int], None] = lambda index: None,
    ) -> None:
        for index in range(len(requests)):
            started(index)
            type(self).asked += 1
            reply = self.replies.pop(0)
            assert isinstance(reply, Reply)
            done(index, reply)

    def close(self) -> None:
        return


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    journal = Journal(tmp_path / "journal.jsonl")

    def make(*replies: Reply | Exception, left_s: float | None = None, **given: Any) -> Lab:
        monkeypatch.setattr(FakeWorker, "replies", list(replies), raising=False)
        monkeypatch.setattr(FakeWorker, "asked", 0, raising=False)
        monkeypatch.setattr(labs, "Worker", FakeWorker)
        options = WorkerOptions(LoadOptions("case.py"))
        return Lab(options, journal, 1, 5.0, lambda *told: None, "", lambda: left_s, **given)

    yield make
    journal.close()


@pytest.mark.parametrize("reason", [KILLED, "crash: signal 6 (SIGABRT)"])
def test_a_probe_that_somebody_killed_or_torch_aborted_is_asked_once_more(
    reason: str, made: Callable[..., Lab]
) -> None:
    lab = made(Reply(1, error=reason), Reply(2, NOTHING))
    assert lab.ask(SelfTest()) == HooksTested({}, {})
    assert FakeWorker.asked == 2


def test_a_probe_that_is_killed_each_time_has_that_for_an_answer(made: Callable[..., Lab]) -> None:
    lab = made(Reply(1, error=KILLED), Reply(2, error=KILLED))
    assert lab.ask(SelfTest()) == Failed(KILLED)
    assert FakeWorker.asked == 2


def test_a_compiler_that_somebody_killed_is_asked_once_more(made: Callable[..., Lab]) -> None:
    reason = "compile error: CppCompileError: C++ compile error (Killed signal terminated)"
    lab = made(Reply(1, {"error": reason}), Reply(2, NOTHING))
    assert lab.ask(SelfTest()) == HooksTested({}, {})


@pytest.mark.parametrize(
    "reply",
    [Reply(1, error=NO_ROOM), Reply(1, {"error": NO_ROOM}), Reply(1, {"default": {"error": NO_ROOM}})],
)
def test_a_full_disk_ends_the_run_and_answers_nothing(reply: Reply, made: Callable[..., Lab]) -> None:
    lab = made(reply, doubts=environment.doubts)
    with pytest.raises(CannotWrite, match="No space left on device; make room there and go on"):
        lab.ask(SelfTest())
    again = made(Reply(1, NOTHING))
    assert again.ask(SelfTest()) == HooksTested({}, {})


def test_a_compile_error_is_an_answer_where_the_compiler_works_and_none_where_it_does_not() -> None:
    def broken() -> None:
        raise MissingTool("g++ cannot build an empty program")

    reason = "compile error: InductorError: CppCompileError: C++ compile error"
    environment.doubts(reason, lambda: None)
    environment.doubts("compile error: KeyError: 'node'", broken)
    with pytest.raises(MissingTool):
        environment.doubts(reason, broken)


def test_a_compiler_that_fails_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "g++"
    compiler.write_text("#!/bin/sh\necho 'no licence' >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CXX", str(compiler))
    with pytest.raises(MissingTool, match=r"g\+\+ cannot build an empty program \(no licence\); set CXX"):
        environment.check_compiler()
    monkeypatch.delenv("CXX")
    environment.check_compiler()


@pytest.mark.parametrize("has_gpu", [False, True])
def test_a_script_for_the_cpu_needs_a_compiler_on_a_machine_with_a_gpu_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_gpu: bool
) -> None:
    monkeypatch.setattr(environment, "has_gpu", lambda: has_gpu)
    script = "import torch\n@torch.compile\ndef f(x): return x + 1\nf(torch.ones(4))\n"
    (tmp_path / "script.py").write_text(script)
    options = Options(str(tmp_path / "script.py"))
    run = rundir.create(options.target, str(tmp_path / "run"), wire.dump_command(options))
    monkeypatch.setenv("CXX", str(tmp_path / "none"))
    with pytest.raises(MissingTool, match=r"no C\+\+ compiler"):
        session = Session(run, options, lambda stage, text: None, words)
        try:
            begin(session)
        finally:
            session.close()


def test_a_script_that_spends_the_budget_ends_the_search_with_what_it_has(made: Callable[..., Lab]) -> None:
    with pytest.raises(BudgetSpent, match=r"case\.py"):
        made(OutOfTime("case.py did not end within 3 s"), left_s=0.0).hello()
    with pytest.raises(OutOfTime):
        made(OutOfTime("case.py did not end within 3 s"), left_s=50.0).hello()
