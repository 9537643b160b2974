"""Why a verdict is as it is, as values: of a call that is run and compared, in this module; of what its
values show, in value_reasons.py; of a script, in script_reasons.py. What a measurement shows stands in
probe_reasons.py. Their words stand in report/reasons.py.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """Why a verdict is as it is; its words stand in report/reasons.py."""


@dataclass(frozen=True)
class Message(Reason):
    """Text as it came: of an answer of the worker, of a process or of an exception."""

    text: str


SILENT = Message("")  # where there is nothing to say


@dataclass(frozen=True)
class Together(Reason):
    """Reasons of which each goes on with what those before it say."""

    parts: tuple[Reason, ...]


@dataclass(frozen=True)
class OfOutput(Reason):
    """path: of the output that the reason is about."""

    path: str
    why: Reason


# -- runs that agree, or draw -------------------------------------------------------------------------------


@dataclass(frozen=True)
class AllAgree(Reason):
    """Every output agrees within tolerance."""


@dataclass(frozen=True)
class DrawsBeyond(Reason):
    """elements: of the output at path that compiled draws, and that lie beyond all that eager draws."""

    path: str
    elements: int


@dataclass(frozen=True)
class DrawsOthers(Reason):
    """Compiled draws from another random stream; with eager's every output agrees."""


@dataclass(frozen=True)
class EagerDraws(Reason):
    """Eager draws random numbers and differs from itself, and torch.compile draws others."""


@dataclass(frozen=True)
class BuildsAlone(Reason):
    """Nothing was classified: the user asked about builds."""


# -- outputs of another shape -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ShapeMoves(Reason):
    """elements: by how many more or less eager's own output has where each node is moved by one ulp."""

    elements: int


# -- runs that do not repeat --------------------------------------------------------------------------------


@dataclass(frozen=True)
class EagerDiffers(Reason):
    """Eager differs from eager on the same inputs and the same random state."""


@dataclass(frozen=True)
class EagerDiffersAt(Reason):
    """So it does, and the result of a node is left undefined. what: it is, as the worker says."""

    node: str
    what: str


@dataclass(frozen=True)
class RunsDiffer(Reason):
    """Runs of the compiled program differ from each other. unlike: how many of the runs gave other bits than
    the first. agreeing: how many agree with eager."""

    runs: int
    unlike: int
    agreeing: int


@dataclass(frozen=True)
class WrongInEveryRun(Reason):
    """No run agrees with eager, though they differ from each other too. wrong: what the first one shows."""

    wrong: Reason
    runs: int
    unlike: int
