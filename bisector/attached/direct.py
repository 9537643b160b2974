"""`check` and `minimize`: numbisect asked about a function that this process holds."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from ..errors import BadOption, BadTarget
from ..inductor.graph.values import CannotWrite
from . import bundle
from .bundle import Checked, Minimized, check_bundle, minimize_bundle
from .listeners import eager_backend
from .recording import Recording, recording
from .written_program import program


def check(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float | None = None,
) -> Checked:
    """Whether `fn(*args, **kwargs)` gives another answer under torch.compile: `numbisect check`.

    fn: a function or a module, compiled or not; it is captured by one call in eager mode here, and compiled
    in a process of its own. out: where the bundle and the run are written; by default a new temporary
    directory, which stays. options, dynamic: of torch.compile. rtol, atol: both or neither; by default
    those of torch.testing.assert_close. timeout: seconds for one compile.
    Raises BadTarget for what cannot be captured, BadOption for options that do not fit.
    """
    _both_or_neither(rtol, atol)
    case = _bundle(fn, args, kwargs or {}, out, options or {}, dynamic)
    return check_bundle(case, {"rtol": rtol, "atol": atol, "timeout": timeout})


def minimize(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    out: str | Path | None = None,
    options: Mapping[str, Any] | None = None,
    dynamic: bool | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    timeout: float | None = None,
    budget: float | None = None,
) -> Minimized:
    """Why `fn(*args, **kwargs)` gives another answer under torch.compile: `numbisect minimize`.

    budget: seconds for the whole run. The other arguments and the errors are those of `check`.
    """
    _both_or_neither(rtol, atol)
    case = _bundle(fn, args, kwargs or {}, out, options or {}, dynamic)
    asked = {"rtol": rtol, "atol": atol, "timeout": timeout, "budget": budget}
    return minimize_bundle(case, asked)


def _bundle(
    fn: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    out: str | Path | None,
    options: Mapping[str, Any],
    dynamic: bool | None,
) -> Path:
    name = getattr(fn, "__name__", type(fn).__name__)
    with recording() as recorded:
        torch.compile(_uncompiled(fn), backend=eager_backend, dynamic=dynamic)(*args, **kwargs)
    if recorded.lost is not None:
        raise BadTarget(f"{name}: {recorded.lost}; name a script that calls it on the command line")
    if not recorded.calls:
        raise BadTarget(f"{name}: nothing in it that torch.compile captures; give a function that computes")
    _set_options(recorded, options)
    header = [f"{name}, as bisector.check or bisector.minimize was given it."]
    try:
        made = program(recorded.suspects(), None, header)
    except CannotWrite as error:
        advice = "name a script that calls it on the command line"
        raise BadTarget(f"{name} cannot be written as plain torch: {error}; {advice}") from error
    folder = Path(out) if out is not None else Path(tempfile.mkdtemp(prefix="numbisect-"))
    return bundle.write(folder, name, made, "asked directly", {})


def _both_or_neither(rtol: float | None, atol: float | None) -> None:
    if (rtol is None) != (atol is None):
        raise BadOption("rtol and atol go together: give both")


def _uncompiled(fn: Callable[..., Any]) -> Callable[..., Any]:
    """What torch.compile was given, of what it made."""
    original = getattr(fn, "_torchdynamo_orig_callable", None) or getattr(fn, "_orig_mod", fn)
    return original if callable(original) else fn


def _set_options(recorded: Recording, options: Mapping[str, Any]) -> None:
    for call in recorded.calls:
        call.graph = replace(call.graph, options=options)
