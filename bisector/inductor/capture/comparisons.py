"""Stand-ins for the functions by which a script compares tensors; each comparison is reported as it ends."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import bisector
from bisector.core.criterion import EXACT
from bisector.core.model import Tolerance

_NOT_THE_SCRIPTS = tuple(str(Path(str(module.__file__)).parent) + os.sep for module in (torch, bisector))


@dataclass(frozen=True)
class Compared:
    """values: all that was given to the comparison, tensors among it. tolerance: as it was given, or None.
    agreed: its own answer; raised: it is that by an AssertionError. refused: it raised another exception, and
    compared nothing."""

    values: Any
    tolerance: Tolerance | None
    agreed: bool
    raised: bool = False
    refused: bool = False

    def sides(self) -> tuple[Any, Any] | None:
        """The two that were compared; None where they are not given as such."""
        args, kwargs = self.values
        named = [kwargs[name] for name in ("input", "actual", "other", "expected") if name in kwargs]
        both = (*args[:2], *named)[:2]
        return (both[0], both[1]) if len(both) == 2 else None


# Takes a comparison; says whether an AssertionError that it raised is to go on to the script.
Notify = Callable[[Compared], bool]
_ToleranceOf = Callable[[Sequence[Any], Mapping[str, Any]], Tolerance | None]


def stand_ins(notify: Notify) -> list[tuple[Any, str, Callable[..., Any]]]:
    """(owner, name, stand-in) of each function that compares."""
    return [
        (owner, name, _watched(getattr(owner, name), notify, tolerance_of))
        for owner, name, tolerance_of in _COMPARISONS
    ]


def _watched(original: Callable[..., Any], notify: Notify, tolerance_of: _ToleranceOf) -> Callable[..., Any]:
    @functools.wraps(original)
    def compared(*args: Any, **kwargs: Any) -> Any:
        # The compiler makes comparisons of its own, and so does what watches.
        if torch.compiler.is_compiling() or sys._getframe(1).f_code.co_filename.startswith(_NOT_THE_SCRIPTS):
            return original(*args, **kwargs)

        values = (args, kwargs)
        try:
            answer = original(*args, **kwargs)
        except AssertionError:
            if notify(Compared(values, tolerance_of(args, kwargs), agreed=False, raised=True)):
                raise
            return None
        except Exception:
            notify(Compared(values, None, agreed=False, refused=True))
            raise
        notify(Compared(values, tolerance_of(args, kwargs), agreed=answer is None or bool(answer)))
        return answer

    return compared


def _of_assert_close(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tolerance | None:
    rtol, atol = kwargs.get("rtol"), kwargs.get("atol")
    return None if rtol is None or atol is None else (float(rtol), float(atol))


def _of_allclose(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tolerance | None:
    given = dict(zip(("rtol", "atol"), args[2:4], strict=False)) | dict(kwargs)
    return float(given.get("rtol", 1e-5)), float(given.get("atol", 1e-8))


def _of_equal(args: Sequence[Any], kwargs: Mapping[str, Any]) -> Tolerance | None:
    return EXACT


_COMPARISONS: list[tuple[Any, str, _ToleranceOf]] = [
    (torch.testing, "assert_close", _of_assert_close),
    (torch, "allclose", _of_allclose),
    (torch.Tensor, "allclose", _of_allclose),
    (torch, "equal", _of_equal),
    (torch.Tensor, "equal", _of_equal),
]
