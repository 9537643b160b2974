"""A transformer encoder with one planted bug: Inductor is told to break relu, which one layer alone uses.

ENCODER_STEP is `inference` (the default) or `training`, one forward and backward. ENCODER_LAYERS is the
number of layers, 12 by default. ATen ops with 12, counted with torch 2.13: AOTAutograd traces 807 for
inference, 820 + 1413 (forward + backward) for training; Inductor's patterns and partitioner then leave 591,
and 1011 + 1248.
"""

import os

import torch
import torch._inductor.config
import torch.nn as nn
import torch.nn.functional as F

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, dim, heads, activation):
        super().__init__()
        self.heads = heads
        self.activation = activation
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 4 * dim)
        self.down = nn.Linear(4 * dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        split = self.qkv(self.norm1(x)).view(batch, length, 3, self.heads, dim // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) * (dim // self.heads) ** -0.5, dim=-1)
        x = x + self.out((weights @ v).transpose(1, 2).reshape(batch, length, dim))
        return x + self.down(self.activation(self.up(self.norm2(x))))


class Encoder(nn.Module):
    def __init__(self, layers, dim=64, heads=4):
        super().__init__()
        planted = layers // 2
        activations = [F.relu if layer == planted else F.gelu for layer in range(layers)]
        self.blocks = nn.ModuleList(Block(dim, heads, activation) for activation in activations)
        self.norm = nn.LayerNorm(dim)

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


model = Encoder(int(os.environ.get("ENCODER_LAYERS", "12")))
x = torch.randn(4, 32, 64)
if os.environ.get("ENCODER_STEP") == "training":
    torch.compile(model)(x).square().mean().backward()
else:
    with torch.no_grad():
        torch.compile(model.eval())(x)
