"""Weights that decay with the distance from the smallest product of a row: one of them is NaN when compiled.

Two choices of the compiler have to meet: the product is computed again where it is subtracted, not stored
once, and there it is contracted into a fused multiply-add. Then the smallest product minus itself is not 0,
and exp() of it can overflow. See PyTorch issue 122260. (With amax in place of amin, torch 2.13 rewrites the
pattern and hides the failure.)
"""

import torch
import torch._inductor.config as inductor_config

# Contraction is the default on a GPU; on a CPU it has to be asked for.
inductor_config.cpp.enable_floating_point_contract_flag = "fast"


def weights(distance, rate):
    spread = distance * rate
    decay = (spread.amin(-1, keepdim=True) - spread).exp()
    return decay / decay.sum(-1, keepdim=True)


torch.manual_seed(0)
distance = torch.randn(4096, 4) * 3e4
rate = torch.rand(4096, 1) * 3e4

expected = weights(distance, rate)
actual = torch.compile(weights)(distance, rate)
torch.testing.assert_close(actual, expected)
