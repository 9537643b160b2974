"""A configuration that was chosen by timing is taken again, whatever a later timing would say."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch")

from bisector.inductor import autotuned, compilation

SIZES = {"x": 4, "r0_": 512}


class Kernel:
    """Stands in for Inductor's `CachingAutotuner`; `seconds` is what a timing says of each block size."""

    def __init__(
        self, number: int, seconds: dict[int, float], size_hints: dict[str, int] | None = SIZES
    ) -> None:
        self.fn = SimpleNamespace(__name__=f"triton_red_fused_sum_{number}")
        self.size_hints = size_hints
        self.triton_meta = {"signature": {"in_ptr0": "*fp32"}}
        configs = [SimpleNamespace(kwargs={"R0_BLOCK": b}, num_warps=4, num_stages=1) for b in seconds]
        self.launchers = [Launcher(c) for c in configs]
        self.seconds, self.timed = seconds, 0

    def benchmark_all_configs(self) -> dict[Any, float]:
        self.timed += 1
        return {each: self.seconds[each.config.kwargs["R0_BLOCK"]] for each in self.launchers}

    def coordinate_descent_tuning(self, launcher: Launcher, *args: Any) -> Launcher:
        """Twice as many warps, here."""
        self.timed += 1
        tuned = copy.deepcopy(launcher.config)
        tuned.num_warps *= 2
        return self._precompile_config(tuned).make_launcher()

    def _precompile_config(self, config: Any) -> Any:
        return SimpleNamespace(make_launcher=lambda: Launcher(config))

    lock = contextlib.nullcontext()

    def chosen(self) -> int:
        timings = self.benchmark_all_configs()
        block: int = min(timings, key=lambda each: timings[each]).config.kwargs["R0_BLOCK"]
        return block


class Launcher:
    def __init__(self, config: Any) -> None:
        self.config = config


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    from torch._inductor.runtime import triton_heuristics

    monkeypatch.setattr(triton_heuristics, "CachingAutotuner", Kernel)
    original, tuning = Kernel.benchmark_all_configs, Kernel.coordinate_descent_tuning
    monkeypatch.setattr(autotuned, "_file", None)
    monkeypatch.setattr(compilation, "CACHES_OFF", dict(compilation.CACHES_OFF))
    autotuned.pin(str(tmp_path / "choices"))
    yield tmp_path / "choices"
    Kernel.benchmark_all_configs = original  # type: ignore[method-assign]
    Kernel.coordinate_descent_tuning = tuning  # type: ignore[method-assign]


def test_the_first_choice_holds_for_the_same_kernel_under_another_number(file: Path) -> None:
    assert Kernel(0, {256: 2.0, 512: 1.0}).chosen() == 512
    later = Kernel(3, {256: 1.0, 512: 2.0})
    assert later.chosen() == 512
    assert later.timed == 0


def test_a_kernel_without_sizes_such_as_a_user_s_own_is_pinned_too(file: Path) -> None:
    assert Kernel(0, {256: 2.0, 512: 1.0}, None).chosen() == 512
    assert Kernel(1, {256: 1.0, 512: 2.0}, None).chosen() == 512
    assert len(file.read_text().splitlines()) == 1


def test_what_coordinate_descent_came_to_is_taken_again(file: Path) -> None:
    first, second = Kernel(0, {256: 1.0}), Kernel(2, {256: 1.0})
    tuned = first.coordinate_descent_tuning(first.launchers[0])
    again = second.coordinate_descent_tuning(second.launchers[0])
    assert (first.timed, second.timed) == (1, 0)
    assert (tuned.config.num_warps, again.config.num_warps) == (8, 8)
    assert again.config.kwargs == {"R0_BLOCK": 256}
    assert again.config.found_by_coordesc, "torch tunes no more what is marked so"


def test_another_signature_is_another_kernel(file: Path) -> None:
    Kernel(0, {256: 2.0, 512: 1.0}).chosen()
    other = Kernel(0, {256: 1.0, 512: 2.0})
    other.triton_meta = {"signature": {"in_ptr0": "*fp16"}}
    assert other.chosen() == 256
    assert other.timed == 1


def test_a_configuration_that_is_not_offered_any_more_is_timed_and_not_recorded(file: Path) -> None:
    Kernel(0, {256: 2.0, 512: 1.0}).chosen()
    assert Kernel(0, {128: 2.0, 256: 1.0}).chosen() == 256
    assert Kernel(0, {256: 1.0, 512: 2.0}).chosen() == 512


def test_inductors_own_memory_of_choices_is_off_in_a_probe_where_they_are_pinned(file: Path) -> None:
    import torch._inductor.config as inductor_config

    assert inductor_config.autotune_local_cache
    with compilation.probe_caches(threads=1):
        assert not inductor_config.autotune_local_cache


def test_inductors_own_memory_of_choices_is_left_alone_where_none_are_pinned() -> None:
    import torch._inductor.config as inductor_config

    with compilation.probe_caches(threads=1):
        assert inductor_config.autotune_local_cache


def test_the_patched_methods_are_there_in_this_torch() -> None:
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    for method in ("benchmark_all_configs", *autotuned.REFINING):
        assert hasattr(CachingAutotuner, method)
