"""How this process starts others: each with all that it starts in turn ends with us, however we die.

Every process that is started here carries a mark in its environment, which its own children inherit. One
more process, the keeper, waits for the end of a pipe that only we hold open; when it comes, by our exit or by
`kill -9`, the keeper kills whatever carries our mark, in any session or group (Linux; elsewhere the group
that was started is all that is ended, and only by us), and removes our temporary folders.

Run as a program, this file is the keeper.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

_ROOT = str(Path(__file__).resolve().parent.parent)
# `python -m` would look into the working directory first, and a `random.py` there stand for Python's own.
_RUN = "import sys; del sys.path[0]; sys.path.append({root!r}); import runpy; runpy.{run}"
MARK = "NUMBISECT_PROCESS"  # environment variable: OWNER.NUMBER
_PROC = Path("/proc")
_PR_SET_PDEATHSIG = 1  # linux/prctl.h
# What is killed may have forked a moment before; so often is looked again for what carries the mark.
_ROUNDS = 50
_LEAST_URGENT = 19  # setpriority(2)
_LAST_WORDS_S = 1.0  # to read what a process that was killed had printed
_LIBC = ctypes.CDLL(None)


def program(name: str) -> str | None:
    """The path of a program: the one installed with this Python, else the user's own; None for neither."""
    own_folder = str(Path(sys.executable).parent)
    return shutil.which(name, path=os.pathsep.join([own_folder, os.environ.get("PATH", os.defpath)]))


@dataclass(frozen=True)
class Ended:
    """status: the exit status, -N where signal N ended it, None where its time was up. out, err: what it
    printed, as far as that was captured."""

    status: int | None
    out: str
    err: str
    timeout_s: float | None

    @property
    def how(self) -> str:
        """`status 3`, `signal 9 (SIGKILL)` or `no end within 5 s`."""
        if self.status is None:
            return f"no end within {self.timeout_s:g} s"
        return how_it_ended(self.status)

    @property
    def last_line(self) -> str:
        """Of what it printed on stderr, or else on stdout; empty where it printed nothing."""
        return next(reversed((self.err.strip() or self.out.strip()).splitlines()), "")


def module(name: str, *arguments: str) -> list[str]:
    """The command that runs a module of this package, whatever lies in the working directory."""
    run = f"run_module({name!r}, run_name='__main__', alter_sys=True)"
    return [sys.executable, "-c", _RUN.format(root=_ROOT, run=run), *arguments]


def how_it_ended(status: int) -> str:
    """A status as subprocess has it, in words."""
    if status >= 0:
        return f"status {status}"
    try:
        return f"signal {-status} ({signal.Signals(-status).name})"
    except ValueError:  # Python names only the first and the last of the real-time signals
        return f"signal {-status}"


class Started:
    """A process in a session of its own: Ctrl-C on the terminal does not reach it."""

    def __init__(self, popen: subprocess.Popen[str], mark: str) -> None:
        self.popen = popen
        self._mark = mark

    @property
    def pid(self) -> int:
        return self.popen.pid

    def poll(self) -> int | None:
        return self.popen.poll()

    def give_way(self) -> None:
        """From now on it, and what it starts, computes only where nothing else wants to."""
        with contextlib.suppress(ProcessLookupError):
            os.setpriority(os.PRIO_PROCESS, self.pid, _LEAST_URGENT)

    def wait(self, timeout_s: float | None) -> Ended:
        """Wait for its end; it is ended with all that it started when the time is up, or when this is
        interrupted. What it left running is ended too. None is for what has a limit of its own."""
        status: int | None = None
        out = err = ""
        try:
            out, err = self.popen.communicate(timeout=timeout_s)
            status = self.popen.returncode
        except subprocess.TimeoutExpired:
            status = self.popen.poll()  # it may have ended, and left one that holds its pipes open
            self.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = self.popen.communicate(timeout=_LAST_WORDS_S)
        finally:
            self.end()
        return Ended(status, out or "", err or "", timeout_s)

    def end(self, patience_s: float = 0.0) -> None:
        """End it with all that it started. patience_s: time to end by itself first."""
        if patience_s:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.popen.wait(patience_s)
        self.kill()
        self.popen.wait()
        for pipe in (self.popen.stdout, self.popen.stderr):
            if pipe is not None:
                pipe.close()

    def kill(self) -> None:
        """Kill it with all that it started; who waits for it sees its end."""
        if self.popen.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.popen.pid, signal.SIGKILL)
        kill_marked(self._mark)


def start(
    command: Sequence[str],
    *,
    folder: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
    log: IO[bytes] | IO[str] | None = None,
    capture: bool = False,
    pass_fds: Sequence[int] = (),
) -> Started:
    """Start a program, which reads nothing.

    environment: all of it; ours where there is none. log: a file that takes what it prints; capture: hand
    that to `wait` instead; neither: nobody wants it. Raises OSError where it cannot be started.
    """
    mark = _Keeper.next_mark()
    output = subprocess.PIPE if capture else log or subprocess.DEVNULL
    popen = subprocess.Popen(
        list(command),
        cwd=folder,
        env={**(os.environ if environment is None else environment), MARK: mark},
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        pass_fds=pass_fds,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    return Started(popen, mark)


def run(
    command: Sequence[str],
    timeout_s: float | None,
    *,
    folder: str | os.PathLike[str] | None = None,
    environment: Mapping[str, str] | None = None,
) -> Ended:
    """Run a program to its end and capture what it prints; as `start` and `wait`."""
    return start(command, folder=folder, environment=environment, capture=True).wait(timeout_s)


def temporary_folder() -> Path:
    """A new folder that is gone once this process is, however that ends. Raises OSError where none can be
    made."""
    folder = Path(tempfile.mkdtemp(prefix="numbisect-"))
    _Keeper.remove_in_the_end(folder)
    return folder


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies (Linux alone): for a forked child, which has
    its parent's mark."""
    if sys.platform == "linux":
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != parent:
            os._exit(1)  # it died before we asked


def leave_if_alone(channel: socket.socket) -> None:
    """End this process at once where the other side of the channel is gone, whatever else it is doing."""
    poll = select.poll()
    poll.register(channel, select.POLLRDHUP)
    if poll.poll(0):
        os._exit(1)


def kill_marked(mark: str) -> None:
    """Kill every process whose mark is this or, for an owner's mark that ends with a dot, begins with it."""
    for _ in range(_ROUNDS):
        found = _marked(f"{MARK}={mark}".encode())
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _marked(entry: bytes) -> list[int]:
    """Processes with this entry in their environment. One that has ended has none left to read."""
    found = []
    for folder in _PROC.glob("[0-9]*") if _PROC.is_dir() else ():
        try:
            entries = (folder / "environ").read_bytes().split(b"\0")
        except OSError:
            continue  # it is gone, or another user's
        if any(e == entry or (entry.endswith(b".") and e.startswith(entry)) for e in entries):
            found.append(int(folder.name))
    return found


class _Keeper:
    """The keeper of this process, started with the first process that it has to keep."""

    owner = ""
    numbers = itertools.count(1)
    pipe: IO[bytes] | None = None
    lock = threading.Lock()

    @classmethod
    def next_mark(cls) -> str:
        with cls.lock:
            cls._open_pipe()
            return f"{cls.owner}.{next(cls.numbers)}"

    @classmethod
    def remove_in_the_end(cls, folder: Path) -> None:
        with cls.lock, contextlib.suppress(BrokenPipeError):  # somebody killed it: then the folder may stay
            os.write(cls._open_pipe().fileno(), os.fsencode(folder) + b"\0")

    @classmethod
    def _open_pipe(cls) -> IO[bytes]:
        if cls.pipe is None:
            cls.pipe = cls._start()
        return cls.pipe

    @classmethod
    def _start(cls) -> IO[bytes]:
        cls.owner = uuid.uuid4().hex
        keeper = subprocess.Popen(
            [sys.executable, "-I", "-S", os.path.abspath(__file__), f"{cls.owner}."],
            cwd="/",
            env={k: v for k, v in os.environ.items() if k != MARK},  # whoever started us may kill by our mark
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        keeper.returncode = 0  # nobody waits for it: it ends after us
        assert keeper.stdin is not None
        return keeper.stdin

    @classmethod
    def forget(cls) -> None:
        """In a fork: what it starts is its own, and it must not hold the pipe open."""
        cls.lock = threading.Lock()
        if cls.pipe is not None:
            cls.pipe.close()
            cls.pipe = None


os.register_at_fork(after_in_child=_Keeper.forget)


if __name__ == "__main__":
    folders = sys.stdin.buffer.read()  # comes back when the owner is gone
    kill_marked(sys.argv[1])
    for folder in filter(None, folders.split(b"\0")):
        shutil.rmtree(folder, ignore_errors=True)
