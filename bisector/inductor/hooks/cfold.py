"""`cfold:OP@node`: a value that needs no input, computed while compiling.

Patches `ConstantFolder.run` (torch/_inductor/constant_folding.py), after which the folder's
`node_replacements` are what it will replace: the last nodes of each constant computation (freezing), or, of
its subclass in the joint graph, values that are uniform. Denied, a value is taken out of them and is computed
at run time with all that it alone needs. Patches `constant_fold_uniform_value`
(torch/_inductor/fx_passes/joint_graph.py) too, to know what came of a uniform value. Exercised on torch 2.13.
A computed value that is then viewed is named by what computed it. Not listed: values that are only moved in
advance (the bits are the same), and weights in the opaque form of oneDNN and MKL, which no compiled graph
can make (see `prepack`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch._inductor.constant_folding import ConstantFolder
from torch._inductor.fx_passes import joint_graph
from torch.fx import GraphModule, Node

from ...core import kinds
from ...core.decision import Decision
from .. import naming
from ..control import current
from . import decomp, stages, tags
from .patching import wrap

KIND = kinds.CFOLD


@dataclass(frozen=True)
class _Uniform:
    """A uniform value as it was before the pass, which erases nodes: their inputs are gone then."""

    decision: Decision
    users: tuple[Node, ...]
    computes: bool


_uniform: dict[Node, _Uniform] | None = None  # None outside of the pass over the joint graph


def install() -> None:
    stages.install()
    wrap(ConstantFolder, "run", _ask)
    wrap(joint_graph, "constant_fold_uniform_value", _list_changes)


def _ask(original: Callable[..., Any]) -> Callable[..., Any]:
    def run(self: ConstantFolder) -> Any:
        result = original(self)
        control = current(KIND.name)
        if control is None or not stages.stage() or self.lifted_constant_names is not None:
            return result
        for node, value in list(self.node_replacements.items()):
            if _uniform is None and not _is_choice(node, value):
                continue
            decision = _decision(node if _uniform is not None else _computed(node))
            refused = control.refuses(decision) if _uniform is not None else not control.take(decision)
            if refused:
                del self.node_replacements[node]
            elif _uniform is not None:
                _uniform[node] = _Uniform(decision, tuple(node.users), _computes(node))
        return result

    return run


def _list_changes(original: Callable[..., None]) -> Callable[..., None]:
    """Lists the uniform values that took a computation, or that made one of their users needless."""

    def constant_fold_uniform_value(gm: GraphModule) -> None:
        global _uniform
        control = current(KIND.name)
        if control is None or not stages.stage():
            return original(gm)
        _uniform = {}
        try:
            original(gm)
            for node, was in _uniform.items():
                if node._erased and (was.computes or any(user._erased for user in was.users)):
                    control.take(was.decision)
        finally:
            _uniform = None
        return None

    return constant_fold_uniform_value


def _is_choice(node: Node, value: object) -> bool:
    """Whether a folded value can be computed at run time as well, and not only be moved."""
    return not (isinstance(value, torch.Tensor) and value.is_mkldnn) and _computes(node)


def _computes(node: Node) -> bool:
    """Whether the node, or one of those it is made from, does more than create, move or view data."""
    todo, seen = [node], {node}
    while todo:
        at = todo.pop()
        if at.op == "call_function" and not _only_moves(at):
            return True
        fresh = [source for source in at.all_input_nodes if source not in seen]
        seen.update(fresh)
        todo += fresh
    return False


def _computed(node: Node) -> Node:
    """The node whose value this one moves or views, if it is the only one."""
    while _only_moves(node) and len(node.all_input_nodes) == 1:
        node = node.all_input_nodes[0]
    return node


def _only_moves(node: Node) -> bool:
    op = node.target
    is_view = isinstance(op, torch._ops.OpOverload) and op.is_view
    return is_view or decomp.moves_data(naming.op_name(node)) or not node.all_input_nodes


def _decision(node: Node) -> Decision:
    return tags.decision(KIND.name, node, f"the value of {tags.described(node)} is computed in advance")
