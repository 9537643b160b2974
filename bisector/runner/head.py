"""The first line of a journal: under what its answers were got. Answers of two subjects never stand in one.

A script that was edited, another torch, another compiler or another setting gives other answers to the same
questions. A run that is resumed has the same head, or it does not go on.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from ..core.model import Json

# What torch, its compilers and their thread pools read. Where caches lie changes nothing that is computed.
_MATTERS = re.compile(
    r"(TORCH|PYTORCH|ATEN|AOT|TRITON|CUDA|CUBLAS|CUDNN|NVIDIA|OMP|GOMP|KMP|MKL|DNNL|ONEDNN)\w*"
    r"|CXX|CC|CFLAGS|CXXFLAGS|CPATH|PYTHONPATH|PYTHONHASHSEED"
)
_DOES_NOT = re.compile(r"\w*(CACHE_DIR|CACHE_PATH|COMPILE_THREADS|LOGS|TRACE)")
_READ_WHOLE = 1 << 24  # bytes; a larger file is known by its size and its time
_INSTRUCTIONS = re.compile(r"^(?:flags|Features)\s*:\s*(.*)$", re.MULTILINE)


@dataclass(frozen=True)
class Head:
    """versions: of numbisect, torch, triton, Python and the C++ compiler. target: digest of the file that was
    named. asked: the options that shape answers. environment: the variables that torch and its compilers
    read. machine: processor, digest of its instruction sets, and how many processors may be used.
    """

    versions: Mapping[str, str | None]
    target: str
    asked: Mapping[str, Json]
    environment: Mapping[str, str]
    machine: Mapping[str, str]

    def changed(self, name: str, now: Head) -> str | None:
        """What is different now, in one phrase; None where nothing is. name: of the target."""
        if self.target != now.target:
            return f"{name} was edited"
        kinds = (
            ("", self.versions, now.versions),
            ("the option ", self.asked, now.asked),
            ("the environment variable ", self.environment, now.environment),
            ("the machine's ", self.machine, now.machine),
        )
        return next((difference for kind in kinds for difference in _differences(*kind)), None)


def _differences(kind: str, then: Mapping[str, Json], now: Mapping[str, Json]) -> Iterator[str]:
    for name in sorted(then.keys() | now.keys()):
        before, after = then.get(name), now.get(name)
        if before != after:
            yield f"{kind}{name} is {_shown(after)}, and was {_shown(before)}"


def _shown(value: Json) -> str:
    return "not there" if value is None else f"{value}"


def head_of(target: Path | None, asked: Mapping[str, Json], compiler: str | None) -> Head:
    """What holds for a run that begins now. target: None for many. compiler: the first line of its
    `--version`."""
    versions = {
        "numbisect": _version("numbisect"),
        "torch": _torch(),
        "triton": _version("triton"),
        "python": platform.python_version(),
        "the C++ compiler": compiler,
    }
    matters = [n for n in os.environ if _MATTERS.fullmatch(n) and not _DOES_NOT.fullmatch(n)]
    environment = {name: os.environ[name] for name in matters}
    return Head(versions, "" if target is None else digest_of(target), asked, environment, _machine())


def changed_files(files: Mapping[str, str]) -> str | None:
    """The first of these files that has another digest now, in one phrase; None where none has."""
    for name, digest in files.items():
        now = digest_of(Path(name))
        if now != digest:
            return f"{Path(name).name}, which the target reads, {'was edited' if now else 'is gone'}"
    return None


def digest_of(path: Path) -> str:
    """Equal for a file that did not change, or for a folder whose files did not; "" where there is none."""
    try:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file())
            return _short("".join(f"{p.relative_to(path)}:{digest_of(p)};" for p in inside).encode())
        status = path.stat()
        if status.st_size > _READ_WHOLE:
            return f"{status.st_size}:{status.st_mtime_ns}"
        return _short(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return ""


def _short(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:20]


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def _torch() -> str | None:
    """Version and commit, read from the package's files: importing it takes seconds."""
    version, found = _version("torch"), find_spec("torch")
    if version is None or found is None or found.origin is None:
        return version
    try:
        text = Path(found.origin).with_name("version.py").read_text(encoding="utf-8")
    except OSError:
        return version
    commit = re.search(r"git_version = '([0-9a-f]{10})", text)
    return f"{version} ({commit[1]})" if commit else version


def _machine() -> dict[str, str]:
    info = Path("/proc/cpuinfo")
    instructions = _INSTRUCTIONS.search(info.read_text()) if info.exists() else None
    return {
        "architecture": platform.machine(),
        "instruction sets": _short(instructions[1].encode()) if instructions else "",
        "processors": str(len(os.sched_getaffinity(0))),
    }
