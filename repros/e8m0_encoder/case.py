"""A small image encoder that also gives the block exponents of its features: some codes differ when compiled.

The logits agree; the codes, ceil(log2(|x|)) in a byte, turn a last-bit difference of a convolution into a
step of one. See PyTorch issue 178045.
"""

import torch
from torch import nn


def gelu(x):
    return 0.5 * x * (1 + torch.erf(x * 0.5**0.5))


class FeatureCoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(3, 32, 3, padding=1)
        self.project = nn.Sequential(nn.Conv2d(32, 64, 1), nn.BatchNorm2d(64))
        self.expand = nn.Sequential(nn.Conv2d(64, 128, 1), nn.BatchNorm2d(128))
        self.classify = nn.Linear(128, 10)

    def forward(self, image):
        features = gelu(self.expand(gelu(self.project(self.patch(image)))))
        exponent = torch.ceil(torch.log2(features.abs() + 1e-7)).clamp(-127, 127)
        return self.classify(features.mean((2, 3))), (exponent + 127).to(torch.uint8)


torch.manual_seed(0)
model = FeatureCoder().eval()
image = torch.randn(4, 3, 32, 32)

with torch.no_grad():
    expected_logits, expected_codes = model(image)
    logits, codes = torch.compile(model)(image)
torch.testing.assert_close(logits, expected_logits)
torch.testing.assert_close(codes, expected_codes, rtol=0, atol=0)
