"""Says why a PyTorch model gives one answer in eager mode and another under torch.compile.

The names here are for programs that run torch themselves; everything else is the command `numbisect`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .attached.bundle import Checked, Minimized
    from .attached.direct import check, minimize
    from .attached.scope import Scope, attach

__all__ = ["Checked", "Minimized", "Scope", "attach", "check", "minimize"]
_WHERE = {
    "Checked": "bundle",
    "Minimized": "bundle",
    "Scope": "scope",
    "attach": "scope",
    "check": "direct",
    "minimize": "direct",
}


def __getattr__(name: str) -> Any:
    """Torch is imported for those who ask, and not by `numbisect --help`."""
    if name not in _WHERE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.attached.{_WHERE[name]}"), name)
