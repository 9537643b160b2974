"""Why a call that runs what an earlier one compiled is wrong, as the report says it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bisector.report import sections, terminal
from tests.report import samples

SLOW = {"name": "`rates['slow']`", "was": "0.1", "now": "0.5"}
BIAS = {"name": "`bias`", "was": "0.0", "now": "5.0"}


def of_steps(
    alone: str, *steps: dict[str, str], inside: Sequence[dict[str, str]] = (), needed: str = "all"
) -> str:
    found = {"steps": list(steps), "alone": alone, "inside": inside, "needed": needed}
    return shown("frame:scaled@a.py:3", steps=found)


def printed(*more: str, **reuse: Any) -> str:
    found = {
        "entry": "step", "call": 3, "since": 1, "let": "guards", "reasons": [], "others": [], "unknown": "",
        **reuse,
    }  # fmt: skip
    return shown("guard:step@call3", *more, reuses=[found])


def shown(*causes: str, **why: Any) -> str:
    evidence = {"alone": "FAIL", "without_each": ["PASS"]}
    found = [{"decisions": [cause], "confirmed": True, "evidence": evidence} for cause in causes]
    result = samples.softmax_pair() | {"causes": found, "repairs": [], **why}
    return " ".join(terminal.render(sections.report(samples.document(result)), 100, color=False).split())


def test_the_first_line_names_what_changed_after_the_compile() -> None:
    text = printed(reasons=[[SLOW]], others=["`unused`"])
    assert (
        "because of the reuse of compiled code at call 3 of `step`: `rates['slow']` changed from 0.1 to 0.5 "
        "since call 1 compiled it, and no guard of that code checks this." in text
    )
    assert (
        "Call 3 of `step` runs what call 1 compiled. Eager gives what it gives where `rates['slow']` is 0.1 "
        "again, and not where all else that changed is undone (`unused`)." in text
    )


def test_where_several_calls_are_causes_the_first_line_says_of_which_the_reason_is() -> None:
    text = printed("guard:step@call4", reasons=[[SLOW]])
    assert "at call 4 of `step`; at call 3 `rates['slow']` changed from 0.1 to 0.5" in text


def test_changes_that_are_needed_together_and_alternatives_are_told_apart() -> None:
    assert "`rates['slow']` is 0.1 and `bias` is 0.0 again." in printed(reasons=[[SLOW, BIAS]])
    assert "`rates['slow']` is 0.1 or `bias` is 0.0 again." in printed(reasons=[[SLOW], [BIAS]])


def test_where_no_change_explains_it_that_is_said() -> None:
    text = printed(unknown="of what was looked at, nothing has changed")
    assert "What that code depends on is not known: of what was looked at, nothing has changed." in text
    assert "since call 1 compiled it" not in text


def test_what_the_key_of_the_cache_does_not_hold_is_named() -> None:
    text = printed(let="cache", reasons=[[SLOW]])
    assert "since call 1 compiled it, and the key of the cache does not hold this." in text
    assert "Call 3 of `step` takes from the cache what call 1 compiled." in text


ROUNDED = {
    "id": "step:scaled@a.py:4:8-20", "where": "a.py:4",
    "code": "round(n, -1)", "becomes": "the constant 26",
}  # fmt: skip


def test_the_first_line_names_the_step_of_a_traced_function() -> None:
    text = of_steps("FAIL", ROUNDED)
    named = "`round(n, -1)` (a.py:4) becomes the constant 26"
    assert f"because of the tracing of `scaled`: {named}." in text
    assert f"Where Python runs this step, compiled agrees with eager: {named}." in text
    assert "Where Python runs all other steps of the function instead, it still diverges." in text


def test_of_steps_that_make_it_diverge_together_any_one_repairs() -> None:
    view, write = ROUNDED | {"code": "x.unfold(0, 3, 8)"}, ROUNDED | {"code": "view.mul_(2)"}
    text = of_steps("FAIL", view, write, needed="any")
    both = "`x.unfold(0, 3, 8)` (a.py:4) becomes the constant 26 and `view.mul_(2)` (a.py:4) becomes the"
    assert f"because of the tracing of `scaled`: {both}" in text
    assert f"Where Python runs any of these steps, compiled agrees with eager: {both}" in text


def test_the_steps_within_one_that_is_traced_as_a_whole_are_listed() -> None:
    assert "breaks around" not in of_steps("FAIL", ROUNDED)
    text = of_steps("FAIL", ROUNDED, inside=[ROUNDED | {"code": "grad.is_contiguous()"}] * 2)
    asked = "`grad.is_contiguous()` (a.py:4) becomes the constant 26"
    assert f"which of those within it does it is not known: {asked} and {asked}." in text
    assert "and 3 more steps." in of_steps("FAIL", ROUNDED, inside=[ROUNDED] * 9)


def test_a_step_that_is_not_known_to_be_enough_is_said_to_be_so() -> None:
    text = of_steps("PASS", ROUNDED | {"becomes": ""})
    assert "`round(n, -1)` (a.py:4) is traced. Whether it does it alone is not known." in text
    assert "because of the tracing of `scaled`; it agrees where Python runs `round(n, -1)` (a.py:4)." in text
    unknown = of_steps("UNRESOLVED", ROUNDED, ROUNDED | {"code": "scale(x)"})
    assert "Whether they do it alone is not known." in unknown
    assert (
        "because of the tracing of `scaled`; it agrees where Python runs `round(n, -1)` (a.py:4) and "
        "`scale(x)` (a.py:4)." in unknown
    )
