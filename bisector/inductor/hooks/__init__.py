"""The hooks: one module for each kind of decision, passive until a Control is active.

Every module has `KIND`, its entry in the table of kinds, `install()`, which patches torch or raises
HookUnavailable, and a docstring that says what it patches and how it names an instance.
"""

from __future__ import annotations

import importlib
from collections.abc import Collection, Mapping
from types import ModuleType

from ...core.kinds import KINDS
from ...errors import first_line
from .. import control
from .patching import HookUnavailable, NotTaken

# Kind -> module, in the order in which they patch torch.
_MODULES = {
    "decomp": "decomp", "pass": "passes", "match": "match", "prepack": "prepack", "cfold": "cfold",
    "remat": "remat", "layout": "layout", "lower": "lower", "split": "split", "unroll": "unroll",
    "welford": "welford", "inline": "inline", "template": "template", "fuse": "fuse", "cast": "cast",
    "const": "const", "fma": "fma", "vec": "vec", "inplace": "inplace", "reuse": "reuse",
    "cudagraph": "cudagraph", "guard": "guard", "cache": "cache", "step": "step",
    "frame": "frame",
}  # fmt: skip
# What kinds have besides their own hook where the backend is Triton; no decisions of its own. Each is
# switched off by its own name, so that one which does not work there leaves its kind alone.
_TRITON_MODULES = {
    "fma on Triton": "triton_fma",
    "vec on Triton": "triton_math",
    "cast on Triton": "triton_cast",
    "reductions on Triton": "triton_reduce",
}
_unavailable: dict[str, str] = {}  # kind -> which name of torch its module does not find


def _imported(modules: Mapping[str, str]) -> dict[str, ModuleType]:
    """The modules that this torch has every name for."""
    found = {}
    for kind, name in modules.items():
        try:
            found[kind] = importlib.import_module(f"{__name__}.{name}")
        except (ImportError, AttributeError) as error:
            _unavailable[kind] = f"this torch lacks what its hook patches: {first_line(error)}"
    return found


BY_KIND = _imported(_MODULES)
ON_TRITON = _imported(_TRITON_MODULES)

_installed = False


def install() -> None:
    """Patches torch, once for each process and before any fork. A kind whose hook is not there is off."""
    global _installed
    if _installed:
        return
    _installed = True
    for kind, reason in _unavailable.items():
        disable(kind, reason)
    for kind, module in (BY_KIND | ON_TRITON).items():
        try:
            module.install()
        except HookUnavailable as missing:
            disable(kind, str(missing))
        except NotTaken as none:
            control.not_taken[kind] = str(none)


def not_here(devices: Collection[str]) -> dict[str, str]:
    """The kinds of which there is no decision in this torch or on these types of device, with the reason."""
    elsewhere = {
        kind.name: f"taken on {' or '.join(sorted(kind.devices))} alone"
        for kind in KINDS.values()
        if kind.devices and not kind.devices & set(devices)
    }
    return elsewhere | control.not_taken


def disable(kind: str, reason: str = "switched off") -> None:
    """Switches a kind off: it is neither asked nor recorded, in this process and its later forks."""
    control.disable(kind, reason)


def disabled() -> dict[str, str]:
    """The kinds that are off, with the reason."""
    return control.disabled()
