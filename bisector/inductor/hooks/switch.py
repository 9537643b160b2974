"""Decisions that one C++ kernel leaves open: both forms are in its code, and a table says which one runs.

No decisions of its own. A kernel-local decision (one operation of `vec`, `cast` or `fma`) changes no other
code, so a compile that leaves them all open answers any set of them by a run (`held.py`). The kernel reads
the table's address from the environment when it is loaded: its source, and so its place in the kernel cache,
does not depend on the process.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable

from ..control import MOST_SWITCHES

ALLOWS = "numbisect_allows"
_ADDRESS = "NUMBISECT_SWITCHES"
HELPER = f"""
#ifndef NUMBISECT_ALLOWS
#define NUMBISECT_ALLOWS
#include <cstdlib>
static const unsigned char* const numbisect_switches =
    reinterpret_cast<const unsigned char*>(std::strtoull(std::getenv("{_ADDRESS}"), nullptr, 16));
static inline bool {ALLOWS}(int number) {{
    return numbisect_switches[number] != 0;
}}
#endif
"""

_table = (ctypes.c_ubyte * MOST_SWITCHES)(*([1] * MOST_SWITCHES))


def publish() -> None:
    """Tell kernels that are loaded from now on where this process and its forks keep the table."""
    os.environ[_ADDRESS] = hex(ctypes.addressof(_table))


def deny(numbers: Iterable[int]) -> None:
    """Set the table: every switch allowed but these."""
    ctypes.memset(_table, 1, MOST_SWITCHES)
    for number in numbers:
        _table[number] = 0


def either(number: int, allowed: object, denied: object) -> str:
    """C++: the first value or the second, as the table says. Both are of one type."""
    return f"({ALLOWS}({number}) ? {allowed} : {denied})"
