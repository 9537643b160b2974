"""`guard:FUNCTION@callN`: a call of the script runs code that an earlier call compiled.

Uses Dynamo's own hook behind each look-up of compiled code (`set_guard_complete_hook`,
torch/csrc/dynamo/eval_frame_cpp.cpp), which may turn a hit into a miss. Denied, the frames of that call are
compiled anew, so that a value that no guard checks is read again. `program/watch.py` says which call is
running; outside of one nothing is asked. Exercised on torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from torch._C._dynamo.eval_frame import set_guard_complete_hook

from ...core import kinds
from ...core.decision import Decision, DecisionId
from ..control import current

KIND = kinds.GUARD


@dataclass
class Running:
    """A call of the script that is running: of which function, and its number, from 1.

    changed: says what is not as it was when the code was compiled. compiled: whether this call compiled any,
    where there was some already.
    """

    name: str
    number: int
    changed: Callable[[], str]
    compiled: bool = False


_running: list[Running] = []


def install() -> None:
    set_guard_complete_hook(_ask)  # type: ignore[arg-type]  # a protocol with parameters without names


@contextmanager
def running(call: Running) -> Iterator[None]:
    """While the call runs; nothing is asked outside of one."""
    _running.append(call)
    try:
        yield
    finally:
        _running.pop()


def _ask(hit: bool) -> bool:
    """Whether compiled code that was found may run."""
    control = current(KIND.name)
    if control is None or not _running:
        return hit
    call = _running[-1]
    if hit:
        runs = f"call {call.number}, of `{call.name}`, runs code that an earlier call compiled"
        text = f"{runs}; {call.changed()}"
        hit = control.take(Decision(DecisionId.of(KIND.name, call.name, f"call{call.number}"), text))
    call.compiled |= not hit
    return hit
