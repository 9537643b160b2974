"""The fixed parts of an emitted repro: plain torch and the standard library, for old and new releases."""

from __future__ import annotations

from string import Template

# The caches are turned off by environment variables: an older torch ignores those that it does not know,
# where an assignment to a missing config would raise. The cache of compiled C++ is keyed by source: it stays.
HEAD = Template("""\
$header
#
# python $file           exits 1 where compiled differs, 0 where it agrees, 125 where it cannot tell
# python $file --fixed   the same with the fix
import os
import sys

FIXED = "--fixed" in sys.argv
os.environ.update(TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
$early

def cannot_tell(kind, error, traceback):
    print(f"cannot tell: {kind.__name__}: {error}".splitlines()[0], file=sys.stderr)
    sys.exit(125)


sys.excepthook = cannot_tell  # an exception is not a divergence; git bisect skips 125

$imports
""")

MAIN = Template("""\
def main():
    agrees = True
    eager, compiled = run($eager), run($compiled)
    for (name, rtol, atol), e, c in zip(COMPARED, eager, compiled):
        text = difference(e, c, rtol, atol)
        if text is not None:
            agrees = False
            print(f"{name}: {text}")
    if agrees:
        print("compiled agrees with eager")
    return 0 if agrees else 1
""")

TAIL = """\
if __name__ == "__main__":
    sys.exit(main())
"""

SIGNED_ZERO = "    bad |= (e == 0) & (c == 0) & (e.signbit() != c.signbit())\n"

DIFFERENCE = Template('''\
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
$signed_zero\
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
''')
