"""Compile a captured graph as torch.compile would, without running Dynamo again."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
from torch._guards import TracingContext, tracing
from torch._inductor import decomposition
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import ShapeEnv

# Settings of Inductor's caches in every probe; `autotuned` adds to them.
CACHES_OFF = {"fx_graph_cache": False, "fx_graph_remote_cache": False}
BACKWARD_AT_ONCE = "force_non_lazy_backward_lowering"  # torch/_functorch/config.py


def compile_graph(
    gm: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    context: TracingContext | None,
    backend: str | Callable[..., Any],
    options: dict[str, Any],
) -> Callable[..., Any]:
    """A callable that runs the compiled graph on real inputs.

    context: Dynamo's tracing context together with the fake `example_inputs` it made (they carry
    dynamic shapes); None for a graph made here, whose real inputs are then fakified with static shapes.
    options: Inductor settings given to torch.compile, in force for the backward graph too.
    """
    if backend == "eager":
        return gm
    if context is None:
        context, example_inputs = _static_context(example_inputs)
    decompositions_as_they_are()
    with tracing(context):
        if backend == "inductor":
            from torch._inductor.compile_fx import compile_fx

            compiled: Any = compile_fx(gm, list(example_inputs), config_patches=options or None)
            return compiled
        if isinstance(backend, str):
            from torch._dynamo.backends.registry import lookup_backend

            return lookup_backend(backend)(gm, list(example_inputs))
        return backend(gm, list(example_inputs))


def decompositions_as_they_are() -> None:
    """Inductor copies its table once (torch/_inductor/decomposition.py); the copy of the warm-up lacks what
    the script has registered since."""
    if hasattr(decomposition.fast_random_decomps, "cache_clear"):
        decomposition.fast_random_decomps.cache_clear()


def _static_context(inputs: Sequence[Any]) -> tuple[TracingContext, list[Any]]:
    mode = FakeTensorMode(allow_non_fake_inputs=True, shape_env=ShapeEnv())
    fake = [mode.from_tensor(x, static_shapes=True) if isinstance(x, torch.Tensor) else x for x in inputs]
    return TracingContext(mode), fake


@contextlib.contextmanager
def probe_caches(threads: int) -> Iterator[None]:
    """Graph caches off, so that no earlier compile answers for this one; the kernels' own cache stays.

    Kernels are cached by source and command line (torch/_inductor/codecache.py): what a probe varies.
    threads: how many C++ compilers may run at a time. Inductor waits for them in a pool of threads that
    it makes once for a process (`AsyncCompile.pool`) and no fork takes along: 1 where a child is to come.

    On CUDA the backward graph is compiled together with the forward one: autograd would have it compiled in
    a thread of its own for the device, where none of a probe's settings hold, these neither.
    """
    # Processes that compile Triton kernels keep the settings of the probe that they last compiled for
    # (torch/_inductor/runtime/compile_tasks.py): the next one's kernels would link its library.
    threads = 1 if torch.cuda.is_initialized() else threads
    inductor = {**CACHES_OFF, "compile_threads": threads}
    autograd = {"enable_autograd_cache": False} | backward_at_once()
    with in_force(inductor_config, inductor), in_force(functorch_config, autograd):
        yield


@contextlib.contextmanager
def in_force(config: Any, values: Mapping[str, Any]) -> Iterator[None]:
    """These settings of a config module hold, though an environment variable forces another value:
    $TORCHINDUCTOR_FX_GRAPH_CACHE=1 would give a probe what an earlier one has compiled."""
    with contextlib.ExitStack() as stack:
        for entry in (config._config[key] for key in values):
            if hasattr(entry, "env_value_force"):  # else this torch has no such variables
                unset = type(entry).env_value_force
                stack.enter_context(mock.patch.object(entry, "env_value_force", unset))
        stack.enter_context(config.patch(dict(values)))
        yield


def backward_at_once() -> dict[str, bool]:
    """The functorch setting on CUDA, where autograd would compile the backward graph in another thread."""
    known = BACKWARD_AT_ONCE in functorch_config._config  # type: ignore[attr-defined]
    return {BACKWARD_AT_ONCE: True} if known and torch.cuda.is_initialized() else {}
