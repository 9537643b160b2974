"""What the worker does once before it forks: settings, hooks, and the lazy parts of Inductor."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._inductor import cpu_vec_isa

from ...processes import die_with
from .. import describe, hooks, source_capture, torch_state
from ..capture.load import Loaded


def warm_up() -> None:
    """Install the hooks and run Inductor's front half once.

    One tiny compile registers the lazily built patterns, whose own compiles would otherwise show up as
    decisions of the subject. Without a C++ compiler it is one for the GPU, if there is any.
    """
    inductor_config.compile_threads = 1  # no pool of processes: hooks and forks do not reach it
    hooks.install()
    if describe.has_compiler():
        _try_vector_isas()
        device = "cpu"
    elif torch.cuda.is_available():
        device = "cuda"
    else:
        return
    source_capture.source_only(lambda: torch.compile(_tiny)(torch.ones(8, 8, device=device)))
    torch._dynamo.reset()


def _try_vector_isas() -> None:
    """Try the vector instruction sets of an x86 processor side by side.

    Inductor builds and loads a library for one after the other when it first needs them, and remembers each.
    """
    processor = cpu_vec_isa.x86_isa_checker()
    isas = [i for i in cpu_vec_isa.supported_vec_isa_list if set(str(i).split()) <= set(processor)]
    if len(isas) > 1:
        with ThreadPoolExecutor(len(isas)) as pool:
            list(pool.map(bool, isas))


def _tiny(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * 2).sum(-1)


def build_header() -> None:
    """Build the precompiled header in a child while the script runs: the first kernel would wait for it."""
    parent, pid = os.getpid(), os.fork()
    if pid == 0:
        os.setsid()
        die_with(parent)
        status = 1
        try:
            with (
                functorch_config.patch(enable_autograd_cache=False),
                inductor_config.patch(fx_graph_cache=False),
            ):
                torch.compile(_tiny)(torch.ones(8, 8))
            status = 0
        finally:
            os._exit(status)


def apply_baseline(loaded: Loaded, config: Mapping[str, Any]) -> None:
    """Settings of the command line (`-c`), as if the script had made them around every call."""
    for call in loaded.recorder.calls:
        call.state = call.state.with_settings(config)


def unknown_flags(config: Mapping[str, Any]) -> list[str]:
    """The names in `config` that this torch does not have."""
    return [name for name in config if not torch_state.has_flag(name)]


def without_effect(loaded: Loaded, config: Mapping[str, Any]) -> str | None:
    """Which setting of the command line the script's own settings overrule, and how; None where none is."""
    for call in loaded.recorder.calls:
        for name, value in config.items():
            found = torch_state.implied(name, call.setting)
            if found is not None and found.value != value:
                return f"-c {name}={value}: {found.by} makes it {found.value}; leave one of the two out"
    return None
