"""Measurements of one output, as a test wants them."""

from __future__ import annotations

from typing import Any

from bisector.core.compared import Compared
from bisector.core.model import Measurement, OutputMeasurement, ProbeResult
from bisector.core.outcome import Outcome
from bisector.core.reasons import Message
from bisector.core.shown import ScriptResult


def output(path: str = "output[0]", **fields: Any) -> OutputMeasurement:
    """An output of 100 float32 elements that agrees bit for bit, but for what is given."""
    head = {"index": 0, "dtype": "float32", "shape": (100,), "numel": 100, "scale": 1.0}
    return OutputMeasurement(path=path, **{**head, **fields})


def off_by(diff: float, size: float = 1.0, path: str = "output[0]", **fields: Any) -> OutputMeasurement:
    """Half of the elements differ, one by `diff` where eager is `size`, the others by less."""
    given = {"n_diff": 50, "max_abs": diff, "frontier": ((size, diff),), "worst": (7,)}
    return output(path, **{**given, **fields})


def measured(*outputs: OutputMeasurement) -> Measurement:
    return Measurement(outputs=outputs)


AGREES = measured(output())
SCRIPT_AGREES = ScriptResult.agrees(Compared(values=1, calls=1, ends=("exit status 0",) * 2))
CRASH = Measurement(error="crash: signal 11 (SIGSEGV)")


def judged(outcome: Outcome, reason: str = "", *more: Any) -> ProbeResult:
    """A result with that outcome, of one value that was compared. more: a measurement, and signatures."""
    compared = Compared(values=1) if outcome is Outcome.PASS else None
    return ProbeResult(outcome, Message(reason), *more, compared=compared)
