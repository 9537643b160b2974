"""A script of three calls, of which two diverge for two causes."""

from __future__ import annotations

TWO_CALLS = """
import torch
import torch._inductor.config as config
config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"

@torch.compile
def agrees(x):
    return x + 1

@torch.compile
def rounds(x):
    return (x * 1.1).half().float() - 2

@torch.compile
def clipped(x):
    return torch.relu(x - 0.5) * 2

x = torch.linspace(0, 3, 100)
for function in (agrees, rounds, clipped):
    function(x)
"""
