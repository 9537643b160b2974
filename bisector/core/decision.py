"""One choice of the compiler, and the ID that names it. `docs/words.md` lists the kinds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BACKWARD = "bwd."  # begins the name of every node of a backward graph
MOST_LISTED = 4  # members of a set, where it stands in a line


class DecisionId(str):
    """`kind:detail@node`: `fma:sub@mul_1`; in graph 2 of a script `g2/fma:sub@mul_1`.

    It is its text: it is compared, sorted and written to JSON as that. Its parts are read here alone.
    """

    __slots__ = ()

    @classmethod
    def of(cls, kind: str, detail: str, node: str) -> DecisionId:
        return cls(f"{kind}:{detail}@{node}")

    def in_graph(self, number: int) -> DecisionId:
        """The same decision in that graph of a script; from 1 on."""
        return DecisionId(f"g{number}/{self}")

    @property
    def kind(self) -> str:
        """`fma` of `fma:sub@mul_1`, and of `g2/fma:sub@mul_1`."""
        return self.partition(":")[0].rpartition("/")[2]

    @property
    def graph(self) -> int | None:
        """The number of the graph of a script; None where only one is compiled, and outside of graphs."""
        number = self.partition(":")[0].rpartition("/")[0].removeprefix("g")
        return int(number) if number else None

    @property
    def node(self) -> str:
        """The Dynamo node, `bwd.NAME` in a backward graph: `mul_1` of `fma:sub@mul_1`. Of what is decided
        outside of graphs, the place: `call4`, `script.py:8`, `graph`."""
        return self.rpartition("@")[2]

    @property
    def forward_node(self) -> str:
        """The node without the mark of a backward graph."""
        return self.node.removeprefix(BACKWARD)

    @property
    def place(self) -> str:
        """All between the kind and the node: `aten.mul/mul_1` of `lower:aten.mul/mul_1@gelu`."""
        return self.partition(":")[2].rpartition("@")[0]

    @property
    def detail(self) -> str:
        """The place without the `/name` that distinguishes nodes of one Dynamo node: `aten.mul`."""
        return self.place.rpartition("/")[0] or self.place

    @property
    def op(self) -> str:
        """The detail without the `#k` of a further copy: `aten.mul` of `lower:aten.mul#1@gelu`."""
        return self.detail.partition("#")[0]

    @property
    def group(self) -> str:
        """`lower:aten.tanh` of `lower:aten.tanh@h_3`: the same choice made at many nodes."""
        return self.rpartition("@")[0]


class Pattern(str):
    """What decisions of several graphs have in common: `cast:bfloat16`, or a kind alone: `fma`."""

    __slots__ = ()

    @property
    def kind(self) -> str:
        return self.partition(":")[0]

    @property
    def detail(self) -> str:
        """`bfloat16` of `cast:bfloat16`, "" of `fma`."""
        return self.partition(":")[2]


@dataclass(frozen=True)
class Decision:
    """One choice that the compiler made in one compile.

    The ID stays the same when another decision is denied. `text` says it in a sentence; `where` is the user's
    `file:line`, if known; `source` torch's own, of the formula that a `lower` or a `decomp` puts in place.
    """

    id: DecisionId
    text: str = ""
    where: str = ""
    source: str = ""

    @property
    def kind(self) -> str:
        return self.id.kind

    @property
    def node(self) -> str:
        return self.id.node


def listed(members: Sequence[str]) -> str:
    """The members of a set in a line, or the first of many."""
    few = len(members) <= MOST_LISTED
    return " + ".join(members) if few else f"{members[0]} and {len(members) - 1} more"
