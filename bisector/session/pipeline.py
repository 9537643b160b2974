"""The main job: subject, verdict, flags, minimal case, decisions, confirmation, repro, result."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from bisector.core.case import WHOLE, Case
from bisector.core.graphinfo import GraphInfo
from bisector.core.judge import judge, removed_fraction
from bisector.core.model import Candidate, Outcome, ProbeResult
from bisector.core.probe import BudgetSpent
from bisector.core.reduction.inputs import shrink_shapes
from bisector.core.reduction.problem import Problem
from bisector.core.reduction.reduce import reduce
from bisector.core.search.minimal import MinimalSet
from bisector.core.verdict import VerdictClass
from bisector.errors import MissingTool
from bisector.runner.journal import Journal
from bisector.runner.lab import Lab
from bisector.runner.rundir import RunDirectory
from bisector.runner.worker import WorkerOptions

from . import environment, fixes, flagwalk, reproducing
from .answer import Answer, Repair, to_json
from .clock import Clock
from .confirming import confirm
from .deciding import Decided, decide, finest, one_repair
from .options import Options
from .reducing import Anchor, reduce_case
from .study import Study, as_measurement, config_id
from .subject import Chosen, choose, criterion_for, nothing_found

LOWER_RUNGS = ("aot_eager", "aot_eager_decomp_partition")
# Graphs of up to this many nodes are searched whole before they are reduced; a probe of a larger one
# takes seconds, and its plain baseline a kernel for every node.
SEARCHED_WHOLE = 40
# Inputs of more elements make each probe slow by itself; they are cut down before the search.
MANY_ELEMENTS = 100_000
MOST_FIXES = 3  # tried in the repro; each takes two fresh processes
MOST_ANCHORS = 3  # each one costs a probe for every case that the reducer takes
FOUND, NOTHING, UNCONFIRMED = 0, 1, 3  # exit statuses

Progress = Callable[[str, str], None]  # (stage, what is being done or was found)


@dataclass
class Session:
    """One run: where it writes, what it was asked, and how it tells of its progress."""

    run: RunDirectory
    options: Options
    progress: Progress

    def __post_init__(self) -> None:
        if environment.compiler_path() is None:
            raise MissingTool("no C++ compiler: Inductor needs one on a CPU; install g++ or set CXX to yours")
        self.clock = Clock(self.options.budget_s)
        self.journal = Journal(self.run.journal)
        self.counts: Counter[str] = Counter()
        self.lab = self.new_lab("", {})

    def new_lab(self, name: str, hooks_off: Mapping[str, str]) -> Lab:
        """A lab with a worker of its own; a named one takes over what the first found of the hooks."""
        o = self.options
        load = {
            "target": o.target,
            "entry": o.entry,
            "dynamic": o.dynamic,
            "train": o.train,
            "device": o.device,
            "seed": o.seed,
        }
        worker = WorkerOptions(
            load, o.config, not name, hooks_off, o.memory_bytes, o.folder, str(self.run.log)
        )
        return Lab(worker, self.journal, o.jobs, o.timeout_s, self._answered, name)

    def _answered(self, request: Mapping[str, Any], answer: Mapping[str, Any], cached: bool) -> None:
        if request["job"] in ("probe", "verdict"):
            self.counts["cached" if cached else "run"] += 1
            self.progress("probe", "")

    def study(self, call: Mapping[str, Any]) -> Study:
        criterion = criterion_for(self.options, call)
        return Study(
            self.lab,
            call["index"],
            criterion,
            criterion,
            train=self.options.train,
            repeat=self.options.repeat,
            exhausted=self.clock.exhausted,
        )

    def close(self) -> None:
        self.lab.close()
        self.journal.close()

    # -- stages ---------------------------------------------------------------------------------------

    def begin(self) -> tuple[Chosen, Answer, str | None]:
        """The verdict, and why the run ends with it, or None when there is a divergence to work on."""
        self.progress("capture", f"running {self.options.target}")
        with self.clock.stage("capture"):
            hello = self.lab.hello()
            chosen = choose(self.lab, self.options, self.study)
        answer = Answer(
            target=self.options.target,
            run=self.run.path.name,
            environment=environment.describe(hello["machine"]),
            verdict=chosen.verdict,
            criterion=chosen.study.criterion,
            default=chosen.evidence.default,
            entry=chosen.call["entry"],
            seed=self.options.seed,
            settings=chosen.call["settings"],
            hooks_off=hello["hooks_off"],
            notes=chosen.notes,
        )
        end = nothing_found(chosen, hello["eager_disagrees"])
        if end is not None and chosen.verdict.kind is VerdictClass.AGREES and hello["eager_disagrees"]:
            answer.first_bad_backend = "eager"
        self.progress("verdict", f"{chosen.verdict.kind.value}: {chosen.verdict.reason}")
        return chosen, answer, end

    def rungs(self, study: Study, answer: Answer) -> dict[str, ProbeResult]:
        """All rungs are tried, since the ladder is not monotone; the agreeing ones below Inductor."""
        with self.clock.stage("localise"):
            results = study.probe_all([(Candidate(backend=name), WHOLE) for name in LOWER_RUNGS])
        named = dict(zip(LOWER_RUNGS, results, strict=True))
        failing = [name for name, r in named.items() if r.outcome is Outcome.FAIL]
        answer.first_bad_backend = failing[0] if failing else "inductor"
        self.progress("backends", f"first diverging backend: {answer.first_bad_backend}")
        agreeing = {name: r for name, r in named.items() if r.outcome is Outcome.PASS}
        eager = ProbeResult(Outcome.PASS, "eager is the baseline")
        return {**dict(reversed(agreeing.items())), "eager": eager}

    def flags(self, chosen: Chosen, answer: Answer) -> flagwalk.FlagWalk:
        """Walk the catalogue over the whole subject."""
        with self.clock.stage("fixes"):
            flags = flagwalk.catalogue()
            asked = {"job": "flags", "call": chosen.study.call, "names": [f.name for f in flags]}
            walk = flagwalk.walk(chosen.study, flags, self.lab.ask(asked), chosen.evidence.default)
        answer.walk = walk
        names = [t.flag.name for t in walk.fixes] or [" + ".join(s) for s in walk.sets]
        self.progress("flags", f"repair it: {', '.join(names) or 'none of those tried'}")
        return walk


def minimize(session: Session) -> dict[str, Any]:
    """The whole pipeline; returns the result dict."""
    chosen, answer, end = session.begin()
    if end is not None:
        return _finish(session, answer, _ended(chosen, answer, end))
    try:
        _work(session, chosen, answer)
    except BudgetSpent as spent:
        answer.stopped_because = spent.reason
    return _finish(session, answer, FOUND if answer.confirmed else UNCONFIRMED)


def _ended(chosen: Chosen, answer: Answer, end: str) -> int:
    if answer.first_bad_backend == "eager":
        answer.stopped_because = end
        return UNCONFIRMED
    return NOTHING if chosen.verdict.kind is VerdictClass.AGREES else UNCONFIRMED


def _work(session: Session, chosen: Chosen, answer: Answer) -> None:
    study, default = chosen.study, judge(chosen.evidence.default, chosen.study.criterion)
    below = session.rungs(study, answer)
    walk = session.flags(chosen, answer)
    case, decided = _decide_and_reduce(session, chosen, default, walk, answer)
    held = _confirm(session, chosen, case, decided, answer)
    candidates = [*fixes.from_flags(walk), *fixes.from_repairs(held)]
    if not candidates and answer.first_bad_backend != "inductor":
        answer.notes.append(
            f"{answer.first_bad_backend} diverges already, and no decision that numbisect knows repairs it"
        )
    answer.fixes = [(f, True) for f in fixes.ranked([*candidates, *fixes.from_backends(below)])]
    answer.minimal = study.describe(case)
    _repro(session, study, case, answer)


def _decide_and_reduce(
    session: Session, chosen: Chosen, default: ProbeResult, walk: flagwalk.FlagWalk, answer: Answer
) -> tuple[Case, Decided]:
    """A graph of few nodes is searched whole, and its repairs hold the reduction to the same bug; a large
    one is reduced first, held by what repairs it at the least cost."""
    study = chosen.study
    if chosen.call["nodes"] > SEARCHED_WHOLE:
        anchor = _anchor(session, study, default, walk, answer)
        case, small = _reduce(session, study, WHOLE, default, anchor, answer)
        return case, _decide(session, study, case, small, walk, answer)
    start, default = _fewer_elements(session, study, default, walk, answer)
    decided = _decide(session, study, start, default, walk, answer)
    repairs = [frozenset(r.members) for r in finest(decided.sets.repairs) if r.confirmed]
    anchor = (
        Anchor(tuple(repairs[:MOST_ANCHORS])) if repairs else _anchor(session, study, default, walk, answer)
    )
    case, _ = _reduce(session, study, start, default, anchor, answer)
    return case, decided


def _fewer_elements(
    session: Session, study: Study, default: ProbeResult, walk: flagwalk.FlagWalk, answer: Answer
) -> tuple[Case, ProbeResult]:
    """Cut millions of elements down before the search, if a flag holds the smaller case to the same bug."""
    elements = sum(n.numel for n in study.describe(WHOLE).inputs if n.is_tensor)
    anchor = _flag_anchor(walk)
    if elements <= MANY_ELEMENTS or anchor is None:
        return WHOLE, default
    return _reduce(session, study, WHOLE, default, anchor, answer, shrink_shapes)


def _flag_anchor(walk: flagwalk.FlagWalk) -> Anchor | None:
    if walk.fixes:
        return Anchor((frozenset({config_id(walk.fixes[0].flag.name)}),))
    if walk.sets:
        return Anchor((frozenset(config_id(name) for name in walk.sets[0]),))
    return None


def _anchor(
    session: Session, study: Study, default: ProbeResult, walk: flagwalk.FlagWalk, answer: Answer
) -> Anchor | None:
    """What must go on repairing smaller cases: a flag, a set of flags, or one repair by decisions."""
    if (anchor := _flag_anchor(walk)) is not None:
        return anchor
    with session.clock.stage("causes"):
        repair = one_repair(study, WHOLE, default)
    if repair is None:
        answer.notes.append("no flag and no set of decisions repairs the whole subject")
        return None
    session.progress("causes", f"denying {' + '.join(repair.members)} repairs it")
    return Anchor((frozenset(repair.members),))


def _reduce(
    session: Session,
    study: Study,
    start: Case,
    default: ProbeResult,
    anchor: Anchor | None,
    answer: Answer,
    passes: Callable[[Problem], None] = reduce,
) -> tuple[Case, ProbeResult]:
    with session.clock.stage("minimize"):
        reduced = reduce_case(study, start, default, anchor, passes)
    answer.stopped_because = reduced.stopped_because
    session.progress("minimize", _size(study.describe(reduced.case)))
    return reduced.case, reduced.default


def _size(info: GraphInfo) -> str:
    elements = sum(n.numel for n in info.inputs if n.is_tensor)
    return f"{len(info.calls)} calls on {elements} elements still diverge"


def _decide(
    session: Session, study: Study, case: Case, small: ProbeResult, walk: flagwalk.FlagWalk, answer: Answer
) -> Decided:
    with session.clock.stage("causes"):
        decided = decide(study, case, small, walk.necessary)
    answer.decisions = decided.decisions
    answer.places = decided.places
    answer.notes += decided.checks
    answer.stopped_because = answer.stopped_because or decided.sets.stopped_because
    session.progress("causes", f"{len(decided.sets.causes)} causes, {len(decided.sets.repairs)} repairs")
    return decided


def _confirm(
    session: Session, chosen: Chosen, case: Case, decided: Decided, answer: Answer
) -> list[tuple[MinimalSet, ProbeResult]]:
    """Ask a second worker; a set that does not hold there is not called confirmed."""
    study = chosen.study
    repairs, causes = finest(decided.sets.repairs), finest(decided.sets.causes)
    repairs += [MinimalSet((p,), Outcome.PASS, (Outcome.FAIL,)) for p in decided.places if not repairs]
    lab = session.new_lab("confirm", answer.hooks_off)
    try:
        with session.clock.stage("causes"):
            said = confirm(study, lab, chosen.call["digest"], case, repairs, causes, decided.config)
    finally:
        lab.close()
    if said.problem is not None:
        answer.notes.append(f"not confirmed in a second process: {said.problem}")
        answer.repairs = [Repair(r, False, 0.0) for r in repairs]
        answer.causes = [(c, False) for c in causes]
        return []
    held: list[tuple[MinimalSet, ProbeResult]] = []
    for repair, result in zip(repairs, said.results, strict=True):
        share = removed_fraction(chosen.evidence.default, result.measurement, study.criterion)
        holds = result.outcome is Outcome.PASS and said.default is Outcome.FAIL
        answer.repairs.append(Repair(repair, holds and repair.confirmed, share))
        if holds:  # a fix need not be minimal, a repair must be
            held.append((repair, result))
    answer.causes = [
        (cause, cause.confirmed and again is Outcome.FAIL)
        for cause, again in zip(causes, said.causes, strict=True)
    ]
    answer.confirmation = {
        "process": "a second worker that ran the script again",
        "default": said.default.value,
        "repairs": [o.value for o in said.repairs],
    }
    return held


def _repro(session: Session, study: Study, case: Case, answer: Answer) -> None:
    """The minimal case, or the whole one where the minimal case does not diverge in plain Python.

    `--fixed` is the best fix that plain torch can express; one that cannot be written, or that does not
    hold in a fresh process, makes way for the next.
    """
    expressible: list[fixes.Fix | None] = [f for f, _ in answer.fixes if f.plain is not None]
    with session.clock.stage("minimize"):
        for attempt in dict.fromkeys((case, WHOLE)):
            for fix in [*expressible[:MOST_FIXES], None]:
                tried = _try_repro(session, study, attempt, fix, answer)
                if tried is Tried.KEPT:
                    return
                if tried is Tried.OTHER_CASE:
                    break
    session.run.repro.unlink(missing_ok=True)


class Tried(enum.Enum):
    """What became of one repro: kept, or what could do better."""

    KEPT = "kept"
    OTHER_FIX = "another fix"
    OTHER_CASE = "another case"


def _try_repro(session: Session, study: Study, case: Case, fix: fixes.Fix | None, answer: Answer) -> Tried:
    """Write one repro and run it both ways."""
    seed = 0 if answer.settings.get("inductor.fallback_random") else None
    written = reproducing.write(
        study,
        case,
        fix.plain if fix else None,
        _header(answer, fix),
        seed,
        session.run.repro,
        session.options.timeout_s,
    )
    if isinstance(written, str):
        answer.notes.append(written)
        return Tried.OTHER_FIX
    if not written.diverges:
        answer.notes.append(f"a repro of this case does not diverge in plain Python ({written.said})")
        return Tried.OTHER_CASE
    if written.fixed is False:
        answer.notes.append(
            f"{fix and fix.id} does not repair the repro in a fresh process; it is not confirmed"
        )
        answer.fixes = [(f, c and f is not fix) for f, c in answer.fixes]
        return Tried.OTHER_FIX
    answer.repro = session.run.repro.name
    answer.repro_lines = len(written.function.strip().splitlines())
    answer.minimal_source = written.function
    said = "no fix that plain torch can express" if written.fixed is None else "--fixed agrees"
    session.progress("repro", f"{answer.repro} diverges; {said}")
    return Tried.KEPT


def _header(answer: Answer, fix: fixes.Fix | None) -> list[str]:
    lines = ["torch.compile differs from eager."]
    if answer.verdict is not None:
        lines.append(f"Verdict: {answer.verdict.kind.value}; {answer.verdict.reason}.")
    for found, confirmed in answer.causes:
        if confirmed:
            lines.append(f"Cause: {' together with '.join(found.members)}")
    for repair in answer.repairs:
        if repair.confirmed:
            lines.append(f"Denying {' and '.join(repair.found.members)} repairs it.")
    if fix is not None:
        lines.append(f"Fix (--fixed): {fix.id}")
    env = answer.environment
    lines.append(f"Seen with torch {env['torch']}, {env['cxx']}, {env['cpu']} ({env['isa']}).")
    return lines


def _finish(session: Session, answer: Answer, status: int) -> dict[str, Any]:
    counts = session.counts
    probes = {
        "total": counts["run"] + counts["cached"],
        "pass": counts["PASS"],
        "fail": counts["FAIL"],
        "unresolved": counts["UNRESOLVED"],
        "cached": counts["cached"],
    }
    return to_json(answer, status, probes, session.clock.to_json())


def check(session: Session) -> dict[str, Any]:
    """The verdict alone."""
    chosen, answer, _ = session.begin()
    outcome = judge(chosen.evidence.default, chosen.study.criterion).outcome
    kind = chosen.verdict.kind
    if kind is VerdictClass.NONDETERMINISTIC:
        outcome = Outcome.UNRESOLVED
    statuses = {Outcome.PASS: 0, Outcome.FAIL: 1, Outcome.UNRESOLVED: 125}
    if answer.first_bad_backend == "eager":
        outcome = Outcome.FAIL
    return _finish(session, answer, statuses[outcome])


def flags(session: Session) -> dict[str, Any]:
    """The flag walk alone."""
    chosen, answer, end = session.begin()
    if end is not None:
        return _finish(session, answer, _ended(chosen, answer, end))
    try:
        walk = session.flags(chosen, answer)
        answer.fixes = [(f, True) for f in fixes.ranked(fixes.from_flags(walk))]
    except BudgetSpent as spent:
        answer.stopped_because = spent.reason
    return _finish(session, answer, FOUND if answer.fixes else UNCONFIRMED)


__all__ = ["Session", "as_measurement", "check", "flags", "minimize"]
