"""`fuse:OTHER@node`: the computations of two FX nodes in one kernel (a loop nest, on the CPU).

Patches `Scheduler.can_fuse` and `Scheduler.fuse_two_nodes` (torch/_inductor/scheduler.py): the first is the
one gate of all fusions (vertical, horizontal, templates, C++ outer loops), the second commits them.
Exercised on torch 2.13. A pair is two leaves of the fused nodes, named by the FX nodes whose lowering made
them; `node` is the earlier one. Listed are the committed pairs of producer and consumer, or, where nodes
only share an input, the pairs that share it. Denied, the two are never in one kernel, by any order of
fusions. Over the plain baseline a fusion needs all its listed pairs.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

from torch._inductor.scheduler import Scheduler
from torch.fx import Node

from ...core import kinds
from ...core.decision import Decision, DecisionId
from ...core.model import Base
from .. import naming
from ..control import Control, current
from . import tags
from .patching import wrap

KIND = kinds.FUSE

_Pair = tuple[Node, Node]


def install() -> None:
    tags.install()
    wrap(Scheduler, "can_fuse", _veto)
    wrap(Scheduler, "fuse_two_nodes", _record)


def _veto(original: Callable[..., bool]) -> Callable[..., bool]:
    def can_fuse(self: Scheduler, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> bool:
        if (control := current(KIND.name)) is not None and not _allowed(control, node1, node2):
            return False
        return original(self, node1, node2, *args, **kwargs)

    return can_fuse


def _record(original: Callable[..., Any]) -> Callable[..., Any]:
    def fuse_two_nodes(self: Scheduler, node1: Any, node2: Any, *args: Any, **kwargs: Any) -> Any:
        if (control := current(KIND.name)) is not None:
            for pair in _listed_pairs(node1, node2):
                _ask(control, pair)
        return original(self, node1, node2, *args, **kwargs)

    return fuse_two_nodes


def _allowed(control: Control, node1: Any, node2: Any) -> bool:
    if control.base is Base.PLAIN:
        return all(control.allows(_id(pair)) for pair in _listed_pairs(node1, node2))
    if not control.denies(KIND.name):
        return True
    denied = [pair for pair in _pairs(node1, node2, _any) if not control.allows(_id(pair))]
    for pair in denied:
        _ask(control, pair)
    return not denied


def _pairs(node1: Any, node2: Any, related: Callable[[Any, Any], bool]) -> list[_Pair]:
    """Pairs of FX nodes, one of each side, earlier node first."""
    found: dict[_Pair, None] = {}
    for a, b in product(node1.get_nodes(), node2.get_nodes()):
        source_a, source_b = tags.source_of_leaf(a), tags.source_of_leaf(b)
        if source_a is not None and source_b is not None and related(a, b):
            found[(source_a, source_b) if source_a <= source_b else (source_b, source_a)] = None
    return list(found)


def _listed_pairs(node1: Any, node2: Any) -> list[_Pair]:
    return _pairs(node1, node2, _feeds) or _pairs(node1, node2, _shares) or _pairs(node1, node2, _any)


def _any(a: Any, b: Any) -> bool:
    return True


def _feeds(a: Any, b: Any) -> bool:
    return _reads(b, a.get_buffer_names()) or _reads(a, b.get_buffer_names())


def _reads(leaf: Any, names: Any) -> bool:
    return any(dep.name in names for dep in leaf.read_writes.reads)


def _shares(a: Any, b: Any) -> bool:
    return _reads(a, {dep.name for dep in b.read_writes.reads})


def _id(pair: _Pair) -> DecisionId:
    node, other = pair
    return DecisionId.of(KIND.name, f"{naming.handle(other)}{naming.suffix(node)}", naming.node_name(node))


def _ask(control: Control, pair: _Pair) -> None:
    node, other = pair
    text = f"{tags.described(node)} and {tags.described(other)} share a kernel"
    control.take(Decision(_id(pair), text, naming.where_of(node)))
