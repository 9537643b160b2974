"""The program as its user runs it: how a run is made, and what is seen of it. A traceback or a warning on its
stderr names frames that its calls go through, which are others where compilation is off: these are left out.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .evidence import Evidence
from .model import Json, OutputMeasurement
from .notes import CallName
from .printed import MOST_LINES

PROGRAM = -1  # in the place of a call's index: the whole script
WHOLE_SCRIPT = "the whole script"  # in the place of the digest of its inputs
KEPT = "eager.json"  # in the folder of the values: what else the run with compilation off was

# The variables that turn compilation off: torch reads one at its import, the other as something is compiled
# (torch/_dynamo/config.py, eval_frame.py).
OFF = {"TORCH_COMPILE_DISABLE": "1", "TORCHDYNAMO_DISABLE": "1"}


class Mode(enum.Enum):
    """How the script is run."""

    EAGER = "eager"  # compilation is off; what it gives is kept
    EAGER_AGAIN = "eager again"  # compilation is off; what it gives is measured against what was kept
    COMPILED = "compiled"  # as it is; what it gives is measured against what was kept
    EAGER_BESIDE = "eager beside eager"  # compilation is off; each call is run again on the same inputs
    COMPILED_BESIDE = "compiled beside eager"  # as it is; each call is run in eager too, on the same inputs
    COMPILED_KEPT = "compiled, kept"  # as it is; what each call was given and gave is kept
    SUBSTITUTED = "eager with the compiled values"  # compilation is off; each call gives what was kept

    @property
    def is_compiled(self) -> bool:
        return self in (Mode.COMPILED, Mode.COMPILED_BESIDE, Mode.COMPILED_KEPT)


class EffectKind(enum.Enum):
    """What a call does besides giving values."""

    MUTATES = "changes an argument in place"
    MAKES_LAZY = "makes the parameters of a lazy module"
    CHANGES_STATE = "changes parameters or buffers"
    DRAWS = "draws random numbers"


class Carrier(enum.Enum):
    """What carries a difference from the calls of a script to what it does next."""

    VALUES = "the values that the calls give"
    LAYOUT = "how these lie in memory"
    TIME = "how long the calls take"
    OTHER = "something else"
    UNKNOWN = "not known"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """How a plain run is made.

    seed: where the script sets none. backend: in the place of the script's own, where that does more. until:
    the last call that is looked at, by its place; the script ends after it.
    too: where each call gives the values that it gave compiled, what else is as it was there: LAYOUT or TIME.
    rounded: with compilation off, the seed by which each operation of the calls is moved by some steps of its
    dtype. compiling: with compilation off a call that asks whether it is compiled gets yes. put_back: what
    a call does that is undone before the next one; codes: where the functions are written of which that
    holds, as `file:line`.
    early, late: lines of Python that a fix consists of: before torch is imported, and before the first call
    of something compiled, since the script may register lowerings of its own until then. disabled: lines of
    `def`, from 1, that get the decorator `torch.compiler.disable`. anew: numbers of calls, from 1, before
    which what is compiled is forgotten. arguments: of torch.compile, in the place of the script's own.
    """

    mode: Mode
    seed: int
    backend: str | None = None
    until: int | None = None
    too: Carrier | None = None
    rounded: int | None = None
    compiling: bool = False
    put_back: EffectKind | None = None
    codes: tuple[str, ...] = ()
    early: tuple[str, ...] = ()
    late: tuple[str, ...] = ()
    disabled: tuple[int, ...] = ()
    anew: tuple[int, ...] = ()
    arguments: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class WatchOptions(RunOptions):
    """The options of the code that watches a run.

    folder: where the values of the eager run are kept; values: where those are that calls gave compiled, the
    same folder where it is empty. only: the calls that run compiled, by their place; none: all of them.
    """

    folder: str
    values: str = ""
    only: tuple[int, ...] = ()


@dataclass(frozen=True, kw_only=True)
class PlainOptions(WatchOptions):
    """The options of the process of a plain run. events: the file that takes what is seen. root: the folder
    that holds the package."""

    events: str
    root: str


@dataclass(frozen=True)
class Effect:
    """name: of the argument, parameter or buffer."""

    kind: EffectKind
    name: str = ""


@dataclass(frozen=True)
class CompiledCall:
    """One call of something compiled, in the order of their beginnings. Calls within a call are part of it.

    outputs: what it returned, what its arguments held afterwards, and, before the next call, the gradients,
    parameters and buffers. Of a run with compilation off they are empty. raised: type and message, by it or
    by a backward pass before the next call; classes: of what it raised, the most derived first. unseen: which
    of its values could not be compared, and why. same: how many values besides the outputs are the same:
    names, numbers and the like.

    effects: what else it did, of a run with compilation off; code: where it is written, as `file:line`;
    arguments: the names of what it was given, by the place that paths have; kept: of the tensors among them
    (`argument 0`) those that it was seen to leave as they were. key:
    what it is known by where the script calls from several threads, so that the order of its calls is chance.

    beside: what the call gave, against eager on the very inputs that it had, where that was run too;
    beside_unseen: why that says nothing, or not all.
    """

    index: int
    entry: str
    outputs: tuple[OutputMeasurement, ...] = ()
    raised: str | None = None
    unseen: str | None = None
    same: int = 0
    effects: tuple[Effect, ...] = ()
    code: str = ""
    arguments: tuple[str, ...] = ()
    kept: tuple[str, ...] = ()
    key: str = ""
    classes: tuple[str, ...] = ()
    beside: Evidence | None = None
    beside_unseen: str = ""

    @property
    def named(self) -> CallName:
        return CallName(self.index + 1, self.entry)


@dataclass(frozen=True)
class PlainRun:
    """One run of the script.

    agreed: the answers of its own comparisons of tensors; refuted: how many of them raised. environment:
    variables that it had changed when it imported torch. ended: the exception that ended it; status: None
    where its time was up. printed: the lines on stdout; said: those that the script itself wrote on stderr,
    without frames of the compiler; wrote: those of the files that it wrote, each after the file's name.
    backends: what it gave to
    torch.compile, as rungs. parted: of a run in which each call gave what it gave compiled, the first call
    that was given something else than in the compiled run, and at: what; empty where that could not be
    compared. asked_compiling: a call asked whether it is compiled. unseen: what of it nobody saw. cut: a
    digest of printed lines that are too many to keep.
    """

    calls: tuple[CompiledCall, ...] = ()
    agreed: tuple[bool, ...] = ()
    refuted: int = 0
    environment: Mapping[str, str] = field(default_factory=dict)
    ended: str | None = None
    status: int | None = None
    printed: tuple[str, ...] = ()
    said: tuple[str, ...] = ()
    wrote: tuple[str, ...] = ()
    backends: tuple[str, ...] = ()
    parted: int | None = None
    at: str = ""
    asked_compiling: bool = False
    unseen: str = ""
    cut: str = ""

    @property
    def lines(self) -> int:
        """How many lines it wrote on stdout, on stderr and into files."""
        return len(self.printed) + len(self.said) + len(self.wrote)

    def up_to(self, call: int) -> PlainRun:
        """A run that was made to end after this call: its calls until then, and no more of it. Of calls from
        several threads none is known to be among them."""
        if self.unfinished:
            return self
        threads = any(one.key for one in self.calls)
        kept = () if threads else tuple(one for one in self.calls if one.index <= call)
        unseen = "it calls from several threads" if threads else self.unseen
        return PlainRun(kept, status=0, unseen=unseen)

    @property
    def unfinished(self) -> str:
        """Why its end says nothing of the script; empty where it came to its end."""
        if self.status is None:
            return "was stopped, its time being up"
        return f"was killed ({self.ended})" if -self.status in FROM_OUTSIDE else ""


LATE = "a gradient came back to it after the next call, and was not compared"
Event = Mapping[str, Any]


def with_events(run: PlainRun, calls: Sequence[CompiledCall], events: Sequence[Event]) -> PlainRun:
    """The run with what was noted while it ran (`inductor/program/watch.py`). calls: those that were
    noted; events: all else, in order."""
    agreed, backends, late, refuted = list[bool](), list[str](), set[int](), 0
    on_stderr, wrote = "", list[str]()
    for event in events:
        if "agreed" in event:
            agreed.append(event["agreed"])
            refuted += event.get("raised", False)
        elif "said" in event:
            on_stderr += event["said"]
        elif "wrote" in event:
            wrote += event["wrote"]
        elif "late" in event:
            late.add(event["late"])
        elif "backend" in event:
            backends.append(event["backend"])
        else:
            run = replace(run, **event)
    return replace(
        run,
        calls=tuple(
            replace(call, beside_unseen=LATE) if call.index in late else call
            for call in sorted(calls, key=lambda call: call.index)
        ),
        agreed=tuple(agreed),
        refuted=refuted,
        said=tuple(without_frames(on_stderr.splitlines())[:MOST_LINES]),
        wrote=tuple(wrote[:MOST_LINES]),
        backends=tuple(dict.fromkeys(backends)),
    )


def without_its_own_words(run: PlainRun) -> PlainRun:
    """The run where a criterion of the user's stands in the place of what the script says of itself: its
    comparisons, what it prints, an assertion that ends it, a status that it chooses. Another exception or a
    signal is no opinion of the script's, and stays."""
    if run.unfinished:
        return run
    chosen = run.ended is None or exception_type(run.ended) == "AssertionError"
    silent = replace(run, agreed=(), refuted=0, printed=(), said=(), wrote=(), cut="")
    return replace(silent, ended=None, status=0) if chosen and (run.status or 0) >= 0 else silent


# Signals that somebody or the machine sends, SIGHUP, SIGINT, SIGKILL and SIGTERM; a crash has others.
FROM_OUTSIDE = (1, 2, 9, 15)


def exception_type(ended: str | None) -> str:
    """The type of an exception that is given as `Type: message`; empty where there was none."""
    return (ended or "").partition(":")[0]


_OF_THE_COMPILER = r"/(?:torch/_(?:dynamo|inductor|functorch)|bisector/inductor/(?:program|capture))/"
# As the modules `traceback` and `warnings` write them, each with the line of source indented beneath.
_FRAME = re.compile(rf'( *)File "[^"]*{_OF_THE_COMPILER}[^"]*", line \d+, in ')
_PLACE = re.compile(rf"[^:]*{_OF_THE_COMPILER}[^:]*:\d+: (?=\w*Warning\b)")


def without_frames(lines: Iterable[str]) -> list[str]:
    """The lines without frames of the compiler and of what watches its calls. Of a warning that is ascribed
    to one its words stay."""
    found, beneath = list[str](), None
    for line in lines:
        indent = len(line) - len(line.lstrip())
        if beneath is not None and indent > beneath:
            continue
        frame, place = _FRAME.match(line), _PLACE.match(line)
        beneath = len(frame[1]) if frame is not None else 0 if place is not None else None
        if frame is None:
            found.append(line if place is None else line[place.end() :])
    return found
