"""The launcher: a process ends at its limit, with all that it started, and with us however we die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from bisector import processes
from tests.faults.waiting import is_gone, until

SLEEP = "import time; time.sleep(600)"
# Starts another in a session of its own, says its number, and then does what the format is given.
LEAVES = """
import os, signal, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
open({file!r}, "w").write(str(child.pid))
{then}
"""
OWNER = """
import sys, time
from bisector import processes
started = processes.start([sys.executable, "-c", {program!r}])
while True:
    pass
"""


def python(program: str) -> list[str]:
    return [sys.executable, "-c", program]


def test_what_a_program_prints_and_how_it_ended_are_told() -> None:
    done = processes.run(python("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"), 60)
    assert (done.status, done.out, done.err, done.how) == (3, "out\n", "err\n", "status 3")
    assert done.last_line == "err"
    killed = processes.run(python("import os; os.kill(os.getpid(), 9)"), 60)
    assert (killed.status, killed.how) == (-9, "signal 9 (SIGKILL)")


def test_at_its_limit_a_program_is_ended_and_what_it_had_printed_is_kept() -> None:
    started = time.monotonic()
    done = processes.run(python(f"print('first', flush=True); {SLEEP}"), 2)
    assert (done.status, done.out, done.how) == (None, "first\n", "no end within 2 s")
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("then", ["pass", "time.sleep(600)", "os.kill(os.getpid(), signal.SIGKILL)"])
def test_what_a_program_leaves_behind_in_a_session_of_its_own_is_ended_with_it(
    then: str, tmp_path: Path
) -> None:
    file = tmp_path / "pid"
    processes.run(python(LEAVES.format(file=str(file), then=then)), 2)
    assert is_gone(int(file.read_text()))


def test_a_program_that_is_stopped_is_ended_too() -> None:
    started = processes.start(python(SLEEP))
    os.kill(started.pid, signal.SIGSTOP)
    started.end()
    assert started.poll() == -signal.SIGKILL


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_what_was_started_ends_with_us_however_we_die(number: int, tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = LEAVES.format(file=str(file), then="time.sleep(600)")
    owner = subprocess.Popen(python(OWNER.format(program=program)))
    until(lambda: file.exists() and bool(file.read_text()))
    owner.send_signal(number)
    owner.wait()
    assert is_gone(int(file.read_text()))


def test_an_interrupt_while_we_wait_ends_the_program(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = f"""
from bisector import processes
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's `&` has what it starts ignore it
processes.run([sys.executable, "-c", {LEAVES.format(file=str(file), then="time.sleep(600)")!r}], None)
"""
    owner = subprocess.Popen(python(program), stderr=subprocess.DEVNULL)
    until(lambda: file.exists() and bool(file.read_text()))
    owner.send_signal(signal.SIGINT)
    assert owner.wait(30) in (-signal.SIGINT, 1)
    assert is_gone(int(file.read_text()))


def test_a_fork_of_ours_does_not_keep_what_we_started_alive(tmp_path: Path) -> None:
    file = tmp_path / "pid"
    program = f"""
import os, sys, time
from bisector import processes
started = processes.start([sys.executable, "-c", {SLEEP!r}])
if os.fork() == 0:
    open({str(file)!r}, "w").write(f"{{started.pid}} {{os.getpid()}}")
    time.sleep(600)
time.sleep(600)
"""
    owner = subprocess.Popen(python(program))
    until(lambda: file.exists() and file.read_text().count(" ") == 1)
    started, fork = map(int, file.read_text().split())
    try:
        owner.kill()
        owner.wait()
        assert is_gone(started)
    finally:
        os.kill(fork, signal.SIGKILL)
