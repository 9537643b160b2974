"""The worker process: `python -m bisector.inductor.serving.worker FD SPARE_FD`; `runner/worker_client.py`
starts it.

It reads one line of options from the channel, loads torch and the target, answers with what was
recorded, and then serves jobs until the channel closes: in forked children, or, once the script has used
CUDA, in this process.

Once it has imported torch and Inductor, and before it runs anything of the target, it forks a spare: a
process that waits on the second channel for options of its own, to become the worker that confirms.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from ... import processes, request_json, wire
from ...core.messages import ProgramOptions, WorkerOptions
from ...core.recorded import Recorded
from ...tracing import Trace

LEAST_S = 1.0  # for the script, however long it took to come to it
REAPED_S = 1.0  # to wait for the spare's end


def main(fd: int, spare_fd: int) -> None:
    begun = time.monotonic()
    # Of the parent's death the closed channel tells too, but only where somebody listens.
    processes.die_with(os.getppid())
    channel, spare_channel = socket.socket(fileno=fd), socket.socket(fileno=spare_fd)
    options = _read_options(channel)
    trace = _traced(options)
    _log(options)
    threads = _imported()
    _watch_settings()
    trace.span("in the worker", "import torch", begun)
    if unknown := _unknown_flag(options):
        _send(channel, _problem(unknown))
        spare_channel.close()
    else:
        _warm_up(trace)
        spare = _fork_spare(channel, spare_channel, threads)
        _work(channel, options, threads, begun, trace)
        if spare is not None:
            _reap(spare)
    sys.stdout.flush()
    # The subject's exit handlers have nothing to say here, and torch's own take a second; a script that could
    # not be stopped would hold the interpreter's end up.
    os._exit(0)


def _work(
    channel: socket.socket, options: WorkerOptions, threads: int, begun: float, trace: Trace
) -> None:
    """Everything from the target on, in a process that has imported torch. threads: as of `_imported`."""
    # No other process may hold our end: the client takes its closing for our death.
    os.register_at_fork(after_in_child=channel.close)
    hello: Any
    if options.program is not None:
        hello, subject = _begin_script(options.program, threads)
    else:
        meanwhile = partial(processes.leave_if_alone, channel)
        hello, subject = _begin_calls(options, threads, begun, meanwhile, trace)
    _send(channel, wire.dump(hello))
    if subject is not None:
        _serve(channel, options, hello, subject, trace)


def _fork_spare(channel: socket.socket, spare_channel: socket.socket, threads: int) -> int | None:
    """The process's number; None where CUDA is up, which no fork survives."""
    import torch

    parent, pid = os.getpid(), None
    if not torch.cuda.is_initialized():
        pid = os.fork()
        if pid == 0:
            try:
                channel.close()
                os.setsid()  # so that a kill reaches it alone
                processes.die_with(parent)
                _wait_as_spare(spare_channel, threads)
            finally:
                os._exit(0)
    spare_channel.close()
    return pid


def _wait_as_spare(channel: socket.socket, threads: int) -> None:
    """In the spare: wait for options, and be the worker that they ask for."""
    options = _read_options(channel)
    begun = time.monotonic()
    _send(channel, {"pid": os.getpid()})
    trace = _traced(options)
    _log(options)
    _work(channel, options, threads, begun, trace)
    sys.stdout.flush()


def _reap(spare: int) -> None:
    """Wait for the end of the spare, which comes when nobody holds its channel: its processor time is then
    counted with ours."""
    ends = time.monotonic() + REAPED_S
    while os.waitpid(spare, os.WNOHANG)[0] == 0 and time.monotonic() < ends:
        time.sleep(0.01)


def _traced(options: WorkerOptions) -> Trace:
    trace = Trace(options.trace)
    trace.process(f"worker {os.getpid()}")
    return trace


def _log(options: WorkerOptions) -> None:
    """The script's prints and the compilers' chatter go there; the channel has its own descriptor."""
    log = os.open(options.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)


def _send(channel: socket.socket, message: Any) -> None:
    channel.sendall(json.dumps(message).encode() + b"\n")


def _serve(
    channel: socket.socket, options: WorkerOptions, hello: Recorded, subject: Any, trace: Trace
) -> None:
    """Until the channel closes. subject: as of `jobs.answer`."""
    from . import jobs

    def run_job(request: Any) -> Any:
        if hello.one_at_a_time and jobs.in_worker(request):
            return {}  # they are there for later forks; here the first probe does as much for the next
        return jobs.answer(subject, request)

    if hello.one_at_a_time:
        _serve_one_at_a_time(channel, run_job, options, hello, subject)
    else:
        _serve_forks(channel, run_job, options, subject, trace)


def _serve_one_at_a_time(
    channel: socket.socket, run_job: Any, options: WorkerOptions, hello: Any, loaded: Any
) -> None:
    from .. import autotuned
    from . import pristine, server

    if options.choices is not None:
        autotuned.pin(options.choices)
    # What CUDA maps into the process counts as data: a limit made for forks would stop it at once.
    limit = None if hello.on_cuda else options.memory_bytes
    load: Any = request_json.load_request
    server.Server(
        channel, run_job, load, limit, options.log, in_worker=lambda request: True,
        state=pristine.Pristine(loaded),
    ).serve()  # fmt: skip


def _begin_script(program: ProgramOptions, threads: int) -> tuple[Recorded, ProgramOptions]:
    """For jobs about a script as a whole: nothing of the script's runs here."""
    from ..program import program_jobs

    with_threads = replace(program, threads=threads)
    return program_jobs.recorded(with_threads), with_threads


def _imported() -> int:
    """Import torch. Returns the threads that a plain run of a script would have."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    # The first call in a forked child replaces the parent's pool of threads, without a lock: of two threads
    # that begin there at once, one may find none (caffe2/utils/threadpool/pthreadpool-cpp.cc).
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(torch.get_num_threads()))
    return threads


def _serve_forks(
    channel: socket.socket, run_job: Any, options: WorkerOptions, subject: Any, trace: Trace
) -> None:
    """Each job in a fork of this process."""
    from . import building, jobs, server

    load: Any = request_json.load_request
    given = channel, run_job, load, options.memory_bytes, options.log, jobs.in_worker
    if isinstance(subject, ProgramOptions):
        server.Server(*given, trace=trace).serve()
        return
    with tempfile.TemporaryDirectory(prefix="numbisect-") as folder:
        builder = None if options.lanes is None else building.Builder(Path(folder), options.lanes, trace)
        server.Server(*given, subject.probe_cache.learn, builder, trace).serve()


def _watch_settings() -> None:
    from ..flags import reads

    reads.watch()


def _unknown_flag(options: WorkerOptions) -> str | None:
    """A line for the user where the command line sets a flag that this torch does not have."""
    from . import warm

    unknown = warm.unknown_flags(options.config) if options.program is None else []
    return f"-c {unknown[0]}: this torch has no such flag; `numbisect flags` lists some" if unknown else None


def _warm_up(trace: Trace) -> None:
    from . import warm

    with trace.spent("in the worker", "warm up"):
        warm.warm_up()


def _begin_calls(
    options: WorkerOptions, threads: int, begun: float, meanwhile: Callable[[], None], trace: Trace
) -> tuple[Any, Any]:
    """For jobs about recorded calls: run the target. Returns what was recorded and the subject; where there
    is no subject, why there is none and None.

    begun: when this process was, on the monotonic clock. meanwhile: see `run_in_thread`.
    """
    import torch

    from .. import describe
    from ..capture import load as loading
    from . import warm

    # The warm-up brings CUDA up where there is one.
    if options.first and not torch.cuda.is_initialized() and describe.has_compiler():
        warm.build_header()
    load_options = replace(options.load, threads=threads)
    if options.left_s is not None:
        left_s = options.left_s - (time.monotonic() - begun)
        load_options = replace(load_options, timeout_s=max(LEAST_S, min(left_s, load_options.timeout_s)))
    with (
        trace.spent("in the worker", "run the target"),
        loading.quiet_stdin(),
        loading.noted(Path(load_options.target).parent) as read,
    ):
        loaded = loading.load(load_options, meanwhile)
    sys.stdout.flush()
    if loaded.problem is not None:
        return _problem(loaded.problem, loaded.late), None
    warm.apply_baseline(loaded, options.config)
    if overruled := warm.without_effect(loaded, options.config):
        return _problem(overruled), None
    on_cuda = torch.cuda.is_initialized()
    one_at_a_time = on_cuda if options.forks is None else not options.forks
    return replace(
        describe.summary(loaded), files=tuple(read), on_cuda=on_cuda, one_at_a_time=one_at_a_time
    ), loaded


def _problem(line: str, late: bool = False) -> dict[str, Any]:
    """What is sent in the place of what was recorded. late: the script had no time, which is no mistake."""
    return {"problem": line, "late": late}


def _read_options(channel: socket.socket) -> WorkerOptions:
    """Leaves the process where the other side goes away before it sends them."""
    data = bytearray()
    while not data.endswith(b"\n"):
        part = channel.recv(1)
        if not part:
            os._exit(0)
        data += part
    return wire.load(WorkerOptions, json.loads(bytes(data)))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
