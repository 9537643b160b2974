"""The slowdown that numbisect measures for a flag, beside torch.compile timed with and without it.

    python studies/bench/slowdown.py [ROUNDS]

The subject diverges in vector code alone, and its scalar code is several times slower. Each round measures
both ways, one after the other; the last line has the medians and how far they are apart.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FLAG, VALUE = "cpp.simdlen", 1
SUBJECT = """
import torch
torch.manual_seed(0)

def f(x):
    gelu = 0.5 * x * (1 + torch.erf(x * 0.5**0.5))
    return (torch.ceil(torch.log2(gelu.abs() + 1e-7)).clamp(-127, 127) + 127).to(torch.uint8)

x = torch.randn(4096, 1024)
"""
TIMED = """
import statistics, time
import torch._dynamo

def compiled(options):
    torch._dynamo.reset()
    fn = torch.compile(f, dynamic=False, options=options)
    fn(x)
    return fn

def block(fn):
    started = time.perf_counter()
    for _ in range(10):
        fn(x)
    return time.perf_counter() - started

default, other = compiled({}), compiled({%r: %r})
block(default), block(other)
print(statistics.median([block(other) / block(default) for _ in range(21)]))
"""


def ours(folder: Path) -> float:
    target = folder / "subject.py"
    target.write_text(f"{SUBJECT}\ntorch.compile(f, dynamic=False)(x)\n")
    run = folder / "run"
    arguments = ["flags", str(target), "--out", str(run), "-q"]
    subprocess.run([sys.executable, "-m", "bisector", *arguments], check=False, stdout=subprocess.DEVNULL)
    result = json.loads((run / "result.json").read_text())
    costs = {name: fix["slowdown"] for fix in result["fixes"] for name in fix["set"] if len(fix["set"]) == 1}
    return float(costs[f"inductor.{FLAG}"])


def independent(folder: Path) -> float:
    script = folder / "timed.py"
    script.write_text(SUBJECT + TIMED % (FLAG, VALUE))
    done = subprocess.run([sys.executable, str(script)], check=True, capture_output=True, text=True)
    return float(done.stdout)


def main(rounds: int) -> None:
    pairs: list[tuple[float, float]] = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as name:
            pairs.append((ours(Path(name)), independent(Path(name))))
        print(f"numbisect {pairs[-1][0]:.2f}  torch.compile {pairs[-1][1]:.2f}", flush=True)
    measured, expected = (statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"medians {measured:.2f} and {expected:.2f}: {measured / expected - 1:+.1%}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 3)
