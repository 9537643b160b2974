"""What torch.compile returned, such that each of its calls goes through a function of ours."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

# (name, function, model, args, kwargs) -> what the function returns. The model is what was compiled.
Through = Callable[[str, Callable[..., Any], Any, Any, Any], Any]


def wrapped(model: Any, made: Any, through: Through) -> Any:
    """`made` is what torch.compile made of `model`. A call within a function that is traced is left alone."""
    name = name_of(model)
    if isinstance(made, torch.nn.Module):
        forward = made.forward

        @functools.wraps(forward)
        def forwarded(*args: Any, **kwargs: Any) -> Any:
            return through(name, forward, model, args, kwargs)

        made.forward = forwarded  # type: ignore[method-assign]
        return made

    @functools.wraps(made)
    def called(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling():
            return made(*args, **kwargs)
        return through(name, made, model, args, kwargs)

    return called


def name_of(model: Any) -> str:
    """What a reader calls it: the function's name, or the module's class."""
    named = getattr(model, "__qualname__", None) or getattr(model, "__name__", None)
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return type(owner).__name__
    return named if isinstance(named, str) else type(model).__name__
