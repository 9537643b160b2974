"""Which values are equal to the bit."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from bisector.inductor.equality import differing, same  # noqa: E402

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
OTHERS = [
    torch.bool, torch.uint8, torch.uint16, torch.int32, torch.int64, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu,
]  # fmt: skip
NAN = float("nan")


@pytest.mark.parametrize("dtype", [*FLOATS, *OTHERS], ids=str)
def test_the_elements_that_differ_are_told_one_by_one(dtype: Any) -> None:
    a, b = torch.tensor([1, 0, 1, 1]).to(dtype), torch.tensor([1, 1, 1, 0]).to(dtype)
    assert differing(a, b).tolist() == [False, True, False, True]
    assert same(a, a.clone()) and not same(a, b)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.float8_e4m3fn, torch.float8_e5m2], ids=str)
def test_nan_equals_nan_and_zeros_of_two_signs_differ(dtype: Any) -> None:
    a = torch.tensor([NAN, 0.0, -0.0, NAN]).to(dtype)
    b = torch.tensor([NAN, 0.0, 0.0, 1.0]).to(dtype)
    if dtype is torch.complex64:
        a, b = torch.complex(torch.ones(4), a.real), torch.complex(torch.ones(4), b.real)
    assert differing(a, b).tolist() == [False, False, True, True]


def test_the_bits_of_a_nan_do_not_count() -> None:
    quiet, other = (torch.tensor([bits]).view(torch.float32) for bits in (0x7FC00000, 0x7FC00001))
    assert same(quiet, other)


def test_how_a_tensor_lies_in_memory_does_not_count_and_its_shape_and_dtype_do() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    assert same(x, x.t().contiguous().t())
    assert same(x[:, ::2], x[:, ::2].clone())
    assert not same(x, x.reshape(3, 2))
    assert not same(x, x.double())
    assert same(x.to_sparse(), x.to_sparse()) and not same(x.to_sparse(), (x + 1).to_sparse())


def test_values_are_held_against_each_other_through_what_holds_them() -> None:
    x = torch.ones(2)
    assert same([x, (1, None), {"a": 2.5}], (x.clone(), [1, None], {"a": 2.5}))
    assert not same([x, 1], [x])
    assert not same([x], [x, x]), "what only one of the two holds counts"
    assert not same({"a": x}, {"b": x}) and not same((x,), x)
    assert not same(0.0, -0.0) and not same(0j, complex(0.0, -0.0))
    assert not same(1, 1.0) and not same(1, True)
    assert same(NAN, float("nan"))
