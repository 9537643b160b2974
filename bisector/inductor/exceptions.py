"""What a run raised, as something to compare: of eager and compiled one may raise where the other returns."""

from __future__ import annotations

import re
import traceback
from pathlib import Path

import torch
from torch._dynamo.exc import RestartAnalysis
from torch._inductor.exc import OperatorIssue

from ..core.model import OutputMeasurement, Raised
from ..errors import NO_ROOM, first_line
from .kernels import ENTRY

_COMPILER_ERROR = re.compile(r"^\S+:\d+:\d+: (?:fatal )?error: (.*)$", re.MULTILINE)
MOST = 200  # characters of it
EXCEPTION = "exception"  # the path under which it stands among the outputs
# The last three are of a kernel's file of which another process, which was killed, had written a part.
_OF_THE_MACHINE = (
    *NO_ROOM, "Cannot allocate memory", "Killed", "can't allocate memory", "file too short",
    "invalid ELF header", "file truncated",
)  # fmt: skip
# A file of generated code is named by its hash (torch/_inductor/codecache.py, code_hash); one of kernels that
# are built together by a number, in a temporary folder of ours (serving/building.py).
_GENERATED = re.compile(r"[^\s'\"]*/(?:c[a-z2-7]{50,52}\.\w|numbisect-\w{8}/\d+\.cpp)[^\s,'\"]*")
_OURS = str(Path(__file__).resolve().parents[1])


def root_of(error: BaseException) -> BaseException:
    """What was raised first: the compiler wraps it (torch/_inductor/exc.py, torch/_dynamo/exc.py)."""
    while True:
        inner = getattr(error, "inner_exception", None)
        if inner is None and isinstance(error, OperatorIssue):
            inner = error.__cause__
        if not isinstance(inner, BaseException):
            return error
        error = inner


def describe_error(error: BaseException) -> str:
    """Type and first line of what was raised first; where that has no text, of what it came in. Of a failed
    C++ compile also the compiler's first error."""
    root = root_of(error)
    message = first_line(root) if str(root).strip() else f"{type(root).__name__} ({first_line(error)})"
    message = ENTRY.sub("kernel", _GENERATED.sub("the generated code", message))
    found = _COMPILER_ERROR.search(str(root))
    return f"{message} ({found[1][:MOST]})" if found else message


def is_of_the_program(error: BaseException) -> bool:
    """Whether the program or its compiler raised it: not for want of memory or room, and not numbisect."""
    root = root_of(error)
    # A restart is what the compiler says to Dynamo, not to the program.
    if isinstance(root, (MemoryError, torch.OutOfMemoryError, RestartAnalysis)):
        return False
    if any(text in str(error) for text in _OF_THE_MACHINE):
        return False
    frames = traceback.extract_tb(root.__traceback__)
    return not frames or not frames[-1].filename.startswith(_OURS)


def compare(eager: BaseException | None, compiled: BaseException | None) -> OutputMeasurement:
    """How the exceptions of two runs stand to each other; None for one that returned."""
    messages = [None if error is None else describe_error(error) for error in (eager, compiled)]
    types = {type(root_of(error)) for error in (eager, compiled) if error is not None}
    raised = Raised(eager=messages[0], compiled=messages[1], alike=None not in messages and len(types) == 1)
    return OutputMeasurement(0, EXCEPTION, "", (), 1, raised=raised)
