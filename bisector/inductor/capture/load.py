"""Run the target as its author would, with torch.compile intercepted, and hand back what was recorded; and
which files of its own folder it reads meanwhile.
"""

from __future__ import annotations

import contextlib
import os
import random
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from ...core.messages import SEED, LoadOptions
from ...errors import first_line
from .. import torch_state
from ..generators import Generators
from ..main_module import execute
from ..probe_cache import ProbeCache
from ..threads import Ran, run_in_thread
from .artifacts import RUNNERS, CannotLoad
from .intercept import intercepted
from .record import Comparison, Recorder

_opened: set[str] | None = None  # while a script runs


@dataclass
class Loaded:
    """What running the target left. `problem` is a line for the user when there is nothing to study."""

    recorder: Recorder
    ended: str = ""  # how the script ended, when it did not reach its last line
    cut_short: str = ""  # the same, where its time was up
    problem: str | None = None
    nothing: str | None = None  # the same, where it compiled something and no call came to a graph
    late: bool = False  # the problem is that its time was up
    scripted: bool = False  # the script compiled something itself
    probe_cache: ProbeCache = field(default_factory=ProbeCache)


def load(options: LoadOptions, meanwhile: Callable[[], None] | None = None) -> Loaded:
    """Run the target in a thread of its own. meanwhile: see `run_in_thread`.

    The thread is what keeps later forks safe: OpenMP's pool belongs to the thread that opened a parallel
    region, so the main thread, which forks, never has one, whatever the script ran.
    """
    loaded = Loaded(Recorder())
    ran = run_in_thread(lambda: _run(options, loaded), "subject", options.timeout_s, meanwhile)
    if ran is not Ran.ENDED:
        _note_late(options, loaded, ran)
    _note_tolerances(loaded.recorder)
    if loaded.problem is None and loaded.scripted and not loaded.recorder.calls and options.device is None:
        loaded.nothing = _nothing(options, loaded)
    else:
        loaded.problem = loaded.problem or _problem(options, loaded)
    return loaded


def _note_late(options: LoadOptions, loaded: Loaded, ran: Ran) -> None:
    """What was recorded by then is studied, if the target could be stopped: nothing is forked next to it."""
    loaded.ended = loaded.cut_short = f"stopped after {options.timeout_s:.3g} s"
    name = os.path.basename(options.target)
    more = "make it shorter, or give it more with --timeout and --budget"
    if ran is Ran.RUNNING:
        loaded.problem = f"{name} goes on after its {options.timeout_s:.3g} s and cannot be stopped; {more}"
    elif not loaded.recorder.calls:
        loaded.problem = f"{name} called nothing compiled within {options.timeout_s:.3g} s; {more}"
    loaded.late = loaded.problem is not None


def _run(options: LoadOptions, loaded: Loaded) -> None:
    torch.set_num_threads(options.threads)
    loaded.recorder.begin(options.dynamic, options.wanted)
    seed = SEED if options.seed is None else options.seed
    random.seed(seed)
    torch_state.seed(seed)
    generators = Generators()
    path = Path(options.target)
    try:
        with intercepted(loaded.recorder, path):
            try:
                run = RUNNERS.get(options.kind)
                namespace = execute(str(path)) if run is None else run(path)
            finally:
                loaded.scripted = bool(loaded.recorder.entries)
            if not loaded.scripted:
                _run_convention(namespace, options)
    except CannotLoad as error:
        loaded.problem = f"{path.name}: {error}"
    except SystemExit as error:
        loaded.ended = f"sys.exit({error.code!r})"
    except SyntaxError as error:
        loaded.problem = f"{path.name}, line {error.lineno}: {error.msg}; numbisect needs a Python script"
    except BaseException as error:  # noqa: BLE001 - the script may raise anything; it ends the script, not us
        loaded.ended = f"{first_line(error)} ({_last_line_in(path, error)})"
    drawn = generators.drawn()
    if torch.cuda.is_initialized() and any(g.get_offset() for g in torch.cuda.default_generators):
        drawn |= {"torch"}  # CUDA came up with the script, and each draw moves the offset on
    loaded.recorder.unseeded = options.seed is None and bool(drawn - loaded.recorder.seeded)
    if loaded.recorder.unseeded:
        note = f"the script draws random numbers and sets no seed; {SEED} was set for it"
        loaded.recorder.notes.append(note)


def _run_convention(namespace: Mapping[str, Any], options: LoadOptions) -> None:
    """`Model`/`model`/`fn` with `get_inputs()`/`inputs`: compile it as the user would, and call it."""
    made = _convention_callable(namespace, options.entry)
    inputs = namespace["get_inputs"]() if callable(namespace.get("get_inputs")) else namespace.get("inputs")
    if made is None or inputs is None:
        return
    if options.device is not None:
        made = made.to(options.device) if isinstance(made, torch.nn.Module) else made
        inputs = torch.utils._pytree.tree_map_only(torch.Tensor, lambda t: t.to(options.device), inputs)
    compiled = torch.compile(made)
    if isinstance(inputs, dict):
        compiled(**inputs)
    else:
        compiled(*inputs) if isinstance(inputs, (tuple, list)) else compiled(inputs)


def _convention_callable(namespace: Mapping[str, Any], entry: str | None) -> Callable[..., Any] | None:
    found = [namespace[n] for n in ([entry] if entry else ["Model", "model", "fn"]) if n in namespace]
    if not found:
        return None
    made = found[0]
    if isinstance(made, type) and issubclass(made, torch.nn.Module):
        init = namespace.get("get_init_inputs", list)()
        made = made(**init) if isinstance(init, dict) else made(*init)
    return made


def _note_tolerances(recorder: Recorder) -> None:
    """Tolerances of the script's own comparisons of eager with compiled, on the outputs they were about.

    A comparison of something computed from the outputs speaks for all outputs of the calls before it,
    unless one that names an output directly is there.
    """
    everything = [(call, "*") for call in recorder.calls]
    comparisons = [comparison for comparison in recorder.comparisons if comparison.of_two_runs]
    some_direct = any(comparison.matched for comparison in comparisons)
    asked: dict[tuple[int, str], list[Comparison]] = {}
    for comparison in comparisons:
        for call, path in comparison.matched if some_direct else everything:
            asked.setdefault((call.index, path), []).append(comparison)
    for (index, path), about in asked.items():
        if any(comparison.tolerance is not None for comparison in about):  # the defaults go without saying
            held = [comparison.tolerance or comparison.default for comparison in about]
            recorder.calls[index].tolerances[path] = tuple(dict.fromkeys(held))


def _problem(options: LoadOptions, loaded: Loaded) -> str | None:
    """One line for the user when nothing was recorded, None otherwise."""
    name = os.path.basename(options.target)
    if options.device is not None and loaded.scripted:
        return f"{name} compiles for itself and so chooses its device; leave --device out, or edit the script"
    if loaded.recorder.calls:
        return None
    if loaded.recorder.entries:
        return _nothing(options, loaded)
    if loaded.ended:
        return f"{name} ended before it compiled anything: {loaded.ended}; mend the script and run again"
    return (
        f"{name} never compiles anything; call torch.compile in it, "
        "or define Model, model or fn together with get_inputs() or inputs"
    )


def _nothing(options: LoadOptions, loaded: Loaded) -> str:
    """Something was compiled, and no call of it came to a graph, or was kept."""
    name = os.path.basename(options.target)
    compiled = loaded.recorder.entries[0].name
    if too_large := loaded.recorder.too_large:
        size = f"{too_large / (1 << 30):.1f} GiB"
        text = f"inputs and parameters of the compiled `{compiled}` take {size}, more than there is room for"
        return f"{name}: {text}; compile a part of it, such as one layer"
    why = f": {loaded.ended}" if loaded.ended else " is never called, or has nothing that Dynamo captures"
    return f"{name}: the compiled `{compiled}`{why}; call it once with real inputs"


def _last_line_in(path: Path, error: BaseException) -> str:
    trace = error.__traceback__
    line = None
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == str(path):
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"{path.name}:{line}" if line else path.name


@contextlib.contextmanager
def quiet_stdin() -> Any:
    """The script reads nothing: a prompt would wait for ever in a process without a terminal."""
    with open(os.devnull) as nothing:
        old, sys.stdin = sys.stdin, nothing
        try:
            yield
        finally:
            sys.stdin = old


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
