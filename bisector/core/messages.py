"""The messages between the processes of a run: JSON objects, one a line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from .model import Json
from .printed import PrintedLine


class Lines:
    """Objects out of the bytes of a stream, which come in pieces."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> None:
        """The next piece."""
        self._rest += data

    def take(self) -> Any:
        """The next object; None while its line is not complete."""
        if b"\n" not in self._rest:
            return None
        line, _, rest = bytes(self._rest).partition(b"\n")
        self._rest = bytearray(rest)
        return json.loads(line)


RequestT = TypeVar("RequestT")
SEED = 0  # where neither the script nor the command line sets one
SCRIPT_S = 600.0  # for the script's own run, where the command line says nothing


@dataclass(frozen=True)
class LoadOptions:
    """What the command line says about the subject.

    kind: what `target` is, by `bisector.subject.targets`.
    dynamic, train: None leaves it to the script. seed: set before the script's first line.
    device: where the module convention's model and inputs go; a script chooses for itself.
    timeout_s: for running it. threads: of a plain run of the script, which the worker finds out.
    wanted: of the calls of compiled functions, counted from 0, one that is kept whatever was kept before.
    """

    target: str
    kind: str = "script"
    entry: str | None = None
    dynamic: bool | None = None
    train: bool | None = None
    device: str | None = None
    seed: int | None = None
    threads: int = 1
    timeout_s: float = SCRIPT_S
    wanted: int | None = None


@dataclass(frozen=True)
class ProgramOptions:
    """The options of a worker whose probes are whole runs of a script.

    script: the file. folder: what the run with compilation off left there. threads: as of LoadOptions.
    config: settings that hold in every compile. values_alone: what the script says of itself does not count.
    rung: the backend in the place of the script's own, where that does more. lines: the printed ones that
    count.
    """

    script: str
    folder: str
    seed: int
    rung: str
    values_alone: bool = False
    threads: int = 1
    config: Mapping[str, Json] = field(default_factory=dict)
    lines: tuple[PrintedLine, ...] = ()


@dataclass(frozen=True)
class WorkerOptions:
    """What a worker is started with.

    config: baseline settings (`-c`), by the names users write. memory_bytes: limit of one probe.
    folder: the working directory of the script. first: build the compiler's precompiled header meanwhile;
    a later worker of the same run finds it built. forks: each job in a forked child, or all jobs in the
    worker itself; None: in the worker once the script has used CUDA, which no fork survives.
    choices: the file where what is chosen by timing on a GPU is kept for the next probe; None: nowhere.
    left_s: what is left of the budget, which bounds the run of the script too; None: no budget.
    environment: variables that the script sets before it imports torch. program: given, no target is loaded,
    and each probe is a run of this script. lanes: how many probes compute at a time, while others wait for
    kernels that are built together; None: as many as are asked at a time, and each builds its own. trace: the
    file of the profile.
    """

    load: LoadOptions
    config: Mapping[str, Json] = field(default_factory=dict)
    first: bool = True
    memory_bytes: int | None = None
    folder: str | None = None
    log: str = "/dev/null"
    forks: bool | None = None
    choices: str | None = None
    left_s: float | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    program: ProgramOptions | None = None
    lanes: int | None = None
    trace: str | None = None


@dataclass(frozen=True)
class Envelope(Generic[RequestT]):
    """A request on its way to a worker. timeout_s: seconds that its job may take."""

    id: int
    timeout_s: float
    request: RequestT

    @classmethod
    def read(cls, message: Mapping[str, Json], load: Callable[[Json], RequestT]) -> Envelope[RequestT]:
        """From its JSON. load: a request from its own."""
        return cls(message["id"], float(message["timeout_s"]), load(message["request"]))


@dataclass(frozen=True)
class Reply:
    """What came of a request. answer: JSON of the request's own answer type, if there is one; error: why
    there is none. ended: the process that answered is gone with this answer."""

    id: int
    answer: Json = None
    error: str | None = None
    ended: bool = False
