# torch.compile differs from eager.
# Verdict: amplified-rounding; at each node by itself the two runs differ by rounding alone (at most 9.19 ulp); it grows most at `ceil` (aten.ceil), 3.65e+05 times.
# Cause: vec:erf@erf
# Cause: layout:channels_last@input_3
# Disabling vec:erf@erf and layout:channels_last@input_3 makes the outputs agree.
# Fix (--fixed): inductor.cpp.simdlen=1 + inductor.layout_optimization=False
# Seen with torch 2.13.0+cpu, g++ (Debian 12.2.0-14+deb12u1) 12.2.0, Intel(R) Xeon(R) Processor (avx512 avx512_vnni amx_tile).
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
    torch._inductor.config.cpp.simdlen = 1
    torch._inductor.config.layout_optimization = False


def fn(mul, weight, bias):
    erf = torch.erf(mul)
    input_1 = torch.conv2d(erf, weight, bias, (1, 1), (0, 0), (1, 1), 1)  # input_3
    to = input_1.to(torch.uint8)
    return (to,)


def inputs():
    mul = torch.tensor([
        -0.66997665, 1.0050879, 0.17340222, 0.10161996, -0.8923778, 0.058123246, 0.39024088, -0.3647636,
        0.51802725, 0.012185538, 0.83835286, -1.7112645, -0.6969586, -0.28089216, 0.5128697, -0.86180955,
        -0.5382284, -0.6240734, -0.54566026, 0.44213173, -0.033727523, 0.42788973, 0.96173614, -0.84187186,
        0.30013612, -0.13790071, 0.06008308, -0.38617525, -0.2034891, -0.39611056, -0.5419576, 0.69494313,
        -0.39218542, 0.15397142, 0.44799757, 0.1129643, -0.14637238, -0.76389295, 0.24993476, -0.4119534,
        0.033735886, 0.23418787, 0.9410293, -0.79151773, 0.6883911, -1.335708, 0.7137321, -0.36235616,
        -0.14605474, 0.6129488, -0.7059542, 0.34373465, -0.46134135, 0.602542, -0.72876644, -0.17391443,
        -0.20104444, -0.1788996, -0.49091315, -0.3374441, 0.8896593, -0.26412567, 0.74897856, 0.12623411
    ]).reshape(1, 32, 1, 2)
    weight = torch.tensor([
        0.2668481, 0.38952962, -0.20120837, -0.15524074, 0.33690065, -0.2768203, -0.247727, 0.3605617,
        -0.3315749, 0.18324676, 0.3199045, -0.124087274, 0.31963623, 0.31124893, -0.32387292, 0.20056428,
        0.25108308, -0.05997019, -0.37390208, -0.25074387, -0.21832466, -0.32472768, -0.40071288, -0.22746648,
        -0.10704316, 0.012071917, 0.009341145, 0.015977325, -0.3243003, 0.15161546, 0.006204176, 0.34022462
    ]).reshape(1, 32, 1, 1)
    bias = torch.tensor([-0.079334065])
    return [mul, weight, bias]


expected, actual = fn(*inputs()), torch.compile(fn)(*inputs())
try:
    torch.testing.assert_close(actual, expected, rtol=0.0, atol=0.0, equal_nan=True)
except AssertionError as error:
    print(error, f"eager {expected}", f"compiled {actual}", sep="\n")
    sys.exit(1)
print("compiled agrees with eager")
