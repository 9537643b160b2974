"""The hooks that kinds have beside their own where the backend is Triton. No decisions of its own.

Each is switched off by the name here, so that a hook which does not work there leaves its kind alone.
"""

from __future__ import annotations

from types import ModuleType

from . import triton_cast, triton_fma, triton_math, triton_reduce

ON_TRITON: dict[str, ModuleType] = {
    module.NAME: module for module in (triton_fma, triton_math, triton_cast, triton_reduce)
}
