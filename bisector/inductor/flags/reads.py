"""Which settings this process has read: one that a compile never reads cannot change what it makes.

What a cached function read in an earlier compile counts too, so the watch begins before the first one.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Any

import torch._dynamo.config as dynamo_config
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config

_WATCHED = {"inductor": inductor_config, "functorch": functorch_config, "dynamo": dynamo_config}
# A setting of each module that every supported torch has: reading it shows whether reads are noted.
_CHECKED = {"inductor": "max_fusion_size", "functorch": "cse", "dynamo": "suppress_errors"}
_FAMILIES = {module.__name__: family for family, module in _WATCHED.items()}
_read: set[str] = set()


def watch() -> None:
    """Note from now on what is read; once in a process."""
    for module in _WATCHED.values():
        keeper: Any = next((c for c in type(module).__mro__ if "__getattr__" in vars(c)), None)
        if keeper is not None and not hasattr(keeper.__getattr__, "__wrapped__"):  # it may keep both modules
            keeper.__getattr__ = _noting(keeper.__getattr__)


def _noting(plain: Any) -> Any:
    @functools.wraps(plain)
    def noted(module: Any, name: str) -> Any:
        family = _FAMILIES.get(module.__name__)
        if family is not None:
            _read.add(f"{family}.{name}")
        return plain(module, name)

    return noted


def unread(names: Iterable[str]) -> list[str]:
    """The flags that are known not to have been read; none that is not in a module that is watched."""
    noted = {family for family in _WATCHED if _is_observable(family)}
    return [name for name in names if name.partition(".")[0] in noted and name not in _read]


def _is_observable(family: str) -> bool:
    """Whether a read is noted at all: another torch may keep its settings in another way."""
    checked = f"{family}.{_CHECKED[family]}"
    before = set(_read)
    _read.discard(checked)
    getattr(_WATCHED[family], _CHECKED[family])
    noted = checked in _read
    _read.clear()
    _read.update(before)
    return noted
