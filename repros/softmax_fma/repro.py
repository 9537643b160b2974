# torch.compile differs from eager.
# Verdict: compiled-worse; output[0]: compiled is farther from the float64 reference (rms error 1.12e+05, eager 0).
# Cause: fma:sub@mul_1 together with inline:aten.mul@mul_1
# Disabling fma:sub@mul_1 makes the outputs agree.
# Disabling inline:aten.mul@mul_1 makes the outputs agree.
# Fix (--fixed): inductor.cpp.enable_floating_point_contract_flag=off
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


def fn(mul, logits):
    highest = mul.amax(-1, keepdim=True)
    mul_1 = logits * 8600.0
    sub = mul_1 - highest
    return (sub,)


def inputs():
    mul = torch.full((2, 8), 321745860.0)
    logits = torch.full((2, 2), 37251.004)
    return [mul, logits]


class Differs(AssertionError): ...


@torch._inductor.config.patch("cpp.enable_floating_point_contract_flag", "fast")
def test_amax_mul_sub_agrees_with_eager():
    if "--fixed" in sys.argv:
        torch._inductor.config.cpp.enable_floating_point_contract_flag = "off"
    expected, actual = fn(*inputs()), torch.compile(fn)(*inputs())
    try:
        torch.testing.assert_close(actual, expected, rtol=1.3e-06, atol=1e-05, equal_nan=True)
    except AssertionError as error:
        raise Differs(f"{error}\neager {expected}\ncompiled {actual}") from None
    print("compiled agrees with eager")


if __name__ == "__main__":
    try:
        test_amax_mul_sub_agrees_with_eager()
    except Differs as error:
        sys.exit(print(error) or 1)
