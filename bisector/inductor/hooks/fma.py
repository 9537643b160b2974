"""`fma:CONSUMER@node`: the product that `node` makes may be contracted into the sum that CONSUMER makes.

A rule for `cpp_ops` and a patch of `CSEProxy.reduction` and `CSEProxy.store`
(torch/_inductor/codegen/common.py). Exercised on torch 2.13. Whether gcc contracts is its affair; listed is
each product that an add, a sub or a sum takes directly, and only if the compile allows contraction at all.
Denied, the consumer gets its own copy of the product, rounded behind a barrier, so that another use of the
same variable stays as it is. The ID names neither the kernel nor the variable: `#k` is the k-th further
product that one evaluation of an unrolled sum takes from the node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._inductor import config
from torch._inductor.codegen import common, cpp
from torch._inductor.virtualized import V
from torch.fx import Node

from ...core import kinds
from ...core.decision import Decision
from .. import naming
from ..control import current
from . import cpp_ops, tags
from .patching import require, wrap

KIND = kinds.FMA
PRODUCTS = ("mul", "square")  # ops of a loop body
QUOTIENT = "truediv"  # a product too where a compiler divides by a reciprocal: on Triton


@dataclass
class _Seen:
    """What one kernel wrote so far: the op behind each product, and the body op behind each store."""

    products: dict[str, cpp_ops.Op] = field(default_factory=dict)
    stored: dict[str, Node] = field(default_factory=dict)


_kernels: WeakKeyDictionary[Any, _Seen] = WeakKeyDictionary()
# (summand, loop-body op behind it, node that sums) -> what is summed; for the kernels of other backends.
_summand_rules: list[Callable[[Any, Any, Node], Any]] = []


def install() -> None:
    tags.install()
    cpp_ops.install()
    require(config.cpp, "enable_floating_point_contract_flag", "enable_unsafe_math_opt_flag")
    wrap(common.CSEProxy, "store", _remember_store)
    wrap(common.CSEProxy, "reduction", _round_summand)
    cpp_ops.add_rule(_round_operands)


def add_summand_rule(rule: Callable[[Any, Any, Node], Any]) -> None:
    """The rule sees what a sum of another backend's kernel adds up."""
    if rule not in _summand_rules:
        _summand_rules.append(rule)


def _contracting() -> bool:
    """Whether the C++ compiler may contract products."""
    return config.cpp.enable_floating_point_contract_flag != "off" or config.cpp.enable_unsafe_math_opt_flag


def _seen() -> _Seen:
    return _kernels.setdefault(V.kernel, _Seen())


@dataclass(frozen=True)
class _Use:
    """One product as an operand: what an ID names."""

    value: Any
    product: cpp_ops.Op
    maker: Node
    consumer: Node
    detail: str

    @property
    def decision(self) -> Decision:
        maker, consumer = tags.described(self.maker), tags.described(self.consumer)
        what = "quotient" if self.product.name == QUOTIENT else "product"
        text = f"the {what} of {maker} is contracted into {consumer}"
        return tags.decision(KIND.name, self.maker, text, self.detail)


def _use(value: Any, body: Any, consumer: Node, copy: int) -> _Use | None:
    """The use of `value` by `consumer`, if it is a product that can be contracted there."""
    product = product_behind(value)
    if product is None or getattr(value, "dtype", None) not in (torch.float, torch.double):
        return None
    maker = _maker(body) or product.tag
    if maker is None:
        return None
    count = f"#{copy}" if copy else ""
    detail = f"{naming.handle(consumer)}{naming.suffix(maker.node)}{count}"
    return _Use(value, product, maker.node, consumer, detail)


def _round_operands(op: cpp_ops.Op, write: cpp_ops.Write) -> Any:
    control = current(KIND.name)
    if control is None or not _contracting():
        return write(op)
    if op.name in ("add", "sub") and (tag := op.tag) is not None:
        places = zip(op.args, op.body.args[1:], tag.copies[1:], strict=True)
        uses = [_use(value, body, tag.node, copy) for value, body, copy in places]
        asked = [use is None or control.take(use.decision) for use in uses]
        kept = zip(op.args, uses, asked, strict=True)
        operands = [v if u is None or allowed else _rounded_product(u.product) for v, u, allowed in kept]
        return write(replace(op, args=tuple(operands)))
    result = write(op)
    if op.name in PRODUCTS:
        remember_product(result, op)
    return result


def remember_product(result: Any, op: cpp_ops.Op) -> None:
    """`result` is the variable that holds what `op` computes, in the kernel at hand."""
    _seen().products[str(result)] = op


def product_behind(value: Any) -> cpp_ops.Op | None:
    """The op that computes a variable of the kernel at hand, where it is a product."""
    return _seen().products.get(str(value))


def product_in(value: Any, body: Any, consumer: Node, copy: int) -> tuple[cpp_ops.Op | None, bool]:
    """The product that `value` is, None if it is none, and whether `consumer` may contract it.

    body: the loop-body op behind the value; copy: as in `tags.Tag`.
    """
    control, use = current(KIND.name), _use(value, body, consumer, copy)
    return (None, True) if control is None or use is None else (use.product, control.take(use.decision))


def _maker(body: Any) -> tags.Tag | None:
    """Who emitted the product that this op of the loop body is, through casts and stored buffers."""
    while isinstance(body, Node) and body.target in ("to_dtype", "load"):
        body = _seen().stored.get(str(body.args[1])) if body.target == "load" else body.args[1]
    multiplies = isinstance(body, Node) and body.target in (*PRODUCTS, QUOTIENT)
    return tags.tag_of(body) if multiplies else None


def _rounded_product(product: cpp_ops.Op) -> Any:
    """The product once more. Its first factor is opaque, or the compiler would see two equal products."""
    first = cpp_ops.rounded(product, product.args[0])
    others = tuple(first if arg is product.args[0] else arg for arg in product.args[1:])
    return cpp_ops.rounded(product, product.proxy._default(product.name, (first, *others), product.kwargs))


def _remember_store(original: Callable[..., Any]) -> Callable[..., Any]:
    def store(self: Any, name: str, index: Any, value: Any, mode: Any = None) -> Any:
        body = cpp_ops.body_op()
        writing = current(KIND.name) is not None
        stored = body.args[3] if body is not None and body.target == "store" else None
        if writing and isinstance(stored, Node):
            _seen().stored[name] = stored
        return original(self, name, index, value, mode)

    return store


def _round_summand(original: Callable[..., Any]) -> Callable[..., Any]:
    def reduction(self: Any, dtype: Any, src_dtype: Any, reduction_type: Any, value: Any) -> Any:
        body = cpp_ops.body_op()
        consumer, control = None, current(KIND.name)
        if control is not None and reduction_type == "sum":
            consumer = tags.source_of_leaf(getattr(V.kernel, "current_node", None))
        if control is None or consumer is None or body is None or body.target != "reduction":
            return original(self, dtype, src_dtype, reduction_type, value)
        if not isinstance(V.kernel, cpp.CppKernel):
            for rule in _summand_rules:
                value = rule(value, body.args[4], consumer)
        elif _contracting():
            product, allowed = product_in(value, body.args[4], consumer, 0)
            value = value if product is None or allowed else _rounded_product(product)
        return original(self, dtype, src_dtype, reduction_type, value)

    return reduction
