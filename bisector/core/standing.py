"""Where a script first differs from eager, and how far each of its calls is from eager."""

from __future__ import annotations

from dataclasses import dataclass

from .notes import CallName


@dataclass(frozen=True)
class Value:
    """A value of a call, by its path. argument: the name of the one that it belongs to, empty where that is
    none or not known. by_compiled: it is what an argument holds afterwards, which eager was seen to leave as
    it was. mismatch: of a gradient or a tangent, in what the two differ, where not in numbers (`a Tensor of
    zeros that eager does not have`); empty elsewhere."""

    path: str
    argument: str = ""
    by_compiled: bool = False
    mismatch: str = ""


@dataclass(frozen=True)
class Place:
    """Where a script first differs. of: how many compiled calls it makes. values: the first that the call
    returns, and the first that it leaves behind, of those that differ."""

    call: CallName
    of: int
    values: tuple[Value, ...]


@dataclass(frozen=True)
class Standing:
    """How far a call is from the run with compilation off: the largest difference over the largest value of
    what it returns, of gradients, and of what arguments, parameters and buffers hold afterwards. It is 0
    where all are bit-equal, infinite where they differ in more than values, None where there are none.

    differs: the first value that does not agree with eager on the very inputs of the call, by the tolerance
    or by more than rounding makes within it; empty where all agree, None where eager was not run on them.
    """

    call: CallName
    outputs: float | None
    gradients: float | None
    left: float | None
    differs: str | None


@dataclass(frozen=True)
class ByCall:
    """place: None where nothing differs at a call. standings: of all calls, in their order."""

    place: Place | None = None
    standings: tuple[Standing, ...] = ()


NOTHING = ByCall()
