"""A Python that has torch imported already, for tests that run small scripts in processes of their own.

`warm_python(folder)` is an executable that takes the arguments of Python. It passes them, the environment,
the working folder and the three files to a server, which has imported torch under that environment and forks;
it ends as the fork does. Torch reads the environment while it is imported, so there is a server for each
environment, which goes when nobody has asked it for a while. In a fork `sys.executable` is that executable,
so what a script starts is warm too.
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
from pathlib import Path

IDLE_S = 20.0  # a server that nobody asks for so long ends
MOST_BYTES = 1 << 17  # of a request, which is one packet
# What torch reads when it needs it, or not at all, and what a fork makes of it: one server serves all values.
MOVING = ("TORCHINDUCTOR_CACHE_DIR", "PYTHONPATH", "PWD", "OLDPWD", "_", "PYTEST_")
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
    path = folder / "python"
    command = shlex.join([sys.executable, "-I", __file__, str(folder), sys.executable])
    path.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    path.chmod(0o755)
    return str(path)


# -- the executable ---------------------------------------------------------------------------------------


def asked(folder: str, python: str, arguments: list[str]) -> int:
    """Have a fork run Python with these arguments; its status, negative for a signal."""
    still = {name: value for name, value in os.environ.items() if not name.startswith(MOVING)}
    key = hashlib.sha256(json.dumps(still, sort_keys=True).encode()).hexdigest()[:16]
    request = json.dumps([f"{folder}/python", arguments, dict(os.environ), os.getcwd()]).encode()
    told = b""
    while not told:  # a server may go just as it is asked
        with connected(f"{folder}/{key}", python) as server:
            socket.send_fds(server, [request], [0, 1, 2])
            told = server.recv(16)
    return int(told)


def connected(address: str, python: str) -> socket.socket:
    """A connection to the server that listens there, which is started if there is none."""
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with open(f"{address}.lock", "w") as lock, open(f"{address}.log", "ab") as log:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            server.connect(address)
            return server
        started = subprocess.Popen(
            [python, "-I", __file__, "--serve", address],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
        )  # fmt: skip
        assert started.stdout is not None
        if not started.stdout.readline():
            raise SystemExit(f"no server: see {address}.log")
        server.connect(address)
    return server


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
        take_orders(listening)


def take_orders(listening: socket.socket) -> None:
    running: dict[int, tuple[int, socket.socket]] = {}  # process and connection, by its pidfd
    while True:
        clients = {client: child for child, client in running.values()}
        ready, _, _ = select.select([listening, *running, *clients], [], [], None if running else IDLE_S)
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
    request, files, _, _ = socket.recv_fds(client, MOST_BYTES, 3)
    if child := os.fork():
        for file in files:
            os.close(file)
        return child
    status = 1
    try:
        for number, file in enumerate(files):
            os.dup2(file, number)
        os.closerange(3, max(files) + 1)
        sys.executable, arguments, environment, folder = json.loads(request)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        status = run(arguments)
    finally:
        _end(status)


def run(arguments: list[str]) -> int:
    """What Python does with these arguments; its status."""
    try:
        try:
            execute(arguments)
        except Exception as error:  # noqa: BLE001 - any that a script raises
            sys.excepthook(type(error), error, error.__traceback__)
            return 1
        finally:
            sys.stdout.flush()
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
    isolated = arguments[0] == "-I"
    sys.argv = arguments[isolated:]
    file = sys.argv[0]
    if not isolated:
        folder = "" if file == "-c" else str(Path(file).resolve().parent)
        sys.path[:0] = [folder, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    if file == "-c":
        code = sys.argv.pop(1)
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    else:
        runpy.run_path(file, run_name="__main__")


if __name__ == "__main__":
    if sys.argv[1] == "--serve":
        serve(sys.argv[2])
    else:
        ended = asked(sys.argv[1], sys.argv[2], sys.argv[3:])
        if ended < 0:
            with contextlib.suppress(OSError):  # SIGKILL has no other handler
                signal.signal(-ended, signal.SIG_DFL)
            os.kill(os.getpid(), -ended)
        sys.exit(ended)
