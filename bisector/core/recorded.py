"""What running the target leaves: the calls of compiled functions that it made, and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .model import Json, Machine, Tolerance

# Graphs of up to this many calls are searched whole before they are reduced; a probe of a larger one takes
# seconds, and its plain baseline a kernel for every node.
SEARCHED_WHOLE = 40
# Of a larger graph the smallest case is followed: each value that is returned makes it larger to compile.
FOLLOWED_WHOLE = 2000
# Inputs of more elements make each probe slow by itself; they are cut down before the search.
MANY_ELEMENTS = 2**20


@dataclass(frozen=True)
class RecordedCall:
    """One call of a compiled function, as the script made it.

    entry: the name of what was compiled. nodes: calls in its graph. tolerances: those of the script's own
    comparisons, by output path, `*` for all outputs without one. digest: of the inputs. elements: in all
    inputs together. settings: flags that the script set around it. backend: `custom` for one without a name.
    code: a digest of its graph. within: the call of a compiled function that ran the graph, by its place.
    """

    index: int
    graph: int
    entry: str
    nodes: int
    backward: bool
    tolerances: Mapping[str, tuple[Tolerance, ...]]
    digest: str
    elements: int
    devices: tuple[str, ...]
    settings: Mapping[str, Json]
    backend: str
    code: str = ""
    within: int = 0

    @property
    def is_large(self) -> bool:
        """Whether the graph is looked into by regions."""
        return self.nodes > SEARCHED_WHOLE

    @property
    def can_be_followed(self) -> bool:
        """Whether the whole graph may be compiled with all its values returned."""
        return self.nodes <= FOLLOWED_WHOLE


@dataclass(frozen=True)
class Recorded:
    """What running the target left.

    scripted: the script compiled something itself. skipped_calls: later calls of graphs that were not kept;
    skipped_within: the calls of compiled functions that made these, by their places.
    ended: how the script ended if it did not reach its last line. eager_disagrees: assertions of the script
    that failed although every graph ran in eager. files: of the target's folder, those that it read, by their
    full names. one_at_a_time: the worker cannot fork. environment: variables that it had set when it first
    imported torch, to other values than the worker began with. nothing: why there are no calls, where it
    compiled something. unseeded: it drew random numbers, and neither it nor the command line set a seed.
    cut_short: how it was stopped before its end, empty where it was not.
    """

    calls: tuple[RecordedCall, ...]
    scripted: bool
    skipped_calls: int
    ended: str
    eager_disagrees: int
    notes: tuple[str, ...]
    machine: Machine
    files: tuple[str, ...] = ()
    on_cuda: bool = False
    one_at_a_time: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)
    nothing: str | None = None
    unseeded: bool = False
    cut_short: str = ""
    skipped_within: frozenset[int] = frozenset()
