"""Where a run takes place: versions and machine, without importing torch here; and whether it is the machine,
and not the subject, that a probe has no answer of.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

from bisector import processes
from bisector.core.model import Machine
from bisector.errors import NO_ROOM, CannotWrite, MissingTool

VERSION_S, IMPORT_S = 30.0, 300.0  # for a program to say its version; for Python to import torch
COMPILE_S = 120.0  # for an empty program, on a busy machine


def describe(machine: Machine) -> dict[str, Any]:
    """The `environment` of result.json."""
    return {
        "torch": machine.torch,
        "torch_git": machine.torch_git,
        "triton": version("triton"),
        "python": platform.python_version(),
        "os": system(),
        "cpu": cpu_name(),
        "isa": machine.isa,
        "gpu": machine.gpu,
        "cxx": compiler(),
        "numbisect": version("numbisect") or "0",
    }


def version(package: str) -> str | None:
    """The installed version of a package, None where it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def system() -> str:
    """Distribution, machine and C library: `Debian GNU/Linux 12 (bookworm), x86_64, glibc 2.36`."""
    try:
        name = platform.freedesktop_os_release()["PRETTY_NAME"]
    except OSError:
        name = f"{platform.system()} {platform.release()}"
    return ", ".join(part for part in (name, platform.machine(), " ".join(platform.libc_ver())) if part)


def cpu_name() -> str | None:
    """The processor's model name, None where the system does not tell."""
    info = Path("/proc/cpuinfo")
    if not info.exists():
        return platform.processor() or None
    names = [line.partition(":")[2].strip() for line in info.read_text().splitlines() if "model name" in line]
    return names[0] if names else None


def compiler_path() -> str | None:
    """The C++ compiler that Inductor would take: $CXX, or the first of the usual names."""
    named = os.environ.get("CXX")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, ("g++", "clang++"))), None)


def compiler(name: str | None = None) -> str | None:
    """First line of the C++ compiler's --version, None where there is none. name: of another than Inductor
    would take."""
    path = compiler_path() if name is None else shutil.which(name)
    if path is None:
        return None
    lines = processes.run([path, "--version"], VERSION_S).out.splitlines()
    return lines[0] if lines else path


def has_gpu() -> bool:
    """Whether NVIDIA's driver is there. What a script compiles for a GPU needs no C++ compiler."""
    return Path("/dev/nvidiactl").exists()


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
        message = done.last_line or done.how
        check_room(message)
        raise MissingTool(f"{path} cannot build an empty program ({message[:200]}); set CXX to one that can")


def check_room(reason: str) -> None:
    """Raises CannotWrite where the reason is that something could not be written."""
    if found := next((text for text in NO_ROOM if text.lower() in reason.lower()), None):
        where = os.environ.get("TORCHINDUCTOR_CACHE_DIR") or tempfile.gettempdir()
        raise CannotWrite(f"{where}: {found}; make room there and go on with `numbisect resume`")


def doubts(reason: str, works: Callable[[], None] = check_compiler) -> None:
    """Raises NumbisectError where a failure that a worker reports is the machine's. works: see
    `check_compiler`."""
    check_room(reason)
    if "C++ compile error" in reason:
        works()
