"""The smallest script with one cause: a product with zero that is folded, though its factor is NaN."""

FOLDED = """
import torch

def folded(x):
    return x.abs() * 0

torch.compile(folded)(torch.tensor([1.0, float("nan")]))
"""
CAUSE = "cfold:aten.mul@mul"
