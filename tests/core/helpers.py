"""Planted truths for the searches: their answer is known from one line, and what they are asked is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations

from bisector.core.outcome import Outcome
from bisector.core.search.minimal import MinimalSet

PASS, FAIL, UNRESOLVED = Outcome.PASS, Outcome.FAIL, Outcome.UNRESOLVED
Subset = frozenset[str]
Truth = Callable[[Subset], Outcome]


def names(n: int) -> tuple[str, ...]:
    """n elements; their alphabetic order is not the order of the sequence."""
    return tuple(f"{(7 * i + 3) % 10}{i}" for i in range(n))


def any_of(*culprits: Iterable[str]) -> Truth:
    """FAIL where all members of some culprit are in the set: an OR of ANDs, so every monotone truth."""
    wanted = [frozenset(culprit) for culprit in culprits]
    return lambda members: FAIL if any(culprit <= members for culprit in wanted) else PASS


def mirror(truth: Truth, elements: Iterable[str]) -> Truth:
    """The same truth asked by denying: all but the denied ones are enabled."""
    everything = frozenset(elements)
    return lambda denied: truth(everything - denied)


def unresolved_where(crashes: Callable[[Subset], bool], truth: Truth) -> Truth:
    return lambda members: UNRESOLVED if crashes(members) else truth(members)


def arbitrary(
    seed: int, elements: Sequence[str], *, outcomes: Sequence[Outcome], ends: tuple[Outcome, Outcome]
) -> Truth:
    """A truth without any structure, except at its ends: (outcome of nothing, outcome of everything)."""
    fixed = {frozenset(elements): ends[1], frozenset(): ends[0]}

    def truth(members: Subset) -> Outcome:
        digest = hashlib.sha256(f"{seed} {sorted(members)}".encode()).digest()
        return fixed.get(members, outcomes[digest[0] % len(outcomes)])

    return truth


class Counted:
    """A truth that remembers what it was asked, in order."""

    def __init__(self, truth: Truth) -> None:
        self.truth = truth
        self.asked: list[Subset] = []

    def __call__(self, members: Subset) -> Outcome:
        self.asked.append(members)
        return self.truth(members)


def subsets(elements: Sequence[str]) -> Iterator[Subset]:
    for size in range(len(elements) + 1):
        yield from map(frozenset, combinations(elements, size))


def minimal_of(sets: Iterable[Subset]) -> set[Subset]:
    """Those of the sets that contain no other of them."""
    given = set(sets)
    return {members for members in given if not any(other < members for other in given)}


def minimal_failing(elements: Sequence[str], truth: Truth) -> set[Subset]:
    """All minimal sets that FAIL, by trying every set."""
    return minimal_of(members for members in subsets(elements) if truth(members) is FAIL)


def minimal_hitting(elements: Sequence[str], sets: Iterable[Iterable[str]]) -> set[Subset]:
    """All minimal hitting sets, by trying every set."""
    targets = [frozenset(members) for members in sets]
    return minimal_of(chosen for chosen in subsets(elements) if all(chosen & target for target in targets))


def antichains(elements: Sequence[str]) -> Iterator[list[Subset]]:
    """Every family of sets none of which contains another, but for {} and {{}}: every monotone truth once."""
    every = [members for members in subsets(elements) if members]

    def extend(start: int, family: list[Subset]) -> Iterator[list[Subset]]:
        if family:
            yield family
        for i in range(start, len(every)):
            if not any(member < every[i] for member in family):
                yield from extend(i + 1, [*family, every[i]])

    yield from extend(0, [])


def as_sets(found: Iterable[MinimalSet]) -> set[Subset]:
    return {frozenset(minimal.members) for minimal in found}


def assert_proved(
    found: MinimalSet, elements: Sequence[str], counted: Counted, wanted: Outcome = FAIL
) -> None:
    """The set is 1-minimal, and each outcome that says so is true and was probed (the ends by the caller)."""
    probed = {*counted.asked, frozenset(), frozenset(elements)}
    members = frozenset(found.members)
    evidence = {members: found.alone}
    evidence.update({members - {m}: o for m, o in zip(found.members, found.without_each, strict=True)})
    assert found.alone is wanted
    assert wanted not in found.without_each
    assert evidence.keys() <= probed
    assert all(counted.truth(asked) is outcome for asked, outcome in evidence.items())
    assert [e for e in elements if e in members] == list(found.members)


def ddmin(elements: Sequence[str], truth: Truth) -> tuple[Subset, int]:
    """The textbook search (Zeller and Hildebrandt 2002) against an oracle that always knows: a 1-minimal set
    that FAILs, and how many different sets it asked about, the two ends not counted."""
    ends = (frozenset(elements), frozenset[str]())
    asked: set[Subset] = set()

    def fails(members: Sequence[str]) -> bool:
        asked.add(frozenset(members))
        return truth(frozenset(members)) is Outcome.FAIL

    current, parts = list(elements), 2
    while len(current) >= 2:
        size = len(current) / parts
        chunks = [current[round(i * size) : round((i + 1) * size)] for i in range(parts)]
        rests = [[e for e in current if e not in set(chunk)] for chunk in chunks]
        if (chunk := next((c for c in chunks if fails(c)), None)) is not None:
            current, parts = chunk, 2
        elif parts > 2 and (rest := next((r for r in rests if fails(r)), None)) is not None:
            current, parts = rest, parts - 1
        elif parts < len(current):
            parts = min(len(current), 2 * parts)
        else:
            break
    return frozenset(current), len(asked - set(ends))


def ends(*names: str) -> dict[str, str]:
    """The ends of a trace whose outputs are these nodes."""
    return {f"output[{i}]": name for i, name in enumerate(names)}
