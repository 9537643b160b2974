"""What numbisect says of scripts as people write them, from its recordings (tests/scripts holds the scripts).

Whatever a script says of itself: where it diverges as its user runs it, the answer is never that it agrees.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from bisector.core.model import family
from tests.scripts.above import ABOVE, Above
from tests.scripts.forms import FORMS
from tests.scripts.large import LARGE
from tests.scripts.more_sorts import MORE_SORTS
from tests.scripts.own import OWN
from tests.scripts.raising import RAISING
from tests.scripts.sorts import SORTS

from .recording import Ended, confirmed, read
from .runs import RUNS, named

LARGE_ERROR = 1e-5  # absolute; of values around one, ten times what rounding leaves
ALL_SORTS = SORTS | MORE_SORTS
ReplayOf = Callable[[str], Ended]


def repro_ends(name: str) -> set[int]:
    """The exit statuses of the repro and of the repro with its fix, as the recorded run had them."""
    return {one.answer["status"] for one in read(name).answers if one.job == "plain"}


@pytest.mark.parametrize("name", RUNS)
def test_a_recorded_command_says_the_same_again(name: str, replay_of: ReplayOf) -> None:
    recording, ended = read(name), replay_of(name)
    assert ended.status == recording.status
    assert ended.results() == recording.results


@pytest.mark.parametrize("title", FORMS)
def test_what_the_script_shows_is_what_is_said(title: str, replay_of: ReplayOf) -> None:
    form, ended = FORMS[title], replay_of(named("form", title))
    verdict = ended.result["verdict"]
    assert form.said in verdict["reason"]
    assert ended.status == form.status
    assert form.kind in (None, verdict["class"])
    if form.backend is not None:
        assert verdict["first_bad_backend"] == form.backend


@pytest.mark.parametrize("title", OWN)
def test_a_script_that_differs_from_itself_is_told_why(title: str, replay_of: ReplayOf) -> None:
    ended = replay_of(named("own", title))
    assert (ended.status, ended.result["verdict"]["class"]) == (0, "own-difference")
    assert OWN[title][1] in ended.result["verdict"]["reason"]


@pytest.mark.parametrize("title", RAISING)
def test_what_raises_on_one_side_is_minimized_to_three_calls_at_most(title: str, replay_of: ReplayOf) -> None:
    raising, name = RAISING[title], named("raises", title)
    ended = replay_of(name)
    # A lower backend says where, and is no answer.
    assert ended.status == (3 if raising.repair is None else 0)
    result = ended.result
    assert result["verdict"]["class"] == "raises"
    assert raising.said in result["verdict"]["reason"]
    assert len(result["minimal"]["ops"]) <= 3
    repairs = [tuple(repair) for repair in confirmed(result["repairs"])]
    assert raising.repair is None or raising.repair in repairs
    assert repro_ends(name) == {1, 0}


@pytest.mark.parametrize("title", ABOVE)
def test_what_is_decided_above_the_graph_is_named_and_mended(title: str, replay_of: ReplayOf) -> None:
    above: Above = ABOVE[title]
    name = named("above", title)
    ended = replay_of(name)
    result = ended.result
    assert ended.status == 0
    assert result["verdict"]["first_bad_backend"] == above.rung
    assert above.cause in confirmed(result["causes"])
    assert above.said in result["decisions"][above.cause[0]]["text"]
    reuses = result.get("reuses", ())
    reasons = [change["name"] for one in reuses for some in one["reasons"] for change in some]
    assert reasons == ([above.changed] if above.changed else [])
    assert any(fix["confirmed"] and fix["paste"] for fix in result["fixes"])
    assert repro_ends(name) == {1, 0}
    assert result["script"]["outcome"] == "PASS"


@pytest.mark.parametrize("title", ALL_SORTS)
def test_a_subject_of_any_sort_is_reduced_and_still_diverges(title: str, replay_of: ReplayOf) -> None:
    """What makes the sort (the write, the view, the backward pass) is still in the minimal case where the
    divergence needs it."""
    sort, name = ALL_SORTS[title], named("sort", title)
    ended = replay_of(name)
    result = ended.result
    assert (ended.status, result["stopped_because"]) == (0, None)
    large = [o["path"] for o in result["verdict"]["outputs"] if o["max_abs"] > LARGE_ERROR]
    assert {family(path) for path in large} == set(sort.diverging)
    causes = confirmed(result["causes"])
    assert causes
    assert all(any(sort.culprit in decision for decision in cause) for cause in causes)
    if sort.most_ops is None:
        assert result["minimal"] is None
    else:
        assert 0 < result["minimal"]["n_ops"] <= sort.most_ops
    text = (ended.run / result["repro"]).read_text()
    assert [part for part in sort.keeps if part not in text] == []
    assert repro_ends(name) == {1, 0}


@pytest.mark.parametrize("title", LARGE)
def test_what_repairs_a_region_is_confirmed_on_the_whole(title: str, replay_of: ReplayOf) -> None:
    _, culprit, most_ops = LARGE[title]
    result = replay_of(named("large", title)).result
    assert any("searched in a region" in note for note in result["text_notes"])
    assert not any("the whole was searched" in note for note in result["text_notes"])
    assert result["minimal"]["n_ops"] <= most_ops
    assert f"aten.{culprit}" in result["minimal"]["ops"]
    repairs = confirmed(result["repairs"])
    assert repairs
    assert all(culprit in decision for repair in repairs for decision in repair)
    assert result["repro"] == "repro.py"
    assert result["probes"]["total"] <= 130  # without what is asked ahead


def test_what_arises_between_two_graphs_is_explained_with_the_graph_and_a_repro_of_the_script(
    replay_of: ReplayOf,
) -> None:
    result = replay_of("between-two-graphs").result
    assert confirmed(result["causes"]) == [["g1/lower:aten.exp@exp"]]
    assert "of its 2 graphs it diverges with g1 alone compiled" in result["text_notes"]
    assert repro_ends("between-two-graphs") == {1, 0}


def test_two_of_three_calls_diverge_for_two_causes_and_each_is_explained(replay_of: ReplayOf) -> None:
    ended = replay_of("all-calls")
    assert ended.status == 0
    worst, other = ended.results()[""], ended.results()["call-2"]
    assert worst["entry"] == "clipped" and other["entry"] == "rounds"
    assert [(o["call"], o["same_cause"]) for o in worst["others"]] == [(2, False)]
    causes = [{d.partition("@")[0] for c in r["causes"] for d in c["decisions"]} for r in (worst, other)]
    assert "lower:aten.relu" in causes[0] and "cast:float16" in causes[1]
    assert all((ended.run / folder / "repro.py").exists() for folder in ("", "call-2"))
    assert "explained in call-2" in ended.printed
