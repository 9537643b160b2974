"""What torch.compile returned, such that each of its calls goes through a function of ours.

A call within such a call is a part of it: it is traced with the call around it, or made at a graph break.
"""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import bisector

from ..threads import ThreadFlag

# (name, function, model, args, kwargs) -> what the function returns. The model is what was compiled.
Through = Callable[[str, Callable[..., Any], Any, Any, Any], Any]


IN_A_CALL = ThreadFlag()  # what is called in this thread counts as a part of a call


def wrapped(model: Any, made: Any, through: Through) -> Any:
    """`made` is what torch.compile made of `model`. A call within a function that is traced is left alone."""
    name = name_of(model)
    if isinstance(made, torch.nn.Module):
        forward = made.forward

        @functools.wraps(forward)
        def forwarded(*args: Any, **kwargs: Any) -> Any:
            if IN_A_CALL.is_set:
                return forward(*args, **kwargs)
            with IN_A_CALL.set():
                return through(name, forward, model, args, kwargs)

        made.forward = forwarded  # type: ignore[method-assign]
        return made

    @functools.wraps(made)
    def called(*args: Any, **kwargs: Any) -> Any:
        if torch.compiler.is_compiling() or IN_A_CALL.is_set:  # asked first: Dynamo traces no further then
            return made(*args, **kwargs)
        with IN_A_CALL.set():
            return through(name, made, model, args, kwargs)

    return called


# Files of torch in which torch.compile is called for the user.
_FOR_THE_USER = tuple(
    str(Path(torch.__file__).parent.joinpath(*parts))
    for parts in (("__init__.py",), ("nn", "modules", "module.py"), ("compiler", "__init__.py"))
)
_OURS, _TORCH = (str(Path(str(module.__file__)).parent) + os.sep for module in (bisector, torch))


def is_of_torch(frame: types.FrameType | None) -> bool:
    """Whether torch compiles something for itself, as eager's `scan` does its own loop. frame: of the caller
    of torch.compile."""
    while frame is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_OURS) and name not in _FOR_THE_USER and name != functools.__file__:
            return name.startswith(_TORCH)
        frame = frame.f_back
    return False


def is_of_the_program(frame: types.FrameType) -> bool:
    """Whether the code of this frame is neither torch's nor ours."""
    return not frame.f_code.co_filename.startswith((_OURS, _TORCH))


def name_of(model: Any) -> str:
    """What a reader calls it: the function's name, or the module's class."""
    named = getattr(model, "__qualname__", None) or getattr(model, "__name__", None)
    owner = getattr(model, "__self__", None)
    if isinstance(owner, torch.nn.Module):
        return type(owner).__name__
    return named if isinstance(named, str) else type(model).__name__
