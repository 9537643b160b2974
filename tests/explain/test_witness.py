"""The script's own runs: what is said where one of them takes too long, is killed, or is not made."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bisector import processes
from bisector.core.criterion import Criterion
from bisector.core.evidence import Evidence
from bisector.core.fix import SetFlags
from bisector.core.growth import ROUNDED_RUNS
from bisector.core.notes import BackendUnjudged
from bisector.core.options import Options
from bisector.core.outcome import Outcome
from bisector.core.printed import PrintedLine
from bisector.core.program import CompiledCall, Effect, EffectKind, Mode, PlainRun
from bisector.core.reasons import Message
from bisector.core.script_reasons import NotByRounding
from bisector.core.shown import ScriptResult
from bisector.explain import script_runs
from bisector.explain.script_runs import ScriptRuns
from bisector.explain.witness import Script, Witness
from bisector.processes import Started
from bisector.report.reasons import words
from bisector.runner.journal import Journal
from bisector.tracing import SILENT
from tests.core.measurements import AGREES as MEASURED
from tests.core.measurements import off_by, output
from tests.faults.waiting import until

pytestmark = pytest.mark.usefixtures("warm_workers")

CRITERION = Criterion()
EAGER = PlainRun((CompiledCall(0, "f"),), status=0, printed=("a",))
AGREES = PlainRun((CompiledCall(0, "f", (output(),)),), status=0, printed=("a",), backends=("inductor",))
DIFFERS = replace(AGREES, calls=(CompiledCall(0, "f", (off_by(1.0),)),))
LATE = PlainRun(status=None)
KILLED = PlainRun(status=-signal.SIGKILL, ended="killed by SIGKILL")
Runs = dict[tuple[Mode, str | None], PlainRun]
Made = Callable[..., Script]


class Scripted(ScriptRuns):
    """The runs as they are written down; those that agree where nothing is."""

    def __init__(self, folder: Path, runs: Runs) -> None:
        journal = SimpleNamespace(answers={}, started=lambda key, request: None, done=self._done)
        options = Options("script.py")
        session: Any = SimpleNamespace(
            journal=journal, trace=SILENT, jobs=1, options=options, script="script.py", seed=0, config={}
        )
        super().__init__(session, folder)
        self.written = runs
        self.made: list[tuple[Mode, str | None]] = []
        self.kept: list[str] = []
        self.late: list[tuple[str, ...]] = []

    def _done(self, key: str, answer: Any) -> None:
        self.kept.append(key)

    def _ended(self, asked: Any) -> PlainRun:
        self.made.append((asked.mode, asked.backend))
        self.late.append(asked.late)
        known = EAGER if asked.mode is Mode.EAGER else replace(AGREES, backends=())
        return self.written.get((asked.mode, asked.backend), known)

    def _begin(self, asked: Any) -> Any:
        return None

    def _prepare(self, seed: int, compiling: bool = False) -> None:
        return self.folder


class Told(Script):
    """What is said of such runs. asked: those that were made, late: the lines in each; kept: of which the
    journal holds the answer."""

    def __init__(self, runs: Scripted) -> None:
        super().__init__(runs)
        self.asked, self.late, self.kept = runs.made, runs.late, runs.kept


@pytest.fixture
def script(tmp_path: Path) -> Callable[[Runs], Told]:
    return lambda runs: Told(Scripted(tmp_path, runs))


COMPILED, EAGER_RUN, AGAIN = (Mode.COMPILED, None), (Mode.EAGER, None), (Mode.EAGER_AGAIN, None)


@pytest.mark.parametrize("run", [LATE, KILLED])
@pytest.mark.parametrize("which", [COMPILED, EAGER_RUN])
def test_a_run_that_does_not_come_to_its_end_is_no_agreement(script: Any, run: PlainRun, which: Any) -> None:
    program = script({which: run})
    witness = program.witness(CRITERION)
    assert witness.shown.outcome is Outcome.UNRESOLVED
    run = "with compilation off" if which is EAGER_RUN else "compiled"
    assert words(witness.shown.reason).startswith(run)
    assert len(program.kept) == (which is COMPILED), "it is not remembered: the next one may have more time"


def test_where_the_run_with_compilation_off_is_late_no_other_is_made(script: Any) -> None:
    program = script({EAGER_RUN: LATE})
    program.witness(CRITERION)
    assert program.asked == [EAGER_RUN]


@pytest.mark.parametrize("late", [AGAIN, COMPILED])
def test_what_is_printed_is_not_said_to_differ_where_a_second_run_is_late(tmp_path: Path, late: Any) -> None:
    """It may be a time or an address, which differs from run to run."""

    class Second(Scripted):
        def _ended(self, asked: Any) -> PlainRun:
            run = super()._ended(asked)
            return LATE if (asked.mode, asked.backend) == late and (asked.again or late is AGAIN) else run

    printing = replace(AGREES, printed=("b",))
    written = {COMPILED: printing, AGAIN: replace(AGREES, printed=("a",))}
    program = Script(Second(tmp_path, written))
    shown = program.witness(CRITERION).shown
    assert shown.outcome is Outcome.UNRESOLVED
    assert words(shown.reason).startswith("what it prints differs; run again, to see whether that moves")


def test_what_is_printed_counts_where_it_does_not_move(script: Any) -> None:
    printing = replace(AGREES, printed=("b",))
    witness = script({COMPILED: printing, AGAIN: replace(AGREES, printed=("a",))}).witness(CRITERION)
    assert witness.shown.diverges and witness.lines == (PrintedLine(0),)


NEAR = {
    (Mode.EAGER, None): replace(EAGER, printed=("loss 0.43124",)),
    (Mode.EAGER_AGAIN, None): replace(AGREES, printed=("loss 0.43124",)),
    (Mode.COMPILED, None): replace(AGREES, printed=("loss 0.43125",)),
    (Mode.COMPILED_KEPT, None): replace(AGREES, printed=("loss 0.43125",)),
}


@pytest.mark.parametrize(
    ("substituted", "outcome"),
    [
        (replace(AGREES, printed=("loss 0.43125",)), Outcome.PASS),  # the values of its calls make that
        (replace(AGREES, printed=("loss 0.43124",)), Outcome.FAIL),  # something else does
        (replace(AGREES, printed=(), parted=0), Outcome.UNRESOLVED),
        (LATE, Outcome.UNRESOLVED),
    ],
)
def test_numbers_that_are_nearly_alike_agree_where_the_values_of_the_calls_make_them_so(
    script: Any, substituted: PlainRun, outcome: Outcome
) -> None:
    program = script({**NEAR, (Mode.SUBSTITUTED, None): substituted})
    found = program.witness(CRITERION)
    assert found.shown.outcome is outcome, words(found.shown.reason)
    assert [line.exactly for line in found.lines] == ([True] if outcome is Outcome.FAIL else [])


@pytest.mark.parametrize("rounded", ["loss 0.9", "loss 0.4"])
def test_rounding_explains_what_a_script_says_where_eager_moved_by_rounding_says_so_too(
    script: Any, rounded: str
) -> None:
    evidence = Evidence(MEASURED, None, None, (), ())
    equal = CompiledCall(0, "f", (replace(output(), n_diff=1),), beside=evidence)
    kept, told = (replace(AGREES, calls=(equal,), printed=(text,)) for text in ("loss 0.4", "loss 0.8"))
    program = script({
        EAGER_RUN: replace(EAGER, printed=("loss 0.4",)), AGAIN: replace(AGREES, printed=(rounded,)),
        (Mode.EAGER_BESIDE, None): kept, (Mode.COMPILED_BESIDE, None): told, COMPILED: told,
        (Mode.COMPILED_KEPT, None): told, (Mode.SUBSTITUTED, None): told,
    })  # fmt: skip
    shown = ScriptResult(Outcome.FAIL, Message("line 1 of its output"))
    eager, compiled = (program.runs.written[which] for which in (EAGER_RUN, COMPILED))
    found = program.equal_inputs(Witness(eager, compiled, shown, (PrintedLine(0),)), CRITERION)
    assert found.unknown == (None if rounded == "loss 0.9" else NotByRounding())
    assert program.asked.count(AGAIN) == (1 if rounded == "loss 0.9" else ROUNDED_RUNS)


@pytest.mark.parametrize(("built", "outcome"), [("1", Outcome.PASS), ("4", Outcome.UNRESOLVED)])
def test_lines_that_come_and_go_hide_no_others(script: Any, built: str, outcome: Outcome) -> None:
    def says(run: PlainRun, waits: int, built: str) -> PlainRun:
        return replace(run, printed=(*["waited 1 s"] * waits, f"table built {built}"))

    program = script({
        EAGER_RUN: says(EAGER, 2, "1"), AGAIN: says(AGREES, 1, "1"), COMPILED: says(AGREES, 5, built),
    })  # fmt: skip
    found = program.witness(CRITERION)
    assert found.shown.outcome is outcome, words(found.shown.reason)
    if outcome is Outcome.PASS:
        assert found.shown.compared is not None and found.shown.compared.lines == 1
    else:
        assert "it prints `table built 4`, with compilation off `table built 1`" in words(found.shown.reason)


def test_what_a_script_of_which_two_runs_differ_says_otherwise_each_time_is_named(script: Any) -> None:
    off, on = (replace(one, printed=(text,)) for one, text in ((EAGER, "4 at 0.1"), (DIFFERS, "1 at 0.2")))
    again = replace(DIFFERS, printed=("4 at 0.7",))

    def steady(second: PlainRun) -> str:
        program = script({EAGER_RUN: off, COMPILED: on, AGAIN: second})
        found = program.steady(program.witness(CRITERION), CRITERION)
        return "" if found is None else words(found)

    assert steady(again).startswith("line 1 of its output: it prints `1 at 0.2`")
    assert not steady(replace(again, printed=("2 at 0.7",)))
    values = steady(replace(AGREES, printed=("2 at 0.7",)))
    assert values == "call[0].output[0] differs compiled, and not from run to run"


@pytest.mark.parametrize("asks", [True, False])
def test_a_script_that_asks_whether_it_is_compiled_is_run_told_so(script: Any, asks: bool) -> None:
    program = script({EAGER_RUN: replace(EAGER, asked_compiling=asks), COMPILED: DIFFERS})
    found = program.as_if_compiling(program.witness(CRITERION), CRITERION)
    assert (found is not None and found.diverges) == asks
    assert program.asked.count(EAGER_RUN) == 1 + asks


@pytest.mark.parametrize("run", [LATE, KILLED])
def test_a_late_second_run_with_compilation_off_proves_no_steadiness(script: Any, run: PlainRun) -> None:
    assert script({AGAIN: run}).again(CRITERION).outcome is Outcome.UNRESOLVED
    assert script({}).again(CRITERION).outcome is Outcome.PASS


def test_a_seed_whose_runs_are_late_is_not_one_that_agrees(script: Any) -> None:
    assert script({COMPILED: LATE}).by_seed((1, 2), CRITERION) == dict.fromkeys((1, 2), Outcome.UNRESOLVED)
    assert script({COMPILED: DIFFERS}).by_seed((1,), CRITERION) == {1: Outcome.FAIL}


def looked_at(script: Any, backends: tuple[str, ...], rungs: dict[str, PlainRun]) -> tuple[Witness, Told]:
    program = script({(Mode.COMPILED, rung): run for rung, run in rungs.items()})
    compiled = replace(DIFFERS, backends=backends)
    shown = script({COMPILED: compiled}).witness(CRITERION).shown
    return program.with_backend(Witness(EAGER, compiled, shown), CRITERION), program


@pytest.mark.parametrize("late", ["eager", "aot_eager", "aot_eager_decomp_partition"])
@pytest.mark.parametrize("run", [LATE, KILLED])
def test_a_rung_that_is_late_is_not_skipped_over(script: Any, late: str, run: PlainRun) -> None:
    witness, _ = looked_at(script, ("inductor",), {late: run})
    assert witness.first_bad_backend is None
    assert witness.rung_unknown == BackendUnjudged(late)


def test_a_rung_behind_the_first_that_diverges_need_not_be_known(script: Any) -> None:
    witness, _ = looked_at(script, ("inductor",), {"eager": DIFFERS, "aot_eager": LATE})
    assert (witness.first_bad_backend, witness.rung_unknown) == ("eager", None)


@pytest.mark.parametrize(
    ("backends", "tried", "first"),
    [
        (("eager",), [], "eager"),
        (("aot_eager",), ["eager"], "aot_eager"),
        (("aot_eager_decomp_partition",), ["eager", "aot_eager"], "aot_eager_decomp_partition"),
        (("eager", "inductor"), ["eager", "aot_eager", "aot_eager_decomp_partition"], "inductor"),
        (("custom",), ["eager", "aot_eager", "aot_eager_decomp_partition"], "custom"),
    ],
)
def test_the_ladder_ends_at_the_backend_that_the_script_names(
    script: Any, backends: tuple[str, ...], tried: list[str], first: str
) -> None:
    witness, program = looked_at(script, backends, {})
    assert [backend for _, backend in program.asked] == tried
    assert witness.first_bad_backend == first


def test_drawing_alike_is_asked_where_a_call_up_to_the_one_that_diverges_draws(script: Made) -> None:
    draws = CompiledCall(1, "f", effects=(Effect(EffectKind.DRAWS),))
    eager = replace(EAGER, calls=(*EAGER.calls, draws))
    made = script({})
    for at, asked in ((0, False), (1, True), (None, True)):
        shown = ScriptResult(Outcome.FAIL, Message("differs"), at)
        assert made.draws(Witness(eager, DIFFERS, shown)) == asked
    assert made.with_same_random(CRITERION).outcome is Outcome.PASS
    flags = ("torch._inductor.config.fallback_random", "torch._dynamo.config.use_numpy_random_stream")
    assert {late for late in made.late if late} == {tuple(f"{flag} = True" for flag in flags)}


def test_under_a_fix_the_settings_hold_too_under_which_the_script_is_examined(script: Made) -> None:
    made = script({(Mode.COMPILED, None): DIFFERS})
    made.runs.session.config = {"inductor.fallback_random": True}
    found, run, _ = made.under(SetFlags({"inductor.cpp.simdlen": 1}), CRITERION)
    assert (found.outcome, run.calls) == (Outcome.FAIL, DIFFERS.calls)
    assert made.asked == [(Mode.EAGER, None), (Mode.COMPILED, None)]
    flags = ("fallback_random = True", "cpp.simdlen = 1")
    assert made.late == [(), tuple(f"torch._inductor.config.{flag}" for flag in flags)]


@pytest.mark.live
def test_what_was_begun_beside_the_search_is_not_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "script.py"
    target.write_text(
        "import torch\n"
        "step = torch.compile(lambda x: x + 1, backend='eager')\n"
        "step(torch.ones(2))\n"
    )
    started: list[Started] = []

    def start(command: Any, **options: Any) -> Started:
        started.append(processes.start(command, **options))
        return started[-1]

    monkeypatch.setattr(script_runs, "processes", SimpleNamespace(start=start))
    with contextlib.closing(Journal(tmp_path / "journal.jsonl")) as journal:
        session: Any = SimpleNamespace(
            journal=journal, trace=SILENT, jobs=2, options=Options(str(target)), script=str(target), seed=0,
            config={}, left_s=lambda: None, background=[],
        )  # fmt: skip
        script, fix = Script(ScriptRuns(session, tmp_path)), SetFlags({"inductor.cpp.threads": 1})
        for begun in (1, 2):
            script.begin_under(fix)
            script.begin_under(fix)
            assert session.background == started and len(started) == begun, "one after the other, each once"
            started[-1].popen.wait()
        another = script.under(SetFlags({"inductor.cpp.threads": 2}), CRITERION)
        for shown, run, eager in (script.under(fix, CRITERION), another):
            assert (shown.outcome, len(run.calls), len(eager.calls)) == (Outcome.PASS, 1, 1)
    assert len(started) == 3
    assert len(list(tmp_path.glob("0/*.jsonl"))) == 3, "each run has a file of its own for what is seen"


def test_an_interrupt_ends_the_script_s_run_at_once(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # a process of pytest-xdist ignores it
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    target = tmp_path / "script.py"
    target.write_text("import time\nopen('begun', 'w').close()\ntime.sleep(600)\n")
    with contextlib.closing(Journal(tmp_path / "journal.jsonl")) as journal:
        session: Any = SimpleNamespace(
            journal=journal, trace=SILENT, jobs=1, script=str(target), seed=0, config={}, background=[],
            options=Options(str(target), folder=str(tmp_path)), left_s=lambda: None,
        )  # fmt: skip
        def interrupt() -> None:
            until(lambda: (tmp_path / "begun").exists(), 60)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt).start()
        with pytest.raises(KeyboardInterrupt):
            Script(ScriptRuns(session, tmp_path)).witness(CRITERION)
    [process] = session.background
    assert process.popen.wait(10) == -signal.SIGKILL
