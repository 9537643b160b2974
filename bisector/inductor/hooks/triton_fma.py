"""`fma` where the backend is Triton: `fma:in-kernel@node` for a kernel, `fma:CONSUMER@node` for one product.

Rules for `triton_ops`; exercised on torch 2.13 up to machine code, with a pretended device.
- Kernel: `enable_fp_fusion` in its compile options, which Triton hands to LLVM and to ptxas. Denied, no
  product and sum of the kernel is contracted, those inside a library call or a division included. The
  environment variable of Triton does not reach a kernel of Inductor's, which always passes the option.
  No node can have that name for a consumer.
- One product (NVIDIA alone), listed and named as `fma` does for C++. Denied, the consumer takes its own copy
  of the product from `mul.rn`, which neither LLVM nor ptxas contracts. `libdevice.mul_rn` is the same
  instruction with denormals flushed to zero, which the denial must not change as well. Over the plain
  baseline, in a kernel without contraction, an allowed product is contracted by an explicit `tl.fma`.
- One quotient, by the same names. An approximate division ends with a product that ptxas alone sees, and
  contracts. Denied, the consumer is the rounded sum `add.rn`, which takes up no product: not where another
  product may be contracted into it, which LLVM has done before. Over the plain baseline it needs its kernel's
  contraction too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch._inductor import config
from torch._inductor.virtualized import V
from torch.fx import Node

from ...core import kinds
from ...core.model import Base
from . import cpp_ops, fma, triton_ops

# Triton's name of the type, the suffix of the instruction, the constraint of its operands.
_TYPES = {torch.float32: ("float32", "f32", "f"), torch.float64: ("float64", "f64", "d")}

# Alone in a kernel, these have nothing to be contracted with; a library call has parts of its own.
_ONE_ROUNDING = frozenset({"abs", "add", "maximum", "minimum", "mul", "neg", "relu", "square", "sub"})

_contracting: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()

NAME = "fma on Triton"


def install() -> None:
    triton_ops.install()
    triton_ops.add_rule(_contract_operands)
    triton_ops.add_option_rule(_set_fusion)
    fma.add_summand_rule(_summand)


def kernel_contracts(kernel: Any) -> bool:
    """Whether the kernel's products may be contracted, as far as the kernel as a whole is asked."""
    control = triton_ops.control_for(kinds.FMA.name, NAME)
    if config.emulate_precision_casts or control is None:
        return not config.emulate_precision_casts
    if kernel not in _contracting:
        computing = [leaf for leaf in triton_ops.leaves(kernel) if triton_ops.body_ops(leaf)]
        ops = [op.target for leaf in computing for op in triton_ops.body_ops(leaf)]
        alone = len(ops) == 1 and ops[0] in _ONE_ROUNDING and not any(f.is_reduction() for f in computing)
        text = "products and sums are contracted in the kernel that computes {}"
        _contracting[kernel] = alone or triton_ops.allowed(
            control, kinds.FMA.name, "in-kernel", computing, text
        )
    return _contracting[kernel]


def _set_fusion(options: triton_ops.Options, kernel: Any) -> None:
    if triton_ops.control_for(kinds.FMA.name, NAME) is not None and options.get("enable_fp_fusion"):
        options["enable_fp_fusion"] = kernel_contracts(kernel)


def _listing() -> bool:
    """Whether single products are decisions here: where the compiler may contract, by an option it has."""
    if triton_ops.control_for(kinds.FMA.name, NAME) is None or config.emulate_precision_casts:
        return False
    return triton_ops.on_nvidia()


def _contract_operands(op: cpp_ops.Op, write: cpp_ops.Write) -> Any:
    if not _listing():
        return write(op)
    tag = op.tag
    if op.name not in ("add", "sub") or tag is None:
        result = write(op)
        if op.name in fma.PRODUCTS or _is_approximate_quotient(op):
            fma.remember_product(result, op)
        return result
    triples = zip(op.args, op.body.args[1:], tag.copies[1:], strict=True)
    found = [_product_in(value, body, tag.node, copy) for value, body, copy in triples]
    operands = [
        value if product is None or allowed or _is_quotient(product) else _rounded_product(product, value)
        for value, (product, allowed) in zip(op.args, found, strict=True)
    ]
    products = [(i, p) for i, (p, allowed) in enumerate(found) if p is not None and allowed]
    place, product = next(((i, p) for i, p in products if not _is_quotient(p)), (0, None))
    if product is not None and _must_be_explicit():
        return _contracted(op, _factors(product), operands[1 - place], place)
    denied = any(p is not None and not allowed and _is_quotient(p) for p, allowed in found)
    result = write(replace(op, args=tuple(operands)))
    return _rounded(op.name, operands, result) if denied and not products else result


def _must_be_explicit() -> bool:
    control = triton_ops.control_for(kinds.FMA.name, NAME)
    return control is not None and control.base is Base.PLAIN and not kernel_contracts(V.kernel)


def _contracted(op: cpp_ops.Op, factors: tuple[Any, Any], other: Any, place: int) -> Any:
    """Product and sum with one rounding. place: which operand of `op` is the product."""
    first, second = factors
    if op.name == "sub" and place == 0:
        other = op.proxy._default("neg", (other,), {})
    elif op.name == "sub":
        first = op.proxy._default("neg", (first,), {})
    return op.proxy._default("fma", (first, second, other), {})


def _summand(value: Any, body: Any, consumer: Node) -> Any:
    """What a sum over a loop or a block adds up: the rounded copy of a product where that is denied. A
    quotient belongs to the kernel there: Triton itself writes the sum."""
    if not triton_ops.is_triton(V.kernel) or not _listing():
        return value
    if (behind := fma.product_behind(value)) is None or _is_quotient(behind):
        return value
    product, allowed = _product_in(value, body, consumer, 0)
    return value if product is None or allowed else _rounded_product(product, value)


def _product_in(value: Any, body: Any, consumer: Node, copy: int) -> tuple[cpp_ops.Op | None, bool]:
    product, allowed = fma.product_in(value, body, consumer, copy)
    same = product is not None and all(getattr(a, "dtype", None) == value.dtype for a in product.args)
    return (product, allowed) if same else (None, True)


def _factors(product: cpp_ops.Op) -> tuple[Any, Any]:
    return product.args[0], product.args[-1]


def _is_quotient(op: cpp_ops.Op) -> bool:
    return op.name == fma.QUOTIENT


def _is_approximate_quotient(op: cpp_ops.Op) -> bool:
    in_float32 = all(getattr(arg, "dtype", None) == torch.float32 for arg in op.args)
    return _is_quotient(op) and in_float32 and not config.eager_numerics.division_rounding


def _rounded_product(product: cpp_ops.Op, value: Any) -> Any:
    """The product that `value` holds once more."""
    return _rounded("mul", _factors(product), value)


def _rounded(name: str, operands: Sequence[Any], value: Any) -> Any:
    """The sum, difference or product that `value` holds once more, by an instruction that neither LLVM nor
    ptxas contracts (PTX ISA, "add", "mul": with an explicit rounding)."""
    first, second = operands
    triton_type, suffix, letter = _TYPES[value.dtype]
    code = (
        f"tl.inline_asm_elementwise('{name}.rn.{suffix} $0, $1, $2;', '={letter},{letter},{letter}', "
        f"[{first}, {second}], dtype=tl.{triton_type}, is_pure=True, pack=1)"
    )
    kernel = V.kernel
    return kernel.cse.generate(kernel.compute, code, dtype=value.dtype, shape=value.shape)
