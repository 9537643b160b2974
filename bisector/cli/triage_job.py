"""One look at one failure, in a process of its own: `python -m bisector.cli.triage_job REQUEST`. A
failure whose cause is known costs two probes, any other is explained.

The request is a file of a store, and so is what it leaves: the process may run on any machine that has them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bisector import wire
from bisector.core.case import WHOLE
from bisector.core.clusters import Cause, pattern
from bisector.core.decision import DecisionId
from bisector.core.model import Candidate, Measurement
from bisector.core.options import Options
from bisector.core.outcome import OF_STATUS, Outcome
from bisector.errors import AnotherHead, NumbisectError
from bisector.report.result import to_json
from bisector.runner.rundir import RunDirectory
from bisector.session import pipeline
from bisector.session.run import Session
from bisector.session.search_order import PLACE
from bisector.session.study import Study
from bisector.session.triage.failure import Looked, probes_run, signature
from bisector.session.triage.store import RUN

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
            looked = _judged(looked, to_json(found), default)
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
        return Session(run, options, _say)
    except AnotherHead:
        run.start_over()
        return Session(run, options, _say)


def _say(stage: str, text: str) -> None:
    print(f"{stage}: {text}", flush=True)


def _judged(looked: Looked, result: Mapping[str, Any], default: Measurement) -> Looked:
    verdict = result["verdict"]
    return replace(
        looked,
        outcome=OF_STATUS[result["exit_status"]],
        verdict=verdict["class"],
        reason=verdict["reason"],
        signature=signature(result),
        patterns=tuple(sorted({pattern(decision.id) for decision in default.decisions})),
        probes=probes_run(result),
        seconds=result["seconds"]["total"],
    )


def _explained(looked: Looked, session: Session, known: Sequence[Cause]) -> Looked:
    found, member = pipeline.explain(session, lambda study, default: belongs_to(study, default, known))
    result = to_json(found)
    session.run.write_json(session.run.result, result)
    stopped = session.clock.exhausted()
    if stopped is not None and result["stopped_because"] == stopped:
        return looked.cut_short(result)
    if member is None:
        write_reports(session.run, result)
    return looked.after(result, f"{looked.id}/{RUN}", member)


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
