"""inplace and reuse: where a result is written, each denied alone."""

from __future__ import annotations

import pytest
import torch

from bisector.inductor.control import Control
from tests.inductor.helpers import allow, compile_and_run, compile_only, deny

pytestmark = pytest.mark.usefixtures("compiler")


def layers(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    wide = w.repeat(1, 8)  # memory is reused below the peak that this makes
    x = (x @ wide) @ wide.t()
    first = torch.relu(x @ w)
    second = torch.tanh(first @ w)
    third = torch.sigmoid(second @ w)
    return third @ w


def inputs() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(32, 32, generator=generator) for _ in range(2)]


@pytest.mark.parametrize("kind", ["inplace", "reuse"])
def test_each_place_of_a_result_is_a_decision_and_changes_where_it_is_denied(kind: str) -> None:
    default = compile_only(layers, inputs(), Control())
    members = [i for i in default.ids if i.startswith(f"{kind}:")]
    assert len(members) == len(set(members)) > 0
    for member in members:
        denied = compile_only(layers, inputs(), deny(member))
        assert denied.source != default.source, member
        assert [i for i in denied.ids if i.startswith(f"{kind}:")] == members


def two_results(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The first takes the memory of a value that nothing reads any more; the second would take it too."""
    wide = w.repeat(1, 8)
    x = (x @ wide) @ wide.t()
    first = torch.relu(x @ w)
    return first @ w, first @ w.t()


def test_memory_that_one_result_is_denied_goes_to_no_other() -> None:
    def reused(control: Control) -> list[str]:
        return [i for i in compile_only(two_results, inputs(), control).ids if i.startswith("reuse:")]

    [taken] = reused(Control())
    assert reused(deny(taken)) == [taken]


def test_each_activation_is_written_over_the_product_before_it() -> None:
    ids = compile_only(layers, inputs(), Control()).ids
    assert {"inplace:aten.relu@first", "inplace:aten.tanh@second", "inplace:aten.sigmoid@third"} <= set(ids)


@pytest.mark.live
def test_results_are_the_same_wherever_they_are_written() -> None:
    default = compile_and_run(layers, inputs(), Control())
    places = [i for i in default.ids if i.startswith(("inplace:", "reuse:"))]
    assert compile_and_run(layers, inputs(), deny(*places)).agrees_with(default.outputs)
    torch.testing.assert_close(compile_and_run(layers, inputs(), allow()).outputs, default.outputs)
