"""Whether it is the machine, and not the subject, that a probe has no answer of."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

from bisector import processes
from bisector.errors import CannotWrite, MissingTool

from .environment import compiler_path

COMPILE_S = 120.0  # for an empty program, on a busy machine
# As the system, compilers and linkers say it.
NO_ROOM = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "File size limit exceeded",
    "Read-only file system",
)


def check_compiler() -> None:
    """Raises MissingTool where there is no C++ compiler, or one that cannot build an empty program."""
    path = compiler_path()
    if path is None:
        raise MissingTool("no C++ compiler: Inductor needs one on a CPU; install g++ or set CXX to yours")
    try:
        with tempfile.TemporaryDirectory(prefix="numbisect-") as folder:
            empty, library = Path(folder, "empty.cpp"), Path(folder, "empty.so")
            empty.touch()
            done = processes.run([path, "-shared", "-fPIC", "-o", str(library), str(empty)], COMPILE_S)
    except OSError as error:
        raise CannotWrite(f"no folder for temporary files can be written ({error.strerror})") from error
    if done.status != 0:
        said = done.last_line or done.how
        check_room(said)
        raise MissingTool(f"{path} cannot build an empty program ({said[:200]}); set CXX to one that can")


def check_room(reason: str) -> None:
    """Raises CannotWrite where the reason is that something could not be written."""
    if found := next((text for text in NO_ROOM if text.lower() in reason.lower()), None):
        where = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir()
        raise CannotWrite(f"{where}: {found}; make room there and go on with `numbisect resume`")


def doubts(reason: str, works: Callable[[], None] = check_compiler) -> None:
    """Raises NumbisectError where a failure that a worker reports is the machine's. works: see
    `check_compiler`."""
    check_room(reason)
    if reason.startswith("compile error") and "C++ compile error" in reason:
        works()
