"""The hooks: one module for each kind of decision, passive until a Control is active.

Every module has `KIND`, its entry in the table of kinds, `install()`, which patches torch or raises
HookUnavailable, and a docstring that says what it patches and how it names an instance.
"""

from __future__ import annotations

from collections.abc import Collection
from types import ModuleType

from ...core.kinds import KINDS
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
    triton_cast,
    triton_fma,
    triton_math,
    triton_reduce,
    unroll,
    vec,
    welford,
)
from .patching import HookUnavailable

# In the order in which they patch torch.
_MODULES: tuple[ModuleType, ...] = (
    decomp, passes, match, prepack, cfold, remat, layout, lower, split, unroll, welford, inline, template,
    fuse, cast, const, fma, vec, inplace, reuse, cudagraph,
)  # fmt: skip
BY_KIND: dict[str, ModuleType] = {module.KIND.name: module for module in _MODULES}
# What kinds have beside their own hook where the backend is Triton; no decisions of its own. Each is switched
# off by its own name, so that one which does not work there leaves its kind alone.
ON_TRITON: dict[str, ModuleType] = {
    module.NAME: module for module in (triton_fma, triton_math, triton_cast, triton_reduce)
}

_installed = False


def install() -> None:
    """Patches torch, once for each process and before any fork. A kind whose hook is not there is off."""
    global _installed
    if _installed:
        return
    _installed = True
    for kind, module in (BY_KIND | ON_TRITON).items():
        try:
            module.install()
        except HookUnavailable as missing:
            disable(kind, str(missing))


def not_here(devices: Collection[str]) -> dict[str, str]:
    """The kinds of which there is no decision on these types of device, with the reason."""
    return {
        kind.name: f"taken on {' or '.join(sorted(kind.devices))} alone"
        for kind in KINDS.values()
        if kind.devices and not kind.devices & set(devices)
    }


def disable(kind: str, reason: str = "switched off") -> None:
    """Switches a kind off: it is neither asked nor recorded, in this process and its later forks."""
    control.disable(kind, reason)


def disabled() -> dict[str, str]:
    """The kinds that are off, with the reason."""
    return control.disabled()
