"""Which files of its own folder a script reads: its modules, and what it opens."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_opened: set[str] | None = None  # while a script runs


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    """An audit hook, which Python never lets go of: it must cost next to nothing when no script runs."""
    if _opened is None or event != "open":
        return
    path, mode, flags = arguments
    writes = (mode is not None and set(mode) & set("wax+")) or flags & (os.O_WRONLY | os.O_RDWR)
    if isinstance(path, str) and not writes:
        _opened.add(os.path.abspath(path))


@contextmanager
def noted(folder: Path) -> Iterator[list[str]]:
    """Fills the list, at the end, with the files below the folder that were read in between, by name."""
    global _opened
    sys.addaudithook(_note)
    _opened, found = set(), list[str]()
    try:
        yield found
    finally:
        modules = {getattr(module, "__file__", None) for module in [*sys.modules.values()]}
        # A module that was compiled before is read from its cache, not from its source.
        read = _opened | {os.path.abspath(name) for name in modules if isinstance(name, str)}
        _opened = None
        inside = f"{folder.resolve()}{os.sep}"
        kept = (os.path.realpath(name) for name in read)
        found += sorted({name for name in kept if name.startswith(inside) and _is_source(name)})


def _is_source(name: str) -> bool:
    return os.path.isfile(name) and f"{os.sep}__pycache__{os.sep}" not in name
