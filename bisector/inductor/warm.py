"""What the worker does once before it forks: settings, hooks, and the lazy parts of Inductor."""

from __future__ import annotations

import os
from typing import Any

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config

from . import ambient, hooks, source_capture
from .hooks import selftest
from .load import Loaded


def warm_up() -> dict[str, str]:
    """Install the hooks and run Inductor's front half once; the hooks that are off, with the reason.

    One tiny compile registers the lazily built patterns, whose own compiles would otherwise show up as
    decisions of the subject, and finds the vector instruction set, which takes a process of its own.
    """
    inductor_config.compile_threads = 1  # no pool of processes: hooks and forks do not reach it
    hooks.install()
    reader, pid = _fork_selftest()
    _warm_kernel_cache()
    return _read_selftest(reader, pid)


def _fork_selftest() -> tuple[int, int]:
    source_capture.source_only(lambda: torch.compile(_tiny)(torch.ones(8, 8)))
    torch._dynamo.reset()
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(reader)
        lines = [f"{kind}\t{reason}" for kind, reason in selftest.run().items() if reason is not None]
        os.write(writer, "\n".join(lines).encode())
        os._exit(0)
    os.close(writer)
    return reader, pid


def _read_selftest(reader: int, pid: int) -> dict[str, str]:
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    _, status = os.waitpid(pid, 0)
    if status != 0:
        raise RuntimeError("the self-test of the hooks crashed; see worker.log in the run directory")
    off = dict(line.split("\t", 1) for line in text.splitlines())
    for kind, reason in off.items():
        hooks.disable(kind, reason)
    return hooks.disabled()


def _tiny(x: torch.Tensor) -> torch.Tensor:
    return (x.sin() * 2).sum(-1)


def _warm_kernel_cache() -> None:
    """Build the precompiled header in a child while the script runs: the first kernel would wait for it."""
    if os.fork() == 0:
        os.setsid()
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


def apply_baseline(loaded: Loaded, config: dict[str, Any]) -> None:
    """Settings of the command line (`-c`), as if the script had made them around every call."""
    for call in loaded.recorder.calls:
        configs: dict[str, dict[str, Any]] = {k: dict(v) for k, v in call.ambient.configs.items()}
        backends = dict(call.ambient.backends)
        for name, value in config.items():
            family, _, key = name.partition(".")
            if family == "backends":
                backends[key] = value
            else:
                configs.setdefault(family, {})[key] = value
        object.__setattr__(call.ambient, "configs", configs)
        object.__setattr__(call.ambient, "backends", backends)


def unknown_flags(config: dict[str, Any]) -> list[str]:
    """The names in `config` that this torch does not have."""
    unknown = []
    for name in config:
        try:
            ambient.current_flag(name)
        except KeyError:
            unknown.append(name)
    return unknown
