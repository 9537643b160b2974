import math
import random
from collections.abc import Sequence
from itertools import product

import pytest

from bisector.core.outcome import Outcome
from bisector.core.search.ordered import Transition, first_failing
from tests.core.helpers import FAIL, PASS, UNRESOLVED


def search(outcomes: Sequence[Outcome]) -> tuple[Transition, list[int]]:
    """Search an axis whose lengths 1..n have these outcomes; the ends must not be asked."""
    asked: list[int] = []

    def test(length: int) -> Outcome:
        assert 0 < length < len(outcomes)
        asked.append(length)
        return outcomes[length - 1]

    return first_failing(len(outcomes), test), asked


def axis(n: int, first_fail: int, unresolved: Sequence[int] = ()) -> list[Outcome]:
    return [
        UNRESOLVED if i in unresolved else FAIL if i >= first_fail else PASS for i in range(1, n + 1)
    ]


@pytest.mark.parametrize("n", [*range(1, 66), 100, 511, 512, 513])
def test_every_first_fail_is_found_within_log2_n_probes(n: int) -> None:
    for first_fail in range(1, n + 1):
        found, asked = search(axis(n, first_fail))
        assert found == Transition(first_fail - 1, first_fail)
        assert found.unresolved == ()
        assert len(asked) <= math.ceil(math.log2(n))


@pytest.mark.parametrize("n", range(1, 11))
def test_around_every_pattern_of_unresolved_the_answer_is_that_of_a_linear_scan(n: int) -> None:
    for first_fail in range(1, n + 1):
        for holes in product([False, True], repeat=n - 1):
            outcomes = axis(n, first_fail, [i for i, hole in enumerate(holes, 1) if hole])
            found, asked = search(outcomes)
            seen_to_pass = [i for i, outcome in enumerate(outcomes, 1) if outcome is PASS]
            assert found.first_fail == outcomes.index(FAIL) + 1
            assert found.last_pass == max(seen_to_pass, default=0)
            assert set(found.unresolved) <= set(asked)


@pytest.mark.parametrize("n", range(1, 9))
def test_whatever_the_outcomes_are_a_true_transition_comes_back(n: int) -> None:
    for inner in product(Outcome, repeat=n - 1):
        outcomes = [*inner, FAIL]
        found, asked = search(outcomes)
        assert outcomes[found.first_fail - 1] is FAIL
        assert found.last_pass == 0 or outcomes[found.last_pass - 1] is PASS
        assert found.unresolved == tuple(range(found.last_pass + 1, found.first_fail))
        assert all(outcomes[length - 1] is UNRESOLVED for length in found.unresolved)
        assert {found.last_pass, found.first_fail, *found.unresolved} <= {0, n, *asked}
        assert len(asked) == len(set(asked))


def test_an_unresolved_stretch_around_the_transition_is_given_whole() -> None:
    found, _ = search([PASS, PASS, UNRESOLVED, UNRESOLVED, FAIL, FAIL])
    assert found == Transition(2, 5)
    assert found.unresolved == (3, 4)


def test_a_hole_at_the_midpoint_costs_little() -> None:
    first_fails = [*range(1, 256), *range(258, 513)]
    counts = [len(search(axis(512, first_fail, unresolved=[256]))[1]) for first_fail in first_fails]
    # Nine would do without the hole. The largest count has the transition right beside it.
    assert sum(counts) / len(counts) <= 10.5
    assert max(counts) <= 2 * 9


def test_a_block_of_unresolved_is_left_behind_and_not_walked_through() -> None:
    draw = random.Random(0)
    counts = []
    for _ in range(300):
        start = draw.randrange(1, 412)
        block = range(start, start + 100)
        first_fail = draw.choice([i for i in range(1, 513) if i not in block and i - 1 not in block])
        found, asked = search(axis(512, first_fail, block))
        assert found == Transition(first_fail - 1, first_fail)
        counts.append(len(asked))
    # Nine would do without the block. The few large counts have the transition right beside it.
    assert sum(counts) / len(counts) <= 12
    assert sorted(counts)[int(0.9 * len(counts))] <= 18
    assert max(counts) <= 9 + 100
