# torch.compile differs from eager.
# Verdict: compiled-worse; output[0]: compiled is farther from the float64 reference (rms error 1.12e+05, eager 0).
# Cause: fma:sub@mul_1 together with inline:aten.mul@mul_1
# Denying fma:sub@mul_1 repairs it.
# Denying inline:aten.mul@mul_1 repairs it.
# Fix (--fixed): inductor.cpp.enable_floating_point_contract_flag=off
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


def fn(highest, logits, temperature):
    mul = logits * temperature  # mul_1
    sub = mul - highest
    return (sub,)


def inputs():
    highest = torch.tensor([[106900000.0], [221700000.0]])
    logits = torch.tensor([
        -5700.0, 9200.0, 11000.0, 13000.0, -15000.0, 26000.0, -4700.0, 3400.0, -16000.0, -5500.0, -4800.0,
        -5000.0, -11000.0, 11000.0, -1400.0, 8100.0
    ]).as_strided((1, 16), (64, 1))
    temperature = torch.tensor([8637.24])
    return [highest, logits, temperature]


torch._inductor.config.cpp.enable_floating_point_contract_flag = "fast"
if FIXED:
    torch._inductor.config.cpp.enable_floating_point_contract_flag = "off"


COMPARED = [  # what, rtol, atol
    ("output 0", 1.3e-06, 1e-05),
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
