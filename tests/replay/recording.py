"""Commands that were run once for real, and are run again from their journals: no worker, compiler or script.

A recording holds what a command was told by its workers and by its runs of the script, by question, and the
results that it led to. A replay is the same command in this process: it fails where it asks what was not
recorded, and where something that was recorded is not asked any more. The recording is then out of date, and
`just record NAME` makes it again.

Recordings are made under AVX2 with two threads, so that any x86-64 machine of today makes the same.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from bisector import processes
from bisector.core.protocol import TimeSlowdown
from bisector.explain import environment, run
from bisector.runner import lab
from bisector.runner.journal import Journal
from bisector.runner.rundir import WITHIN
from tests.command import numbisect

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).with_name("journals")
RUN = "run"  # the run directory, in the working folder
# Of a result: other in each run, and in each version of ours.
NOISE = ("seconds", "run", "probes.cached", "environment.numbisect")
# What decides about bits on a CPU: eager's kernels and Inductor's vectors, g++, the libraries, the threads.
PINNED = {
    "ATEN_CPU_CAPABILITY": "avx2",
    "TORCHINDUCTOR_CPP_MARCH": "haswell",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "NPY_DISABLE_CPU_FEATURES": "X86_V4 AVX512_ICL AVX512_SPR",
    "OMP_NUM_THREADS": "2",
    "PYTHONHASHSEED": "0",
}
JOBS = "2"
# What is no part of an answer, and is another one on each machine.
ENVIRONMENT = {"cpu": "x86-64", "os": "Linux", "python": "3", "cxx": "g++", "triton": None}
CHECKOUT = "{CHECKOUT}"  # stands in a file for the folder of the checkout
WORK = "/folder-of-the-command"  # stands for the folder that a command worked in


@dataclass(frozen=True)
class Asked:
    """A command line without --out. files: the text of what lies in its working folder, which is an empty
    one; without files it works in the checkout."""

    arguments: tuple[str, ...]
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Told:
    """One answer. run: the folder within the run directory, "" for the first. asker: the name of the lab;
    job: what it asked."""

    run: str
    key: str
    asker: str
    job: str
    answer: Any


@dataclass(frozen=True)
class Recording:
    """results: what the command left, by folder within the run directory."""

    answers: tuple[Told, ...]
    status: int
    results: Mapping[str, dict[str, Any]]

    @property
    def result(self) -> dict[str, Any]:
        return self.results[""]


@dataclass(frozen=True)
class Ended:
    """How a command ended that was run in this process. run: its run directory."""

    status: int
    printed: str
    complained: str
    run: Path

    @property
    def result(self) -> dict[str, Any]:
        return self.results()[""]

    def results(self) -> dict[str, dict[str, Any]]:
        """By folder within the run directory; raises AssertionError where there is none."""
        found = sorted(self.run.rglob("result.json"))
        assert found, self.complained
        return {_within(self.run, path.parent): self._result(path) for path in found}

    def _result(self, path: Path) -> dict[str, Any]:
        return without_noise(json.loads(path.read_text().replace(str(self.run.parent), WORK)))


def without_noise(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a result says, without what differs from run to run."""

    def kept(path: str, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        paths = {name: f"{path}{name}" for name in value}
        return {n: kept(f"{p}.", value[n]) for n, p in paths.items() if p not in NOISE}

    found: dict[str, Any] = kept("", result)
    return found


def confirmed(sets: Sequence[Mapping[str, Any]]) -> list[list[str]]:
    """The decisions of causes or repairs of a result, of the confirmed ones."""
    return [one["decisions"] for one in sets if one["confirmed"]]


def _within(run: Path, folder: Path) -> str:
    return "" if folder == run else folder.name


def _run_of(folder: Path) -> str:
    """The same, of a folder by its name."""
    return folder.name if folder.name.startswith(WITHIN) else ""


# -- files ------------------------------------------------------------------------------------------------


def read(name: str) -> Recording:
    with lzma.open(FOLDER / f"{name}.xz", "rt", encoding="utf-8") as file:
        text = file.read()
    first, *rest = map(json.loads, text.replace(CHECKOUT, str(ROOT)).splitlines())
    return Recording(tuple(Told(*line) for line in rest), **first)


def text_of(recording: Recording) -> str:
    """Equal for equal recordings: the order of answers is that of their questions."""
    first = {"status": recording.status, "results": recording.results}
    told = sorted(recording.answers, key=lambda one: (one.run, one.asker, one.job, one.key))
    lines = [json.dumps(first, sort_keys=True)]
    lines += [json.dumps([one.run, one.key, one.asker, one.job, one.answer], sort_keys=True) for one in told]
    return ("\n".join(lines) + "\n").replace(str(ROOT), CHECKOUT)


def write(name: str, recording: Recording) -> None:
    with lzma.open(FOLDER / f"{name}.xz", "wt", encoding="utf-8", preset=9) as file:
        file.write(text_of(recording))


# -- the command in this process --------------------------------------------------------------------------


def ran(asked: Asked, folder: Path) -> Ended:
    """Run the command in this process. folder: for what it writes, and for its files."""
    folder.mkdir(exist_ok=True)
    for name, text in asked.files.items():
        (folder / name).write_text(text)
    out = ("--out", folder / RUN, "--jobs", JOBS)
    done = numbisect(*asked.arguments, *out, folder=folder if asked.files else ROOT)
    return Ended(done.returncode, done.stdout, done.stderr, folder / RUN)


def described(machine: Any) -> dict[str, Any]:
    return _describe(machine) | ENVIRONMENT


_describe = environment.describe


# -- recording --------------------------------------------------------------------------------------------


class Recorder(Journal):
    """A journal that keeps who asked what, and no times: what was found may not hang on them. known: what it
    begins with."""

    made: list[Recorder]
    known: tuple[Told, ...]

    def __init__(self, path: Path, *given: Any) -> None:
        self.asked: dict[str, tuple[str, str]] = {}
        super().__init__(path, *given)
        for one in self.known:
            if one.run == _run_of(path.parent):
                work = path.parent.parent.parent if one.run else path.parent.parent
                self.answers[one.key] = json.loads(json.dumps(one.answer).replace(WORK, str(work)))
                self.asked[one.key] = one.asker, one.job
        self.made.append(self)

    def started(self, key: str, request: Any, asker: str = "") -> None:
        self.asked[key] = (asker, request["job"])
        super().started(key, request, asker)

    def done(self, key: str, answer: Any) -> None:
        _, job = self.asked.get(key, ("", ""))
        super().done(key, _without_times(answer, job))

    def told(self, run: Path) -> Iterator[Told]:
        for key, answer in self.answers.items():
            text = json.dumps(answer).replace(str(run.parent), WORK)
            asked = self.asked.get(key, ("", "hello"))
            yield Told(_within(run, self.path.parent), key, *asked, json.loads(text))


def _without_times(answer: Any, job: str) -> Any:
    if job == TimeSlowdown.job and isinstance(answer, dict) and "ratios" in answer:
        return answer | {"ratios": [1.0 for _ in answer["ratios"]]}
    if isinstance(answer, dict):
        return {name: _without_times(value, "") for name, value in answer.items() if name != "seconds"}
    return [_without_times(value, "") for value in answer] if isinstance(answer, list) else answer


def record(asked: Asked, folder: Path, known: tuple[Told, ...] = ()) -> tuple[Recording, Ended]:
    """Run the command for real, in the environment that every recording is made in. known: answers that are
    taken as they are; whatever else is asked is run."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [n for n in os.environ if n.startswith(("TORCH", "OMP", "MKL", "ATEN", "CXX"))]:
            if not name.endswith("CACHE_DIR"):
                patch.delenv(name)
        for name, value in PINNED.items():
            patch.setenv(name, value)
        patch.setattr(Recorder, "made", [], raising=False)
        patch.setattr(Recorder, "known", known, raising=False)
        patch.setattr(run, "Journal", Recorder)
        patch.setattr(environment, "describe", described)
        ended = ran(asked, folder)
        told = [one for journal in Recorder.made for one in journal.told(ended.run)]
    recording, _ = settled(asked, tuple(told), folder.with_name(f"{folder.name}-again"))
    then, now = (json.dumps(_without_counts(found)) for found in (ended.results(), recording.results))
    assert then == now, "a replay of what was just recorded ends otherwise"
    return recording, ended


def _without_counts(results: Mapping[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """A replay asks nothing ahead, so it has fewer probes."""
    return [{name: value for name, value in r.items() if name != "probes"} for r in results.values()]


def settled(asked: Asked, answers: tuple[Told, ...], folder: Path) -> tuple[Recording, Ended]:
    """What comes of these answers, without those that were asked ahead and are not wanted once all are there.
    Raises OutOfDate where one is missing."""
    ended, left = Replay(answers).ran(asked, folder)
    wanted = tuple(one for one in answers if one not in left)
    return Recording(wanted, ended.status, ended.results()), ended


# -- replaying --------------------------------------------------------------------------------------------


NOT_RECORDED = "the recording has no answer to"
AGAIN = "`just record NAME` makes the recording again"


class NoWorker:
    """Stands where a worker would be started."""

    def __init__(self, options: Any, spare: Any = None) -> None:
        raise OutOfDate(f"{NOT_RECORDED} a question of a worker; {AGAIN}")


def no_process(command: Sequence[str], **given: Any) -> Any:
    raise OutOfDate(f"{NOT_RECORDED} what {command[0]} would say; {AGAIN}")


class Answers(dict[str, Any]):
    """Answers that note which of them are looked at, or for."""

    def __init__(self, known: Mapping[str, Any]) -> None:
        super().__init__(known)
        self.used: set[str] = set()

    def __getitem__(self, key: str) -> Any:
        self.used.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        found = super().__contains__(key)
        if found:
            self.used.add(str(key))
        return found


@dataclass
class Replay:
    """Stand-ins for all that a command asks. worker: what stands where a worker would. change: another answer
    for some."""

    answers: tuple[Told, ...]
    worker: type = NoWorker
    change: Callable[[Told], Any] = lambda told: told.answer
    journals: dict[str, Answers] = field(default_factory=dict)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Where this holds, a command gets its answers from the recording."""
        outer = self

        class Known(Journal):
            def __init__(self, path: Path, *given: Any) -> None:
                super().__init__(path, *given)
                self.answers = outer._answers(path.parent)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(run, "Journal", Known)
            patch.setattr(lab, "Worker", self.worker)
            patch.setattr(processes, "start", no_process)
            patch.setattr(environment, "describe", described)
            patch.setattr(environment, "compiler", lambda name=None: "g++")
            patch.setattr(environment, "check_compiler", lambda: None)
            yield

    def _answers(self, folder: Path) -> Answers:
        name = _run_of(folder)
        known = {one.key: self.change(one) for one in self.answers if one.run == name}
        return self.journals.setdefault(name, Answers(known))

    def ran(self, asked: Asked, folder: Path) -> tuple[Ended, list[Told]]:
        """How the command ends, and the answers that it does not want. Raises OutOfDate where one is missing.
        """
        with self.installed():
            ended = ran(asked, folder)
        if NOT_RECORDED in ended.complained:
            raise OutOfDate(ended.complained)
        used = {(run, key) for run, journal in self.journals.items() for key in journal.used}
        return ended, [one for one in self.answers if (one.run, one.key) not in used]


class OutOfDate(AssertionError):
    """The command asks other questions than were recorded."""


def replayed(asked: Asked, recording: Recording, folder: Path) -> Ended:
    """The command from a recording. Raises OutOfDate."""
    ended, left = Replay(recording.answers).ran(asked, folder)
    if left:
        raise OutOfDate(f"{len(left)} recorded answers are not asked any more, such as {left[0]}; {AGAIN}")
    return ended
