"""What is kept of the settings around a compiled call."""

from __future__ import annotations

import pytest
import torch

from bisector.inductor import torch_state

pytestmark = pytest.mark.usefixtures("undisturbed")


def test_settings_of_the_command_line_make_another_state_and_leave_the_first_as_it_was() -> None:
    first = torch_state.take(torch_state.config_values())
    second = first.with_settings({
        "inductor.freezing": True,
        "inductor.cpp.simdlen": 1,
        "dynamo.verbose": True,
        "backends.mkldnn.deterministic": True,
    })
    assert first.settings() == {}
    assert second.settings() == {
        "inductor.freezing": True, "inductor.cpp.simdlen": 1, "dynamo.verbose": True
    }
    assert (first.backends["mkldnn.deterministic"], second.backends["mkldnn.deterministic"]) == (False, True)
    assert second.with_settings({"inductor.cpp.simdlen": 8}).settings()["inductor.cpp.simdlen"] == 8
    assert second.settings()["inductor.cpp.simdlen"] == 1


def test_a_script_sets_what_is_not_as_torch_has_it() -> None:
    started = torch_state.default_values()
    plain = torch_state.take(started).script_settings()
    before = torch.backends.mkldnn.deterministic
    try:
        torch.set_float32_matmul_precision("high")
        torch.backends.mkldnn.deterministic = True  # type: ignore[assignment]
        with torch._inductor.config.patch(fallback_random=True):
            found = torch_state.take(started).script_settings()
    finally:
        torch.set_float32_matmul_precision("highest")
        torch.backends.mkldnn.deterministic = before
    assert {name: value for name, value in found.items() if name not in plain} == {
        "inductor.fallback_random": True,
        "backends.mkldnn.deterministic": True,
        "torch.set_float32_matmul_precision": "high",
        "backends.cuda.matmul.allow_tf32": True,  # which the precision sets
    }


def test_modes_are_those_of_the_thread_and_autocast_is_named_where_it_is_on() -> None:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        modes = torch_state.Modes.now()
    assert (modes.grad_enabled, modes.inference_mode) == (False, False)
    assert modes.autocast_on() == [("cpu", torch.bfloat16)]
    assert torch_state.Modes.now().autocast_on() == []
