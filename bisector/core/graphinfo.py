"""What the search needs to know of a graph: nodes, what they read, shapes and places. Plain data."""

from __future__ import annotations

from dataclasses import dataclass

Place = int | str  # of an argument: its position or its keyword
Argument = tuple[Place, str]  # where, and the node that is read there
Axis = tuple[str, int]  # an input or a constant, and one of its dimensions


@dataclass(frozen=True)
class NodeInfo:
    """One node of the captured graph, in the order it runs.

    op: `input`, `call` or `constant`. reads: names of the nodes it reads. shape, dtype: of a tensor
    result (None otherwise). writes: it writes into its first argument. integers: constants among its
    arguments. contiguous: of an input, whether it lies in memory as a new tensor does. parts: of a call,
    how many computing ATen calls eager makes of it. where: the user's file:line. optional: what it reads in
    arguments that have a default. numeric: what it reads where it could read a number. module: where it is in
    the model (`model.layers.3.mlp`), "" outside of modules.
    """

    name: str
    op: str
    target: str
    reads: tuple[str, ...]
    shape: tuple[int, ...] | None
    dtype: str | None
    writes: bool = False
    integers: tuple[int, ...] = ()
    contiguous: bool = True
    parts: int = 1
    where: str = ""
    optional: tuple[Argument, ...] = ()
    numeric: tuple[Argument, ...] = ()
    module: str = ""

    @property
    def is_tensor(self) -> bool:
        return self.shape is not None

    @property
    def numel(self) -> int:
        count = 1
        for n in self.shape or ():
            count *= n
        return count


@dataclass(frozen=True)
class GraphInfo:
    """A graph after a case was applied.

    outputs: nodes by position, None for what is no tensor. aten: the ATen and prims calls it comes down to,
    without the views that a composite makes for itself. n_ops: how many of them compute, which a view and a
    constant do not.
    """

    nodes: tuple[NodeInfo, ...]
    outputs: tuple[str | None, ...]
    aten: tuple[str, ...] = ()
    n_ops: int = 0

    @property
    def inputs(self) -> tuple[NodeInfo, ...]:
        return tuple(n for n in self.nodes if n.op == "input")

    @property
    def leaves(self) -> tuple[NodeInfo, ...]:
        """The tensors that hold values of their own: inputs, and what the graph carries itself."""
        return tuple(n for n in self.nodes if n.op in ("input", "constant") and n.is_tensor)

    @property
    def axes(self) -> dict[Axis, int]:
        """The dimensions of the leaves that have more than one index, with their lengths."""
        return {(n.name, d): size for n in self.leaves for d, size in enumerate(n.shape or ()) if size > 1}

    @property
    def elements(self) -> int:
        """How many elements all leaves have."""
        return sum(n.numel for n in self.leaves)

    @property
    def calls(self) -> tuple[NodeInfo, ...]:
        return tuple(n for n in self.nodes if n.op == "call")

    def mentions(self, size: int) -> bool:
        """Whether it stands as a constant among the arguments of a call: a length, maybe."""
        return any(size in node.integers for node in self.calls)

    def node(self, name: str) -> NodeInfo:
        """Raises KeyError where there is none of that name."""
        for node in self.nodes:
            if node.name == name:
                return node
        raise KeyError(name)

    def length(self, name: str, dim: int) -> int:
        """How many indices a dimension of a tensor has. Raises where it has no such dimension."""
        return (self.node(name).shape or ())[dim]

    def ancestors(self, names: tuple[str, ...]) -> set[str]:
        """The nodes that `names` depend on, themselves included."""
        reads = {n.name: n.reads for n in self.nodes}
        found: set[str] = set()
        work = list(names)
        while work:
            name = work.pop()
            if name not in found:
                found.add(name)
                work.extend(reads[name])
        return found

    def dependencies(self) -> dict[str, int]:
        """How many nodes each depends on, itself included."""
        known: dict[str, int] = {}  # a bit for each node
        for position, node in enumerate(self.nodes):
            bits = 1 << position
            for name in node.reads:
                bits |= known[name]
            known[node.name] = bits
        return {name: bits.bit_count() for name, bits in known.items()}


def layer_of(module: str) -> str:
    """`model.layers.3` of `model.layers.3.mlp.act_fn`: up to the first number, or the first two names."""
    names = module.split(".")
    numbers = [at for at, name in enumerate(names) if name.isdigit()]
    return ".".join(names[: numbers[0] + 1 if numbers else 2])
