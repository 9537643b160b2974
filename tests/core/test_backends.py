"""The ladder of backends ends at the script's own, and names a rung only where all before it agree."""

from __future__ import annotations

from itertools import product

import pytest

from bisector.core.backends import (
    INDUCTOR,
    OWN,
    RUNGS,
    RUNGS_ABOVE,
    is_beyond,
    last_rung,
    rung_of,
    rungs_before,
)
from bisector.core.first_bad import first_bad
from bisector.core.outcome import Outcome

PASS, FAIL, UNRESOLVED = Outcome.PASS, Outcome.FAIL, Outcome.UNRESOLVED


def test_a_backend_that_is_no_rung_is_the_scripts_own() -> None:
    assert [rung_of(rung) for rung in RUNGS] == list(RUNGS)
    assert rung_of("onnxrt") == rung_of(lambda gm, inputs: gm) == OWN


def test_the_ladder_ends_at_the_last_rung_that_the_script_names() -> None:
    assert last_rung([]) == "inductor"
    assert last_rung(["aot_eager", "eager", "aot_eager"]) == "aot_eager"
    assert last_rung(["inductor", OWN]) == OWN, "a backend of one's own may do anything"
    assert rungs_before("eager") == ()
    assert rungs_before("aot_eager") == ("eager",)
    assert rungs_before("inductor") == RUNGS[:-1]
    assert rungs_before(OWN) == RUNGS[:-1]


def test_a_rung_is_beyond_those_before_it_alone() -> None:
    order = [*RUNGS, OWN]
    for one, two in product(range(len(order)), repeat=2):
        assert is_beyond(order[one], order[two]) == (one > two)


@pytest.mark.parametrize("outcomes", product([PASS, FAIL, UNRESOLVED], repeat=3))
def test_the_first_bad_rung_is_named_only_where_all_before_it_agree(outcomes: tuple[Outcome, ...]) -> None:
    rungs = RUNGS[:3]
    found, why = first_bad(list(zip(rungs, outcomes, strict=True)))
    if found is None:
        assert why
        assert FAIL not in outcomes or UNRESOLVED in outcomes[: outcomes.index(FAIL)]
    else:
        at = rungs.index(found)
        assert outcomes[at] is FAIL and set(outcomes[:at]) <= {PASS} and not why


def test_what_comes_before_inductor_is_above_it() -> None:
    assert all(is_beyond(INDUCTOR, rung) for rung in RUNGS_ABOVE)
    assert set(RUNGS) - set(RUNGS_ABOVE) == {INDUCTOR}
