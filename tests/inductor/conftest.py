"""The hooks installed, for tests that compile."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session")
def compiler() -> Iterator[None]:
    torch = pytest.importorskip("torch")
    import torch._functorch.config as functorch_config
    import torch._inductor.config as inductor_config

    from bisector.inductor import hooks

    hooks.install()
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    with (
        inductor_config.patch(fx_graph_cache=False, compile_threads=1),
        functorch_config.patch(enable_autograd_cache=False),
    ):
        yield
    torch.set_num_threads(threads)


@pytest.fixture
def undisturbed() -> Iterator[None]:
    """Puts back what a script and a probe do to the process that runs them; in the worker it is their own."""
    torch = pytest.importorskip("torch")
    from bisector.inductor import torch_state

    argv, path, main = sys.argv, list(sys.path), sys.modules["__main__"]
    settings, threads = torch_state.config_values(), torch.get_num_threads()
    torch._dynamo.reset()
    yield
    torch.set_num_threads(threads)  # sums of another order are other bits
    torch_state.reset(settings)
    sys.argv, sys.path[:] = argv, path
    sys.modules["__main__"] = main
