"""What carries a difference through a script: the values that its calls give, how these lie in memory, the
time that they take, or something else, such as a side effect that is lost.

The script is run with compilation off, each call giving what it gave compiled: what it then does as in the
compiled run came through these values.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from .printed import PrintedLine, differing
from .program import Carrier, CompiledCall, PlainRun, exception_type
from .reasons import SILENT, Reason
from .script_reasons import CallNotMet, CannotStand, EndNotMet


@dataclass(frozen=True)
class Channel:
    """How a difference came to a call, or to what the script says outside its calls.

    call: the first call that is given something else than compiled, and at: what, where neither values nor
    time carried it to a call. unknown: why the carrier is not known.
    """

    carrier: Carrier
    call: CompiledCall | None = None
    at: str = ""
    unknown: Reason = SILENT

    @classmethod
    def hidden(cls, why: Reason) -> Channel:
        return cls(Carrier.UNKNOWN, unknown=why)


def to_call(kept: PlainRun, substituted: PlainRun, diverging: int) -> Channel:
    """kept: the compiled run; substituted: the one in which each call gave what it gave there. diverging: the
    place of the call that the two are followed to."""
    if substituted.parted is not None and substituted.parted < len(kept.calls):
        call = kept.calls[substituted.parted]
        if substituted.at:
            return Channel(Carrier.OTHER, call, substituted.at)
        return Channel.hidden(CannotStand(call.index + 1))
    if min(len(kept.calls), len(substituted.calls)) <= diverging:
        return Channel.hidden(CallNotMet())
    return Channel(Carrier.VALUES)


def to_words(kept: PlainRun, substituted: PlainRun, lines: Collection[PrintedLine]) -> Channel:
    """The same for what the script says outside its calls: its comparisons, its end and these lines."""
    for run in (kept, substituted):
        if run.unfinished:
            return Channel.hidden(EndNotMet(run.unfinished))
    if _say_the_same(kept, substituted, lines):
        return Channel(Carrier.VALUES)
    if substituted.parted is not None and not substituted.at and substituted.parted < len(kept.calls):
        return Channel.hidden(CannotStand(kept.calls[substituted.parted].index + 1))
    return Channel(Carrier.OTHER)


def _say_the_same(one: PlainRun, two: PlainRun, lines: Collection[PrintedLine]) -> bool:
    ends = [(run.agreed, run.refuted, run.status, exception_type(run.ended)) for run in (one, two)]
    return ends[0] == ends[1] and not differing(one, two, [replace(line, exactly=True) for line in lines])
