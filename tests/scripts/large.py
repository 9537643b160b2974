"""Graphs of more calls than are searched whole."""

from __future__ import annotations

LAYERS = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)


def layers(x, w):
    for i in range(16):
        x = x + (torch.relu(x @ w) if i == 9 else torch.tanh(x @ w))
        x = x / x.abs().amax(-1, keepdim=True)
    return x


torch.compile(layers)(torch.randn(8, 32), torch.randn(32, 32))
"""

# What the erf leaves in the last bit shows 40 calls later, where a step takes it.
TWO_CALLS_FAR_APART = """
import torch

torch.manual_seed(0)


def chain(x):
    for i in range(60):
        if i == 8:
            x = torch.erf(x)
        elif i == 48:
            x = torch.ceil(x * 4096)
        else:
            x = x * 1.0078125 if i % 2 else x + 0.001953125
    return x


torch.compile(chain)(torch.rand(65536))
"""

# Script, what every repair names, and how many ops the minimal case may have.
LARGE = {
    "one of many layers": (LAYERS, "relu", 1),
    "two calls far apart": (TWO_CALLS_FAR_APART, "erf", 4),
}
