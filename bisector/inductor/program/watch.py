"""Watches a script from within: what its compiled calls return and leave behind, what its comparisons say.

Passive: what is compiled is compiled by torch, and what is called is called as it was. With compilation off
the values are kept in files, one for each call; in the compiled run they are measured against these.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import os
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import torch

from bisector import wire
from bisector.core.backends import INDUCTOR, is_beyond, rung_of
from bisector.core.model import Measurement
from bisector.core.program import CompiledCall, Effect, Mode, WatchOptions
from bisector.errors import first_line

from .. import torch_state
from ..capture import comparisons
from ..capture.comparisons import Compared
from ..capture.compile_stand_ins import of_compile
from ..capture.wrapped_calls import IN_A_CALL, is_of_the_program, wrapped
from ..run_values import Values, digests_of, measured, size_of
from ..threads import ThreadFlag
from . import call_values, effects
from .eager_rerun import EagerRerun
from .effects import PutBack, place_of
from .given import names_of
from .reach import code_of
from .substitution import Kept, Rounded, Substituted

KEPT_BYTES = 512 << 20  # of values, over all calls; of the larger ones of later calls a digest and a sample
Note = Callable[..., None]
T = TypeVar("T")


Around = Callable[["Started"], AbstractContextManager[None]]
Beside = Callable[..., EagerRerun | None]


@dataclasses.dataclass(frozen=True)
class Started:
    """A call of the script that begins. model: what was compiled; index: its place, from 0."""

    index: int
    entry: str
    model: Any
    args: Any
    kwargs: Any


def alone(started: Started) -> AbstractContextManager[None]:
    """Around a call that nobody is notified of."""
    return nullcontext()


def begin(
    asked: WatchOptions, note: Note, around: Around = alone, beside: Beside | None = None
) -> Callable[[], None]:
    """Replace torch.compile and the comparisons. around: entered for each call; beside: what runs eager on
    the inputs of a call, given its parts; else the mode says for which calls it runs. Returns what must be
    called when the script ends."""
    torch_state.seed(asked.seed)
    watch = Watch(asked, note, around, beside)
    if not asked.mode.is_compiled:
        _answer_is_compiling(watch, asked.compiling)
    compiled = functools.partial(_compiled, watch, asked.backend, asked.arguments)
    _watch_backward(watch)
    if asked.put_back is not None:
        PutBack(asked.put_back, asked.codes).begin()
    for owner, name, stand_in in (of_compile(compiled), *comparisons.stand_ins(watch.compared)):
        setattr(owner, name, stand_in)
    return watch.finish


@dataclasses.dataclass
class Pending:
    """A call whose gradients and parameters are not seen yet. model: what was compiled; given: the arguments;
    values: what is known by now. effects: what else it did; kept: which arguments it left as they were.
    raised: what a backward pass behind it did. rerun: where eager is run on the same inputs."""

    index: int
    entry: str
    model: Any
    given: Any
    values: Values
    effects: tuple[Effect, ...] = ()
    kept: tuple[str, ...] = ()
    raised: str | None = None
    rerun: EagerRerun | None = None


class Watch:
    """The compiled calls so far. around, beside: as of `begin`."""

    def __init__(
        self, asked: WatchOptions, note: Note, around: Around = alone, beside: Beside | None = None
    ) -> None:
        self.folder = Path(asked.folder)
        self.keeps = asked.mode is Mode.EAGER
        reruns = asked.mode in (Mode.EAGER_BESIDE, Mode.COMPILED_BESIDE)
        self.beside: Beside | None = EagerRerun if reruns and beside is None else beside
        self.note = note
        self.only = frozenset(asked.only)
        self.until = asked.until
        self.late = asked.late
        self.anew = frozenset(asked.anew)
        self.around = around
        self.count = 0
        self.kept = 0
        self.lock = threading.Lock()  # of the counts and of what is noted: a script may call from threads
        self.begun_in = threading.get_ident()
        self.keys = Counter[str]()
        self.process, self.noted_child = os.getpid(), False
        self.here = _OfThread()
        self.running = ThreadFlag()  # the program of a call runs, and not what looks at it
        self.open: dict[int, _Last] = {}  # calls that have returned and are not noted yet, by their places
        self.channel = _channel(asked, note)

    def call(self, entry: str, function: Callable[..., Any], model: Any, args: Any, kwargs: Any) -> Any:
        """Call the function, and note it. model: what it was compiled of."""
        if self._is_elsewhere():
            return function(*args, **kwargs)
        self._finish(self.here.last)
        given = (args, kwargs)
        self.here.last = last = self._begun(entry, model, given)
        self._before_call(last.index)
        before = last.safely(lambda: effects.before(model, given)) if self.keeps else None
        late = functools.partial(self._note, late=last.index)
        kept = last.index, model, function, args, kwargs, late
        beside = self.beside
        rerun = last.safely(lambda: beside(*kept)) if beside is not None else None
        if (channel := self.channel) is not None:
            last.safely(lambda: channel.before(last.index, model, given))
        try:
            in_eager = bool(self.only) and last.index not in self.only
            stance = torch.compiler.set_stance("force_eager") if in_eager else nullcontext()
            within = nullcontext() if channel is None else channel.mode()
            around = self.around(Started(last.index, entry, model, args, kwargs))
            with stance, within, around, self.running.set():
                result = function(*args, **kwargs)
        except Exception as error:
            self._raised(last, error, given)
            raise
        if channel is not None:
            unchanged = result
            made = last.safely(lambda: (channel.returned(last.index, model, unchanged, given),))
            result = unchanged if made is None else made[0]
        last.pending = last.safely(lambda: self._returned(last, result, given, before, rerun))
        self.open[last.index] = last
        return result

    def _raised(self, last: _Last, error: Exception, given: Any) -> None:
        """Note a call that raised, with what it left behind: the script may catch that and go on."""
        raised, classes = first_line(error), tuple(cls.__name__ for cls in type(error).__mro__)
        standing = last.safely(
            lambda: self._standing(
                last, call_values.copied(call_values.left(given) | call_values.state(last.model))
            )
        )
        found = standing or Measurement()
        self._note(**wire.dump(CompiledCall(
            last.index, last.entry, found.outputs, raised, found.unseen or last.unseen, found.same,
            key=last.key, classes=classes,
        )))  # fmt: skip

    def _standing(self, last: _Last, values: Values) -> Measurement:
        """How copied values stand to those of the run with compilation off, which are kept in that run."""
        file = self._file(last)
        if self.keeps:
            self._keep(file, values)
        elif (eager := _kept(file)) is not None:
            return measured(eager, values, call=last.index)
        return Measurement()

    def _begun(self, entry: str, model: Any, given: Any) -> _Last:
        """The next call. Of calls in other threads the order is chance: they are known by what they are
        given, too."""
        key = ""
        if threading.get_ident() != self.begun_in:
            key = f"{entry} {call_values.digest_of(given)}"
        with self.lock:
            index, self.count = self.count, self.count + 1
            self.keys[key] += 1
            return _Last(index, entry, model, f"{key} {self.keys[key]}" if key else "")

    def _is_elsewhere(self) -> bool:
        """Whether this is a child process of the script's, whose calls nobody sees; that is noted once."""
        if os.getpid() == self.process:
            return False
        if not self.noted_child:
            self.noted_child = True
            self._note(unseen="it calls what it compiles in child processes, which were not looked into")
        return True

    def _before_call(self, index: int) -> None:
        with self.lock:
            late, self.late = self.late, ()
        for line in late:
            exec(line, {"torch": torch})
        if index + 1 in self.anew:
            torch._dynamo.reset()

    def _returned(
        self, last: _Last, result: Any, given: Any, before: effects.Before | None, rerun: EagerRerun | None
    ) -> Pending:
        values = call_values.copied(call_values.returned(result, given))
        done, left = (before.effects(), before.kept()) if before is not None else ((), ())
        if rerun is not None:
            rerun.returned(result)
        return Pending(last.index, last.entry, last.model, given, values, done, left, rerun=rerun)

    def _note(self, **event: Any) -> None:
        with self.lock:
            self.note(**event)

    @property
    def pending(self) -> Pending | None:
        """The last call of this thread, which has returned."""
        return self.here.last.pending if self.here.last is not None else None

    def compared(self, comparison: Compared) -> bool:
        """Note what the script's comparison says; one that fails ends the script as it would."""
        self._note(agreed=comparison.agreed, raised=comparison.raised)
        return True

    def before_backward(self) -> None:
        """Keep the gradients that a backward pass adds to."""
        last, pending = self.here.last, self.pending
        if last is not None and pending is not None and (rerun := pending.rerun) is not None:
            last.safely(lambda: rerun.before_backward(pending.given))

    def after_backward(self) -> None:
        """Keep the gradients of the last call: the script may clear them before the next one."""
        last, pending = self.here.last, self.pending
        if last is not None and pending is not None:
            last.safely(lambda: self._after_backward(pending))

    def _after_backward(self, last: Pending) -> None:
        last.values |= call_values.copied(call_values.gradients(last.model, last.given))

    def raised_in_backward(self, error: Exception) -> None:
        """It belongs to the last call, whose graph it most often runs."""
        if self.pending is not None:
            self.pending.raised = self.pending.raised or first_line(error)

    def finish(self) -> None:
        """What the last call of each thread and what came after it left behind."""
        for last in list(self.open.values()) if os.getpid() == self.process else ():
            self._finish(last)

    def _finish(self, one: _Last | None) -> None:
        if one is None or self.open.pop(one.index, None) is None:
            return
        last, one.pending = one.pending, None
        if last is None or one.safely(lambda: self._noted(one, last)) is None:
            self._note(**wire.dump(CompiledCall(one.index, one.entry, unseen=one.unseen, key=one.key)))
        if self.until is not None and one.index >= self.until:
            os._exit(0)  # what comes after is not asked about

    def _noted(self, one: _Last, last: Pending) -> bool:
        """Note a call with what it left behind."""
        left = call_values.state(last.model) | call_values.gradients(last.model, last.given)
        later = {path: value for path, value in left.items() if path not in last.values}
        values = call_values.copied(later) | last.values
        standing = self._standing(one, values)
        code = code_of(last.model) if self.keeps else None
        call = CompiledCall(
            last.index, last.entry, standing.outputs, last.raised, standing.unseen, standing.same,
            last.effects, "" if code is None else place_of(code),
            tuple(names_of(last.model, *last.given)) if self.keeps else (), last.kept,
        )  # fmt: skip
        if last.rerun is not None:
            with IN_A_CALL.set(), self.running.set():  # what eager calls is no call of the script's
                evidence, why = last.rerun.evidence(last.values)
            call = dataclasses.replace(call, beside=evidence, beside_unseen=why)
        self._note(**wire.dump(dataclasses.replace(call, unseen=call.unseen or one.unseen, key=one.key)))
        return True

    def _file(self, last: _Last) -> Path:
        """Where the values of a call of the run with compilation off are kept."""
        name = hashlib.sha256(last.key.encode()).hexdigest()[:16] if last.key else str(last.index)
        return self.folder / f"{name}.pt"

    def _keep(self, path: Path, values: Values) -> None:
        with self.lock:
            self.kept += size_of(values)
        held = values if self.kept <= KEPT_BYTES else digests_of(values)
        torch.save(held, path)


def _channel(asked: WatchOptions, note: Note) -> Kept | Substituted | Rounded | None:
    """What takes part in each call; None where they are only looked at."""
    values = Path(asked.values or asked.folder)
    if asked.mode is Mode.COMPILED_KEPT:
        return Kept(values)
    if asked.mode is Mode.SUBSTITUTED:
        return Substituted(values, note, asked.too)
    return None if asked.rounded is None else Rounded(asked.rounded)


class _OfThread(threading.local):
    last: _Last | None = None  # its last call


@dataclasses.dataclass
class _Last:
    """A call of a thread. key: what it is known by besides its place, where the order of calls is chance.
    unseen: what we failed to look at."""

    index: int
    entry: str
    model: Any
    key: str
    pending: Pending | None = None
    unseen: str | None = None

    def safely(self, look: Callable[[], T]) -> T | None:
        """What we see of the call. Where looking fails that is no matter of the script's, and is noted."""
        try:
            return look()
        except Exception as error:  # noqa: BLE001 - whatever the script's objects raise when they are looked at
            self.unseen = self.unseen or f"numbisect could not look at all of it: {first_line(error)}"
            return None


def _kept(path: Path) -> Values | None:
    """None where the run with compilation off did not come to this call, or it raised there."""
    if not path.exists():
        return None
    kept: Values = torch.load(path, weights_only=False)
    return kept


# -- what is replaced -------------------------------------------------------------------------------------


def _compiled(
    watch: Watch,
    backend: str | None,
    arguments: Mapping[str, Any],
    original: Callable[..., Any],
    model: Any,
    given: Mapping[str, Any],
) -> Any:
    """What torch.compile makes of the model, its calls watched. backend: in the place of the script's own,
    where that does more. arguments: in the place of its own."""
    own = INDUCTOR if given.get("backend") is None else rung_of(given["backend"])
    watch.note(backend=own)
    if backend is not None and is_beyond(own, backend):
        given = _for_backend(given, backend)
    made = original(model, **{**given, **arguments})
    if (dynamo := sys.modules.get("torch._dynamo.eval_frame")) is not None:
        dynamo.skip_code(_CALLED_BY_COMPILED)  # where a graph breaks, Dynamo meets it as a frame
    if made is model and isinstance(model, torch.nn.Module):
        # With compilation off it is the module itself, whose own calls are none of the compiled one's.
        made = torch.compiler.disable(model)
    return made if given.get("disable") else wrapped(model, made, watch.call)


def _answer_is_compiling(watch: Watch, answer: bool) -> None:
    """With compilation off: notes that the program asks within a call whether it is compiled, and answers it.
    torch itself gets the true answer."""
    asked = False

    def is_compiling() -> bool:
        nonlocal asked
        if not watch.running.is_set or not is_of_the_program(sys._getframe(1)):
            return False
        if not asked:
            asked = True
            watch.note(asked_compiling=True)
        return answer

    for owner, name in ((torch.compiler, "is_compiling"), (torch.compiler, "is_dynamo_compiling")):
        if hasattr(owner, name):
            setattr(owner, name, is_compiling)
    if (dynamo := sys.modules.get("torch._dynamo")) is not None and hasattr(dynamo, "is_compiling"):
        dynamo.is_compiling = is_compiling  # type: ignore[attr-defined]


def _for_backend(given: Mapping[str, Any], backend: str) -> dict[str, Any]:
    """The same call of torch.compile for another rung: of its arguments, Inductor's own settings are left
    out, and what concerns Dynamo stays."""
    kept = {k: v for k, v in given.items() if k not in ("mode", "options")}
    options = {k: v for k, v in (given.get("options") or {}).items() if k == "guard_filter_fn"}
    return kept | {"backend": backend} | ({"options": options} if options else {})


def _backward(watch: Watch, original: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    if watch.running.is_set:  # a part of what the call computes
        return original(*args, **kwargs)
    watch.before_backward()
    try:
        result = original(*args, **kwargs)
    except Exception as error:
        watch.raised_in_backward(error)
        raise
    watch.after_backward()
    return result


_CALLED_BY_COMPILED = _backward.__code__


def _watch_backward(watch: Watch) -> None:
    # Beneath the public functions, where this torch has it: Dynamo knows those by their identity.
    beneath = "_engine_run_backward"
    names = (beneath,) if hasattr(torch.autograd, beneath) else ("backward", "grad")
    for name in names:
        setattr(torch.autograd, name, functools.partial(_backward, watch, getattr(torch.autograd, name)))
