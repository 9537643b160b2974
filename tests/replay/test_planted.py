"""Planted divergences of real programs, recorded: what each decision carries, what joins late."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from .recording import Ended
from .runs import APPEARS, SHARES

ReplayOf = Callable[[str], Ended]


def test_the_shares_of_two_casts_in_a_sum_add_up(replay_of: ReplayOf) -> None:
    result = replay_of(SHARES).result
    large, small = result["graded"]
    assert [one["decision"] for one in (large, small)] == ["cast:bfloat16@large", "cast:bfloat16@small"]
    for part in ("removed_fraction", "left_fraction"):
        assert [large[part], small[part]] == pytest.approx([0.8, 0.2], abs=0.01)
    assert result["adds_up"] is True


def test_a_fusion_that_appears_where_another_is_denied_joins_the_search(replay_of: ReplayOf) -> None:
    result = replay_of(APPEARS).result
    repairs = [set(repair["decisions"]) for repair in result["repairs"]]
    assert {"fuse:c@a", "fuse:c@b"} in repairs
    assert {"fuse:c@a"} not in repairs
    assert "fuse:c@b" in result["decisions"], "it would be named without a word of what it is"
