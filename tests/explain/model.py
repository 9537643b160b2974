"""A made-up subject whose truth is written in one line, behind the real session, lab and journal.

A chain of calls `c0 -> c1 -> ...` on one input `x` is "compiled" by arithmetic on sets: each call has a
decision, and the outputs diverge where the truth says so of the decisions that are allowed. What differs from
a worker of a real run is this worker alone; it answers each type of request in microseconds.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from bisector import wire
from bisector.core import protocol as asked
from bisector.core.case import WHOLE, Case
from bisector.core.decision import Decision, DecisionId
from bisector.core.evidence import Evidence
from bisector.core.graphinfo import GraphInfo, NodeInfo
from bisector.core.messages import Reply, WorkerOptions
from bisector.core.model import Base, Candidate, Json, Machine, Measurement, OutputMeasurement
from bisector.core.options import Options
from bisector.core.program import CompiledCall, PlainRun
from bisector.core.recorded import Recorded, RecordedCall
from bisector.core.shares import Carried, Part, Parts, Shares
from bisector.core.shown import ScriptResult
from bisector.core.trace import NodeTrace, Trace
from bisector.errors import WorkerLost
from bisector.explain import environment, last_word
from bisector.explain.run import Session
from bisector.report.reasons import words
from bisector.request_json import load_request
from bisector.runner import lab, rundir
from tests.core.measurements import SCRIPT_AGREES

CONTRACTION = "inductor.cpp.enable_floating_point_contract_flag"
Decisions = frozenset[str]
Change = Callable[[asked.Request[Any], Any], Any]
LENGTH = 8  # of the input
REPRO = "import sys\nprint('diverges')\nsys.exit({fixed} if '--fixed' in sys.argv else {plain})\n"


def as_it_is(request: asked.Request[Any], answer: Any) -> Any:
    return answer


@dataclass
class Model:
    """What a worker says.

    calls: how many. decisions: at calls, by ID. diverges(allowed, calls): the truth, of the decisions that
    are allowed and came up, and the calls that are compiled. flag: what CONTRACTION set to "off" denies.
    origin: the call at which a difference arises; diffuse: calls at each of which an equal share of it does,
    instead. first, second: what becomes of an answer of the first and
    the second worker; raising WorkerLost kills it. hooks_off: kinds whose hooks do not work. plain, fixed:
    exit statuses of the repro, without and with `--fixed`. script: what the script shows under any fix.
    others: what is called after it.
    asked: of each worker, all requests in order.
    """

    calls: int
    decisions: Sequence[str]
    diverges: Callable[[Decisions, frozenset[str]], bool]
    flag: Callable[[str], bool] = lambda decision: DecisionId(decision).kind == "fma"
    origin: str = "c0"
    diffuse: tuple[str, ...] = ()
    first: Change = as_it_is
    second: Change = as_it_is
    hooks_off: dict[str, str] = field(default_factory=dict)
    plain: int = 1
    fixed: int = 0
    script: ScriptResult = SCRIPT_AGREES
    second_digest: str = "inputs"
    others: tuple[Model, ...] = ()
    asked: tuple[list[asked.Request[Any]], list[asked.Request[Any]]] = field(default_factory=lambda: ([], []))

    @property
    def names(self) -> list[str]:
        return [f"c{i}" for i in range(self.calls)]

    def hello(self, digest: str) -> Recorded:
        calls = tuple(
            RecordedCall(i, i, "fgh"[i], m.calls, False, {}, digest, LENGTH, ("cpu",), {}, "inductor")
            for i, m in enumerate((self, *self.others))
        )
        machine = Machine("2.13.0", "abc", "avx512")
        return Recorded(calls, True, 0, "", 0, (), machine)

    def answer(self, request: asked.Request[Any]) -> Any:
        answers: dict[type, Callable[[Any], Any]] = {
            asked.RunProbe: lambda r: self.probe(r.about, r.candidate),
            asked.RunVerdict: self.verdict,
            asked.RunTrace: self.trace,
            asked.DescribeGraph: lambda r: self.graph(r.about.case),
            asked.SelfTest: lambda r: asked.HooksTested(self.hooks_off, {}),
            asked.ReadFlags: lambda r: asked.Settings(
                {CONTRACTION: asked.Setting("fast")} if CONTRACTION in r.names else {}
            ),
            asked.DigestCode: lambda r: asked.GeneratedCode(self.code(r.about.case, r.candidate)),
            asked.ShowSource: lambda r: asked.Source(self.code(r.about.case, r.candidate)),
            asked.WarmUp: lambda r: asked.Done(),
            asked.FindFormulas: lambda r: asked.Formulas({}),
            asked.RunPasted: lambda r: self.probe(r.about, Candidate()),
            asked.TryOtherInputs: lambda r: asked.Failed("no other inputs"),
            asked.TimeSlowdown: lambda r: asked.Failed("not timed"),
            asked.SteerInputs: lambda r: asked.Steered(None),
            asked.SimplifyInputs: lambda r: asked.Steered(r.about.case),
            asked.WriteRepro: lambda r: asked.Repro(
                f"# {' '.join(r.spec.header)}\n" + REPRO.format(plain=self.plain, fixed=self.fixed),
                "def fn(x): ...",
            ),
        }
        about = getattr(request, "about", None)
        if about is not None and about.call > 0:
            other = self.others[about.call - 1]
            return other.answer(replace(request, about=replace(about, call=0)))
        return answers[type(request)](request)

    def kept(self, case: Case) -> list[str]:
        """The calls of a case, in order; empty where the chain is cut into nothing."""
        names = self.names if case.base is None else self.kept(case.base)
        last = case.outputs[0] if case.outputs else (names[-1] if names else "")
        if last not in names:
            return []
        names = names[: names.index(last) + 1]
        cuts = [names.index(name) for name in case.cut if name in names]
        return names[max(cuts) + 1 :] if cuts else names

    def length(self, case: Case) -> int:
        before = LENGTH if case.base is None else self.length(case.base)
        return min([before, *(s.length for s in case.slices)])

    def graph(self, case: Case) -> GraphInfo | asked.Failed:
        calls = self.kept(case)
        if not calls or _edits_that_a_chain_has_not(case):
            return asked.Failed("eager fails: no such edit of a chain")
        all_names = ["x", *self.names]
        source = all_names[all_names.index(calls[0]) - 1]
        shape = (self.length(case),)
        nodes = [NodeInfo(source, "input", source, (), shape, "float32")]
        for name in calls:
            nodes.append(NodeInfo(name, "call", "sin", (nodes[-1].name,), shape, "float32"))
        return GraphInfo(tuple(nodes), (calls[-1],), ("aten.sin",) * len(calls), len(calls))

    def allowed(self, case: Case, candidate: Candidate) -> Decisions:
        """The decisions that come up and are made."""
        here = {d for d in self.decisions if DecisionId(d).node in self.kept(case)}
        if dict(candidate.flags).get(CONTRACTION) == "off":
            here = {d for d in here if not self.flag(d)}
        members = candidate.members
        return frozenset(here & members if candidate.base is Base.PLAIN else here - members)

    def probe(self, about: asked.About, candidate: Candidate) -> Measurement:
        if isinstance(problem := self.graph(about.case), asked.Failed):
            return Measurement(error=problem.reason)
        here = [d for d in map(DecisionId, self.decisions) if d.node in self.kept(about.case)]
        offered = [Decision(d, f"{d} is made", "") for d in here if d.kind not in about.hooks_off]
        allowed = self.allowed(about.case, candidate)
        compiled = candidate.backend == "inductor"
        diverges = compiled and self.diverges(allowed, frozenset(self.kept(about.case)))
        return Measurement(
            (output(self.length(about.case), diverges),),
            tuple(offered),
            tuple(sorted(candidate.members - {*here})),
            self.code(about.case, candidate),
        )

    def code(self, case: Case, candidate: Candidate) -> str:
        told = repr((sorted(self.allowed(case, candidate)), self.kept(case), self.length(case)))
        return hashlib.sha256(told.encode()).hexdigest()[:12]

    def verdict(self, request: asked.RunVerdict) -> Evidence:
        agrees = Measurement((output(LENGTH, False),))
        default = self.probe(request.about, Candidate())
        return Evidence(default, agrees, agrees, (agrees,), ())

    def trace(self, request: asked.RunTrace) -> Any:
        measured = self.probe(request.about, request.candidate)
        if measured.error is not None:
            return asked.Failed(measured.error)
        names, nodes, different = self.kept(request.about.case), [], False
        for before, name in zip(["x", *names], names, strict=False):
            arises = name in (self.diffuse or (self.origin,))
            different = different or arises
            wrong = arises and not self.diffuse
            nodes.append(NodeTrace(
                name, "aten.sin", "model.py:1", (before,), True, arises, 3.0 * arises, 0.5 * arises, wrong,
                None, 0.5 * different, wrong, 0.5 if wrong else None,
            ))  # fmt: skip
        parts = self.parts() if request.shares is Shares.ALL and self.diffuse else Parts()
        return asked.Traced(Trace(tuple(nodes), {"output[0]": names[-1]}, parts), measured)

    def parts(self) -> Parts:
        """Of errors that are independent of each other."""
        one = 1 / len(self.diffuse)
        most = [Part(name, (name,), (Carried("output[0]", one, 1 - one),)) for name in self.diffuse[:8]]
        everything = Part("", self.diffuse, (Carried("output[0]", 1.0, 0.0),))
        return Parts(everything, (), (replace(everything, name="aten.sin"),), tuple(most))


def _edits_that_a_chain_has_not(case: Case) -> bool:
    own = case.bypass or case.unfuse or case.values or case.scales or case.arguments or case.contiguous
    return bool(own or case.dtype) or (case.base is not None and _edits_that_a_chain_has_not(case.base))


def output(length: int, diverges: bool) -> OutputMeasurement:
    same = OutputMeasurement(0, "output[0]", "float32", (length,), length, scale=1.0)
    if not diverges:
        return replace(same, rms_error_eager=1e-8, rms_error_compiled=1e-8)
    return replace(
        same, n_diff=length, max_abs=1.0, max_rel=1.0, max_ulp=1 << 23, frontier=((1.0, 1.0),), worst=(0,),
        rms_error_eager=1e-8, rms_error_compiled=1.0,
    )  # fmt: skip


class ModelWorker:
    """Stands where `runner.worker.Worker` does. The first of a session is the search's, others confirm."""

    model: Model

    def __init__(self, options: WorkerOptions, spare: Any = None) -> None:
        self.which = 0 if options.first else 1
        self.closed = False

    def take_spare(self, options: WorkerOptions) -> None:
        """It forks nothing."""

    def wait_until_ready(self, *limits: Any) -> Recorded:
        return self.model.hello(self.model.second_digest if self.which else "inputs")

    def ask(
        self,
        told: Sequence[Json],
        timeout_s: float,
        jobs: int,
        done: Callable[[int, Reply], None],
        started: Callable[[int], None] = lambda index: None,
    ) -> None:
        change = (self.model.first, self.model.second)[self.which]
        for index, request in enumerate(map(load_request, told)):
            started(index)
            self.model.asked[self.which].append(request)
            answer = change(request, self.model.answer(request))
            if isinstance(answer, asked.Failed):
                done(index, Reply(index, error=answer.reason))
            else:
                done(index, Reply(index, wire.dump(answer)))

    def close(self) -> None:
        self.closed = True


@contextmanager
def modelled(
    model: Model, folder: Path, monkeypatch: pytest.MonkeyPatch, **options: Any
) -> Iterator[Session]:
    """A session about the model. The folder keeps its journal."""
    monkeypatch.setattr(environment, "check_compiler", lambda: None)
    monkeypatch.setattr(environment, "compiler", lambda: "g++")
    monkeypatch.setattr(lab, "Worker", ModelWorker)
    monkeypatch.setattr(ModelWorker, "model", model, raising=False)
    run_once = PlainRun((CompiledCall(0, "f"),), agreed=(True,))
    program = SimpleNamespace(
        under=lambda fix, criterion: (model.script, run_once, run_once), begin_under=lambda fix: None,
        own_difference=lambda eager: None, compiled=lambda: run_once,
    )  # fmt: skip
    monkeypatch.setattr(last_word, "script_of", lambda session: program)
    script = folder / "model.py"
    script.write_text("x.sin()\n")
    asked_for = Options(str(script), **{"jobs": 2, **options})
    run = rundir.RunDirectory(folder / "run")
    run.path.mkdir(exist_ok=True)
    session = Session(run, asked_for, lambda stage, text: None, words)
    try:
        yield session
    finally:
        session.close()


def killed(request: asked.Request[Any], answer: Any) -> Any:
    raise WorkerLost("the worker process died")


__all__ = ["CONTRACTION", "WHOLE", "Model", "killed", "modelled", "output"]
