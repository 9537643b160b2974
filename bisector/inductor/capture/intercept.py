"""Stand-ins for what compiles, compares and seeds while a user's script runs.

The script is not edited: these are put in place before its first line; the graphs then run in eager and are
recorded.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import os
import random
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NoReturn

import torch
import torch._dynamo.repro.after_aot
import torch._dynamo.repro.after_dynamo

from . import comparisons, compile_stand_ins
from .artifacts import run_repro_stand_in
from .record import Recorder
from .wrapped_calls import name_of, wrapped


@contextlib.contextmanager
def intercepted(recorder: Recorder, script: Path) -> Iterator[None]:
    """Put the stand-ins in place for a `with` block in which the script is run."""
    run_repro = run_repro_stand_in(script, recorder.notes.append)
    replacements: list[tuple[Any, str, Any]] = [
        (torch._dynamo.repro.after_aot, "run_repro", run_repro),
        (torch._dynamo.repro.after_dynamo, "run_repro", run_repro),
        compile_stand_ins.of_compile(functools.partial(_compiled, recorder)),
        compile_stand_ins.of_optimize(functools.partial(_optimized, recorder)),
        *comparisons.stand_ins(recorder.compared),
        *MainThread().stand_ins(),
        (torch, "manual_seed", _seeding(recorder, torch.manual_seed, "torch")),
        (torch.random, "manual_seed", _seeding(recorder, torch.manual_seed, "torch")),
        (random, "seed", _seeding(recorder, random.seed, "random")),
        (builtins, "__import__", _first_import_of_torch(recorder, builtins.__import__)),
        (os, "_exit", _exit_of_the_script(os._exit)),
    ]
    if (numpy := sys.modules.get("numpy")) is not None:
        replacements.append((numpy.random, "seed", _seeding(recorder, numpy.random.seed, "numpy")))
    with contextlib.ExitStack() as stack:
        for owner, name, new in replacements:
            stack.callback(setattr, owner, name, getattr(owner, name))
            setattr(owner, name, new)
        yield


def _compiled(
    recorder: Recorder, original: Callable[..., Any], model: Any, given: Mapping[str, Any]
) -> Any:
    """What torch.compile makes of the model where its graphs are recorded and run in eager."""
    if given.get("disable"):
        return original(model, disable=True)
    backend = given.get("backend") or "inductor"
    dynamic = given.get("dynamic") if recorder.dynamic is None else recorder.dynamic
    options = _options(given.get("mode"), given.get("options"), dynamic)
    entry = recorder.entry(name_of(model), backend, options, dynamic)
    rest = {name: value for name, value in given.items() if name not in ("mode", "options", "disable")}
    made = original(model, **{**rest, "backend": recorder.backend(entry), "dynamic": dynamic})
    return wrapped(model, made, recorder.counted)


def _optimized(
    recorder: Recorder, original: Callable[..., Any], model: Any, given: Mapping[str, Any]
) -> Any:
    entry = recorder.entry(name_of(model), given["backend"], {}, given.get("dynamic"))
    return original(model, backend=recorder.backend(entry))


def _options(mode: Any, options: Any, dynamic: Any) -> dict[str, Any]:
    """The Inductor settings that torch.compile would patch in for this mode or these options."""
    if mode is not None and mode != "default":
        from torch._inductor import list_mode_options

        return dict(list_mode_options(mode, dynamic))
    not_config = {"guard_filter_fn", "use_aoti"}
    return {k.replace("-", "_"): v for k, v in (options or {}).items() if k not in not_config}


def _first_import_of_torch(recorder: Recorder, original: Callable[..., Any]) -> Callable[..., Any]:
    """Notes what the script has put into the environment by then: torch, which is here already, reads some
    variables as it is imported."""
    before = dict(os.environ)

    @functools.wraps(original)
    def imports(name: str, *args: Any, **kwargs: Any) -> Any:
        if recorder.environment is None and name.partition(".")[0] == "torch":
            recorder.environment = {k: v for k, v in os.environ.items() if before.get(k) != v}
        return original(name, *args, **kwargs)

    return imports


def _seeding(recorder: Recorder, original: Callable[..., Any], *libraries: str) -> Callable[..., Any]:
    @functools.wraps(original)
    def seed(*args: Any, **kwargs: Any) -> Any:
        recorder.seeded.update(libraries)
        return original(*args, **kwargs)

    return seed


def _exit_of_the_script(original: Callable[[int], NoReturn]) -> Callable[[int], NoReturn]:
    """`os._exit` in the script's own thread ends the script, not the worker around it."""
    process, thread = os.getpid(), threading.get_ident()

    @functools.wraps(original)
    def leave(status: int) -> NoReturn:
        if (os.getpid(), threading.get_ident()) == (process, thread):
            raise SystemExit(status)
        original(status)

    return leave


class MainThread:
    """The thread in which it is made, as the main thread, for that thread alone: Python lets no other one set
    signal handlers, and asyncio asks for that. A handler is remembered, and an alarm never goes off."""

    def __init__(self) -> None:
        self.thread = threading.current_thread()
        self._handlers: dict[int, Any] = {}
        self._wakeup_fd = -1

    def stand_ins(self) -> list[tuple[Any, str, Any]]:
        """(owner, name, stand-in) of each function; none where the thread is the main one."""
        if self.thread is threading.main_thread():
            return []
        ours: dict[str, Callable[..., Any]] = {
            "signal": self._signal, "getsignal": self._getsignal, "set_wakeup_fd": self._set_wakeup_fd,
            "alarm": lambda seconds: 0, "setitimer": lambda which, seconds, interval=0.0: (0.0, 0.0),
        }  # fmt: skip
        found = [(signal, name, self._here(getattr(signal, name), made)) for name, made in ours.items()]
        return [*found, (threading, "main_thread", self._here(threading.main_thread, lambda: self.thread))]

    def _here(self, original: Callable[..., Any], ours: Callable[..., Any]) -> Callable[..., Any]:
        """`ours` in the script's thread, the original in every other."""

        def called(*args: Any, **kwargs: Any) -> Any:
            made = ours if threading.current_thread() is self.thread else original
            return made(*args, **kwargs)

        called.__name__ = getattr(original, "__name__", "called")
        return called

    def _signal(self, number: int, handler: Any) -> Any:
        before = self._getsignal(number)
        self._handlers[number] = handler
        return before

    def _getsignal(self, number: int) -> Any:
        return self._handlers[number] if number in self._handlers else _getsignal(number)

    def _set_wakeup_fd(self, fd: int, *, warn_on_full_buffer: bool = True) -> int:
        before, self._wakeup_fd = self._wakeup_fd, fd
        return before


_getsignal = signal.getsignal
