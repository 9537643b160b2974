"""A hand-written softmax denominator whose largest term is not exp(0) once it is compiled.

The largest `logits * temperature` of a row is rounded before it becomes the maximum. In the subtraction the
same product can be contracted with it into one fused multiply-add, which does not round the product: the
difference is then not 0, and exp() of it is far from 1. See PyTorch issues 121558 and 122260.
"""

import torch
import torch._inductor.config as inductor_config

# Contraction is the default on a GPU; on a CPU it has to be asked for.
inductor_config.cpp.enable_floating_point_contract_flag = "fast"


def denominator(logits, temperature):
    highest = (logits * temperature).amax(-1, keepdim=True)
    return torch.exp(logits * temperature - highest).sum(-1)


torch.manual_seed(0)
logits = torch.randn(64, 64) * 1e4
temperature = torch.rand(1) * 1e4

expected = denominator(logits, temperature)
actual = torch.compile(denominator)(logits, temperature)
torch.testing.assert_close(actual, expected)
