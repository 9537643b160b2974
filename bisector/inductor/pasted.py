"""A line of plain torch, run as it is printed, and the default compile after it.

A decision is denied at a node, where a hook asks; what plain torch can leave out, it leaves out everywhere of
a name, and not in the same place: the table of decompositions is not asked for an op that autograd has taken
apart before. So a line is tried before it is printed.
"""

from __future__ import annotations

import torch
from torch._inductor import decomposition

from bisector.errors import first_line

from ..core.case import Case
from ..core.model import Candidate, Measurement
from . import probing
from .capture.record import Call

# A candidate with a setting and no decision is compiled with the hooks asleep, as plain torch would; the
# worker compiles without caches anyway.
_UNHOOKED = Candidate.with_flags({"inductor.force_disable_caches": True})


def pasted(call: Call, case: Case, line: str, train: bool | None) -> Measurement:
    """The default compile in this process, which the line has changed. line: Python, with `torch` there."""
    try:
        exec(line, {"torch": torch})
    except Exception as error:  # noqa: BLE001 - a line that torch does not take is no way to apply a fix
        return Measurement(error=f"the line fails: {first_line(error)}")
    forget_copies()
    return probing.probe(call, case, _UNHOOKED, train)


def forget_copies() -> None:
    """Of the table of decompositions, which a compile before this one made."""
    copied = getattr(decomposition, "fast_random_decomps", None)
    if (clear := getattr(copied, "cache_clear", None)) is not None:
        clear()
