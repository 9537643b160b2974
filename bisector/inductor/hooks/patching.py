"""How hooks replace a function of torch: once for each process, and only if it is there."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

_MARK = "numbisect_original"


class HookUnavailable(Exception):
    """This torch lacks what the hook patches; the message names it."""


class NotTaken(Exception):
    """This torch takes no decision of the kind; the message says why."""


def require(owner: Any, *names: str) -> None:
    """Raises HookUnavailable unless `owner` has every attribute."""
    for name in names:
        if not hasattr(owner, name):
            raise HookUnavailable(f"{_name(owner)} has no {name}")


def _name(owner: Any) -> str:
    """Of a class or a module; a group of settings has none."""
    found = (getattr(owner, attribute, None) for attribute in ("__qualname__", "__name__"))
    return next(filter(None, found), type(owner).__name__)


def wrap(owner: Any, name: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces `owner.name` by `make(original)`. An inherited method is overridden in `owner` alone.

    Static and class methods stay what they are; of a class method `original` takes the class first. Raises
    HookUnavailable where there is no such attribute.
    """
    require(owner, name)
    raw = vars(owner).get(name) if isinstance(owner, type) else None
    original = raw.__func__ if isinstance(raw, classmethod) else getattr(owner, name)
    replacement = functools.wraps(original)(make(original))
    setattr(replacement, _MARK, original)
    kinds = (staticmethod, classmethod)
    kind = next((kind for kind in kinds if isinstance(raw, kind)), None)
    setattr(owner, name, replacement if kind is None else kind(replacement))
