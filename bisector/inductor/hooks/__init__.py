"""The hooks: one module for each kind of decision, passive until a Control is active.

Every module has `install()`, which patches torch or raises HookUnavailable, and a docstring that says what
it patches and how it names an instance.
"""

from __future__ import annotations

from types import ModuleType

from .. import control
from . import cast, decomp, fma, fuse, inline, layout, lower, match, passes, vec
from .on_triton import ON_TRITON
from .patching import HookUnavailable

KINDS: dict[str, ModuleType] = {
    "decomp": decomp,
    "pass": passes,
    "match": match,
    "layout": layout,
    "lower": lower,
    "inline": inline,
    "fuse": fuse,
    "cast": cast,
    "fma": fma,
    "vec": vec,
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


def disable(kind: str, reason: str = "switched off") -> None:
    """Switches a kind off: it is neither asked nor recorded, in this process and its later forks."""
    control.disable(kind, reason)


def disabled() -> dict[str, str]:
    """The kinds that are off, with the reason."""
    return control.disabled()
