"""`cache:autograd_cache@graph`, `cache:fx_graph_cache@graph`: a compiled graph is taken from torch's cache.

Patches `GuardedCache.find_guarded_entry` (torch/_inductor/codecache.py), which both caches look into, each in
the name of the setting that turns it off. Denied, the graph is compiled as if the cache did not hold it.
Exercised on torch 2.13.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch._functorch._aot_autograd.autograd_cache import AOTAutogradCache
from torch._inductor.codecache import FxGraphCache, GuardedCache

from ...core import kinds
from ..control import current
from .patching import wrap

KIND = kinds.CACHE

_NAMES = {AOTAutogradCache: "autograd_cache", FxGraphCache: "fx_graph_cache"}


def install() -> None:
    wrap(GuardedCache, "find_guarded_entry", _ask)


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def find_guarded_entry(cls: type[object], *args: Any, **kwargs: Any) -> Any:
        graph, content, info = original(cls, *args, **kwargs)
        control, name = current(KIND.name), _NAMES.get(cls)
        if control is None or name is None or graph is None:
            return graph, content, info
        text = f"the compiled graph is taken from torch's {name.replace('_', ' ')}"
        if control.ask(KIND.name, name, "graph", text):
            return graph, content, info
        return None, None, info

    return find_guarded_entry
