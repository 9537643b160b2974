"""What the errors of a part of the graph carry to the outputs: of a layer, an operation, a single node."""

from __future__ import annotations

import enum
from collections.abc import Collection, Sequence
from dataclasses import dataclass


class Shares(enum.Enum):
    """Whether the answer says what the errors of the parts of the graph carry to the outputs."""

    NONE = "none"
    ALL = "all"


@dataclass(frozen=True)
class Carried:
    """What the errors of some nodes carry to one output: mean squares of the difference to eager, over that
    of the compiled run. They add up where the errors are independent of each other.

    alone: with these errors alone. without: with all others. flips: of the choices that the script makes by
    an argmax, those that differ, alone and without.
    """

    path: str
    alone: float
    without: float
    flips: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class Part:
    """Nodes of the graph at which errors arise. name: of the layer, operation or node, "" for all of them."""

    name: str
    nodes: tuple[str, ...]
    carried: tuple[Carried, ...]

    def alone(self, paths: Collection[str]) -> float:
        """What it carries to these outputs by itself, each counting the same."""
        return _mean([carried.alone for carried in self.carried if carried.path in paths])

    def without(self, paths: Collection[str]) -> float:
        """What all others carry to these outputs."""
        return _mean([carried.without for carried in self.carried if carried.path in paths])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else 0.0


@dataclass(frozen=True)
class Parts:
    """What the parts of a graph carry.

    everything: all errors together, None where that was not asked. layers, operations: in the order of the
    graph. most: the nodes that carry most, each by itself.
    """

    everything: Part | None = None
    layers: tuple[Part, ...] = ()
    operations: tuple[Part, ...] = ()
    most: tuple[Part, ...] = ()

    def faithful(self, paths: Collection[str]) -> bool:
        """Whether eager with all errors gives what compiled gives, at these outputs."""
        return self.everything is not None and abs(self.everything.alone(paths) - 1.0) < FAITHFUL


FAITHFUL = 0.1
