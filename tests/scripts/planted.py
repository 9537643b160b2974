"""Scripts with a truth beside them: the worker that runs one spoils an output where the truth says so.

The script wraps numbisect's own compile step, so every probe really compiles and runs the program.
"""

from __future__ import annotations

PLANT = '''
import json
from pathlib import Path

import torch
from bisector.core.decision import DecisionId
from bisector.inductor import compilation, control, probe_cache

compile_graph = compilation.compile_graph
# What is planted is not in the generated code, by which a program is known.
probe_cache.ProbeCache.program = lambda *arguments: None


def planted(*arguments):
    compiled = compile_graph(*arguments)

    def run(*inputs):
        outputs = list(compiled(*inputs))
        asked = control.current()
        truth = json.loads(Path(__file__).with_name("truth.json").read_text())
        seen = {d.id for d in asked.decisions()} if asked is not None else set()
        came = [{i for i in some if i in seen or not truth["seen"]} for some in truth["culprits"]]
        if any(
            got == set(some) and all(asked is None or asked.allows(DecisionId(i)) for i in some)
            for some, got in zip(truth["culprits"], came)
        ):
            outputs[0] = outputs[0] + 1
        return outputs

    return run


compilation.compile_graph = planted
'''

# Two sums of one loop; where the first is denied its place beside `a`, it comes beside `b`.
FUSED = """
def fn(x, y):
    a = x.amax(1, keepdim=True)
    b = torch.exp(x - a)
    c = (x * y).sum(1)
    return (b, c)

torch.manual_seed(0)
torch.compile(fn)(torch.rand(16, 16), torch.rand(16, 16))
"""
FUSED_TRUTH = {"culprits": [["fuse:c@a"], ["fuse:c@b"]], "seen": True}
# Each product lies between two bfloat16 numbers, 1 part of 16384 above the lower one. Eager rounds both down
# and compiled neither, so the two roundings, 2 ** -14 and four times that, add up in the sum.
TWO_CASTS = """
import torch

def fn(a, b):
    small = a * a
    large = b * b
    return (small.float() + large.float(),)

x = torch.full((32,), 1 + 2 ** -7, dtype=torch.bfloat16)
torch.compile(fn)(x, 2 * x)
"""
