"""A smaller version of the captured graph, as a list of edits by node name, or of a script.

Edits name nodes of the captured graph and never rename what stays, so a decision ID found in a small
case is the same decision in the whole subject; and a case is JSON, so that it can be journalled.
"""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Slice:
    """Keep `length` indices, every `step`-th from `start` on, in one dimension of one input."""

    input: str
    dim: int
    start: int
    length: int
    step: int = 1


@dataclass(frozen=True)
class Case:
    """Edits, applied in this order.

    base: the case that the edits apply to; None: the captured graph.
    unfuse: calls that are replaced by the ATen calls which eager makes of them, `NAME__OP` by name.
    cut: nodes that become inputs holding the value eager gives them.
    bypass: (node, other): whatever reads `node` reads `other`, an input of it with the same shape.
    outputs: the nodes that are returned instead of the captured outputs; empty: as captured.
    slices: parts of inputs (cut nodes included) that are kept.
    sizes: (old, new): integer constants in arguments of nodes that follow the slices (views, expands).
    contiguous: inputs that lie in memory as a new tensor does, whatever strides they had.
    dtype: what all floating-point inputs are cast to; None: each has its own.
    values: (input, simplification): `zeros`, `ones`, `same:I` (all as the one at I of the flattened input),
        `only:I` (zeros but for that one), `integers` (rounded), `digits:N` (N significant decimal digits),
        `randn`, `rand`, `randn:SEED` (drawn anew in float32, by a generator with that seed, or with 0).
    scales: (input, factor): its values are multiplied, each product rounded to the input's dtype.
    arguments: (node, position or keyword, what stands there for a node): `default`, the argument's own;
        `one`, or `item:I`, the number at I of the flattened input that stood there, before its slices;
        `item:I:N` with N significant decimal digits.
    graphs, calls: of a whole script, those that are compiled; the others run op by op. Empty: all of them.
        A graph has the number that its decisions have, a call its place among the compiled calls from 0 on.
    until: of a whole script, the last call that is looked at, by its place; the script ends after it. None:
        it comes to its own end.
    left_out: of a whole script, the lines on which statements begin that are left out of it.
    """

    unfuse: tuple[str, ...] = ()
    cut: tuple[str, ...] = ()
    bypass: tuple[tuple[str, str], ...] = ()
    outputs: tuple[str, ...] = ()
    slices: tuple[Slice, ...] = ()
    sizes: tuple[tuple[int, int], ...] = ()
    contiguous: tuple[str, ...] = ()
    dtype: str | None = None
    values: tuple[tuple[str, str], ...] = ()
    scales: tuple[tuple[str, float], ...] = ()
    arguments: tuple[tuple[str, int | str, str], ...] = ()
    graphs: tuple[int, ...] = ()
    calls: tuple[int, ...] = ()
    until: int | None = None
    left_out: tuple[int, ...] = ()
    base: Case | None = None

    @property
    def has_own_values(self) -> bool:
        """Whether inputs hold other values than eager gives them in the whole subject."""
        numbers = any(instead != "default" for _, _, instead in self.arguments)
        own = bool(self.values or self.scales or self.dtype or numbers)
        return own or (self.base is not None and self.base.has_own_values)

    @property
    def has_plainer_inputs(self) -> bool:
        """Whether it makes inputs plainer, which leaves graph and shapes as they were."""
        return bool(self.values or self.contiguous or self.dtype)

    def rebased(self) -> Case:
        """A case without edits of its own over this one: cuts then take values of the smaller inputs."""
        return Case(base=self) if self != WHOLE else self

    def with_unfused(self, *nodes: str) -> Case:
        return replace(self, unfuse=tuple(sorted({*self.unfuse, *nodes})))

    def with_cut(self, *nodes: str) -> Case:
        return replace(self, cut=tuple(sorted({*self.cut, *nodes})))

    def with_bypass(self, node: str, other: str) -> Case:
        return replace(self, bypass=(*self.bypass, (node, other)))

    def with_slice(self, *slices: Slice) -> Case:
        kept = [s for s in self.slices if all((s.input, s.dim) != (n.input, n.dim) for n in slices)]
        return replace(self, slices=tuple(sorted((*kept, *slices), key=lambda s: (s.input, s.dim))))

    def with_size(self, old: int, new: int) -> Case:
        """What is `old` in the graph as it stands becomes `new`, what an earlier edit made `old` included."""
        followed = {first: new if last == old else last for first, last in self.sizes}
        return replace(self, sizes=tuple({old: new, **followed}.items()))

    def with_contiguous(self, *names: str) -> Case:
        return replace(self, contiguous=tuple(sorted({*self.contiguous, *names})))

    def with_dtype(self, dtype: str) -> Case:
        return replace(self, dtype=dtype)

    def with_value(self, name: str, simplification: str) -> Case:
        kept = [pair for pair in self.values if pair[0] != name]
        return replace(self, values=(*kept, (name, simplification)))

    def with_scale(self, name: str, factor: float) -> Case:
        return replace(self, scales=(*self.scales, (name, factor)))

    def with_argument(self, node: str, place: int | str, instead: str) -> Case:
        kept = [known for known in self.arguments if known[:2] != (node, place)]
        return replace(self, arguments=(*kept, (node, place, instead)))

    def with_graphs(self, *numbers: int) -> Case:
        return replace(self, graphs=tuple(sorted(numbers)))

    def with_calls(self, *numbers: int) -> Case:
        return replace(self, calls=tuple(sorted(numbers)))

    def with_end(self, call: int | None) -> Case:
        return replace(self, until=call)

    def with_left_out(self, *lines: int) -> Case:
        return replace(self, left_out=tuple(sorted(lines)))


WHOLE = Case()
WRITTEN_OUT = 64  # elements: a repro writes out the values of inputs that have no more
