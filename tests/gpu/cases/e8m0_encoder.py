"""An image encoder that gives the block exponents of its features in a byte (PyTorch 178045)."""

import os

import torch
from torch import nn

DEVICE = os.environ.get("NUMBISECT_TEST_DEVICE", "cuda")


class FeatureCoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 16, 3, padding=1)
        self.expand = nn.Sequential(nn.Conv2d(16, 32, 1), nn.BatchNorm2d(32), nn.GELU())

    def forward(self, image):
        features = self.expand(self.patch(image))
        exponent = torch.ceil(torch.log2(features.abs() + 1e-7)).clamp(-127, 127)
        return (exponent + 127).to(torch.uint8)


torch.manual_seed(0)
model = FeatureCoder().eval().to(DEVICE)
image = torch.randn(2, 3, 32, 32).to(DEVICE)
with torch.no_grad():
    torch.compile(model)(image)
