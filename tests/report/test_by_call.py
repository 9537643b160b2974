"""Where a script differs first, in the first line, and the table of its calls, as the report says them."""

from __future__ import annotations

from typing import Any

import pytest

from bisector.report import markdown, sections, sentences
from tests.report import samples

BY_CALL = "The largest difference over the largest value of what a call returns"


def document(path: str, call: int = 6, of: int = 20, by_compiled: bool = False, **more: Any) -> Any:
    return named(path, "", call, of, by_compiled, **more)


def named(
    path: str,
    argument: str,
    call: int = 1,
    of: int = 1,
    by_compiled: bool = False,
    also: Any = (),
    **more: Any,
) -> Any:
    value = {"path": path, "argument": argument, "by_compiled": by_compiled}
    place = {"call": call, "of": of, "entry": "step", "values": [value, *also]}
    return samples.document(samples.softmax_pair() | {"first_place": place, **more})


def standing(call: int, outputs: float, differs: str | None = "") -> dict[str, Any]:
    return {
        "call": call, "entry": "step", "outputs": outputs, "gradients": None, "left": 1e-7, "differs": differs
    }  # fmt: skip


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("grad[layers.1.weight]", ", first in the gradient of `layers.1.weight` after call 6 of 20,"),
        ("grad[argument 1]", ", first in the gradient of argument 1 after call 6 of 20,"),
        ("state[norm.running_mean]", ", first in `norm.running_mean` after call 6 of 20,"),
        ("output[0]", ", first in output 0 of call 6 of 20,"),
        ("shared memory", ", first in shared memory after call 6 of 20,"),
    ],
)
def test_the_first_line_names_the_value_and_the_call(path: str, said: str) -> None:
    assert said in sentences.answer(document(path))


def test_what_a_call_returns_and_what_it_leaves_behind_are_both_named() -> None:
    released = {"path": "argument[0].released", "argument": "buffer", "by_compiled": False}
    said = sentences.answer(named("output[0]", "", 2, 3, also=[released]))
    assert ", first in output 0 and `buffer.released` after call 2 of 3," in said


def test_a_value_that_one_of_the_two_lacks_is_described() -> None:
    lacking = {"path": "grad[argument 1]", "argument": "b", "mismatch": "a Tensor that eager does not have"}
    said = sentences.answer(named("output[0]", "", also=[lacking]))
    assert ", first in output 0 and the gradient of `b` (a Tensor that eager does not have), because" in said


def test_of_a_script_that_makes_one_call_the_call_is_not_named() -> None:
    assert ", first in output 1, because" in sentences.answer(document("output[1]", 1, 1))


def test_an_argument_that_compiled_alone_changes_is_said_in_the_first_line() -> None:
    said = "first in argument 0 (compiled changes it, and eager does not)"
    assert said in sentences.answer(document("argument[0]", 1, 1, by_compiled=True))


def test_an_argument_that_has_a_name_is_called_by_it() -> None:
    assert "first in the gradient of `w`, because" in sentences.answer(named("grad[argument 1]", "w"))
    assert "first in `meter.total`, because" in sentences.answer(named("argument[0].total", "meter"))


def test_the_table_has_the_calls_around_the_first_that_differs() -> None:
    calls = [standing(n, 1e-8 if n < 15 else 0.5, None if n > 15 else "") for n in range(1, 21)]
    text = markdown.render(sections.report(document("grad[w]", 15, calls=calls)))
    assert "\n| 14 |" in text and "\n| 3 |" not in text
    assert "8 more calls" in text and BY_CALL in text
    assert "up to call 15 what they return differs by at most 0.5" in text


def test_a_script_of_one_call_has_no_table() -> None:
    text = markdown.render(sections.report(document("output[0]", 1, 1, calls=[standing(1, 0.5)])))
    assert BY_CALL not in text


def test_where_the_script_does_the_same_with_compilation_off_the_first_line_says_so() -> None:
    result = samples.agrees()
    reason = "the script's own comparison fails with compilation off too"
    result["verdict"] |= {"class": "own-difference", "rule": "script", "reason": reason}
    said = sentences.answer(samples.document(result))
    assert said.startswith("No divergence of torch.compile: with compilation off the script does the same; ")
    assert said.endswith(f"and {reason}.")
