"""A softmax denominator whose largest term is not exp(0) once a product is contracted (PyTorch 121558)."""

import os

import torch

DEVICE = os.environ.get("NUMBISECT_TEST_DEVICE", "cuda")


def denominator(logits, temperature):
    highest = (logits * temperature).amax(-1, keepdim=True)
    return torch.exp(logits * temperature - highest).sum(-1)


torch.manual_seed(0)
logits = (torch.randn(64, 64) * 1e4).to(DEVICE)
temperature = (torch.rand(1) * 1e4).to(DEVICE)
torch.compile(denominator)(logits, temperature)
