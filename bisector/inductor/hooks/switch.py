"""Decisions that one C++ kernel leaves open: both forms are in its code, and a table says which one runs.

No decisions of its own. A kernel-local decision (one operation of `vec`, `cast` or `fma`) changes no other
code, so a compile that leaves them all open answers any set of them by a run (`held.py`). A kernel counts
its own switches from 0 and reads the table's address from the environment when it is loaded: equal kernels
stay equal, and are compiled once. Patches `AsyncCompile.cpp_pybinding` (torch/_inductor/async_compile.py), so
that each call of a kernel first lays out the states of its switches. Exercised on torch 2.13.
"""

from __future__ import annotations

import ctypes
import functools
import os
import re
from collections.abc import Callable, Iterable
from typing import Any

from torch._inductor.async_compile import AsyncCompile
from torch._inductor.codecache import LambdaFuture

from ..control import MOST_SWITCHES
from .patching import wrap

ALLOWS = "numbisect_allows"
_ADDRESS = "NUMBISECT_SWITCHES"
_NUMBERED = re.compile(rf"{ALLOWS}\((\d+)\)")
_NUMBERS = re.compile(r"^// numbisect switches: ([\d ]+)\n", re.MULTILINE)
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

_states = bytearray(b"\1" * MOST_SWITCHES)  # of every switch of this process
_table = (ctypes.c_ubyte * MOST_SWITCHES)()  # of the kernel that runs, in its own numbers


@functools.cache
def install() -> None:
    wrap(AsyncCompile, "cpp_pybinding", _lay_out)


def publish() -> None:
    """Tell kernels that are loaded from now on where this process and its forks keep the table."""
    os.environ[_ADDRESS] = hex(ctypes.addressof(_table))


def deny(numbers: Iterable[int]) -> None:
    """Every switch is allowed but these, from the next call of a kernel on."""
    _states[:] = b"\1" * MOST_SWITCHES
    for number in numbers:
        _states[number] = 0


def either(number: int, allowed: object, denied: object) -> str:
    """C++: the first value or the second, as the table says. Both are of one type."""
    return f"({ALLOWS}({number}) ? {allowed} : {denied})"


def localized(source: str) -> str:
    """A kernel's source with its switches counted from 0, after a comment that tells their numbers."""
    numbers = list(dict.fromkeys(_NUMBERED.findall(source)))
    if not numbers:
        return source
    own = _NUMBERED.sub(lambda found: f"{ALLOWS}({numbers.index(found[1])})", source)
    return f"// numbisect switches: {' '.join(numbers)}\n{own}"


def _lay_out(original: Callable[..., Any]) -> Callable[..., Any]:
    def cpp_pybinding(self: AsyncCompile, argtypes: list[str], source: str) -> Any:
        found = _NUMBERS.search(source)
        if found is None:
            return original(self, argtypes, source)
        numbers = [int(number) for number in found[1].split()]
        kernel = original(self, argtypes, _NUMBERS.sub("", source))
        if isinstance(kernel, LambdaFuture):
            return LambdaFuture(lambda: _laying_out(kernel.result(), numbers))
        return _laying_out(kernel, numbers)

    return cpp_pybinding


def _laying_out(kernel: Callable[..., Any], numbers: list[int]) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        for place, number in enumerate(numbers):
            _table[place] = _states[number]
        return kernel(*args)

    return call
