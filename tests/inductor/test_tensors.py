"""Copies of inputs keep all that a compiler can see of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from bisector.inductor.equality import digest
from bisector.inductor.tensors import KeptStorages, fresh, lies_as_new, nbytes, snapshot


def base() -> Any:
    return torch.arange(24.0).reshape(4, 6)


VIEWS = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.t(),
    "a part": lambda x: x[1:3, 2:5],
    "steps": lambda x: x[::2, 1::3],
    "expanded": lambda x: x[0].expand(3, 6),
    "channels last": lambda x: x.reshape(1, 2, 3, 4).to(memory_format=torch.channels_last),
    "a scalar": lambda x: x[2, 3],
    "empty": lambda x: x[:0],
    "overlapping": lambda x: x.reshape(-1).unfold(0, 5, 2),
    "conjugate": lambda x: torch.view_as_complex(x.reshape(4, 3, 2)).conj(),
    "negative": lambda x: torch.view_as_complex(x.reshape(4, 3, 2)).conj().imag,
    "bfloat16": lambda x: x.bfloat16()[1:],
    "bool": lambda x: x > 3,
}


@pytest.mark.parametrize("view", VIEWS)
def test_a_copy_has_the_values_strides_and_offset_and_its_own_memory(view: str) -> None:
    x = VIEWS[view](base())
    [copy] = snapshot([x])
    assert torch.equal(copy, x)
    assert (copy.dtype, copy.shape, copy.stride()) == (x.dtype, x.shape, x.stride())
    assert copy.is_conj() == x.is_conj()
    assert copy.is_neg() == x.is_neg()
    if x.numel():
        assert copy.storage_offset() == x.storage_offset()
        assert copy.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_tensors_that_share_memory_share_it_in_the_copy_and_with_nobody_else() -> None:
    x, other = base(), base()
    rows, columns, alone = snapshot([x[1:], x.t(), other])
    rows.zero_()
    assert columns[:, 1:].eq(0).all()
    assert torch.equal(columns[:, 0], x[0])
    assert torch.equal(x, base())
    assert torch.equal(alone, other)


def test_the_same_tensor_twice_is_one_memory_in_the_copy() -> None:
    x = base()
    first, second = snapshot([x, x])
    first.add_(1)
    assert torch.equal(first, second)


def test_a_view_of_other_bits_shares_them_in_the_copy() -> None:
    x = base()
    floats, ints = snapshot([x, x.view(torch.int32)])
    ints.zero_()
    assert floats.eq(0).all()


def test_a_kept_snapshot_shares_what_did_not_change_with_the_one_before() -> None:
    kept = KeptStorages()
    weight, x = torch.arange(4.0), torch.ones(2)
    first = snapshot([weight, x], kept)
    weight[0] = -0.0  # equal to what was there, and not the same bits
    x.data.fill_(1.0)
    assert kept.missing([weight, x]) == 16
    second = snapshot([weight, x], kept)
    assert kept.bytes == 16 + 8 + 16
    assert second[1].data_ptr() == first[1].data_ptr()
    assert (first[0][0].signbit().item(), second[0][0].signbit().item()) == (False, True)


def test_what_is_no_tensor_stays_what_it_is() -> None:
    thing = object()
    assert snapshot([3, None, thing, 2.5]) == [3, None, thing, 2.5]


def test_a_parameter_becomes_a_plain_tensor_without_history() -> None:
    weight = torch.nn.Parameter(base())
    [copy] = snapshot([weight * 2])
    assert not copy.requires_grad
    [copy] = snapshot([weight])
    assert type(copy) is torch.Tensor
    assert not copy.requires_grad


def test_gradients_are_required_just_where_they_were_and_of_leaves() -> None:
    weight = torch.nn.Parameter(base())
    values = [weight, base(), weight * 2, 3]
    copies = fresh(values, [True, False, True, False])
    assert [getattr(c, "requires_grad", None) for c in copies] == [True, False, True, None]
    assert all(c.is_leaf for c in copies if isinstance(c, torch.Tensor))
    copies[0].sum().backward()
    assert copies[0].grad is not None
    assert weight.grad is None


def test_each_fresh_copy_is_untouched_by_what_was_done_to_the_one_before() -> None:
    held = snapshot([base()])
    fresh(held, [False])[0].zero_()
    assert torch.equal(fresh(held, [False])[0], base())


@pytest.mark.parametrize("make", [lambda x: x.to_sparse(), lambda x: x.to_sparse_csr()])
def test_sparse_tensors_are_copied_and_counted_and_told_apart(make: Any) -> None:
    x = make(base())
    [copy] = snapshot([x])
    assert torch.equal(copy.to_dense(), base())
    assert nbytes([x]) > 0
    assert digest([x]) == digest([copy]) != digest([make(base() + 1)])


def test_bytes_are_those_of_the_memory_behind_a_view() -> None:
    assert nbytes([base()[0], 3, None]) == 24 * 4


@pytest.mark.parametrize("view", VIEWS)
def test_equal_inputs_have_one_digest_whatever_their_strides(view: str) -> None:
    x = VIEWS[view](base())
    assert digest([x]) == digest(snapshot([x])) == digest([x.clone()])


def test_inputs_that_differ_in_a_bit_a_shape_or_a_dtype_have_another_digest() -> None:
    x = base()
    others = [x + 1, -x, x.reshape(6, 4), x.double(), x.int(), x.view(torch.int32), torch.nextafter(x, x + 1)]
    digests = {digest([o]) for o in [x, *others]} | {digest([x, 1]), digest([x, 2]), digest([])}
    assert len(digests) == len(others) + 4
    assert digest([torch.tensor([0.0])]) != digest([torch.tensor([-0.0])])


def test_a_tensor_without_values_has_a_digest() -> None:
    meta = torch.ones(3, device="meta")
    assert digest([meta]) == digest(snapshot([meta])) != digest([torch.ones(4, device="meta")])


@pytest.mark.parametrize("view", [*VIEWS, "odd strides of one", "sparse", "a row"])
def test_only_a_new_tensor_lies_as_one(view: str) -> None:
    more = {
        "odd strides of one": lambda x: x[:, :1].t().clone(),
        "sparse": lambda x: x.to_sparse(),
        "a row": lambda x: x[1],
    }
    x = (VIEWS | more)[view](base())
    assert lies_as_new(x) is (view in ("contiguous", "bool", "sparse"))
