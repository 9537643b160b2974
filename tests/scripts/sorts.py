"""Scripts of each sort of divergence that needs more than one call on a tensor to show, small ones.

Some dozen calls stand around the culprit in each.
"""

from __future__ import annotations

from dataclasses import dataclass

# Compiled code for torch.relu adds one, and does no more.
RELU = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
"""


@dataclass(frozen=True)
class Sort:
    """A subject and what is known of it.

    most_ops: of its minimal case, None where the whole script stands in the place of a call. diverging:
    families of the paths that diverge. keeps: text of the repro that makes the sort, where the divergence
    needs it. culprit: what every confirmed cause names.
    """

    script: str
    most_ops: int | None
    keeps: tuple[str, ...] = ()
    diverging: tuple[str, ...] = ("output",)
    culprit: str = "relu"


MUTATION = Sort(
    RELU
    + """

def step(state, x, w):
    y = torch.tanh(x @ w) * 0.5
    z = torch.sigmoid(y + x).mul(x.abs())
    update = torch.relu(z.sin() - y) * 0.25
    state.mul_(0.9).add_(update)
    return (z.cos() + y).sum(-1)


torch.compile(step)(torch.randn(8, 32), torch.randn(8, 32), torch.randn(32, 32))
""",
    most_ops=2,
    keeps=(".add_(relu)",),
    diverging=("mutated",),
)

BUFFERS = Sort(
    RELU
    + """

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = torch.nn.Linear(16, 24)
        self.norm = torch.nn.BatchNorm1d(24)

    def forward(self, x):
        y = torch.relu(torch.tanh(self.lift(x)) - 0.25) * 0.5
        y = self.norm(y + x.mean()) * 0 + x.sum(-1, keepdim=True)
        return (y.sin() + y.sigmoid()).exp()


with torch.no_grad():
    torch.compile(Net())(torch.randn(32, 16))
""",
    most_ops=2,
    keeps=("batch_norm(", "running_mean"),
    diverging=("mutated",),
)

SORTS = {"an input that is written into": MUTATION, "running statistics": BUFFERS}
