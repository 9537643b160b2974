"""The kinds of decision: all that is to be known of one, declared once.

A new kind is one entry here and one hook that names it (docs/adding-a-kind.md). The order in which answers
name decisions, the words of the reports and the clusters of a triage are read from here; the hooks, the
self-test, the JSON schema and the pages are checked against it (tests/inductor/test_kinds.py). The table is
not spread over the hooks, since the command line never imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .backends import INDUCTOR, OWN


@dataclass(frozen=True)
class Kind:
    """One kind of decision; an ID is `name:detail@node`.

    noun: names one decision ("the FMA contraction of `mul`"). sentence: what the compiler did, also the row
    of docs/words.md. instances: other nouns, by detail. phrase: names one decision in the place of the noun,
    with its `{detail}` and `{node}`.

    about_graph: its decisions are about a whole graph, so reports name their detail and no node.
    detail_is_local: its detail names operations of the one graph, so that decisions of two graphs match
    by their kind alone. makes_room: it says where a value is computed, not how; it makes room for a cause and
    is none where there is one. kept_in_plain: the plain baseline allows it unless it is a member.

    devices: the types of device on which alone it is taken; empty: any. hooked: its decisions come from a
    hook. rungs: taken where a whole script runs, and asked about where one of these backends is the first to
    diverge; empty: taken within a graph. of_calls: of those, its IDs name no graph.
    """

    name: str
    noun: str
    sentence: str
    instances: Mapping[str, str] = field(default_factory=dict)
    phrase: str = ""
    about_graph: bool = False
    detail_is_local: bool = False
    makes_room: bool = False
    kept_in_plain: bool = False
    devices: frozenset[str] = frozenset()
    hooked: bool = True
    rungs: frozenset[str] = frozenset()
    of_calls: bool = False

    @property
    def self_tested(self) -> bool:
        """Whether the self-test must have a program for it, or a script, which runs on a CPU."""
        return self.hooked and (not self.devices or "cpu" in self.devices)


FMA = Kind(
    "fma",
    "FMA contraction",
    "A product and a sum are rounded once, as one multiply-add.",
    instances={"in-kernel": "contraction in the kernel"},
    detail_is_local=True,
)
VEC = Kind(
    "vec",
    "vectorization",
    "A kernel, or one operation in it, uses the vector math library, or on a GPU a faster form.",
    instances={
        "division": "approximate division",
        "own_log": "logarithm of Triton's own",
        "own_exp": "fast exponential",
        "ftz": "flushing of denormals",
    },
)
CAST = Kind(
    "cast",
    "elided cast",
    "A rounding to a narrower dtype, and back, is left out.",
)
CONST = Kind("const", "unrounded scalar", "A scalar that eager rounds to the dtype is not rounded.")
LAYOUT = Kind("layout", "layout change", "A tensor is kept in another memory format.")
PREPACK = Kind("prepack", "weight prepacking", "A weight is reordered for another kernel that reads it.")
TEMPLATE = Kind("template", "kernel template", "A matmul or convolution is generated from a template.")
UNROLL = Kind(
    "unroll",
    "reduction unrolling",
    "A small reduction is written out as a chain of operations.",
    instances={"persistent": "reduction in one block"},
    detail_is_local=True,
)
SPLIT = Kind(
    "split",
    "reduction split",
    "A reduction is computed in parts that are combined at the end.",
    instances={"cooperative": "reduction by several blocks"},
    detail_is_local=True,
    devices=frozenset({"cuda", "xpu"}),
)
WELFORD = Kind(
    "welford",
    "variance algorithm",
    "A variance is computed in one pass (Welford's method) or in two.",
    detail_is_local=True,
)
INLINE = Kind(
    "inline",
    "recomputation",
    "A value is computed again where it is used, not stored once.",
    makes_room=True,
)
REMAT = Kind(
    "remat",
    "recomputation in backward",
    "The backward graph computes a forward value again, not saving it.",
    makes_room=True,
)
FUSE = Kind("fuse", "fusion", "Two nodes share one kernel.", detail_is_local=True, makes_room=True)
CFOLD = Kind("cfold", "constant folding", "A value that needs no input is computed in advance.")
MATCH = Kind("match", "pattern match", "One match of a rewrite pattern is replaced.")
DECOMP = Kind("decomp", "decomposition", "An operator is replaced by simpler ones before lowering.")
PASS = Kind("pass", "graph pass", "A whole pass over the graph rewrites it.", about_graph=True)
INPLACE = Kind(
    "inplace", "in-place update", "A value is written over one of its inputs.", detail_is_local=True
)
REUSE = Kind("reuse", "buffer reuse", "A buffer's memory is taken for another value.", detail_is_local=True)
CUDAGRAPH = Kind(
    "cudagraph",
    "CUDA graph",
    "The kernels are recorded once and replayed.",
    about_graph=True,
    devices=frozenset({"cuda"}),
)
GUARD = Kind(
    "guard",
    "reuse of compiled code",
    "A call runs what an earlier call compiled, since its guards let it pass.",
    phrase="the reuse of compiled code at {node} of `{detail}`",
    rungs=frozenset({"eager", "aot_eager", "aot_eager_decomp_partition"}),
    of_calls=True,
)
CACHE = Kind(
    "cache",
    "hit in the cache",
    "A compiled graph is taken from a cache on disk.",
    about_graph=True,
    rungs=frozenset({INDUCTOR, OWN}),
)
STEP = Kind(
    "step",
    "tracing of a step",
    "Dynamo traces a call, or an item or attribute that is read or set; otherwise Python runs that step.",
    phrase="the tracing of {node} in `{detail}`",
    kept_in_plain=True,  # as the function that it is a part of
    rungs=frozenset({"eager", "aot_eager"}),
    of_calls=True,
)
FRAME = Kind(
    "frame",
    "tracing",
    "Dynamo traces a function of the program; otherwise Python runs it.",
    phrase="the tracing of `{detail}`",
    kept_in_plain=True,  # a place too: where Python runs it, nothing in it is compiled
    rungs=frozenset({"eager", "aot_eager"}),
    of_calls=True,
)
CONFIG = Kind(
    "config",
    "setting",
    "A flag is set for the whole graph; no hook holds its single uses.",
    about_graph=True,
    kept_in_plain=True,  # a flag is set outside the Control, never by it
    hooked=False,
)
LOWER = Kind(
    "lower",
    "lowering",
    "A node is computed by Inductor's own code, not by its ATen kernel.",
    # A fallback also breaks fusion and recomputation around its node, so it names a place, not a cause.
    kept_in_plain=True,
)

# The finest first: a single operation before a kernel's shape before a graph rewrite; a place, which says
# where and not why, last. Answers name decisions in this order.
_FINEST_FIRST = (
    FMA, VEC, CAST, CONST, LAYOUT, PREPACK, TEMPLATE, UNROLL, SPLIT, WELFORD, INLINE, REMAT, FUSE, CFOLD,
    MATCH, DECOMP, PASS, INPLACE, REUSE, CUDAGRAPH, GUARD, CACHE, STEP, FRAME, CONFIG, LOWER,
)  # fmt: skip
KINDS: Mapping[str, Kind] = {kind.name: kind for kind in _FINEST_FIRST}
