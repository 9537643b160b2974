"""The graph of a result as a drawing: what is shown as one box, and where it stands.

Calls are drawn one by one; of a model with modules those stand as one box each in which nothing of interest
happens, so that the drawing is opened down to the origin.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from bisector.core.followed import FollowedNode

from .document import Document
from .words import tensor

FEW = 40  # calls; so many are drawn one by one, whatever modules they are in
MOST_BOXES = 160  # a drawing of more is no drawing; the table has all
WIDTH, HEIGHT = 168, 44  # of a box, in pixels
APART, BELOW = 22, 40  # between boxes of a row, and between rows
# Units in the last place from which an error has the next colour; the first is any error at all.
STEPS = (0.0, 1.0, 16.0, 1024.0)


@dataclass(frozen=True)
class Box:
    """A call, or a module with all its calls. key: the call's name, or the module's path. local, carried: the
    colours, from 0 for equal to 4, by the error on equal inputs and by that of the values. minimal: in the
    minimal case."""

    key: str
    title: str
    below: str
    local: int
    carried: int
    marks: tuple[str, ...] = ()
    decisions: tuple[str, ...] = ()
    minimal: bool = False
    calls: int = 1
    line: str = ""
    x: float = 0.0
    y: float = 0.0


@dataclass(frozen=True)
class Drawing:
    """title: which pass of the graph. edges: as SVG paths, with the keys of their ends."""

    title: str
    boxes: tuple[Box, ...] = ()
    edges: tuple[tuple[str, str, str], ...] = ()
    width: float = 0.0
    height: float = 0.0


def drawings(result: Document) -> list[Drawing]:
    """Forward and backward separately; what would be too many boxes is left out."""
    nodes = result.graph.nodes if result.graph else ()
    passes = (("Forward", False), ("Backward", True))
    drawn = [(title, [n for n in nodes if n.gradient is gradient]) for title, gradient in passes]
    return [found for title, some in drawn if some and (found := _drawn(title, some, result)).boxes]


def colour(ulp: float | None) -> int:
    """0 for equal, then by STEPS."""
    value = math.inf if ulp is not None and math.isnan(ulp) else ulp or 0.0
    return 0 if value <= 0 else sum(value > step for step in STEPS)


def paths_of(module: str) -> list[str]:
    """Those of a module and of the ones around it, outermost first: `layers`, `layers.3`, `layers.3.mlp`."""
    names = module.split(".") if module else []
    return [".".join(names[:length]) for length in range(1, len(names) + 1)]


def shape_of(node: FollowedNode) -> str:
    """`float32[64, 4]`; empty for what is no tensor."""
    return "" if node.shape is None else tensor(node.dtype or "", node.shape)


def decisions_at(result: Document) -> dict[str, list[str]]:
    """The decisions of causes and repairs by the name of their node."""
    found: dict[str, list[str]] = {}
    for member in dict.fromkeys((*result.decided, *result.places)):
        found.setdefault(member.node, []).append(member)
    return found


def _drawn(title: str, nodes: Sequence[FollowedNode], result: Document) -> Drawing:
    decided, marks = decisions_at(result), _marks(result)
    kept = set(result.minimal.calls if result.minimal else ())
    opened = _opened(nodes, {*decided, *marks, *kept})
    shown = {node.name: _shown_as(node, opened, len(nodes)) for node in nodes}
    members: dict[str, list[FollowedNode]] = {}
    for node in nodes:
        members.setdefault(shown[node.name], []).append(node)
    if len(members) > MOST_BOXES:
        return Drawing(title)
    boxes = {
        key: replace(_box(key, some, decided, marks), minimal=key in kept) for key, some in members.items()
    }
    edges = {
        (shown[read], shown[node.name])
        for node in nodes
        for read in node.reads
        if read in shown and shown[read] != shown[node.name]
    }
    return _placed(title, boxes, sorted(edges))


def _marks(result: Document) -> dict[str, list[str]]:
    marks: dict[str, list[str]] = {}
    for found, mark in ((result.origin, "starts here"), (result.amplifier, "grows most")):
        if found is not None:
            marks.setdefault(found.node, []).append(mark)
    for output, name in (result.graph.outputs if result.graph else {}).items():
        marks.setdefault(name, []).append(output)
    return marks


def _opened(nodes: Sequence[FollowedNode], wanted: Iterable[str]) -> set[str]:
    """The paths of the modules in which one of these nodes is."""
    names = set(wanted)
    opened: set[str] = set()
    for node in nodes:
        if node.name in names:
            opened.update(paths_of(node.module))
    return opened


def _shown_as(node: FollowedNode, opened: set[str], calls: int) -> str:
    """The node's own name, or the outermost module around it that is not opened."""
    around = paths_of(node.module) if calls > FEW else []
    closed = next((path for path in around if path not in opened), None)
    return str(node.name) if closed is None else f"module {closed}"


def _box(
    key: str, some: Sequence[FollowedNode], decided: Mapping[str, list[str]], marks: Mapping[str, list[str]]
) -> Box:
    local = max(colour(node.ulp) for node in some)
    carried = max(colour(node.carried_ulp) for node in some)
    if key.startswith("module "):
        path = key.removeprefix("module ")
        below = _operation(some[0]) if len(some) == 1 else f"{len(some)} calls"
        return Box(key, path, below, local, carried, calls=len(some))
    [node] = some
    name = node.name
    return Box(
        name, name, _operation(node), local, carried,
        tuple(marks.get(name, ())), tuple(decided.get(name, ())), line=node.where,
    )  # fmt: skip


def _operation(node: FollowedNode) -> str:
    return f"{node.op.removeprefix('aten.')} {shape_of(node)}".strip()


@dataclass
class _Rows:
    """Boxes by the row that they stand in: below all that they read."""

    edges: Sequence[tuple[str, str]]
    depth: dict[str, int] = field(default_factory=dict)

    def fill(self, keys: Sequence[str]) -> list[list[str]]:
        reads: dict[str, list[str]] = {key: [] for key in keys}
        for source, target in self.edges:
            reads[target].append(source)
        for key in keys:
            self._depth(key, reads, frozenset())
        rows: list[list[str]] = [[] for _ in range(max(self.depth.values(), default=-1) + 1)]
        for key in keys:
            rows[self.depth[key]].append(key)
        return rows

    def _depth(self, key: str, reads: Mapping[str, list[str]], above: frozenset[str]) -> int:
        """Two modules as boxes may read each other: what leads back counts as nothing."""
        if key in above:
            return -1
        if key not in self.depth:
            self.depth[key] = 1 + max(
                (self._depth(read, reads, above | {key}) for read in reads[key]), default=-1
            )
        return self.depth[key]


def _placed(title: str, boxes: Mapping[str, Box], edges: Sequence[tuple[str, str]]) -> Drawing:
    rows = _Rows(edges).fill(list(boxes))
    widest = max(map(len, rows))
    width = widest * (WIDTH + APART) + 3 * APART  # with room for edges right of the last box
    centre: dict[str, float] = {}
    placed: dict[str, Box] = {}
    readers: dict[str, list[str]] = {}
    for source, target in edges:
        readers.setdefault(target, []).append(source)
    for level, row in enumerate(rows):
        row.sort(key=lambda key: _mean([centre[r] for r in readers.get(key, []) if r in centre], width / 2))
        left = (width - len(row) * (WIDTH + APART) + APART) / 2
        for position, key in enumerate(row):
            x, y = left + position * (WIDTH + APART), APART + level * (HEIGHT + BELOW)
            centre[key] = x + WIDTH / 2
            placed[key] = _at(boxes[key], x, y)
    paths = tuple((_path(placed[source], placed[target]), source, target) for source, target in edges)
    return Drawing(title, tuple(placed.values()), paths, width, APART + len(rows) * (HEIGHT + BELOW))


def _mean(values: Sequence[float], otherwise: float) -> float:
    return sum(values) / len(values) if values else otherwise


def _at(box: Box, x: float, y: float) -> Box:
    return replace(box, x=round(x, 1), y=round(y, 1))


def _path(source: Box, target: Box) -> str:
    """From the foot of one to the head of the other, past the boxes of the rows between."""
    x, y, u, v = source.x + WIDTH / 2, source.y + HEIGHT, target.x + WIDTH / 2, target.y
    if v - y <= BELOW:
        middle = (y + v) / 2
        return f"M{x:.1f} {y:.1f} C{x:.1f} {middle:.1f} {u:.1f} {middle:.1f} {u:.1f} {v:.1f}"
    bend = max(x, u) + WIDTH * 0.72
    return f"M{x:.1f} {y:.1f} C{bend:.1f} {y + BELOW:.1f} {bend:.1f} {v - BELOW:.1f} {u + 12:.1f} {v:.1f}"
