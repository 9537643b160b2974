# torch.compile differs from eager.
# Verdict: amplified-rounding; at each node by itself the two runs differ by rounding alone (at most 9.38 ulp); it grows most at `ceil` (aten.ceil), 3.65e+05 times.
# Cause: layout:channels_last@input_1
# Denying layout:channels_last@input_1 repairs it.
# Fix (--fixed): inductor.layout_optimization=False
# Seen with torch 2.13.0+cpu, g++ (Debian 12.2.0-14+deb12u1) 12.2.0, AMD EPYC (avx512 avx512_vnni).
#
# python repro.py           exits 1 where compiled differs, 0 where it agrees, 125 where it cannot tell
# python repro.py --fixed   the same with the fix
import os
import sys

FIXED = "--fixed" in sys.argv
os.environ.update(TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")


def cannot_tell(kind, error, traceback):
    print(f"cannot tell: {kind.__name__}: {error}".splitlines()[0], file=sys.stderr)
    sys.exit(125)


sys.excepthook = cannot_tell  # an exception is not a divergence; git bisect skips 125

import torch
import torch._inductor.config


def fn(conv2d, weight, bias):
    input_1 = torch.conv2d(conv2d, weight, bias)
    to = input_1.to(torch.uint8)
    return (to,)


def inputs():
    conv2d = torch.tensor([
        [[[0.23452508, 0.19957124]], [[-0.052411586, -2.3984199]]],
        [[[0.57310194, 3.511813]], [[-2.727286, -3.441145]]]
    ])
    weight = torch.tensor([[[[0.108014576]], [[-0.1630964]]]])
    bias = torch.tensor([0.05943464])
    return [conv2d, weight, bias]


torch.set_grad_enabled(False)
if FIXED:
    torch._inductor.config.layout_optimization = False


COMPARED = [  # what, rtol, atol
    ("output 0", 0.0, 0.0),
]


def run(function):
    return function(*inputs())


def difference(eager, compiled, rtol, atol):
    """In what compiled differs by more than atol + rtol * |eager|, or None; NaN equals NaN."""
    if not isinstance(eager, torch.Tensor) or not isinstance(compiled, torch.Tensor):
        return None if eager == compiled else f"eager {eager}, compiled {compiled}"
    if (eager.dtype, eager.shape) != (compiled.dtype, compiled.shape):
        kinds = [f"{t.dtype} of shape {tuple(t.shape)}" for t in (eager, compiled)]
        return f"eager is {kinds[0]}, compiled is {kinds[1]}"
    wide = torch.cdouble if eager.is_complex() else torch.double if eager.is_floating_point() else torch.long
    e, c = eager.detach().cpu().to(wide), compiled.detach().cpu().to(wide)
    bad = ~torch.isclose(c, e, rtol=rtol, atol=atol, equal_nan=True)
    if not bad.any():
        return None
    error = (c - e)[bad].abs().double().nan_to_num(float("inf"), float("inf"))
    relative = error / e[bad].abs()
    at = tuple(bad.nonzero()[error.argmax()].tolist())
    return (
        f"{len(error)} of {bad.numel()} elements differ, "
        f"max abs {error.max():.3g}, max rel {relative.max():.3g}; "
        f"at {list(at)} eager {eager[at].item()}, compiled {compiled[at].item()}"
    )


def main():
    agrees = True
    eager, compiled = run(fn), run(torch.compile(fn))
    for (name, rtol, atol), e, c in zip(COMPARED, eager, compiled):
        text = difference(e, c, rtol, atol)
        if text is not None:
            agrees = False
            print(f"{name}: {text}")
    if agrees:
        print("compiled agrees with eager")
    return 0 if agrees else 1


if __name__ == "__main__":
    sys.exit(main())
