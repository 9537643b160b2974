"""Divergences that need more than one call on a tensor to show: each is reduced, and none is lost on the way.

Some dozen calls stand around the culprit in each subject. What makes the sort (the write, the view, the
backward pass) must still be there in the minimal case where the divergence needs it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from bisector.core.judge import family

LARGE = 1e-5  # absolute; of values around one, ten times what rounding leaves

# Compiled code for torch.relu adds one, and does no more.
RELU = """
import torch
import torch._inductor.config

torch._inductor.config.cpp.inject_relu_bug_TESTING_ONLY = "accuracy"
torch.manual_seed(0)
"""


@dataclass(frozen=True)
class Sort:
    """A subject and what is known of it. diverging: families of the paths that diverge. keeps: text of the
    repro that makes the sort, where the divergence needs it. culprit: what every confirmed cause names."""

    script: str
    most_ops: int
    keeps: tuple[str, ...] = ()
    diverging: tuple[str, ...] = ("output",)
    culprit: str = "relu"


# The round trip is exact in the forward graph; its gradient makes one too, and compiled code leaves it out.
BACKWARD = Sort(
    """
import torch

torch.manual_seed(0)


def exact_forward(x, w):
    y = x.to(torch.float16).to(torch.float32)
    z = torch.tanh(y) * w + torch.cos(w)
    return (z.sin() * torch.sigmoid(w)).sum()


x = torch.randn(4, 16).half().float().requires_grad_()
torch.compile(exact_forward)(x, torch.randn(4, 16)).backward()
""",
    most_ops=3,
    keeps=(".backward(", "requires_grad_(", "float16"),
    diverging=("grad",),
    culprit="cast",
)

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

GRAPHS = Sort(
    RELU
    + """

def broken(x, w):
    y = torch.tanh(x @ w) * 0.5
    y = (y + x.sin()).sigmoid() - 0.25
    torch._dynamo.graph_break()
    z = torch.relu(y * 2 - x.abs()) + y.cos()
    z = z.exp() / (1 + x * x)
    return z.sqrt().sum(-1)


torch.compile(broken)(torch.randn(8, 32), torch.randn(32, 32))
""",
    most_ops=1,
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

ALIASING = Sort(
    RELU
    + """

def halves(x, w):
    top, flat = x[:4], x.view(-1)
    y = torch.tanh(w) * torch.sigmoid(w + 0.5)
    z = torch.relu(y.sin() - w.cos()) * 0.5
    top.mul_(0.75).add_(z)
    read = flat * 2 + flat.abs().sqrt()
    return read.view(8, 32)[2:6], x.t()


torch.compile(halves)(torch.randn(8, 32), torch.randn(4, 32))
""",
    most_ops=2,
    keeps=(".view(-1)", ".add_(relu)"),
    diverging=("output", "mutated"),
)

STRIDES = Sort(
    RELU
    + """

def mixed(a, b, c):
    y = torch.tanh(a) * b.sigmoid() + c
    z = torch.relu(y.sin() - a.cos() * b)
    z = z * c.abs().sqrt() + a / (b.abs() + 1)
    return z.transpose(0, 1).exp().neg().sum(0)


a, b = torch.randn(32, 16).t(), torch.randn(32).expand(16, 32)
torch.compile(mixed)(a, b, torch.randn(4096).as_strided((16, 32), (64, 2), 5))
""",
    most_ops=1,
)

DYNAMIC = Sort(
    RELU
    + """

def shaped(x, w):
    n = x.shape[0]
    y = torch.tanh(x @ w) / n
    z = torch.relu(y.sin() + x.view(n, -1).abs()) - 0.5
    z = torch.cat([z, y], 0).reshape(n, 2, -1)
    return (z * torch.arange(n, dtype=torch.float32).view(n, 1, 1)).cos().sum(1) + n


x = torch.randn(9, 32)
torch._dynamo.mark_dynamic(x, 0)
torch.compile(shaped)(x, torch.randn(32, 32))
""",
    most_ops=1,
)

RANDOM = Sort(
    RELU
    + """torch._inductor.config.fallback_random = True


def noisy(x, w):
    y = torch.tanh(x @ w) * 0.5
    y = torch.nn.functional.dropout(y + x.sin(), 0.5, training=True)
    z = torch.relu(y.cos() - x.abs()) * torch.rand_like(x)
    return (z + y.sigmoid()).exp().sum(-1)


torch.compile(noisy)(torch.randn(8, 32), torch.randn(32, 32))
""",
    most_ops=1,
)

COMPLEX = Sort(
    RELU
    + """

def spectrum(x, w):
    y = torch.tanh(x) * w + 0.5
    z = torch.complex(torch.relu(y.sin()), y.cos())
    z = z * torch.polar(w.abs(), x) + z.conj()
    return torch.view_as_real(z).sum(-1).abs().sqrt() - x, torch.fft.fft(z)


torch.compile(spectrum)(torch.randn(8, 32), torch.randn(8, 32))
""",
    most_ops=2,
)

INTEGER = Sort(
    RELU
    + """

def codes(i, table):
    j = (i * 3 + 1) % 17
    k = torch.relu(j - 8) << 1
    m = torch.where(k > 4, k ^ 5, j | 2).clamp(0, 30)
    t = table[m].abs().to(torch.int64) + m
    return t // 2 - i, (k & 7).sum(-1)


torch.compile(codes)(torch.randint(0, 100, (8, 32)), torch.randint(-50, 50, (64,), dtype=torch.int32))
""",
    most_ops=1,
    keeps=("int64",),
)

SCALARS = Sort(
    RELU
    + """

def scaled(x, w, n, alpha):
    y = torch.tanh(x) * alpha + w / n
    z = torch.relu(y.sin() - alpha) * n
    z = z.narrow(0, 0, n) + y[:n].cos()
    return torch.full_like(z, alpha).add(z).abs().sqrt() - (n + 0.5)


torch.compile(scaled, dynamic=True)(torch.randn(8, 32), torch.randn(8, 32), 5, 0.3)
""",
    most_ops=1,
)

CUSTOM = Sort(
    RELU
    + """

@torch.library.custom_op("sorts::tripled", mutates_args=())
def tripled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * 3 + by


@tripled.register_fake
def _(x, by):
    return torch.empty_like(x)


def beside(x, w):
    y = torch.tanh(x @ w) * 0.5
    z = torch.relu(tripled(y.sin(), 0.5) - x.abs())
    return (tripled(z, 1.5).cos() + y.sigmoid()).exp().sum(-1)


torch.compile(beside)(torch.randn(8, 32), torch.randn(32, 32))
""",
    most_ops=1,
)

OFTEN = {
    "only a gradient diverges": BACKWARD,
    "an input that is written into": MUTATION,
    "the second of two graphs": GRAPHS,
    "running statistics": BUFFERS,
}
SELDOM = {
    "a view of what is written": ALIASING,
    "odd strides": STRIDES,
    "a dynamic shape": DYNAMIC,
    "random numbers": RANDOM,
    "complex numbers": COMPLEX,
    "integers": INTEGER,
    "scalar arguments": SCALARS,
    "an operator of the user's own": CUSTOM,
}


def minimized(script: str, folder: Path) -> dict[str, Any]:
    target = folder / "script.py"
    target.write_text(script)
    command = [sys.executable, "-m", "bisector", "minimize", str(target), "--json", "-"]
    done = subprocess.run(
        [*command, "--out", str(folder / "run")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.mark.parametrize(
    "sort",
    [
        *(pytest.param(sort, id=name) for name, sort in OFTEN.items()),
        *(pytest.param(sort, id=name, marks=pytest.mark.slow) for name, sort in SELDOM.items()),
    ],
)
def test_a_subject_of_any_sort_is_reduced_and_still_diverges(sort: Sort, tmp_path: Path) -> None:
    result = minimized(sort.script, tmp_path)
    assert result["stopped_because"] is None
    large = [o["path"] for o in result["verdict"]["outputs"] if o["max_abs"] > LARGE]
    assert {family(path) for path in large} == set(sort.diverging)
    causes = [cause["decisions"] for cause in result["causes"] if cause["confirmed"]]
    assert causes
    assert all(any(sort.culprit in decision for decision in cause) for cause in causes)
    assert 0 < result["minimal"]["n_ops"] <= sort.most_ops
    repro = tmp_path / "run" / result["repro"]
    text = repro.read_text()
    assert [part for part in sort.keeps if part not in text] == []
    for arguments, status in (([], 1), (["--fixed"], 0)):
        done = subprocess.run(
            [sys.executable, "-I", str(repro), *arguments],
            cwd=tmp_path, capture_output=True, text=True, check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
