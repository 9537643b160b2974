"""Why a call that runs what an earlier one compiled is wrong, as the report says it."""

from __future__ import annotations

from typing import Any

from bisector.report import sections, terminal
from tests.report import samples

SLOW = {"name": "`rates['slow']`", "was": "0.1", "now": "0.5"}
BIAS = {"name": "`bias`", "was": "0.0", "now": "5.0"}


def printed(**reuse: Any) -> str:
    cause = {
        "decisions": ["guard:step@call3"], "confirmed": True,
        "evidence": {"alone": "FAIL", "without_each": ["PASS"]},
    }  # fmt: skip
    found = {"entry": "step", "call": 3, "since": 1, "reasons": [], "others": [], "unknown": "", **reuse}
    result = samples.softmax_pair() | {"causes": [cause], "repairs": [], "reuses": [found]}
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


def test_changes_that_are_needed_together_and_alternatives_are_told_apart() -> None:
    assert "`rates['slow']` is 0.1 and `bias` is 0.0 again." in printed(reasons=[[SLOW, BIAS]])
    assert "`rates['slow']` is 0.1 or `bias` is 0.0 again." in printed(reasons=[[SLOW], [BIAS]])


def test_where_no_change_explains_it_that_is_said() -> None:
    text = printed(unknown="of what was looked at, nothing has changed")
    assert "What that code depends on is not known: of what was looked at, nothing has changed." in text
    assert "since call 1 compiled it" not in text
