"""`numbisect triage`, between the parsed command line and the jobs."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from bisector import wire
from bisector.core.endings import Ending
from bisector.core.options import Options
from bisector.core.outcome import Outcome
from bisector.core.own_folders import PAGE, TRIAGE_OPTIONS
from bisector.core.progress import Progress, Step
from bisector.errors import INTERRUPTED, BadOption, BadTarget
from bisector.explain import environment
from bisector.explain.run import Clock
from bisector.explain.triage.driver import LocalPool, Pool, Triage, job_command, now
from bisector.explain.triage.failure import Cluster, Looked, clustered
from bisector.explain.triage.on_ray import RayPool
from bisector.explain.triage.store import Store
from bisector.report import endings
from bisector.report import triage as report
from bisector.report.progress import words
from bisector.report.rendered import printable
from bisector.runner.head import head_of
from bisector.subject.targets import Skipped, found

from .command_line import parse_options
from .display import Display, to_stdout
from .output import write_json

FOUND, NOTHING, UNCONFIRMED = 0, 1, 3  # exit statuses
WATCHED_EVERY_S = 2.0
MOST_OF_NAME = 80  # characters of a cluster's folder
SUMMARY = "triage.json"
FOLDER = "numbisect-triage"  # of a triage that is given no other


def triage(paths: Sequence[str], given: Mapping[str, Any]) -> int:
    """`numbisect triage PATH...`; returns the exit status."""
    if given["call"] is not None:
        raise BadOption("--call names the compiled call of one target; triage takes the one that diverges")
    if given["entry"] is not None:
        raise BadOption("--entry names the compiled call of one target; triage takes the one that diverges")
    return work(paths, parse_options("minimize", "", given), {**given, "out": given["out"] or FOLDER})


def work(paths: Sequence[str], asked: Options, given: Mapping[str, Any]) -> int:
    """Begins or goes on with the triage of a folder; returns the exit status."""
    with Display(given["quiet"], given["verbose"], given["no_color"], asked.budget_s) as display:

        def progress(stage: str, step: Step) -> None:
            display.tell(stage, printable(words(step)))  # it names files of others

        try:
            summary = run(paths, asked, given, progress)
        except KeyboardInterrupt:
            display.say(f"interrupted; go on with: numbisect resume {given['out']}")
            return INTERRUPTED
    if given["json_path"] is not None:
        write_json(given["json_path"], summary)
    if given["json_path"] != "-":
        to_stdout(report.text(summary))
    return int(summary["exit_status"])


def run(
    paths: Sequence[str], options: Options, given: Mapping[str, Any], progress: Progress
) -> dict[str, Any]:
    """The triage of the paths; returns what triage.json holds."""
    watched = [Path(path) for path in given["watch"]]
    named = [*map(Path, paths), *watched]
    if not named:
        raise BadTarget("nothing to triage; name files or folders, or a folder to --watch")
    for path in named:
        if not path.exists() and not path.is_symlink():
            raise BadTarget(f"{path}: no such file or folder; name what the fuzzer wrote")
    asked = {"paths": [str(path.resolve()) for path in named], "options": wire.dump_command(options)}
    folder = Path(given["out"])
    if given["again"]:
        Store(folder.resolve()).start_over()
    head = head_of(None, options.shaping(), environment.compiler())
    store = Store.opened(folder, asked, head)
    clock = Clock(options.budget_s)
    pool, lanes = _pool(given["ray"], given["jobs"])
    driver = Triage(store, pool, replace(options, jobs=lanes), progress, clock)
    try:
        with clock.stage("causes"):
            while True:
                skipped, stopped = _once(driver, named, options.trust)
                summary = write(store, skipped, stopped)
                if not watched or clock.exhausted() is not None:
                    return summary
                time.sleep(WATCHED_EVERY_S)
    finally:
        pool.close()


def _pool(ray: str | None, jobs: int | None) -> tuple[Pool, int]:
    """Where jobs run, and how many probes each may run at a time."""
    if ray is not None:
        return RayPool(ray), 1
    cores = len(os.sched_getaffinity(0))
    width = jobs or cores
    return LocalPool(width, job_command), max(1, cores // width)


def _once(driver: Triage, named: Sequence[Path], trusted: bool) -> tuple[list[Skipped], Ending | None]:
    """One look at the paths: only what is new is worked on."""
    known, skipped = driver.store.known(), []
    for one in found(named, trusted):
        if isinstance(one, Skipped):
            skipped.append(one)
        elif one.id not in known:
            known[one.id] = driver.store.begin(one, now())
    waiting = [one for one in known.values() if not one.explained and one.outcome is not Outcome.PASS]
    return skipped, driver.work(waiting)


def write(store: Store, skipped: Sequence[Skipped], stopped: Ending | None) -> dict[str, Any]:
    """The summary of a store as files; returns what triage.json holds."""
    failures = list(store.known().values())
    clusters = clustered(failures)
    names = folder_names([cluster.cause.key for cluster in clusters])
    for cluster, name in zip(clusters, names, strict=True):
        _fill_folder(store, cluster, name)
    summary = report.summary(
        clusters=[_cluster(cluster, name) for cluster, name in zip(clusters, names, strict=True)],
        failures=[one.to_json() | {"key": one.cause.key if one.cause else None} for one in failures],
        skipped=[{"path": str(one.path), "reason": one.reason} for one in skipped],
        stopped=None if stopped is None else endings.words(stopped),
        status=_status(failures, stopped),
    )
    store.write(store.path / SUMMARY, summary)
    store.write_text(store.path / "triage.md", report.markdown(summary))
    store.write_text(store.path / "triage.html", report.html(summary))
    return summary


def _status(failures: Sequence[Looked], stopped: Ending | None) -> int:
    diverging = [one for one in failures if one.outcome is Outcome.FAIL]
    if stopped is not None or any(one.cause is None for one in diverging):
        return UNCONFIRMED
    return FOUND if diverging else NOTHING


def _cluster(cluster: Cluster, name: str) -> dict[str, Any]:
    shown = cluster.representative
    return {
        "name": name,
        "key": cluster.cause.key,
        "cause": cluster.cause.to_json(),
        "size": len(cluster.members),
        "first_seen": cluster.members[0].first_seen,
        "verdicts": cluster.verdicts,
        "reason": shown.reason,
        "fix": cluster.fix,
        "representative": shown.target,
        "repro": f"clusters/{name}/repro.py" if shown.repro else None,
        "report": f"clusters/{name}/{PAGE}" if shown.repro else None,
        "members": [one.id for one in cluster.members],
    }


def folder_names(keys: Sequence[str]) -> list[str]:
    """A folder's name for the cause of each cluster. Causes that have one name once they are cut, and cleaned
    of what a file system may refuse, are distinguished by a digest of the whole cause."""
    readable = [re.sub(r"[^\w.]+", "-", key)[:MOST_OF_NAME].strip("-.") for key in keys]
    # Some file systems take names that differ in upper and lower case for one.
    counts = Counter(name.lower() for name in readable)
    digests = [hashlib.sha256(key.encode()).hexdigest()[:8] for key in keys]
    return [
        name if name and counts[name.lower()] == 1 else f"{name}-{digest}"
        for name, digest in zip(readable, digests, strict=True)
    ]


def _fill_folder(store: Store, cluster: Cluster, name: str) -> None:
    """Puts the representative's repro and report, and the list of members, into the cluster's folder."""
    folder = store.clusters / name
    folder.mkdir(parents=True, exist_ok=True)
    shown = cluster.representative
    if shown.repro is not None:
        repro = store.failures / shown.repro
        for file in (repro, *(repro.with_name(name) for name in ("report.md", PAGE))):
            if file.is_file():
                shutil.copyfile(file, folder / file.name)
    store.write(folder / "members.json", [one.target for one in cluster.members])


def summary_of(path: str) -> dict[str, Any]:
    """What triage.json holds. Raises BadTarget where it is not written yet."""
    summary = Path(path) / SUMMARY
    if not summary.is_file():
        raise BadTarget(f"{path}: the triage has no summary yet; go on with `numbisect resume {path}`")
    read: dict[str, Any] = json.loads(summary.read_text())
    return read


def reopened(path: str, budget_s: float | None) -> tuple[list[str], Options]:
    """What an earlier triage was asked: its paths, and the options of one failure."""
    raw = json.loads((Path(path) / TRIAGE_OPTIONS).read_text())
    return raw["paths"], wire.load(Options, {**raw["options"], "budget_s": budget_s})
