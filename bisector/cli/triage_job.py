"""One look at one failure, in a process of its own: `python -m bisector.cli.triage_job REQUEST`. A
failure whose cause is known costs two probes, any other is explained.

The request is a file of a store, and so is what it leaves: the process may run on any machine that has them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from bisector import wire
from bisector.core.answer import Answer, Result
from bisector.core.case import WHOLE
from bisector.core.clusters import Cause, cause_of, pattern
from bisector.core.cost import Probes
from bisector.core.decision import DecisionId
from bisector.core.endings import Ending
from bisector.core.model import Candidate, Measurement
from bisector.core.options import Options
from bisector.core.outcome import OF_STATUS, Outcome
from bisector.core.progress import Step
from bisector.errors import AnotherHead, NumbisectError
from bisector.explain import pipeline
from bisector.explain.run import Session
from bisector.explain.search_order import PLACE
from bisector.explain.study import Study
from bisector.explain.triage.failure import Looked
from bisector.explain.triage.store import RUN
from bisector.report import progress
from bisector.report.document_json import to_json
from bisector.report.reasons import words
from bisector.report.result import document_of
from bisector.runner.rundir import RunDirectory

from .output import write_reports


def main(request: Path) -> None:
    """Writes the failure's file anew, whole or not at all."""
    raw = json.loads(request.read_text(encoding="utf-8"))
    folder, looked = request.parent, Looked.from_json(raw["looked"])
    run = RunDirectory(folder / RUN)  # one for all looks at a failure: what was asked is not asked again
    run.path.mkdir(exist_ok=True)
    options = wire.load(Options, raw["options"])
    session = _session(run, options)
    try:
        if options.command == "check":
            found, default = pipeline.judged(session)
            looked = _judged(looked, found, default)
        else:
            looked = _explained(looked, session, [Cause.from_json(known) for known in raw["known"]])
    except NumbisectError as error:
        looked = _cannot_tell(looked, str(error))
    finally:
        session.close()
    run.write_json(folder / "failure.json", looked.to_json())


def _session(run: RunDirectory, options: Options) -> Session:
    """With what earlier looks asked, unless they were made elsewhere: on another machine of a cluster, or
    before a file next to the target was edited."""
    try:
        return Session(run, options, _say, words)
    except AnotherHead:
        run.start_over()
        return Session(run, options, _say, words)


def _say(stage: str, step: Step) -> None:
    print(f"{stage}: {progress.words(step)}", flush=True)


def _judged(looked: Looked, result: Result, default: Measurement) -> Looked:
    verdict = result.answer.classified
    return replace(
        looked,
        outcome=OF_STATUS[result.status],
        verdict=verdict.kind.value,
        reason=words(verdict.reason),
        signature=_signature(result.answer),
        patterns=tuple(sorted({pattern(decision.id) for decision in default.decisions})),
        probes=_run(result.probes),
        seconds=result.seconds.total,
    )


def _explained(looked: Looked, session: Session, known: Sequence[Cause]) -> Looked:
    result, member = pipeline.explain(session, lambda study, default: belongs_to(study, default, known))
    document = document_of(result)
    session.run.write_json(session.run.result, to_json(document))
    stopped = session.clock.exhausted()
    if stopped is not None and result.answer.stopped_because == stopped:
        # What it found so far makes no cluster; the next look, which goes on with its journal, may find more.
        return replace(_charged(looked, result), problem="the budget ended its run")
    if member is None:
        write_reports(session.run, document)
    return _after(_charged(looked, result), result.answer, member)


def _charged(looked: Looked, result: Result) -> Looked:
    """With what this look cost beside the earlier ones."""
    seconds = round(looked.seconds + result.seconds.total, 2)
    return replace(looked, probes=looked.probes + _run(result.probes), seconds=seconds)


def _run(probes: Probes) -> int:
    """Those that were not answered by an earlier look."""
    return probes.total - probes.cached


def _signature(answer: Answer) -> str:
    """Of a verdict: its class, and in what the outputs differ."""
    kinds = set()
    for output in answer.outputs:
        if output.n_diff:
            kind = "non-finite" if output.nonfinite_mismatches else "value"
            kinds.add(f"{kind} of {output.dtype}")
    return "; ".join([answer.classified.kind.value, *sorted(kinds)])


def _after(looked: Looked, answer: Answer, known: Cause | None) -> Looked:
    """With what a run found. known: the cluster that it belongs to."""
    flags = [fix for fix, confirmed in answer.fixes if confirmed and fix.kind == "flag" and fix.values]
    cause = known or cause_of(
        [repair.found.members for repair in answer.repairs if repair.confirmed],
        [found.members for found, confirmed in answer.causes if confirmed],
        [fix.values or {} for fix in flags],
    )
    run = f"{looked.id}/{RUN}"
    return replace(
        looked,
        cause=cause,
        known=known is not None,
        explained=True,
        verdict=answer.classified.kind.value,
        reason=words(answer.classified.reason),
        run=run,
        repro=answer.repro and f"{run}/{answer.repro}",
        n_ops=answer.minimal.n_ops if answer.minimal is not None else None,
        fix=flags[0].id if flags else None,
        problem=None if cause else _why_no_cause(answer.stopped_because),
    )


def _why_no_cause(stopped: Ending | None) -> str:
    return "no cause was confirmed" if stopped is None else words(stopped)


def _cannot_tell(looked: Looked, problem: str) -> Looked:
    return replace(looked, outcome=Outcome.UNRESOLVED, problem=problem, explained=True)


def belongs_to(study: Study, default: Measurement, known: Sequence[Cause]) -> Cause | None:
    """The first known cause that is confirmed here: without its decisions the outputs agree, and with these
    alone, over the plain baseline, they diverge. default: the default compile, with its decisions."""
    decisions = [d.id for d in default.decisions if d.kind not in study.hooks_off]
    return next((cause for cause in known if _confirmed(study, decisions, cause)), None)


def _confirmed(study: Study, decisions: Sequence[DecisionId], cause: Cause) -> bool:
    if not cause.repair and not cause.cause:
        fixed = study.probe(Candidate.with_flags(dict(cause.flags)))
        return fixed.outcome is Outcome.PASS
    asked = []
    if cause.repair:
        if not (denied := cause.denied(decisions)):
            return False
        asked.append((study.deny(denied), Outcome.PASS))
    if cause.cause:
        if not (enabled := cause.enabled(decisions)):
            return False
        formulas = [d for d in enabled if d.kind == PLACE]  # on in the plain baseline, as it is
        asked.append((study.plain(enabled, formulas), Outcome.FAIL))
    # One after the other: most known causes are refuted by the first.
    return all(study.probe(candidate, WHOLE).outcome is wanted for candidate, wanted in asked)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
