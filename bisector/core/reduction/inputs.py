"""Passes that make the inputs smaller (fewer elements, simpler values) or plainer (the strides of a new
tensor, the dtype that torch takes).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations, zip_longest

from ..case import WHOLE, WRITTEN_OUT, Case, Slice
from ..graphinfo import Axis, GraphInfo, NodeInfo
from ..model import OutputMeasurement, ProbeResult
from .problem import Problem

# Below this many elements in all a person reads the inputs at a glance; smaller costs probes for nothing.
SMALL = 16
# Where this many sets of axes in a row cannot be cut, the rest (channels of weights) mostly cannot either.
GIVE_UP_AFTER = 8
# Where so many inputs in a row need their strides, the rest (weights of equal layers) mostly does too.
STRIDES_GIVE_UP_AFTER = 4
PLAINEST = "float32"
OTHERS = frozenset({"float16", "bfloat16", "float64"})
# Lengths that are tried for all axes at once: (of the output's innermost one, of all others). A vector or a
# tile of more is cut along one axis at a time.
FEW_INDICES = ((1, 1), (2, 2))
MOST_CASES = 10  # of small inputs, those first that leave out most
# Elements that stand in for millions: few enough to probe in no time, more than any vector or tile.
PART = 16_384
_INTEGERS: tuple[str, ...] = ("zeros", "ones", "same:{}")
_FLOATS = (*_INTEGERS, "only:{}", "integers", "digits:1", "digits:2", "digits:4")
SIMPLER = dict.fromkeys(("float16", "bfloat16", "float32", "float64"), _FLOATS)
SIMPLER |= dict.fromkeys(("int8", "int16", "int32", "int64", "uint8"), _INTEGERS)
# What says all values of a larger input in one call.
_MANY = {_FLOATS: (*_INTEGERS, "randn", "rand"), _INTEGERS: _INTEGERS}

Window = tuple[int, int, int]  # start, length and step of the indices that are kept


def shrink_shapes(problem: Problem) -> None:
    """Cut every dimension of the inputs down: all at once, together with the equal ones, and alone.

    Shortest first. What is kept lies around the element that differs most, so that it goes on differing.
    """
    if problem.info.elements > WRITTEN_OUT:
        problem.first_at_once(around_the_worst(problem, FEW_INDICES))
        _cut_group_by_group(problem)
    while problem.info.elements > SMALL and problem.first_at_once(_little_shorter(problem)):
        if problem.info.elements <= 2 * SMALL:
            return  # another time it would take as many questions, for little


def _cut_group_by_group(problem: Problem) -> None:
    done: set[tuple[Axis, ...]] = set()
    misses = 0
    while problem.info.elements > WRITTEN_OUT and misses < GIVE_UP_AFTER:
        groups = [g for g in axes_together(problem.info) if g not in done]
        if not groups:
            return
        coordinates = _coordinates(problem, groups[0])
        taken = problem.first_interesting(_shorter(problem, groups[0], coordinates))
        # Around a known element the shortest window that holds is found at once; halves go on halving.
        if coordinates or not taken:
            done.add(groups[0])
        length = problem.info.length(*groups[0][0])
        problem.uncut |= dict.fromkeys(groups[0], length)
        misses = 0 if taken else misses + 1


def _little_shorter(problem: Problem) -> list[Case]:
    """Of inputs that are small already all axes cut to one index and to two, then each set of axes cut to
    one, two, four, and half of them."""
    info = problem.info
    found: dict[Case, int] = {}  # with the elements that are left out
    for group in axes_together(info):
        size = info.length(*group[0])
        held = sum(info.node(name).numel for name in {name for name, _ in group})
        places = _coordinates(problem, group)[:1]
        for length in sorted({1, 2, 4, size // 2} if places else {1, size // 2}):
            if 0 < length < size:
                starts = _around(size, length, places) if places else [0, *([length] if length > 1 else [])]
                for start in starts:
                    found[sliced(problem.case, group, (start, length, 1))] = held - held * length // size
    all_axes = around_the_worst(problem, FEW_INDICES)
    return [*all_axes, *sorted(found, key=lambda case: -found[case])][:MOST_CASES]


def take_part(problem: Problem) -> None:
    """Keep some thousand elements of very many, around the one that differs most.

    Outer axes are cut, and no shorter than need be: along the inner ones a compiler chooses vectors, tails
    and splits by length, and the part is to be compiled as the whole is.
    """
    for group in sorted(axes_together(problem.info), key=lambda g: (g[0][1], -len(g))):
        elements = problem.info.elements
        if elements <= PART:
            return
        name, dim = group[0]
        size = problem.info.length(name, dim)
        length = max(1, size * PART // elements)
        if size > length:
            starts = _around(size, length, _coordinates(problem, group)) or [0]
            problem.first_interesting(sliced(problem.case, group, (start, length, 1)) for start in starts)


def other_shapes(info: GraphInfo) -> Iterator[Case]:
    """The whole with one set of equal axes shorter, those first that hold the most elements.

    A quarter is gone, and what is left is odd: no multiple of a vector's or a tile's length.
    """
    for group in axes_together(info):
        name, dim = group[0]
        size = info.length(name, dim)
        if size >= 4:
            yield sliced(WHOLE, group, (0, (3 * size // 4 - 1) | 1, 1))


def axes_together(info: GraphInfo) -> list[tuple[Axis, ...]]:
    """Sets of axes to cut: those of equal length at the same place, all of equal length, and each alone.

    What can cut the most elements comes first. Among equals, axes at the same place together (to cut one of
    them alone often means broadcasting instead), then each alone, and last all of one length.
    """
    axes = info.axes
    groups: dict[tuple[Axis, ...], tuple[int, int]] = {}
    for size in set(axes.values()):
        equal = tuple(axis for axis, other in axes.items() if other == size)
        places = [tuple(a for a in equal if a[1] == d) for d in sorted({a[1] for a in equal})]
        for rank, group in [*((0, g) for g in places), *((1, (a,)) for a in equal), (2, equal)]:
            held = sum(info.node(name).numel for name in {name for name, _ in group})
            groups.setdefault(group, (held // size - held, rank))
    return sorted(groups, key=lambda g: (groups[g], g))


def around_the_worst(problem: Problem, lengths: Sequence[tuple[int, int]]) -> Iterator[Case]:
    """The case with all axes that lie along the output cut around the element that differs most, to each of
    these lengths: (of the output's innermost axis, of all others)."""
    info = problem.info
    aligned = {axis: found for axis in info.axes if (found := _aligned(problem, problem.default, axis))}
    if not aligned:
        return
    innermost = max(dim for places in aligned.values() for dim, _ in places)
    for inner, outer in lengths:
        case, cut = problem.case, dict[int, int]()
        for axis, ((dim, coordinate), *_) in aligned.items():
            size, length = info.axes[axis], inner if dim == innermost else outer
            if size > length:
                [start] = _around(size, length, [coordinate])
                case = sliced(case, (axis,), (start, length, 1))
                cut[size] = length
        if cut:
            yield case
            mentioned = {size: length for size, length in cut.items() if info.mentions(size)}
            for size, length in mentioned.items():
                case = case.with_size(size, length)
            if mentioned:
                yield case


def _shorter(problem: Problem, group: tuple[Axis, ...], coordinates: list[int]) -> Iterator[Case]:
    info = problem.info
    size = info.length(*group[0])
    for window in _windows(size, coordinates):
        yield sliced(problem.case, group, window)
        if info.mentions(size):
            yield sliced(problem.case, group, window).with_size(size, window[1])


def _windows(size: int, coordinates: list[int]) -> Iterator[Window]:
    """What is kept: around the coordinates, shortest first; the halves without any."""
    if not coordinates:
        yield 0, size // 2, 1
        yield size // 2, size - size // 2, 1
        return
    length = 1
    while length < size:
        for start in _around(size, length, coordinates[:2]):
            yield start, length, 1
        if length == 1 and size > 2:
            for one, other in combinations(sorted(coordinates), 2):
                yield one, 2, other - one
        length *= 2 if length < 4 else 4


def _around(size: int, length: int, coordinates: list[int]) -> list[int]:
    """Starts of windows of that length that hold the coordinates and end within the axis."""
    return list(dict.fromkeys(min(max(c - length // 2, 0), size - length) for c in coordinates))


def sliced(case: Case, group: tuple[Axis, ...], window: Window) -> Case:
    """The case with all axes of the group cut to the window, which counts in what earlier slices left."""
    start, length, step = window
    before = {(s.input, s.dim): (s.start, s.step) for s in case.slices}
    slices = []
    for name, dim in group:
        first, stride = before.get((name, dim), (0, 1))
        slices.append(Slice(name, dim, first + start * stride, length, stride * step))
    return case.with_slice(*slices)


def _coordinates(problem: Problem, group: tuple[Axis, ...]) -> list[int]:
    """Where the worst elements of the output lie along the axes, most likely first, at most three.

    A case that must diverge in several compiles needs what is worst in each of them.
    """
    results = (problem.default, *problem.also)
    found = [[at for _, at in _aligned(problem, result, group[0])] for result in results]
    likely = [place for places in zip_longest(*found) for place in places if place is not None]
    return list(dict.fromkeys(likely))[:3]


def _aligned(problem: Problem, result: ProbeResult, axis: Axis) -> list[tuple[int, int]]:
    """The dimensions of the diverging output that an axis most likely lies along, at most two, each with the
    place of the worst element there."""
    worst, (name, dim) = _worst(problem, result), axis
    if worst is None:
        return []
    own = problem.info.node(name).shape or ()
    shape, index = worst
    aligned = [d for d, n in enumerate(shape) if n == own[dim]]
    # Broadcasting lines shapes up at the end: the output's dimension there comes first.
    aligned.sort(key=lambda d: abs((len(shape) - d) - (len(own) - dim)))
    return [(d, index[d]) for d in aligned[:2]]


def _worst(problem: Problem, result: ProbeResult) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """Shape of the diverging output and the index of its worst element."""
    paths = {s.path for s in problem.default.signatures}
    for output in result.measurement.outputs:
        at = problem.worst(output)
        if output.path in paths and at is not None:
            return output.shape, unravel(at, output)
    return None


def unravel(flat: int, output: OutputMeasurement) -> tuple[int, ...]:
    """A position in the flattened output as an index; a complex output counts each element twice."""
    if output.dtype.startswith("complex"):
        flat //= 2
    index = []
    for size in reversed(output.shape):
        index.append(flat % size)
        flat //= size
    return tuple(reversed(index))


def simplify_values(problem: Problem) -> None:
    """Few distinct values or few digits in each input, random ones in a large one: the simplest that hold.

    They are found in one question, where they can be: the values do not change the program.
    """
    leaves = [node for node in problem.info.leaves if node.dtype in SIMPLER]
    simpler = {n.name: tuple(how.format(place_of_worst(problem, n)) for how in _simpler(n)) for n in leaves}
    found = problem.simplest(problem.case, simpler)
    if found == problem.case:
        return
    if found is not None and problem.first_at_once([found]):
        return
    for name, tried in simpler.items():
        problem.first_interesting(problem.case.with_value(name, how) for how in tried)


def _simpler(node: NodeInfo) -> tuple[str, ...]:
    simpler = SIMPLER[node.dtype or ""]
    return simpler if node.numel <= WRITTEN_OUT else _MANY[simpler]


def place_of_worst(problem: Problem, node: NodeInfo) -> int:
    """Where in the flattened input the worst element of the output most likely comes from."""
    place = 0
    for dim, size in enumerate(node.shape or ()):
        along = _coordinates(problem, ((node.name, dim),))
        place = place * size + (along[0] if along else 0)
    return place


def make_contiguous(problem: Problem) -> None:
    """Inputs that are transposed, expanded or parts of others lie as new tensors: all at once, else each."""
    odd = [node.name for node in problem.info.inputs if not node.contiguous]
    if not odd or problem.first_interesting([problem.case.with_contiguous(*odd)]) or len(odd) == 1:
        return
    misses = 0
    for name in odd:
        if misses < STRIDES_GIVE_UP_AFTER:
            taken = problem.first_interesting([problem.case.with_contiguous(name)])
            misses = 0 if taken else misses + 1


def simplify_dtype(problem: Problem) -> None:
    """All floating-point inputs in float32, where it is the same bug there.

    Another dtype is held to other tolerances and rounds elsewhere, so that a difference of rounding may take
    the bug's place under the same signature: only repairs distinguish the two.
    """
    if problem.anchored and any(node.dtype in OTHERS for node in problem.info.inputs):
        problem.first_interesting([problem.case.with_dtype(PLAINEST)])
