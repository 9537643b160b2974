"""What a call changes and draws is seen beside what it gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("torch")
import torch

from bisector.core.program import Effect, EffectKind
from bisector.inductor.program.effects import before


def effects_of(model: Callable[..., Any], *args: Any) -> tuple[Effect, ...]:
    seen = before(model, (args, {}))
    model(*args)
    return seen.effects()


def test_a_call_that_only_computes_has_none() -> None:
    assert effects_of(lambda x: x + 1, torch.ones(2)) == ()
    assert effects_of(torch.nn.Linear(2, 2), torch.ones(2)) == ()


def test_an_argument_that_is_changed_in_place_is_named() -> None:
    changed = effects_of(lambda x, y: y.add_(x), torch.ones(2), torch.ones(2))
    assert changed == (Effect(EffectKind.MUTATES, "argument 1"),)


def test_a_module_in_training_changes_its_buffers_and_draws() -> None:
    norm = torch.nn.BatchNorm1d(2)
    names = {e.name for e in effects_of(norm, torch.ones(3, 2)) if e.kind is EffectKind.CHANGES_STATE}
    assert names == {"`num_batches_tracked`", "`running_mean`", "`running_var`"}
    assert effects_of(norm.eval(), torch.ones(3, 2)) == ()
    assert effects_of(torch.nn.Dropout(), torch.ones(3)) == (Effect(EffectKind.DRAWS),)


def test_a_lazy_module_draws_its_parameters() -> None:
    lazy = torch.nn.LazyLinear(2)
    assert Effect(EffectKind.MAKES_LAZY) in effects_of(lazy, torch.ones(1, 3))
    assert effects_of(lazy, torch.ones(1, 3)) == ()


def test_tensors_without_versions_are_left_alone() -> None:
    with torch.inference_mode():
        assert effects_of(lambda x: x.add_(1), torch.ones(2)) == ()


def test_an_argument_is_kept_where_it_holds_the_same_bits_afterwards() -> None:
    def changed(x: torch.Tensor, y: torch.Tensor, mean: torch.Tensor, var: torch.Tensor) -> None:
        y.data.add_(1)
        torch.nn.functional.batch_norm(x, mean, var, training=True)

    x, y, mean, var = torch.randn(4, 2), torch.ones(2), torch.zeros(2), torch.ones(2)
    seen = before(changed, ((x, y, mean, var), {}))
    changed(x, y, mean, var)
    assert seen.kept() == ("argument 0",)


def test_an_argument_whose_values_are_not_there_to_look_at_is_not_known_to_be_kept() -> None:
    seen: list[tuple[str, ...]] = []

    def looked_at(x: torch.Tensor) -> torch.Tensor:
        seen.append(before(looked_at, ((x,), {})).kept())
        return x

    looked_at(torch.ones(2, device="meta"))
    torch.vmap(looked_at)(torch.ones(3, 2))
    assert seen == [(), ()]
