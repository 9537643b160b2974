"""Journals of real runs, kept as test data: `python -m tests.replay.recording [CASE...]` makes them again.

A recording is the journal of `numbisect minimize` on a worked case, with what no replay needs left out, and
beside it the result that it led to. Where a recording is made again, the difference of the results is shown,
and the repro and the report of the run become those that are shipped with the case.
"""

from __future__ import annotations

import difflib
import json
import lzma
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bisector.runner import rundir
from bisector.session import environment, pipeline
from bisector.session.command_line import Options
from bisector.session.output import as_markdown
from bisector.session.run import Session

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("journals")
CASES = sorted(case.parent.name for case in (ROOT / "repros").glob("*/case.py"))
CHECKOUT = "{CHECKOUT}"  # stands for the folder of the checkout, which is another one elsewhere
NOISE = ("seconds", "run", "probes")  # of a result: other in each run, or counted by where an answer is from


@dataclass(frozen=True)
class Said:
    """One answer of a journal. asker: the name of the lab; job: what it asked."""

    key: str
    asker: str
    job: str
    answer: Any


@dataclass(frozen=True)
class Recording:
    """environment: of the machine that made it, as result.json has it. result: what the run led to."""

    environment: dict[str, Any]
    answers: tuple[Said, ...]
    result: dict[str, Any]


def options_of(case: str) -> Options:
    return Options(f"repros/{case}/case.py", jobs=2, folder=str(ROOT))


def told(result: dict[str, Any]) -> dict[str, Any]:
    """What a result says, without what differs from run to run."""
    return {name: value for name, value in result.items() if name not in NOISE}


def read(case: str) -> Recording:
    with lzma.open(FOLDER / f"{case}.jsonl.xz", "rt", encoding="utf-8") as file:
        lines = file.read()
    first, *rest = lines.replace(CHECKOUT, str(ROOT)).splitlines()
    result = (FOLDER / f"{case}.json").read_text(encoding="utf-8").replace(CHECKOUT, str(ROOT))
    return Recording(json.loads(first), tuple(Said(*json.loads(line)) for line in rest), json.loads(result))


def write(case: str, recording: Recording) -> list[str]:
    """Keep it; what differs in the result from what was kept before."""
    answers = [[r.key, r.asker, r.job, _without_times(r.answer)] for r in recording.answers]
    lines = [json.dumps(line) for line in [recording.environment, *answers]]
    text = "\n".join(lines).replace(str(ROOT), CHECKOUT)
    # A fixed preset: equal journals are equal files.
    with lzma.open(FOLDER / f"{case}.jsonl.xz", "wt", encoding="utf-8", preset=9) as file:
        file.write(text)
    path = FOLDER / f"{case}.json"
    before = path.read_text(encoding="utf-8") if path.exists() else ""
    after = (json.dumps(recording.result, indent=1, sort_keys=True) + "\n").replace(str(ROOT), CHECKOUT)
    path.write_text(after, encoding="utf-8")
    pair = before.splitlines(), after.splitlines()
    return list(difflib.unified_diff(*pair, "before", "now", lineterm="", n=1))


def _without_times(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: _without_times(value) for name, value in answer.items() if name != "seconds"}
    return [_without_times(value) for value in answer] if isinstance(answer, list) else answer


def record(case: str, folder: Path) -> Recording:
    """Run the case for real, and ship its repro and its report."""
    with _session(case, folder) as session:
        result = pipeline.minimize(session)
        machine = session.lab.hello().machine
        shutil.copyfile(session.run.repro, shipped(case, rundir.REPRO))
        shipped(case, "report.md").write_text(as_markdown(session.run, result), encoding="utf-8")
    lines = [json.loads(line) for line in (folder / "journal.jsonl").read_text().splitlines() if line]
    begun = [line for line in lines if line["event"] == "start"]
    asked = {line["key"]: (line["asker"], line["request"]["job"]) for line in begun}
    answers = tuple(
        Said(line["key"], *asked.get(line["key"], ("", "hello")), line["answer"])
        for line in lines
        if line["event"] == "done"
    )
    return Recording(environment.describe(machine), answers, told(result))


def shipped(case: str, name: str) -> Path:
    """A file beside a worked case."""
    return ROOT / "repros" / case / name


def replay(
    recording: Recording, case: str, folder: Path, change: Callable[[Said], Any] = lambda r: r.answer
) -> dict[str, Any]:
    """The result of a run whose answers are all there before it begins. change: another answer for some.

    Raises whatever the stand-in of a worker raises, where something is asked that was not recorded.
    """
    with _session(case, folder) as session:
        session.journal.answers.update((r.key, change(r)) for r in recording.answers)
        return pipeline.minimize(session)


@contextmanager
def _session(case: str, folder: Path) -> Iterator[Session]:
    before = os.getcwd()
    os.chdir(ROOT)
    folder.mkdir(exist_ok=True)
    session = Session(rundir.RunDirectory(folder), options_of(case), lambda stage, text: None)
    try:
        yield session
    finally:
        session.close()
        os.chdir(before)


def main(cases: list[str]) -> None:
    for case in cases or CASES:
        with tempfile.TemporaryDirectory() as folder:
            difference = write(case, record(case, Path(folder)))
        print(f"{case}: {'the same result' if not difference else 'another result'}")
        print("\n".join(difference), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
