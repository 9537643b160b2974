"""Faults at three moments of a run, what numbisect says of each, and whether `resume` then gives the answer.

    python -m tests.faults.table [--only TEXT] [--moment MOMENT] [--part N/M] [--out FILE] [--ground FOLDER]

Prints a line for each: fault, moment, exit status, first line of stderr that is no progress, what `resume`
gave. Takes half a minute for each; needs root for the disks that are full.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.faults.inject import CAPTURE, FAULTS, MOMENTS, SCRIPTS, SEARCH, STRUCK
from tests.faults.waiting import runs, until

SCRIPT = """\
import os

misbehaves = os.environ.get("MISBEHAVES")
if misbehaves == "the script loops":
    while True:
        pass
elif misbehaves == "the script sleeps":
    import time
    time.sleep(600)
elif misbehaves == "the script holds the GIL":
    import re
    re.match(r"(a+)+$", "a" * 60 + "b")
elif misbehaves == "the script ends its process":
    os._exit(0)
elif misbehaves == "the script is killed":
    os.kill(os.getpid(), 9)
elif misbehaves == "the script deletes its folder":
    import shutil
    shutil.rmtree(os.path.dirname(os.path.abspath(__file__)))
elif misbehaves == "the script changes directory":
    os.chdir("/")
elif misbehaves == "the script closes all files":
    os.closerange(3, 4096)
elif misbehaves == "the script kills its parent":
    os.kill(os.getppid(), 9)
elif misbehaves == "the script raises":
    raise ValueError("before anything is compiled")
elif misbehaves == "the script writes on every file":
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, b"junk\\n")
        except OSError:
            pass
elif misbehaves == "the script leaves a process behind":
    import subprocess
    subprocess.Popen(["sleep", "600"], start_new_session=True)

import torch


def through_half(x):
    return x.half().float() + 1


torch.compile(through_half)(torch.arange(20.0) / 7)
"""
OPTIONS = ["--timeout", "20", "-q"]
MOST_S = 300.0  # no run takes that long
FREE = ("seconds", "probes", "run")  # what may differ between equal answers
LEFT_OUT = 6  # answers to probes that a run which is in the middle of its search lacks
ANSWERS = {"check": 1, "minimize": 0}  # exit statuses of the subject's true answer


@dataclass(frozen=True)
class Row:
    fault: str
    moment: str
    status: int
    said: str
    resumed: str
    fair: bool  # 0 and 1 were given with the true answer alone

    def __str__(self) -> str:
        mark = "  " if self.fair else "!!"
        return f"{mark} {self.fault:38} {self.moment:8} {self.status:4}  {self.resumed:24} {self.said[:150]}"


class NotStruck(Exception):
    """The fault was never done, so nothing is shown of it."""


class Ground:
    """The subject, and its runs without a fault: what is cut out of them is where a fault strikes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.script = folder / "case" / "case.py"
        self.script.parent.mkdir(exist_ok=True)
        self.script.write_text(SCRIPT)

    def whole(self, command: str) -> Path:
        """The run of this command, made where it is not there."""
        run = self.folder / command
        if not (run / "result.json").exists():
            arguments = [command, str(self.script), "--out", str(run), *OPTIONS]
            done = python("-m", "bisector", *arguments, folder=self.folder)
            assert done.returncode == ANSWERS[command], done.stderr
        return run

    def answer(self, command: str) -> dict[str, Any]:
        return self.given(self.whole(command))

    def given(self, run: Path) -> dict[str, Any]:
        """The answer of a run, if it has one; files are named from the folder that the run was made in."""
        with contextlib.suppress(OSError):
            text = (run / "result.json").read_text().replace(f"{self.folder}/", "")
            return {name: value for name, value in json.loads(text).items() if name not in FREE}
        return {}

    def cut(self, moment: str, run: Path) -> None:
        """A copy of the run, as it was in the middle of its search, or before its repro was written."""
        shutil.copytree(self.whole("minimize"), run, dirs_exist_ok=True)
        for name in ("result.json", "report.md", "repro.py"):
            (run / name).unlink()
        journal = run / "journal.jsonl"
        records = [json.loads(line) for line in journal.read_text().splitlines() if line.strip()]
        begun = [(r["key"], r["request"]["job"]) for r in records if r["event"] == "start"]
        if moment == SEARCH:
            probes = [key for key, job in begun if job == "probe"]
            left_out = set(probes[len(probes) // 3 :][:LEFT_OUT])
        else:
            left_out = {key for key, job in begun if job in ("repro", "plain")}
        kept = [r for r in records if r.get("key") not in left_out]
        journal.write_text("".join(json.dumps(r) + "\n" for r in kept))


# -- what is wrong before the run begins -------------------------------------------------------------------


def _compiler(body: str) -> Callable[[Path], dict[str, str]]:
    """A g++ that says its version and does nothing else right."""

    def made(folder: Path) -> dict[str, str]:
        path = folder / "bin" / "g++"
        path.parent.mkdir()
        real = shutil.which("g++")
        path.write_text(f'#!/bin/sh\n[ "$1" = --version ] && exec {real} "$@"\n{body}\n')
        path.chmod(0o755)
        return {"PATH": f"{path.parent}:{os.environ['PATH']}"}

    return made


def _no_compiler(folder: Path) -> dict[str, str]:
    """A PATH with git alone, without which GitPython cannot be imported."""
    (folder / "bin").mkdir()
    (folder / "bin" / "git").symlink_to(shutil.which("git") or "/usr/bin/git")
    return {"PATH": str(folder / "bin")}


def _full_disk(variable: str) -> Callable[[Path], dict[str, str]]:
    def made(folder: Path) -> dict[str, str]:
        return {variable: str(_mounted(folder / "full", 64))}

    return made


def _mounted(folder: Path, kib: int) -> Path:
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={kib}k", "tmpfs", str(folder)], check=True)
    return folder


ENVIRONMENTS: dict[str, Callable[[Path], dict[str, str]]] = {
    "no C++ compiler": _no_compiler,
    "a C++ compiler that fails": _compiler("exit 1"),
    "a C++ compiler that is killed": _compiler("kill -9 $$"),
    "the kernel cache is on a full disk": _full_disk("TORCHINDUCTOR_CACHE_DIR"),
    "the temporary folder is on a full disk": _full_disk("TMPDIR"),
}


def _damage_line(run: Path) -> None:
    journal = run / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    middle = next(i for i in range(len(lines) // 2, len(lines)) if b'"done"' in lines[i])
    lines[middle] = lines[middle][:40] + b"\x00\xff{" + lines[middle][60:]
    journal.write_bytes(b"".join(lines))


def _cut_line(run: Path) -> None:
    journal = run / "journal.jsonl"
    journal.write_bytes(journal.read_bytes()[:-30])


def _append_junk(run: Path) -> None:
    with open(run / "journal.jsonl", "ab") as file:
        file.write(b'\x00\x01\xff\nnull\n[]\n{"event": 3}\n{"event": "done"}\n{"event": "lost", "key": []}\n')


def _damage_options(run: Path) -> None:
    (run / "options.json").write_text("{")


BEFOREHAND: dict[str, Callable[[Path], None]] = {
    "a damaged line in the journal": _damage_line,
    "the journal's last line is cut": _cut_line,
    "junk at the end of the journal": _append_junk,
    "options.json is damaged": _damage_options,
    "another numbisect holds the run": lambda run: None,
}
ALL = [*FAULTS, *SCRIPTS, *ENVIRONMENTS, *BEFOREHAND]


# -- one row -----------------------------------------------------------------------------------------------


class Place:
    """A folder for one fault, and what is done in it. command: whose answer `resume` must give."""

    def __init__(self, ground: Ground, fault: str, moment: str) -> None:
        self.ground, self.fault, self.moment = ground, fault, moment
        self.command = "check" if moment == CAPTURE else "minimize"

    def __enter__(self) -> Place:
        self.folder = Path(tempfile.mkdtemp(prefix="faults-"))
        self.folder.chmod(0o755)
        self.run = self.folder / "run"
        shutil.copytree(self.ground.script.parent, self.folder / "case-kept")
        (self.folder / "work").mkdir()
        return self

    def __exit__(self, *error: object) -> None:
        for name in ("run", "full"):
            if os.path.ismount(self.folder / name):
                subprocess.run(["umount", "-l", str(self.folder / name)], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def struck(self) -> subprocess.CompletedProcess[str]:
        """The command, with the fault."""
        if self.fault == "the disk is full":
            _mounted(self.run, 1024)
        if self.moment == CAPTURE:
            return self.done(["check", str(self.ground.script), "--out", str(self.run), *OPTIONS])
        self.ground.cut(self.moment, self.run)
        return self.done(["resume", str(self.run), "-q"])

    def done(self, arguments: list[str]) -> subprocess.CompletedProcess[str]:
        """A command of numbisect with the fault."""
        environment = ENVIRONMENTS[self.fault](self.folder) if self.fault in ENVIRONMENTS else {}
        if self.fault in SCRIPTS:
            environment["MISBEHAVES"] = self.fault
        if self.fault in BEFOREHAND:
            BEFOREHAND[self.fault](self.run)
        with contextlib.ExitStack() as stack:
            if self.fault == "another numbisect holds the run":
                held = stack.enter_context(open(self.run / "journal.jsonl", "a"))
                fcntl.flock(held, fcntl.LOCK_EX)
            program = ["-m", "tests.faults.inject", self.fault, self.moment, *arguments]
            return python(*program, folder=self.folder / "work", mark=str(self.folder), **environment)

    def resumed(self) -> subprocess.CompletedProcess[str]:
        """The same run without the fault, which is taken away as a user would who reads what was said."""
        (self.run / "filler").unlink(missing_ok=True)
        if self.run.is_dir():
            self.run.chmod(0o755)
        for name in ("result.json", "report.md"):
            if (self.run / name).is_dir():
                (self.run / name).rmdir()
        if (self.folder / "elsewhere").is_dir():
            (self.folder / "elsewhere").rename(self.run)
        if not self.ground.script.exists():
            shutil.copytree(self.folder / "case-kept", self.ground.script.parent)
        if self.fault == "options.json is damaged":
            shutil.copy(self.ground.whole(self.command) / "options.json", self.run)
        return python("-m", "bisector", "resume", str(self.run), "-q", folder=self.ground.folder)

    def left(self) -> list[str]:
        """Processes of the run with the fault that live on."""
        until(lambda: not _left(self.folder), 15)
        return _left(self.folder)


def tried(ground: Ground, fault: str, moment: str) -> Row:
    """The fault at this moment, then `resume` without it."""
    with Place(ground, fault, moment) as place:
        done, right = place.struck(), ANSWERS[place.command]
        if fault in FAULTS and not (place.folder / STRUCK).exists():
            raise NotStruck(f"the run ended before it: {done.returncode} {told(done.stderr)}")
        given, answer = ground.given(place.run), ground.answer(place.command)
        left = place.left()
        again = place.resumed()
        same = (again.returncode, ground.given(place.run)) == (right, answer)
        resumed = "same answer" if same else f"{again.returncode} {told(again.stderr)[:60]}"
        fair = done.returncode not in (0, 1) or (done.returncode, given) == (right, answer)
        said = f"PROCESSES LEFT {left}" if left else told(done.stderr)
        return Row(fault, moment, done.returncode, said, resumed, fair and not left)


def variables(**more: str) -> dict[str, str]:
    """What this checkout is run under: a run is gone on with under those that it began under."""
    return {**os.environ, "PYTHONPATH": str(Path(__file__).resolve().parents[2]), **more}


def python(
    *arguments: str, folder: Path, mark: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python with this checkout. mark: in the environment of all that it starts."""
    path = variables(FAULT_MARK=mark, **environment)
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env=path, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True,
    )  # fmt: skip
    try:
        out, err = process.communicate(timeout=MOST_S)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = "", f"numbisect: NO END WITHIN {MOST_S} S"
        process.communicate()
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def _left(folder: Path) -> list[str]:
    names = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if f"FAULT_MARK={folder}\0".encode() in file.read_bytes() and runs(int(file.parent.name)):
                names.append((file.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:80])
    return names


def told(stderr: str) -> str:
    """The line for the user, without the name of the folder."""
    lines = [line for line in stderr.splitlines() if line.strip()]
    ours = [line for line in lines if line.startswith("numbisect: ")]
    said = (ours or lines or [""])[-1]
    count = f"({len(lines)} lines) " if len(lines) > 1 else ""
    return count + said.removeprefix("numbisect: ").replace(tempfile.gettempdir(), "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--moment", choices=MOMENTS)
    parser.add_argument("--part", default="1/1")
    parser.add_argument("--out", default=os.devnull)
    parser.add_argument("--ground", help="a folder that keeps the runs without a fault")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    with tempfile.TemporaryDirectory(prefix="ground-") as temporary:
        folder = Path(asked.ground or temporary)
        folder.mkdir(exist_ok=True)
        folder.chmod(0o755)
        ground = Ground(folder)
        # Each fault at one moment, then each at the next: a table that is cut short has all faults.
        cases = [(fault, MOMENTS[(i + turn) % 3]) for turn in range(3) for i, fault in enumerate(ALL)]
        cases = [c for c in cases if asked.only in c[0] and asked.moment in (None, c[1])]
        for fault, moment in cases[part - 1 :: parts]:
            if fault in BEFOREHAND and moment == CAPTURE:
                continue  # there is no run yet
            try:
                line = str(tried(ground, fault, moment))
            except Exception as error:  # noqa: BLE001 - one row that cannot be had leaves the others
                line = f"?? {fault:38} {moment:8} {type(error).__name__}: {error}"
            print(line, flush=True)
            with open(asked.out, "a") as file:
                file.write(line + "\n")


if __name__ == "__main__":
    main()
