# torch.compile differs from eager.
# Verdict: amplified-rounding; at each node by itself the two runs differ by rounding alone (at most 7.91 ulp); it grows most at `ceil` (aten.ceil), 4.93e+05 times.
# Cause: vec:erf@erf
# Disabling vec:erf@erf makes the outputs agree.
# Fix (--fixed): inductor.cpp.simdlen=1
# Seen with torch 2.13.0+cpu, g++, x86-64 (avx2).
#
# python repro.py             exits 1 where compiled differs, 0 where it agrees, 125 where it cannot tell
# python repro.py --fixed     the same with the fix
# python -m pytest repro.py   fails where compiled differs
import os
import sys

if __name__ == "__main__":
    os.environ.update(TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
    # Any other exception is not a divergence; git bisect skips 125.
    sys.excepthook = lambda kind, error, _: sys.exit(print(f"cannot tell: {kind.__name__}: {error}") or 125)

import torch
import torch._inductor.config


def fn(mul):
    erf = torch.erf(mul)
    add = 1 + erf
    log2 = torch.log2(add)
    return (log2,)


def inputs():
    mul = torch.full((1, 2, 2), -3.2912676)
    return [mul]


class Differs(AssertionError): ...


def test_erf_add_log2_agrees_with_eager():
    if "--fixed" in sys.argv:
        torch._inductor.config.cpp.simdlen = 1
    expected, actual = fn(*inputs()), torch.compile(fn)(*inputs())
    try:
        torch.testing.assert_close(actual, expected, rtol=1.3e-06, atol=1e-05, equal_nan=True)
    except AssertionError as error:
        raise Differs(f"{error}\neager {expected}\ncompiled {actual}") from None
    print("compiled agrees with eager")


if __name__ == "__main__":
    try:
        test_erf_add_log2_agrees_with_eager()
    except Differs as error:
        sys.exit(print(error) or 1)
