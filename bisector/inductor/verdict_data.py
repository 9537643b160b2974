"""What a verdict needs beside the default probe: a float64 reference, and how steady eager is."""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from ..core.case import Case
from ..core.model import Candidate, Measurement
from ..core.protocol import VerdictData
from . import measure, tensors
from .capture.record import Call
from .execute import Outputs, Subject, eager_program, prepare, run, run_again
from .probing import compiled_measurement
from .reference import FinestEps, Float64, NoReference, OneUlp, first_line, widened

NUDGES = 5  # a discontinuity is met by one ulp in about half of the draws; five miss one in thirty
MANY = 1_000_000  # among so many elements one draw meets every discontinuity that matters


def collect(call: Call, case: Case, train: bool | None) -> VerdictData:
    """The default compile with its float64 reference, and how steady and how sensitive eager is."""
    started = time.perf_counter()
    try:
        subject = prepare(call, case, train)
        gm = subject.edited.gm
        finest = FinestEps(gm)
        eager = run(subject, finest.run)
        again = Measurement(measure.measure_all(eager, run_again(subject, eager_program(subject))))
        restored = Measurement(measure.measure_all(eager, run(subject, eager_program(subject))))
    except Exception as error:  # noqa: BLE001 - the recorded graph cannot be repeated; the reason is kept
        failed = Measurement(error=f"eager fails: {first_line(error)}")
        return VerdictData(failed, failed, failed, (), ())
    notes: list[str] = []
    reference = _reference(subject, notes)
    nudged = tuple(
        Measurement(measure.measure_all(eager, run(subject, OneUlp(gm, seed, finest.eps).run)))
        for seed in range(_nudges(eager))
    )
    default = compiled_measurement(subject, Candidate(), eager, reference)
    seconds = time.perf_counter() - started
    return VerdictData(replace(default, seconds=seconds), again, restored, nudged, tuple(notes))


def _nudges(outputs: Outputs) -> int:
    elements = sum(v.numel() for v in outputs.values() if isinstance(v, torch.Tensor))
    return 1 if elements > MANY else NUDGES


def _reference(subject: Subject, notes: list[str]) -> Outputs | None:
    mode = Float64()
    args = widened(tensors.fresh(subject.edited.args, subject.edited.requires_grad))
    try:
        with mode:
            outputs = run(subject, eager_program(subject), args)
    except NoReference as error:
        notes.append(f"no float64 reference: {str(error).splitlines()[0]}")
        return None
    except Exception as error:  # noqa: BLE001 - an op may fail in float64 in any way; said, not guessed
        notes.append(f"no float64 reference: {first_line(error)}")
        return None
    if mode.narrow:
        notes.append(f"no float64 kernel, run as given: {', '.join(sorted(mode.narrow))}")
    return outputs
