"""The floating-point formats that torch computes in, by the names that dtypes have in answers."""

from __future__ import annotations

# Formats of real numbers that have kernels of their own. `CODES` have none: torch stores them alone.
FLOATS = ("float16", "bfloat16", "float32", "float64")
INTEGERS = ("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
CODES = (
    "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn_x2"
)  # fmt: skip
# Machine epsilon: one unit in the last place of a number just above a power of two, relative to it. Of a
# complex dtype it is that of its parts.
EPS = {
    "float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52,
    "complex32": 2.0**-10, "complex64": 2.0**-23, "complex128": 2.0**-52,
}  # fmt: skip
TF32_EPS = 2.0**-10  # of the format that NVIDIA's matrix units round the factors of float32 to; no dtype
