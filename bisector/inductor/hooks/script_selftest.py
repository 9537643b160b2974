"""Do the hooks of what is decided outside of a graph still bite in this torch? Each is run on a small script,
or on the one function that it patches, with its decisions allowed and denied.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import CodeType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch._inductor.codecache import FxGraphCache

from ...core import kinds
from .. import control
from ..control import Control
from . import guard
from .selftest import NEVER_ASKED, NO_EFFECT, error_line


def _graphs(active: Control) -> int:
    """How many graphs are compiled of a function that is called twice."""
    graphs: list[Any] = []

    def backend(graph: Any, inputs: Any) -> Any:
        graphs.append(graph)
        return graph

    torch._dynamo.reset()
    names: dict[str, Any] = {}
    exec(_CODE, names)
    made = torch.compile(names["plus_one"], backend=backend)
    with control.activate(active):
        for number in (1, 2):
            with guard.running(guard.Running("plus_one", number, lambda: "")):
                made(torch.ones(2))
    torch._dynamo.reset()
    return len(graphs)


# Of a file that is none of ours: those are no part of the program.
_CODE: CodeType = compile("def plus_one(x):\n    return x + 1\n", "selftest.py", "exec")


def _found(active: Control) -> int:
    """How many graphs a look-up finds in a cache that holds one."""
    entry = SimpleNamespace(guards_expr="")
    holds = mock.patch.object(FxGraphCache, "iterate_over_candidates", lambda *_: [(entry, b"", True)])
    uncounted = mock.patch.object(FxGraphCache, "_record_result", lambda *_, **__: None)
    with holds, uncounted, control.activate(active):
        graph, _, _ = FxGraphCache.find_guarded_entry("", True, None, lambda *_: True, [])
    return int(graph is not None)


SCRIPTS: Mapping[str, Callable[[Control], int]] = {
    kinds.GUARD.name: _graphs,
    kinds.FRAME.name: _graphs,
    kinds.CACHE.name: _found,
}


def run() -> dict[str, str | None]:
    """For each kind None if its hook bites, else the reason why it must be switched off."""
    return {kind: _reason(kind, script) for kind, script in SCRIPTS.items()} | control.disabled()


def _reason(kind: str, script: Callable[[Control], int]) -> str | None:
    try:
        rung = min(kinds.KINDS[kind].rungs)
        listing = Control(rung=rung)
        allowed = script(listing)
        members = [decision.id for decision in listing.decisions() if decision.kind == kind]
        if not members:
            return NEVER_ASKED
        return None if script(Control(members=members, rung=rung)) != allowed else NO_EFFECT
    except Exception as error:  # noqa: BLE001 - whatever a stale hook raises is the reason to report
        return error_line(error)
