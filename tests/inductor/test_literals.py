"""The text of a tensor gives every byte and every stride back."""

from __future__ import annotations

import math
from collections.abc import Mapping

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from bisector.inductor.equality import same
from bisector.inductor.graph.parts import arguments_source
from bisector.inductor.graph.smaller_inputs import scale, simplify
from bisector.inductor.graph.tensor_literals import LITERAL_ELEMENTS, evaluate, literal, raw_bytes, text_names
from bisector.inductor.graph.values import CannotWrite, value_source

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.uint16, torch.uint32, torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128,
    torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e8m0fnu,
]  # fmt: skip


def gives_back(tensor: torch.Tensor) -> bool:
    made = evaluate(literal(tensor))
    kept = (made.dtype, made.shape, made.stride()) == (tensor.dtype, tensor.shape, tensor.stride())
    return kept and torch.equal(raw_bytes(made), raw_bytes(tensor))


@st.composite
def tensors(draw: st.DrawFn) -> torch.Tensor:
    """Any bytes under any dtype, seen through any strides that fit: gaps, overlaps and transposes too."""
    dtype = draw(st.sampled_from(DTYPES))
    shape = draw(st.lists(st.integers(0, 4), max_size=4))
    strides = [draw(st.integers(0, 6)) for _ in shape]
    extent = 1 + sum(max(n - 1, 0) * s for n, s in zip(shape, strides, strict=True))
    width = torch.empty(0, dtype=dtype).element_size()
    if dtype is torch.bool:
        raw = draw(st.lists(st.integers(0, 1), min_size=extent, max_size=extent))
    else:
        raw = list(draw(st.binary(min_size=extent * width, max_size=extent * width)))
    flat = torch.tensor(raw, dtype=torch.uint8).view(dtype)
    return flat.as_strided(shape, strides)


@given(tensors())
@settings(max_examples=400, deadline=None)
def test_any_bytes_and_strides_come_back(tensor: torch.Tensor) -> None:
    assert gives_back(tensor)


@given(st.lists(st.floats(width=32), min_size=1, max_size=20))
@settings(max_examples=100, deadline=None)
def test_any_float_comes_back_in_every_float_dtype(values: list[float]) -> None:
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        assert gives_back(torch.tensor(values, dtype=dtype))


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.tensor(0.1), "torch.tensor(0.1)"),
        (torch.tensor([1.5, -0.0]), "torch.tensor([1.5, -0.0])"),
        (torch.tensor([math.inf, -math.inf, math.nan]), "torch.tensor([inf, -inf, nan])"),
        (torch.tensor([200, 200], dtype=torch.uint8), "torch.full((2,), 200, dtype=torch.uint8)"),
        (torch.tensor([[1, 2], [3, 4]]), "torch.tensor([[1, 2], [3, 4]])"),
        (torch.tensor([0.3, 2], dtype=torch.bfloat16), "torch.tensor([0.3, 2.0], dtype=torch.bfloat16)"),
        (torch.tensor([True, False]), "torch.tensor([True, False])"),
        (torch.tensor([1 + 2j, -1j]), "torch.tensor([(1+2j), complex(-0.0, -1.0)], dtype=torch.complex64)"),
        (torch.ones(64, 64), "torch.ones(64, 64)"),
        (torch.zeros(2, dtype=torch.int8), "torch.zeros(2, dtype=torch.int8)"),
        (torch.zeros(3, 0), "torch.empty((3, 0), dtype=torch.float32)"),
        (torch.arange(200.0), "torch.arange(0.0, 200.0, dtype=torch.float32)"),
        (torch.arange(6).reshape(3, 2).t(), "torch.tensor([[0, 1], [2, 3], [4, 5]]).t()"),
        (torch.tensor([[1.0], [2.0]]).expand(2, 3), "torch.tensor([[1.0], [2.0]]).expand(2, 3)"),
        (torch.arange(4)[::2], "torch.tensor([0, 0, 2]).as_strided((2,), (2,))"),
    ],
)
def test_the_text_is_the_one_a_person_would_write(tensor: torch.Tensor, text: str) -> None:
    assert literal(tensor).text == text
    assert gives_back(tensor)


def test_numbers_that_each_have_brackets_of_their_own_are_written_flat() -> None:
    tensor = (torch.arange(64) / 7).reshape(1, 32, 2, 1)
    text = literal(tensor).text
    assert text.startswith("torch.tensor([\n        0.0, 0.14285715,")
    assert text.endswith("]).reshape(1, 32, 2, 1)")
    assert gives_back(tensor)


def test_rows_stay_rows_where_they_are_hardly_longer() -> None:
    tensor = (torch.arange(32) / 7).reshape(4, 8)
    assert "[0.0, 0.14285715," in literal(tensor).text
    assert gives_back(tensor)


def test_channels_last_is_called_by_its_name() -> None:
    tensor = torch.arange(16.0).reshape(1, 2, 4, 2).to(memory_format=torch.channels_last)
    assert literal(tensor).text.endswith(".to(memory_format=torch.channels_last)")
    assert gives_back(tensor)


def test_a_tensor_too_long_to_read_becomes_a_blob() -> None:
    tensor = torch.randn(LITERAL_ELEMENTS + 1)
    source = literal(tensor, "weight")
    assert source.text == f"unpack(WEIGHT_DATA, torch.float32, ({LITERAL_ELEMENTS + 1},))"
    assert list(source.blobs) == ["WEIGHT_DATA"]
    assert gives_back(tensor)


@pytest.mark.parametrize("how", ["randn", "rand"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_random_values_drawn_for_a_case_are_drawn_again(how: str, dtype: torch.dtype) -> None:
    tensor = simplify(torch.zeros(20, 20, dtype=dtype), how)
    draw = f"torch.{how}((20, 20), generator=torch.Generator().manual_seed(0))"
    assert literal(tensor).text == draw + ("" if dtype is torch.float32 else f".to({dtype})")
    assert torch.equal(evaluate(literal(tensor.t(), default_dtype=None)), tensor.t())
    tensor[0, 0] += 1
    assert literal(tensor).text.startswith("unpack(")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_random_values_of_another_seed_that_were_multiplied_are_said_so(dtype: torch.dtype) -> None:
    tensor = scale(simplify(torch.zeros(20, 20, dtype=dtype), "randn:3"), 2.0**16)
    text = literal(tensor).text
    assert "manual_seed(3)" in text and text.endswith(" * 65536")
    assert literal(tensor * 1.5).text.startswith("unpack(")


def test_a_dtype_is_named_where_the_default_dtype_is_not_known() -> None:
    assert literal(torch.tensor([0.5, 1.5]), default_dtype=None).text.endswith("dtype=torch.float32)")


@pytest.mark.parametrize(
    "tensor",
    [torch.eye(2).to_sparse(), torch.empty(2, device="meta"), torch.tensor([1j]).conj()],
    ids=["sparse", "meta", "lazy conjugate"],
)
def test_a_tensor_that_is_not_plain_memory_is_refused(tensor: torch.Tensor) -> None:
    with pytest.raises(CannotWrite, match="has no literal"):
        literal(tensor)


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.complex_numbers() | st.text()
    | st.sampled_from([..., torch.float16, torch.strided, torch.channels_last]),
    lambda items: st.lists(items) | st.tuples(items) | st.tuples(items, items)
    | st.dictionaries(st.text(), items),
    max_leaves=8,
))  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_a_python_value_comes_back(value: object) -> None:
    made = eval(value_source(value), {"torch": torch, "inf": math.inf, "nan": math.nan})
    assert repr(made) == repr(value)  # repr tells -0.0 from 0.0, and nan is nan


def build(text: str, name: str, blobs: Mapping[str, str]) -> list[torch.Tensor]:
    names = text_names(blobs)
    exec(text, names)
    made: list[torch.Tensor] = names[name]()
    return made


def test_inputs_over_one_storage_stay_over_one_storage() -> None:
    base = torch.arange(12.0)
    values = [base[2:8].view(2, 3), torch.ones(2), base[4:12:2]]
    source = arguments_source("inputs", ["a", "b", "c"], values, [False] * 3)
    a, b, c = build(source.text, "inputs", source.blobs)
    assert same([a, b, c], values)
    a[0, 2] = -1
    assert c[0] == -1
    assert b.untyped_storage()._cdata != a.untyped_storage()._cdata


def test_inputs_are_made_afresh_at_every_call_and_require_grad_where_told() -> None:
    source = arguments_source("inputs", ["x", "n"], [torch.zeros(2), 3], [True, False])
    x, n = build(source.text, "inputs", {})
    again, _ = build(source.text, "inputs", {})
    assert n == 3
    assert x.is_leaf and x.requires_grad and again is not x


def test_a_storage_under_two_dtypes_is_refused() -> None:
    x = torch.zeros(4)
    with pytest.raises(CannotWrite, match="different dtypes"):
        arguments_source("inputs", ["x", "y"], [x, x.view(torch.int32)], [False] * 2)
