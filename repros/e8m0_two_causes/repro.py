# torch.compile differs from eager.
# Verdict: amplified-rounding; at each node by itself the two runs differ by rounding alone (at most 9.19 ulp); it grows most at `ceil` (aten.ceil), 3.65e+05 times.
# Cause: vec:erf@erf
# Cause: layout:channels_last@input_3
# Disabling vec:erf@erf and layout:channels_last@input_3 makes the outputs agree.
# Fix (--fixed): inductor.cpp.simdlen=1 + inductor.layout_optimization=False
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
    torch._inductor.config.cpp.simdlen = 1
    torch._inductor.config.layout_optimization = False


def fn(mul, weight):
    erf = torch.erf(mul)
    input_1 = torch.conv2d(erf, weight, None, (1, 1), (0, 0), (1, 1), 1)  # input_3
    to = input_1.to(torch.uint8)
    return (to,)


def inputs():
    mul = torch.tensor([
        -0.77419174, 1.1346343, 0.23336938, -0.09661329, -0.84792316, -1.1480305, 0.5203781, 0.59086657,
        0.1406999, 0.22654478, 0.8476229, 0.70624536, -0.58113873, 0.6241295, 1.1203735, 0.17262037,
        0.39760876, 0.5895507, 0.18555894, 0.49798936, -0.37425014, -1.1052393, 0.57757497, 0.32532984,
        -0.465211, -1.1364174, -0.17292424, -0.19430144, 0.18143016, 0.2395376, -0.116916716, 0.90888965,
        -0.091625355, 1.2758691, -0.61114895, -0.11895688, 0.4627346, -0.61092573, 0.2986748, 0.3648784,
        -0.30650693, 0.68133414, -0.00023746645, 0.24422464, 1.3240775, 0.68741983, 0.8020781, -0.45856896,
        -0.62364954, -0.04646971, -0.6752542, 0.37203676, -0.02135511, -0.9440692, -0.4764377, 0.16789488,
        -0.13195105, -0.165731, 0.981868, -0.300838, 0.6837914, 0.63008404, 0.5223432, -0.6550849
    ]).reshape(1, 32, 1, 2)
    weight = torch.tensor([
        0.005798275, -0.049574513, 0.1882792, -0.028194541, 0.054597106, 0.2160382, 0.14299926, 0.08550511,
        0.024050163, 0.036146093, -0.21768136, -0.06268017, -0.22771883, 0.023910588, -0.3730827, 0.30434433,
        0.2136802, 0.16074254, -0.25740847, 0.10854024, 0.16026518, 0.023481235, 0.24612832, -0.36729884,
        -0.18317391, 0.15781212, -0.27565578, 0.0048188805, 0.19526757, -0.37802693, 0.22155298, -0.005276292
    ]).reshape(1, 32, 1, 1)
    return [mul, weight]


expected, actual = fn(*inputs()), torch.compile(fn)(*inputs())
try:
    torch.testing.assert_close(actual, expected, rtol=0.0, atol=0.0, equal_nan=True)
except AssertionError as error:
    print(error, f"eager {expected}", f"compiled {actual}", sep="\n")
    sys.exit(1)
print("compiled agrees with eager")
