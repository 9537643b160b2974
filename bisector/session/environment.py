"""Where a run took place: versions and machine, without importing torch here."""

from __future__ import annotations

import os
import platform
import shutil
from importlib import metadata
from pathlib import Path
from typing import Any

from bisector import processes
from bisector.core.protocol import Machine

VERSION_S, IMPORT_S = 30.0, 300.0  # for a program to say its version; for Python to import torch


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


def compiler() -> str | None:
    """First line of the C++ compiler's --version, None where there is none."""
    path = compiler_path()
    if path is None:
        return None
    lines = processes.run([path, "--version"], VERSION_S).out.splitlines()
    return lines[0] if lines else path
