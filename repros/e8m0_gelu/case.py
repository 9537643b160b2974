"""A GELU and its block exponents: a few of eight million codes differ when compiled.

The code of a value is its exponent rounded up, ceil(log2(|x|)), kept in a byte as the E8M0 format does.
Where |x| is next to a power of two, a last-bit difference in erf moves it over the step.
See PyTorch issue 178045; this is its elementwise part.
"""

import torch


def activate_and_encode(x):
    activated = 0.5 * x * (1 + torch.erf(x * 0.5**0.5))
    exponent = torch.ceil(torch.log2(activated.abs() + 1e-7)).clamp(-127, 127)
    return activated, (exponent + 127).to(torch.uint8)


torch.manual_seed(0)
x = torch.randn(64, 128, 1024)

expected_values, expected_codes = activate_and_encode(x)
values, codes = torch.compile(activate_and_encode)(x)
torch.testing.assert_close(values, expected_values)
torch.testing.assert_close(codes, expected_codes, rtol=0, atol=0)
