"""What is kept of the settings around a compiled call."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

from bisector.inductor import compilation, torch_state

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


ASKED_UNDER_A_VARIABLE = """
import sys
import torch._functorch.config as functorch_config, torch._inductor.config as inductor_config
from bisector.inductor import compilation, torch_state

with compilation.probe_caches(threads=1):
    print(inductor_config.fx_graph_cache, functorch_config.enable_autograd_cache)
print(inductor_config.fx_graph_cache, functorch_config.enable_autograd_cache)
try:
    torch_state.apply_flags({"inductor.disabled_passes": "some_pass"})
except torch_state.CannotSet as error:
    print(error)
"""


@pytest.mark.live
def test_what_a_variable_forces_is_no_setting_of_a_probe_and_a_flag_that_it_overrules_is_not_set() -> None:
    forced = {"FX_GRAPH_CACHE": "1", "AUTOGRAD_CACHE": "1", "DISABLED_PASSES": "other_pass"}
    variables = {f"TORCHINDUCTOR_{name}": value for name, value in forced.items()}
    done = subprocess.run(
        [sys.executable, "-c", ASKED_UNDER_A_VARIABLE], env=os.environ | variables, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    flag = "inductor.disabled_passes='some_pass'"
    assert done.stdout.splitlines() == [
        "False False",
        "True True",
        f"{flag} has no effect: an environment variable makes it 'other_pass'",
    ]


UNDER_A_NEWER_NAME = """
import torch
from bisector.inductor import torch_state

started = torch_state.default_values()
torch.backends.cuda.matmul.fp32_precision = "tf32"
state = torch_state.take(started)
print(state.matmul_precision, state.script_settings().get("backends.cuda.matmul.fp32_precision"))
torch.backends.cuda.matmul.fp32_precision = "ieee"
torch_state.restore(state)
print(torch.backends.cuda.matmul.fp32_precision)
"""


@pytest.mark.live
def test_a_precision_that_is_set_by_its_newer_name_is_kept_though_the_older_one_cannot_be_read() -> None:
    """pytorch raises on `get_float32_matmul_precision()` then."""
    done = subprocess.run(
        [sys.executable, "-c", UNDER_A_NEWER_NAME], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == ["None tf32", "tf32"]


@pytest.mark.parametrize(("on_cuda", "threads"), [(False, 3), (True, 1)])
def test_on_cuda_no_pool_of_compilers_outlives_a_probe(
    on_cuda: bool, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: on_cuda)
    with compilation.probe_caches(threads=3):
        assert torch._inductor.config.compile_threads == threads
