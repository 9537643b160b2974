"""The outputs of a compiled run measured against those of eager, for one subject."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.model import OutputMeasurement
from . import measure
from .execute import Outputs, Subject
from .measure import Exact


def measured(
    subject: Subject, eager: Outputs, compiled: Outputs, reference: Mapping[str, Exact] | None = None
) -> tuple[OutputMeasurement, ...]:
    """How the outputs of a compiled run stand against those of eager."""
    both = {**{k: None for k in compiled if k not in eager}, **eager}
    return measure.measure_all(*_originals_for(subject, both, compiled), reference)


def _originals_for(subject: Subject, eager: Outputs, compiled: Outputs) -> tuple[Outputs, Outputs]:
    """An input that only one side wrote into is, on the other side, the input as it was."""
    original = {f"mutated[{n}]": v for n, v in zip(subject.names, subject.edited.args, strict=True)}
    fill = {k: v for k, v in original.items() if k in eager or k in compiled}
    full_eager = {k: (fill[k] if v is None and k in fill else v) for k, v in eager.items()}
    return full_eager, {**{k: fill[k] for k in full_eager if k in fill}, **compiled}
