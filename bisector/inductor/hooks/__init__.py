"""The hooks: one module for each kind of decision, passive until a Control is active.

Every module has `install()`, which patches torch or raises HookUnavailable, and a docstring that says what
it patches and how it names an instance.
"""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType

from .. import control
from . import (
    cast,
    cfold,
    const,
    cudagraph,
    decomp,
    fma,
    fuse,
    inline,
    inplace,
    layout,
    lower,
    match,
    passes,
    prepack,
    remat,
    reuse,
    split,
    template,
    unroll,
    vec,
    welford,
)
from .on_triton import ON_TRITON
from .patching import HookUnavailable

KINDS: dict[str, ModuleType] = {
    "decomp": decomp,
    "pass": passes,
    "match": match,
    "prepack": prepack,
    "cfold": cfold,
    "remat": remat,
    "layout": layout,
    "lower": lower,
    "split": split,
    "unroll": unroll,
    "welford": welford,
    "inline": inline,
    "template": template,
    "fuse": fuse,
    "cast": cast,
    "const": const,
    "fma": fma,
    "vec": vec,
    "inplace": inplace,
    "reuse": reuse,
    "cudagraph": cudagraph,
}

_installed = False


def install() -> None:
    """Patches torch, once for each process and before any fork. A kind whose hook is not there is off."""
    global _installed
    if _installed:
        return
    _installed = True
    for kind, module in (KINDS | ON_TRITON).items():
        try:
            module.install()
        except HookUnavailable as missing:
            disable(kind, str(missing))


def not_here(devices: Collection[str]) -> dict[str, str]:
    """The kinds of which there is no decision on these types of device, with the reason."""
    places = {kind: module.DEVICES for kind, module in KINDS.items() if hasattr(module, "DEVICES")}
    return {
        kind: f"taken on {' or '.join(sorted(where))} alone"
        for kind, where in places.items()
        if not where & set(devices)
    }


def disable(kind: str, reason: str = "switched off") -> None:
    """Switches a kind off: it is neither asked nor recorded, in this process and its later forks."""
    control.disable(kind, reason)


def disabled() -> dict[str, str]:
    """The kinds that are off, with the reason."""
    return control.disabled()
