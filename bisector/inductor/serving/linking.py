"""Empty libraries with the names of torch's, for a kernel to be linked against.

The linker reads every name in libtorch_cpu.so, some 0.4 s for a kernel that uses a handful of them. A shared
library may leave names open. The loader finds them in torch's libraries, which are in the process already, by
the name that a kernel's library asks for (SONAME, ld.so(8)): the empty ones have the same.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from functools import cache
from pathlib import Path

_OF_TORCH = "libtorch.so"  # lies in a folder of torch's libraries
_SONAME = re.compile(r"\(SONAME\).*\[(.+)\]")
_LINK_ALL = "-Wl,--no-as-needed"  # else an empty library is not asked for when the kernel is loaded


def against_empty_libraries(command: Sequence[str], folder: Path) -> list[str]:
    """The compiler's command line, with empty libraries before torch's. folder: of this process alone, for
    them alone. The same command line where they cannot be made."""
    names = [word.removeprefix("-l") for word in command if word.startswith("-l")]
    folders = [Path(word.removeprefix("-L")) for word in command if word.startswith("-L")]
    ours = next((each for each in folders if (each / _OF_TORCH).exists()), None)
    if ours is None:
        return list(command)
    libraries = tuple(path for name in names if (path := ours / f"lib{name}.so").exists())
    if not _made(command[0], libraries, folder):
        return list(command)
    return [command[0], f"-L{folder}", _LINK_ALL, *command[1:]]


@cache
def _made(compiler: str, libraries: tuple[Path, ...], folder: Path) -> bool:
    """Whether there is an empty library in the folder for each of these."""
    try:
        folder.mkdir(exist_ok=True)
        for library in libraries:
            described = subprocess.run(
                ["readelf", "-d", library], capture_output=True, text=True, check=True
            )
            found = _SONAME.search(described.stdout)
            name = found[1] if found is not None else library.name
            subprocess.run(
                [
                    compiler, "-shared", "-nostdlib", "-x", "c++", "/dev/null", f"-Wl,-soname,{name}",
                    "-o", folder / library.name,
                ],
                capture_output=True, check=True,
            )  # fmt: skip
    except (OSError, subprocess.CalledProcessError):
        return False
    return True
