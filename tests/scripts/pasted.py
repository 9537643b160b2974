"""A script with a place for each line that is printed as a fix."""

from __future__ import annotations

PROGRAM = """
def weights(x):
    return x.half().float() * 3

torch.manual_seed(0)
x = torch.randn(64)
with patch:
    actual = torch.compile(weights, backend=backend, options=options)(x)
torch.testing.assert_close(actual, weights(x))
"""
NOTHING = 'import contextlib; patch, options, backend = contextlib.nullcontext(), None, "inductor"'
TARGET = f"import torch\n{NOTHING}\n{PROGRAM}"
