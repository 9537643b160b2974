"""What `numbisect flags` costs on subjects of some 10 and some 100 ops, with cold caches.

    python studies/bench/flag_walk.py [ROUNDS]

Both subjects begin with a float32 -> float16 -> float32 cast that the CPU backend drops.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HEAD = """
import torch
import torch.nn.functional as F
torch.manual_seed(0)
"""
TAIL = """
eager = f(*inputs)
torch.testing.assert_close(torch.compile(f)(*inputs), eager, rtol=1e-4, atol=1e-5)
"""
TEN = """
def f(x, w, b):
    x = x.half().float()
    hidden = F.gelu((x - x.mean(-1, keepdim=True)) * w + b)
    return torch.softmax(hidden / 8.0, dim=-1) + torch.tanh(hidden)

inputs = [torch.randn(64, 256), torch.randn(256), torch.randn(256)]
"""
HUNDRED = """
def layer(x, qkv, out, up, down):
    normed = F.layer_norm(x, x.shape[-1:])
    q, k, v = (normed @ qkv).chunk(3, dim=-1)
    weights = torch.softmax(q @ k.transpose(-2, -1) / 8.0, dim=-1)
    x = x + (weights @ v) @ out
    return x + F.gelu(F.layer_norm(x, x.shape[-1:]) @ up) @ down

def f(x, *weights):
    x = x.half().float()
    for i in range(0, len(weights), 4):
        x = layer(x, *weights[i : i + 4])
    return x

SHAPES = [(64, 192), (64, 64), (64, 256), (256, 64)] * 5
inputs = [torch.randn(2, 16, 64), *(torch.randn(*shape) / 8 for shape in SHAPES)]
"""


def measured(body: str) -> tuple[int, float, int, str]:
    """Probes that ran, seconds from the shell, flags walked, and the best fix."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "subject.py").write_text(HEAD + body + TAIL)
        command = [sys.executable, "-m", "bisector", "flags", "subject.py", "--out", "run", "-q"]
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder / "cache")}
        started = time.monotonic()
        subprocess.run(command, check=True, cwd=folder, env=environment, stdout=subprocess.DEVNULL)
        took = time.monotonic() - started
        result = json.loads((folder / "run" / "result.json").read_text())
    probes = result["probes"]["total"] - result["probes"]["cached"]
    return probes, took, len({flag["name"] for flag in result["flags"]}), result["fixes"][0]["id"]


def main(rounds: int) -> None:
    for name, body in {"10 ops": TEN, "100 ops": HUNDRED}.items():
        found = [measured(body) for _ in range(rounds)]
        for probes, took, flags, fix in found:
            print(f"{name}: {probes} probes, {took:.1f} s, {flags} flags, {fix}", flush=True)
        print(f"{name}: median {statistics.median(f[0] for f in found):g} probes, "
              f"{statistics.median(f[1] for f in found):.1f} s")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
