"""Values that are rounded to float16 on purpose and are not rounded when compiled for a CPU.

See PyTorch issue 185337. The compiled values are the nearer ones to the unrounded input, but the cast was
there to be obeyed.
"""

import torch


def through_half(x):
    rounded = x.half().float()
    return rounded, rounded.sum(1)


x = (torch.arange(20.0).reshape(5, 4) / 7).t()

expected = through_half(x)
actual = torch.compile(through_half, dynamic=False)(x)
torch.testing.assert_close(actual, expected, rtol=1e-5, atol=1e-6)
