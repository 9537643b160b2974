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

os.environ.update(TORCHINDUCTOR_FX_GRAPH_CACHE="0", TORCHINDUCTOR_AUTOGRAD_CACHE="0")
$early\
# An exception is not a divergence; git bisect skips 125.
sys.excepthook = lambda kind, error, trace: sys.exit(print(f"cannot tell: {kind.__name__}: {error}") or 125)

$imports
""")

IF_FIXED = 'if "--fixed" in sys.argv:'

TAIL = Template("""\
$runs
try:
$comparison
except AssertionError as error:
    print(error, f"eager {expected}", f"compiled {actual}", sep="\\n")
    sys.exit(1)
print("compiled agrees with eager")
""")
