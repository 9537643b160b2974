"""numbisect with a fault at one moment of its run: `python -m tests.faults.inject FAULT MOMENT ARGUMENT...`.

The fault is done by the command's own process, so that it comes at that very moment; what happens then is as
it would be from outside.
"""

from __future__ import annotations

import errno
import os
import resource
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bisector.cli import main as cli
from bisector.runner import lab as labs
from bisector.runner import rundir, worker_client
from bisector.runner.journal import Journal
from bisector.runner.rundir import RunDirectory

CAPTURE, SEARCH, REPORT = "capture", "search", "report"
MOMENTS = (CAPTURE, SEARCH, REPORT)
PROBES_BEFORE = 2  # of the search, that are asked in peace
STRUCK = "struck"  # file that the fault leaves in the folder named by FAULT_MARK as it is done
SHORT_S = 4.0  # in the place of the margin over a worker's own limits

the_worker: list[worker_client.Worker] = []


def newest() -> worker_client.Worker:
    return the_worker[-1]


def run() -> Path:
    current = rundir.current_run()
    assert current is not None
    return current.path


def _kill_soon(name: bytes) -> None:
    """Kill the first process in a probe's group that has this in its command line, once there is one."""

    def look() -> None:
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            for file in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    pid, text = int(file.parent.name), file.read_bytes()
                    mine = newest().process._mark.encode() in (file.parent / "environ").read_bytes()
                except OSError:
                    continue
                if name in text and mine and os.getpgid(pid) != newest().process.pid:
                    os.kill(pid, signal.SIGKILL)
                    return
            time.sleep(0.005)

    threading.Thread(target=look, daemon=True).start()


def _silent() -> None:
    worker_client.START_S = SHORT_S
    os.kill(newest().process.pid, signal.SIGSTOP)


def _hang_up() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may have said otherwise
    os.kill(os.getpid(), signal.SIGHUP)


def _interrupt() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell starts with `&`
    os.kill(os.getpid(), signal.SIGINT)


def _fill(folder: Path) -> None:
    """Leave no room in the file system of the run directory."""
    with open(folder / "filler", "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"\0" * 512)
        except OSError as error:
            assert error.errno == errno.ENOSPC, error


def _limit_files(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def _unwritable() -> None:
    """The folder is another user's, and so are we."""
    run().chmod(0o555)
    os.seteuid(65534)


def _no_descriptors() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) - 1, 4096))


def _raise(error: BaseException) -> Callable[[], None]:
    def fault() -> None:
        raise error

    return fault


def _broken_pipe(descriptor: int) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    os.dup2(writer, descriptor)


def _to_full(descriptor: int) -> None:
    os.dup2(os.open("/dev/full", os.O_WRONLY), descriptor)


def _feed(garbage: bytes) -> None:
    newest().buffer.feed(garbage)


def _deep() -> None:
    _deep()


FAULTS: dict[str, Callable[[], Any]] = {
    "kill -9 of the worker": lambda: os.kill(newest().process.pid, signal.SIGKILL),
    "SIGSEGV of the worker": lambda: os.kill(newest().process.pid, signal.SIGSEGV),
    "SIGSTOP of the worker": _silent,
    "kill -9 of the worker's group": lambda: os.killpg(newest().process.pid, signal.SIGKILL),
    "kill -9 of a probe": lambda: _kill_soon(b"serving.worker"),
    "kill -9 of the C++ compiler": lambda: _kill_soon(b"cc1plus"),
    "the worker closes the channel": lambda: newest().channel.shutdown(2),
    "no JSON on the channel": lambda: _feed(b"hello\n"),
    "JSON of another kind on the channel": lambda: _feed(b'{"what": [1]}\n'),
    "no text on the channel": lambda: _feed(b"\xff\xfe\x00\n"),
    "kill -9 of numbisect": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "kill -9 of numbisect's group": lambda: os.killpg(0, signal.SIGKILL),
    "SIGTERM": lambda: os.kill(os.getpid(), signal.SIGTERM),
    "SIGHUP": _hang_up,
    "Ctrl-C": _interrupt,
    "the disk is full": lambda: _fill(run()),
    "files may have 1 byte": lambda: _limit_files(1),
    "files may have 8 KiB": lambda: _limit_files(8192),
    "the run directory is unwritable": _unwritable,
    "the run directory is removed": lambda: shutil.rmtree(run()),
    "the run directory is moved away": lambda: run().rename(run().with_name("elsewhere")),
    "result.json is a folder": lambda: (run() / "result.json").mkdir(),
    "report.md is a folder": lambda: (run() / "report.md").mkdir(),
    "the journal is removed": lambda: (run() / "journal.jsonl").unlink(),
    "no file can be opened": _no_descriptors,
    "the working directory is removed": lambda: os.rmdir(os.getcwd()),
    "stdout is closed": lambda: os.close(1),
    "stdout has no reader": lambda: _broken_pipe(1),
    "stdout is full": lambda: _to_full(1),
    "stderr is closed": lambda: os.close(2),
    "stderr has no reader": lambda: _broken_pipe(2),
    "stderr is full": lambda: _to_full(2),
    "MemoryError": _raise(MemoryError()),
    "RecursionError": _deep,
    "an error of numbisect's own": _raise(KeyError("outputs")),
    "OSError": _raise(OSError(errno.EIO, "Input/output error")),
}
# Done by the script itself (see table.SCRIPT) when numbisect runs it.
SCRIPTS = (
    "the script loops", "the script sleeps", "the script holds the GIL", "the script ends its process",
    "the script is killed", "the script deletes its folder", "the script changes directory",
    "the script closes all files", "the script kills its parent", "the script raises",
    "the script writes on every file", "the script leaves a process behind",
)  # fmt: skip


def at(moment: str, fault: Callable[[], Any]) -> None:
    """Have the fault done once, at this moment."""
    left = [fault]

    def strike() -> None:
        if left:
            (Path(os.environ["FAULT_MARK"]) / STRUCK).touch()
            left.pop()()

    def after_start(self: worker_client.Worker, *given: Any) -> None:
        start(self, *given)
        the_worker.append(self)

    def before_hello(self: worker_client.Worker) -> Any:
        strike()
        return wait(self)

    def before_probe(self: Journal, key: str, request: Any, *given: Any) -> None:
        begun(self, key, request, *given)
        asked.append(key)
        if request["job"] == "probe" and len(asked) > PROBES_BEFORE:
            strike()

    def before_repro(self: RunDirectory, path: Path, text: str) -> None:
        if path.name == "repro.py":
            strike()
        write(self, path, text)

    asked: list[str] = []
    start, wait, begun, write = (
        worker_client.Worker.__init__,
        worker_client.Worker.wait_until_ready,
        Journal.started,
        RunDirectory.write_text,
    )  # fmt: skip
    patched: Any = worker_client.Worker
    patched.__init__ = after_start
    if moment == CAPTURE:
        patched.wait_until_ready = before_hello
    elif moment == SEARCH:
        patched = Journal
        patched.started = before_probe
    else:
        patched = RunDirectory
        patched.write_text = before_repro


if __name__ == "__main__":
    assert labs.Worker is worker_client.Worker
    name, moment, *arguments = sys.argv[1:]
    if name in FAULTS:
        at(moment, FAULTS[name])
    sys.argv[1:] = arguments
    cli.main()
