"""C++ for one op on a vector, computed lane by lane with the scalar expression. No decisions of its own."""

from __future__ import annotations

from typing import Any

from torch._inductor.codegen import cpp
from torch._inductor.codegen.cpp_utils import DTYPE_TO_CPP, cexpr_index
from torch._inductor.utils import IndentedBuffer
from torch._inductor.virtualized import V

from .switch import ALLOWS

# Ops that the scalar backend composes of several (OpOverrides, torch/_inductor/codegen/common.py), as one
# expression of the same parts.
_COMPOSED = {
    "remainder": "[&] {{ auto r = mod({0}, {1});"
    " return r != 0 && std::signbit(r) != std::signbit({1}) ? decltype(r)(r + {1}) : r; }}()",
}


def scalar_expression(name: str, operands: list[str]) -> str:
    """What the scalar backend writes for the op, with C++ names for its operands."""
    if name in _COMPOSED:
        return _COMPOSED[name].format(*operands)
    return getattr(cpp.CppOverrides, name)(*operands)


class LaneByLane:
    """An ops handler that writes one op lane by lane and hands all others to `parent`.

    switch: its number in the table if both forms are written, and the table says which of them runs.
    """

    def __init__(self, parent: Any, name: str, switch: int | None = None) -> None:
        self._parent = parent
        self._name = name
        self._switch = switch

    def __getattr__(self, name: str) -> Any:
        return self._write if name == self._name else getattr(self._parent, name)

    def _write(self, *vectors: Any) -> IndentedBuffer:
        """A lambda that stores each vector, loops over the lanes and loads the result, as torch's own
        `CppVecOverrides._scalarize` does. All vectors have one dtype."""
        kernel, dtype = V.kernel, vectors[0].dtype
        scalar, count = DTYPE_TO_CPP[dtype], kernel._get_num_vectors(dtype)
        lanes = cexpr_index(kernel.tail_size or kernel.tiling_factor)
        array = f"__at_align__ std::array<{scalar}, {kernel.tiling_factor}>"
        vector = (
            f"at::vec::Vectorized<{scalar}>" if count == 1 else f"at::vec::VectorizedN<{scalar}, {count}>"
        )
        names = [f"x{i}" for i in range(len(vectors))]
        code = cpp.BracesBuffer()
        code.writeline(f"[&]() -> {vector}")
        with code.indent():
            if self._switch is not None:
                fast = getattr(self._parent, self._name)(*vectors)
                code.writeline(f"if ({ALLOWS}({self._switch})) return {fast};")
            for name, value in zip(names, vectors, strict=True):
                code.writeline(f"{array} {name}s;")
                code.writeline(f"{value}.store({name}s.data(), {lanes});")
            code.writeline(f"{array} results;")
            code.writeline(f"for (int i = 0; i < {lanes}; i++)")
            with code.indent():
                for name in names:
                    code.writeline(f"const {scalar} {name} = {name}s[i];")
                code.writeline(f"results[i] = {scalar_expression(self._name, names)};")
            code.writeline(f"return {vector}::loadu(results.data(), {lanes});")
        code.writeline("()")
        return code
