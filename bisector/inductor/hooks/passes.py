"""`pass:NAME@GRAPH`: one graph pass of Inductor, GRAPH being pre_grad, joint, post_grad or bwd.post_grad.

Patches `GraphTransformObserver.apply_gm_pass` and `apply_graph_pass`
(torch/fx/passes/graph_transform_observer.py), through which Inductor runs its passes. Exercised on torch
2.13. Listed are passes that changed the graph. Pattern passes are not: their matches are (kind `match`); nor
is constant folding: the folded values are (kind `cfold`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch.fx import Graph, GraphModule
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from ...core import kinds
from ...core.decision import Decision, DecisionId
from ..control import current
from . import stages
from .patching import wrap

KIND = kinds.PASS

# Without these the graph cannot be lowered: they turn higher-order ops into what Inductor knows, put nodes
# in a legal order, or drop what has no lowering. What they match is no decision either.
_STRUCTURAL = frozenset(
    {
        "chain_random_ops_ordering",
        "decomp_comms",
        "decompose_auto_functionalized",
        "decompose_map_to_while_loop",
        "decompose_scan_to_while_loop",
        "decompose_triton_kernel_wrapper_functional",
        "fix_auto_functionalized_dtype_views",
        "remove_assert_ops",
        "remove_profiler_ops",
        "stable_sort",
    }
)
# The user's own passes: not the compiler's choice.
_CUSTOM = frozenset(
    {
        "joint_custom_post_pass",
        "joint_custom_pre_pass",
        "post_grad_custom_post_pass",
        "post_grad_custom_pre_pass",
        "pre_grad_custom_pass",
    }
)
# Passes each of whose effects is a decision of another kind.
_INSTANCES = {"constant_fold_uniform_value": kinds.CFOLD.name}


def install() -> None:
    stages.install()
    wrap(GraphTransformObserver, "apply_gm_pass", _ask)
    wrap(GraphTransformObserver, "apply_graph_pass", _ask)


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def apply_pass(self: GraphTransformObserver, pass_fn: Callable[..., Any]) -> Any:
        control, graph_word, name = current(KIND.name), stages.stage(), self.passname
        if control is None or not graph_word:
            return original(self, pass_fn)
        if name in _STRUCTURAL:
            with stages.structural():
                return original(self, pass_fn)
        if name in _CUSTOM or name.startswith("pass_pattern_") or _has_instances(name):
            return original(self, pass_fn)
        text = f"the pass {name} changes the {graph_word} graph"
        decision = Decision(DecisionId.of(KIND.name, name, graph_word), text)
        # Whether a denied pass would have changed anything is not known: a member was listed before.
        if control.refuses(decision):
            return None
        before = _fingerprint(self.gm)
        try:
            result = original(self, pass_fn)
        except Exception:
            control.take(decision)  # what it raises comes of it
            raise
        if _fingerprint(self.gm) != before:
            control.take(decision)
        return result

    return apply_pass


def _has_instances(name: str) -> bool:
    return name in _INSTANCES and current(_INSTANCES[name]) is not None


def _fingerprint(gm: GraphModule | Graph) -> int:
    graph = gm.graph if isinstance(gm, GraphModule) else gm
    return hash(tuple((n.op, str(n.target), str(n.args), str(n.kwargs)) for n in graph.nodes))
