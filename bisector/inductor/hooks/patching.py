"""How hooks replace a function of torch: once for each process, and only if it is there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_MARK = "numbisect_original"


class HookUnavailable(Exception):
    """This torch lacks what the hook patches; the message names it."""


def require(owner: Any, *names: str) -> None:
    """Raises HookUnavailable unless `owner` has every attribute."""
    for name in names:
        if not hasattr(owner, name):
            raise HookUnavailable(f"{getattr(owner, '__qualname__', owner.__name__)} has no {name}")


def wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces `owner.name` by `make(original)`. An inherited method is overridden in `owner` alone.

    A static method stays one; of a class method `make` gets and returns the function. Raises
    HookUnavailable where there is no such attribute.
    """
    require(owner, name)
    found = vars(owner).get(name) if isinstance(owner, type) else None
    if isinstance(found, classmethod):
        replacement = functools.wraps(found.__func__)(make(found.__func__))
        setattr(owner, name, classmethod(replacement))
        return
    original = getattr(owner, name)
    replacement = functools.wraps(original)(make(original))
    setattr(replacement, _MARK, original)
    setattr(owner, name, staticmethod(replacement) if isinstance(found, staticmethod) else replacement)
