"""A Python that has torch imported already, for tests that run small scripts in processes of their own.

`warm_python(folder)` is an executable that takes the arguments of Python. It passes them, the environment,
the working folder and its open files to a server, which has imported torch under that environment and forks;
it ends as the fork does, and the fork with it. Torch reads the environment while it is imported, so there is
a server for each environment, which goes when nobody has asked it for a while. In a fork `sys.executable` is
that executable, so what a script starts is warm too. Options of Python itself (`-I`) ask for a cold one, and
so does `warm_modules(folder)` for a script: what numbisect watches must import torch itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from pathlib import Path

COLD_OPTIONS = "-*"  # a pattern of the shell, of what is neither `-c` nor `-m`
IDLE_S = 60.0  # a server that nobody asks for so long ends
MOST_BYTES, MOST_FILES = 1 << 17, 64  # of a request, which is one packet
# What torch reads when it needs it, or not at all, and what a fork makes of it: one server serves all values.
MOVING = (
    "TORCHINDUCTOR_CACHE_DIR", "PYTHONPATH", "LD_LIBRARY_PATH", "PWD", "OLDPWD", "_", "PYTEST_", "NUMBISECT_",
    "FAULT_",
)  # fmt: skip
# What numbisect sets for what it starts; it changes no value. Without it servers would be twice as many.
ANYWAY = {"OMP_WAIT_POLICY": "PASSIVE", "GIT_PYTHON_REFRESH": "quiet"}
# What a compile imports; nothing of it computes, since a process that ran threads of OpenMP must not fork.
IMPORTED = (
    "torch._dynamo.backends.inductor",
    "torch._inductor.compile_fx",
    "torch._inductor.codegen.cpp",
    "torch._inductor.codegen.cuda_combined_scheduling",
    "torch.export._trace",
    "torch.utils.cpp_extension",
)
_end = os._exit  # which a script may replace


def warm_python(folder: Path) -> str:
    """The executable, written into this folder, in which its servers listen."""
    return _written(folder / "python", COLD_OPTIONS)


def warm_modules(folder: Path) -> str:
    """One for which modules and lines of Python (`-m`, `-c`) are warm, and scripts are not."""
    return _written(folder / "modules", f"{COLD_OPTIONS}|*.py")


def _written(path: Path, cold: str) -> str:
    command = shlex.join([sys.executable, "-I", __file__, str(path), sys.executable])
    python = shlex.quote(sys.executable)
    path.write_text(
        f'#!/bin/sh\ncase "$1" in\n-c|-m) ;;\n{cold}) exec {python} "$@" ;;\nesac\nexec {command} "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


# -- the executable ---------------------------------------------------------------------------------------


def asked(executable: str, python: str, arguments: list[str]) -> int:
    """Have a fork run Python with these arguments; its status, negative for a signal."""
    folder = os.path.dirname(executable)
    os.environ.update(ANYWAY)
    still = {name: value for name, value in os.environ.items() if not name.startswith(MOVING)}
    key = hashlib.sha256(json.dumps(still, sort_keys=True).encode()).hexdigest()[:16]
    address, files = f"{folder}/{key}", [0, 1, 2, *inherited()]
    request = json.dumps([executable, arguments, dict(os.environ), os.getcwd(), files]).encode()
    with connected(address, python, still) as server:
        socket.send_fds(server, [request], files)
        told = server.recv(16)
    if not told:
        raise SystemExit(f"the server is gone: see {address}.log")
    return int(told)


def inherited() -> list[int]:
    """Files that whoever started this process left open for it."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # the one that lists the folder
            if int(name) > 2 and os.get_inheritable(int(name)):
                found.append(int(name))
    return found


def connected(address: str, python: str, environment: Mapping[str, str]) -> socket.socket:
    """A connection to the server that listens there, which is started if there is none. environment: of the
    server, without the mark by which what numbisect started is killed."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with open(f"{address}.lock", "w") as lock, open(f"{address}.log", "ab") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            server.connect(address)
            return server
        started = subprocess.Popen(
            [python, "-I", __file__, "--serve", address],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
            start_new_session=True,
        )  # fmt: skip
        assert started.stdout is not None
        if not started.stdout.readline():
            raise SystemExit(f"no server: see {address}.log")
        server.connect(address)
    return server


def end_by(number: int) -> None:
    """End this process by a signal."""
    with contextlib.suppress(OSError):  # SIGKILL has no other handler
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


# -- the server -------------------------------------------------------------------------------------------


def serve(address: str) -> None:
    os.environ["TORCHINDUCTOR_VEC_ISA_OK"] = "1"  # whether the compiler knows the vectors is asked elsewhere
    for name in IMPORTED:
        importlib.import_module(name)
    Path(address).unlink(missing_ok=True)
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(address)
        listening.listen()
        os.write(1, b"ready\n")
        take_orders(listening, Path(address))


def take_orders(listening: socket.socket, address: Path) -> None:
    running: dict[int, tuple[int, socket.socket]] = {}  # process and connection, by its pidfd
    while True:
        clients = {client: child for child, client in running.values()}
        ready, _, _ = select.select([listening, *running, *clients], [], [], None if running else IDLE_S)
        if not ready:
            address.unlink(missing_ok=True)  # who asks from here on starts another; who did before is served
            ready, _, _ = select.select([listening], [], [], 0)
            if not ready:
                return
        for one in ready:
            if one is listening:
                client, _ = listening.accept()
                child = forked(client)
                running[os.pidfd_open(child)] = child, client
            elif isinstance(one, int):
                child, client = running.pop(one)
                os.close(one)
                status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
                with client, contextlib.suppress(OSError):
                    client.send(str(status).encode())
            elif clients[one] in (child for child, _ in running.values()):  # who asked is gone
                os.kill(clients[one], signal.SIGKILL)


def forked(client: socket.socket) -> int:
    request, sent, _, _ = socket.recv_fds(client, MOST_BYTES, MOST_FILES)
    if child := os.fork():
        for file in sent:
            os.close(file)
        return child
    status = 1
    try:
        sys.executable, arguments, environment, folder, files = json.loads(request)
        os.setsid()
        take(sent, files)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        status = run(arguments)
    finally:
        if status < 0:
            end_by(-status)
        _end(status)


def take(sent: Sequence[int], files: Sequence[int]) -> None:
    """The files that were sent, under the numbers that they have where they come from; no others."""
    above = max(*sent, *files) + 1
    high = [fcntl.fcntl(file, fcntl.F_DUPFD, above) for file in sent]
    os.closerange(0, above)
    for number, file in zip(files, high, strict=True):
        os.dup2(file, number)
    os.closerange(above, max(high) + 1)


def run(arguments: list[str]) -> int:
    """What Python does with these arguments; its status."""
    try:
        try:
            execute(arguments)
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - any that a script raises
            sys.excepthook(type(error), error, error.__traceback__)
            return -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
    except SystemExit as end:
        if end.code is not None and not isinstance(end.code, int):
            print(end.code, file=sys.stderr)
            return 1
        return end.code or 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def execute(arguments: list[str]) -> None:
    sys.argv = arguments
    first = arguments[0]
    folder = {"-c": "", "-m": os.getcwd()}.get(first, str(Path(first).resolve().parent))
    sys.path[:0] = [folder, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if first == "-c":
        code = arguments.pop(1)
        main = sys.modules["__main__"] = types.ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(main))
    elif first == "-m":
        del arguments[0]
        runpy.run_module(arguments[0], run_name="__main__", alter_sys=True)
    else:
        runpy.run_path(first, run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        ended = asked(sys.argv[1], sys.argv[2], sys.argv[3:])
        if ended < 0:
            end_by(-ended)
        sys.exit(ended)
