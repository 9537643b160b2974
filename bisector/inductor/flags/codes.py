"""The code that Inductor generates under a candidate, without building or running it.

Where it is the default's, the candidate is known to change nothing that runs here but what a compiler's
command line or a library does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, NoReturn
from unittest import mock

import torch._functorch.config as functorch_config
from torch._inductor.async_compile import AsyncCompile

from ...core.case import Case
from ...core.model import Candidate
from .. import compilation, execute, source_capture
from ..capture.record import Call

_BUILDERS = ("cpp", "cpp_pybinding", "triton")  # what a generated module calls with the source of a kernel


def code_of(call: Call, case: Case, candidate: Candidate, train: bool | None) -> str | None:
    """The digest of the code; None where it is not known."""
    sources = sources_of(call, case, candidate, train)
    return source_capture.digest(sources) if sources else None


def sources_of(call: Call, case: Case, candidate: Candidate, train: bool | None) -> list[str]:
    """The code of each graph, of the backward one too where there is one; none where it is not known."""
    subject = execute.prepare(call, case, train)
    at_once = compilation.BACKWARD_AT_ONCE
    if subject.train and at_once not in functorch_config._config:  # type: ignore[attr-defined]
        return []  # the backward graph would be compiled when it runs
    with ExitStack() as stack:
        sources = stack.enter_context(source_capture.collected())
        stack.enter_context(execute.active(execute.control_for(candidate), threads=1))
        stack.enter_context(_nothing_built())
        if subject.train:
            stack.enter_context(functorch_config.patch({at_once: True}))
        try:
            execute.compile_subject(subject, candidate)
        except execute.NotCompiled:
            return []  # a probe says why
    return sources


@contextmanager
def _nothing_built() -> Iterator[None]:
    """Generated modules are loaded with kernels that nobody may call."""
    with ExitStack() as stack:
        for name in _BUILDERS:
            stack.enter_context(mock.patch.object(AsyncCompile, name, _unbuilt))
        yield


def _unbuilt(*args: Any, **kwargs: Any) -> Callable[..., NoReturn]:
    def kernel(*args: Any, **kwargs: Any) -> NoReturn:
        raise AssertionError("a kernel that was not built is called")

    return kernel
