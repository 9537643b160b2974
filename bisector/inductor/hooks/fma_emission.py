"""C++ for a product contracted into a sum, as the compiler does it. No decisions of its own.

Exercised on torch 2.13 with g++: `std::fma`, and the `fmadd` family of ATen/cpu/vec/vec_base.h.
"""

from __future__ import annotations

from typing import Any

from . import cpp_ops

# By the sum, and by the product's place in it.
_SCALAR = {
    ("add", 0): "std::fma({a}, {b}, {c})",
    ("add", 1): "std::fma({a}, {b}, {c})",
    ("sub", 0): "std::fma({a}, {b}, -{c})",
    ("sub", 1): "std::fma(-{a}, {b}, {c})",
}
_VECTOR = {
    ("add", 0): "at::vec::fmadd({a}, {b}, {c})",
    ("add", 1): "at::vec::fmadd({a}, {b}, {c})",
    ("sub", 0): "at::vec::fmsub({a}, {b}, {c})",
    ("sub", 1): "at::vec::fnmadd({a}, {b}, {c})",
}


def contracted(op: cpp_ops.Op, product: cpp_ops.Op, place: int) -> Any:
    """A new variable: the sum `op`, whose operand at `place` is the product, rounded once.

    product: a `mul` or a `square` that the same kernel wrote before.
    """
    factors = product.args if len(product.args) == 2 else product.args * 2
    values = [*factors, op.args[1 - place]]
    kernel: Any = op.kernel
    forms = _SCALAR
    if any(getattr(value, "is_vec", False) for value in values):
        forms = _VECTOR
        values = [value if value.is_vec else kernel.broadcast(value) for value in values]
    code = forms[op.name, place].format(**dict(zip("abc", values, strict=True)))
    kind = next(value for value in values if hasattr(value, "dtype"))
    result = kernel.cse.generate(kernel.compute, code, dtype=kind.dtype, shape=kind.shape)
    result.update_on_args("fma", tuple(values), {})
    return result
