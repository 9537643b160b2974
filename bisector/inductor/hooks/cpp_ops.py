"""One place where hooks change how the C++ backend writes a single op. No decisions of its own.

Patches `CSEProxy._default` (torch/_inductor/codegen/common.py), through which every elementwise op of every
kernel passes, and `CppScheduling.define_kernel` (torch/_inductor/codegen/cpp.py), where a kernel's source
is final. Exercised on torch 2.13. An op that the code generator adds while it writes another one (a
broadcast, a part of a composite) is not an op of the loop body and never reaches a rule.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch._inductor.codegen import common, cpp
from torch._inductor.virtualized import V
from torch.fx import Node

from ..control import current
from .patching import require, wrap
from .tags import Tag, tag_of


@dataclass(frozen=True)
class Op:
    """One op of a loop body, as it is being written into a C++ kernel."""

    proxy: Any
    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    body: Node

    @property
    def kernel(self) -> cpp.CppKernel:
        return V.kernel

    @property
    def tag(self) -> Tag | None:
        return tag_of(self.body)


Write = Callable[[Op], Any]  # writes the op and returns its variable
Rule = Callable[[Op, Write], Any]  # may change the op, write something else, or just write it

_rules: list[Rule] = []

ROUNDED = "numbisect_rounded"
_INCLUDE = "#include <torch/csrc/inductor/cpp_prefix.h>"
# The empty asm claims to change the value in memory, so the compiler must have it there, rounded, and can
# neither contract across it nor know that two such values are equal. It works for scalars and for vectors.
_HELPER = f"""
#ifndef NUMBISECT_ROUNDED
#define NUMBISECT_ROUNDED
template <typename T>
static inline __attribute__((always_inline)) T {ROUNDED}(T value) {{
    asm volatile("" : "+m"(value));
    return value;
}}
#endif
"""


@functools.cache
def install() -> None:
    require(common.CSEProxy, "_default", "store")
    require(cpp.CppScheduling, "define_kernel")
    wrap(common.CSEProxy, "_default", applying(_rules, lambda kernel: isinstance(kernel, cpp.CppKernel)))
    wrap(cpp.CppScheduling, "define_kernel", _add_helper)


def add_rule(rule: Rule) -> None:
    """The rule sees every loop-body op of a C++ kernel while a Control is active."""
    if rule not in _rules:
        _rules.append(rule)


def body_op() -> Node | None:
    """The op of the loop body that is being written."""
    return getattr(V.interpreter, "current_node", None)


def applying(rules: list[Rule], covers: Callable[[Any], bool]) -> Callable[..., Callable[..., Any]]:
    """For `wrap` of `CSEProxy._default`: each op of a loop body in a kernel that `covers` says goes through
    the rules, as they are by then."""

    def make(original: Callable[..., Any]) -> Callable[..., Any]:
        def write_through(op: Op, rest: tuple[Rule, ...]) -> Any:
            if not rest:
                return original(op.proxy, op.name, op.args, op.kwargs)
            return rest[0](op, lambda changed: write_through(changed, rest[1:]))

        def default(self: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            body = body_op() if current() is not None and covers(V.kernel) else None
            if body is None or body.target != name:
                return original(self, name, args, kwargs)
            return write_through(Op(self, name, args, kwargs, body), tuple(rules))

        return default

    return make


def rounded(op: Op, value: Any) -> Any:
    """A new variable with the value of `value`, opaque to the C++ compiler."""
    kernel = op.kernel
    copy = kernel.cse.generate(kernel.compute, f"{ROUNDED}({value})", dtype=value.dtype, shape=value.shape)
    copy.update_on_args("identity", (value,), {})
    return copy


def _add_helper(original: Callable[..., Any]) -> Callable[..., Any]:
    def define_kernel(self: Any, src_code: str, *args: Any, **kwargs: Any) -> Any:
        if ROUNDED in src_code:
            src_code = src_code.replace(_INCLUDE, _INCLUDE + _HELPER, 1)
        return original(self, src_code, *args, **kwargs)

    return define_kernel
