"""The encoder of ../e8m0_encoder with other weights, where two independent causes each flip a code.

One is the convolution, the other the compiled erf. To repair either alone is not enough: each has a code of
its own. See PyTorch issue 178045.
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


torch.manual_seed(4)
model = FeatureCoder().eval()
image = torch.randn(4, 3, 32, 32)

with torch.no_grad():
    expected_logits, expected_codes = model(image)
    logits, codes = torch.compile(model)(image)
torch.testing.assert_close(logits, expected_logits)
torch.testing.assert_close(codes, expected_codes, rtol=0, atol=0)
