"""More scripts like those of `sorts`; together they take minutes."""

from __future__ import annotations

from .sorts import RELU, Sort

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
    # Inductor has Dynamo trace anew with the number as a constant (TensorifyScalarRestartAnalysis), which the
    # captured graph cannot.
    most_ops=None,
    diverging=("call",),
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

# Without the emulation every rounding to bfloat16 that compiled code leaves out is a cause of its own.
AUTOCAST = Sort(
    RELU
    + """torch._inductor.config.emulate_precision_casts = True


def mixed(x, w):
    y = torch.tanh(x @ w)
    with torch.autocast("cpu", enabled=False):
        z = torch.relu(y.sin() - 0.25) * 2
    z = (z + y).cos() @ w
    return z.abs() + x.to(z.dtype)


with torch.autocast("cpu", dtype=torch.bfloat16):
    torch.compile(mixed)(torch.randn(8, 32), torch.randn(32, 32) / 8)
""",
    most_ops=1,
)

MORE_SORTS = {
    "only a gradient diverges": BACKWARD,
    "the second of two graphs": GRAPHS,
    "a view of what is written": ALIASING,
    "odd strides": STRIDES,
    "a dynamic shape": DYNAMIC,
    "random numbers": RANDOM,
    "complex numbers": COMPLEX,
    "integers": INTEGER,
    "scalar arguments": SCALARS,
    "an operator of the user's own": CUSTOM,
    "autocast": AUTOCAST,
}
