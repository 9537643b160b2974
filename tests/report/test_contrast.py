"""What two configurations of a target are to each other, in words."""

from __future__ import annotations

from typing import Any

from bisector.report.sentences import contrast_lines
from tests.report import samples

FOUND: dict[str, Any] = {
    "with": "good.yaml",
    "target": "FAIL",
    "repairs": [{"inductor.a": "off"}, {"inductor.b": 1, "inductor.c": False}],
    "causes": [{"inductor.a": "fast", "inductor.b": 8}],
    "unknown": None,
}


def lines_of(contrast: dict[str, Any]) -> list[str]:
    result = samples.document(samples.agrees() | {"contrast": contrast})
    assert result.contrast is not None
    return contrast_lines(result.contrast)


def test_repairs_and_causes_are_said_of_the_side_they_are_about() -> None:
    assert lines_of(FOUND) == [
        "The target diverges as it is and agrees under good.yaml.",
        'Settings that make it agree as it is: inductor.a = "off"; or inductor.b = 1 and inductor.c = False.',
        'Settings that make it diverge under good.yaml: inductor.a = "fast" and inductor.b = 8.',
    ]


def test_where_the_other_diverges_the_sides_are_exchanged() -> None:
    lines = lines_of(FOUND | {"target": "PASS"})
    assert lines[0] == "The target diverges under good.yaml and agrees as it is."
    assert lines[1].startswith("Settings that make it agree under good.yaml: ")


def test_what_is_not_known_is_said_with_its_reason() -> None:
    nothing = FOUND | {"repairs": [], "causes": [], "unknown": "both agree"}
    assert lines_of(nothing) == ["What makes the difference is not established: both agree."]
    more = lines_of(FOUND | {"unknown": "4 sets were found"})
    assert more[-1] == "There might be more: 4 sets were found."
