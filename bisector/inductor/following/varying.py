"""Where runs of one compiled program first differ from each other: its intermediate values, run by run."""

from __future__ import annotations

from ...core.case import Case
from ...core.evidence import MOST_RUNS
from ...core.model import Candidate
from ...core.protocol import CannotAnswer, Varying
from ...errors import first_line
from .. import execute
from ..capture.record import Call
from ..equality import same
from . import taps


def first_varying(call: Call, case: Case, train: bool | None) -> Varying:
    """The first node whose value is not the same in all runs. Raises CannotAnswer where the values of the
    compiled program cannot be had, or none of them varies once they are returned."""
    try:
        subject = execute.prepare(call, case, train)
        values = taps.Values(subject.edited.gm)
        execute.run(subject, values.run)
        tapped = taps.tapped(subject, values, ())
        with execute.active(execute.control_for(Candidate())):
            compiled = execute.compile_subject(tapped.subject, Candidate())
            runs = (execute.run(tapped.subject, compiled) for _ in range(MOST_RUNS))
            first, *others = (tapped.values(run) for run in runs)
    except Exception as error:
        raise CannotAnswer(first_line(error)) from error  # eager or compiled code may raise anything
    varying = {
        tap.node
        for tap, value in first.items()
        if any(not same(value, other[tap]) for other in others)
    }
    node = next((n for n in subject.edited.gm.graph.nodes if n.name in varying), None)
    if node is None:
        raise CannotAnswer("with its intermediate values returned the compiled program does not vary")
    return Varying(node.name)
