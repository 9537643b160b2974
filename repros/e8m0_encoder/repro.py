# torch.compile differs from eager.
# Verdict: amplified-rounding; at each node by itself the two runs differ by rounding alone (at most 9.38 ulp); it grows most at `ceil` (aten.ceil), 3.65e+05 times.
# Cause: layout:channels_last@input_1
# Disabling layout:channels_last@input_1 makes the outputs agree.
# Fix (--fixed): inductor.layout_optimization=False
# Seen with torch 2.13.0+cpu, g++ (Debian 12.2.0-14+deb12u1) 12.2.0, AMD EPYC (avx512 avx512_vnni).
#
# python repro.py           exits 1 where compiled differs, 0 where it agrees, 125 where it cannot tell
# python repro.py --fixed   the same with the fix
import os
import sys

os.environ.update(TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
# Any other exception is not a divergence; git bisect skips 125.
sys.excepthook = lambda kind, error, trace: sys.exit(print(f"cannot tell: {kind.__name__}: {error}") or 125)

import torch
import torch._inductor.config


torch.set_grad_enabled(False)
if "--fixed" in sys.argv:
    torch._inductor.config.layout_optimization = False


def fn(conv2d, weight, bias):
    input_1 = torch.conv2d(conv2d, weight, bias, (1, 1), (0, 0), (1, 1), 1)
    to = input_1.to(torch.uint8)
    return (to,)


def inputs():
    conv2d = torch.tensor([
        -0.48094946, 5.1878934, 0.941914, -1.150456, 0.71764314, -1.6427948, -3.6444097, 1.4750961
    ]).reshape(2, 2, 1, 2)
    weight = torch.tensor([[[[-0.15671037]], [[0.12428498]]]])
    bias = torch.tensor([-0.044018883])
    return [conv2d, weight, bias]


expected, actual = fn(*inputs()), torch.compile(fn)(*inputs())
try:
    torch.testing.assert_close(actual, expected, rtol=0.0, atol=0.0, equal_nan=True)
except AssertionError as error:
    print(error, f"eager {expected}", f"compiled {actual}", sep="\n")
    sys.exit(1)
print("compiled agrees with eager")
