"""The values of two runs held against each other."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from bisector.core.criterion import Criterion  # noqa: E402
from bisector.core.judge import judge  # noqa: E402
from bisector.core.outcome import Outcome  # noqa: E402
from bisector.inductor.run_values import SAMPLE, Digest, Rest, Unseen, measured  # noqa: E402

LARGE = 4 * SAMPLE


def outcome(eager: dict[str, Any], compiled: dict[str, Any]) -> Outcome:
    return judge(measured(eager, compiled), Criterion()).outcome


def test_values_keep_eagers_order_and_those_that_one_run_lacks_are_told() -> None:
    eager = {"output[0]": torch.ones(1), "grad[x]": torch.ones(2), "output[1]": None}
    found = measured(eager, {"grad[y]": torch.ones(1), "grad[x]": torch.ones(2)}).outputs
    assert [(o.index, o.path) for o in found] == [(0, "output[0]"), (1, "grad[x]"), (3, "grad[y]")]
    assert found[0].alias_mismatch == "nothing instead of a Tensor"
    assert found[1].n_diff == 0
    assert found[2].alias_mismatch == "a Tensor that eager does not have"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float8_e4m3fn, torch.uint16, torch.complex64])
def test_a_gradient_of_zeros_that_eager_does_not_make_is_called_so(dtype: torch.dtype) -> None:
    found = measured({}, {"zeros": torch.zeros(2).to(dtype), "ones": torch.ones(2).to(dtype)}).outputs
    said = [one.alias_mismatch for one in found]
    assert said == ["a Tensor of zeros that eager does not have", "a Tensor that eager does not have"]
    [unknown] = measured({}, {"meta": torch.zeros(2, dtype=dtype, device="meta")}).outputs
    assert unknown.alias_mismatch == "a Tensor that eager does not have"


def test_values_of_one_call_among_several_have_its_number() -> None:
    found = measured({"a": 1, "b": 2}, {"a": 1, "b": 2}, call=7).outputs
    assert [o.index for o in found] == [7, 7]


def test_what_is_equal_and_no_number_counts_and_none_counts_as_no_value() -> None:
    found = measured({"a": "x", "b": None, "c": None}, {"a": "x", "b": None})
    assert (found.outputs, found.same, found.unseen) == ((), 1, None)
    assert outcome({"b": None}, {"b": None}) is Outcome.UNRESOLVED, "nothing was compared"
    assert outcome({"a": "x"}, {"a": "x"}) is Outcome.PASS
    assert outcome({"b": None}, {"b": torch.ones(1)}) is Outcome.FAIL


def test_a_value_that_nobody_can_compare_is_no_agreement() -> None:
    seen = {"a": torch.ones(1)}
    assert outcome({**seen, "b": Unseen("a Handle")}, {**seen, "b": Unseen("a Handle")}) is Outcome.UNRESOLVED
    assert outcome({**seen, "b": Rest(3, "ab")}, {**seen, "b": Rest(3, "ab")}) is Outcome.PASS
    assert outcome({**seen, "b": Rest(3, "ab")}, {**seen, "b": Rest(3, "cd")}) is Outcome.UNRESOLVED


def test_of_a_value_too_large_to_keep_equal_digests_prove_equality_and_a_sample_none() -> None:
    value = torch.arange(float(LARGE))
    other, beside = value.clone(), value.clone()
    other[0] += 5
    beside[1] += 5  # of which the sample knows nothing
    kept = {"a": Digest.of(value)}
    assert outcome(kept, {"a": value}) is Outcome.PASS
    assert outcome(kept, {"a": other}) is Outcome.FAIL
    assert outcome(kept, {"a": beside}) is Outcome.UNRESOLVED
    assert outcome(kept, {"a": value.reshape(2, -1)}) is Outcome.FAIL
    assert outcome(kept, {"a": value.double()}) is Outcome.FAIL


def test_whether_a_tensor_records_gradients_is_part_of_what_a_run_gives() -> None:
    plain, recording = torch.ones(1), torch.ones(1, requires_grad=True)
    (found,) = measured({"a": recording}, {"a": plain}).outputs
    assert found.alias_mismatch == "requires_grad False instead of True"
