"""`match:PATTERN@node`: one match of one graph pattern; node is the match's output.

Patches `PatternMatcherPass.apply` (torch/_inductor/pattern_matcher.py), which gives each pattern entry an
`extra_check` that asks. Exercised on torch 2.13. Denied there, a match is no match, so counts and loops
that apply a pattern to a fixpoint stay right. PATTERN is the entry's own name, else that of the function
whose graph is looked for, else its handler's. Entries that another kind has claimed (`prepack`) are asked for
under that kind.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch._inductor import pattern_matcher
from torch.fx import Graph, Node

from ...core import kinds
from ...core.decision import Decision
from .. import naming
from ..control import Control, current
from . import stages, tags
from .patching import require, wrap

KIND = kinds.MATCH

_ASKS = "numbisect_asks"
# `_sfdp_pattern_3_half_inference`: one of many spellings of attention. Where one is denied another may
# match, with the same replacement, so they are one decision: `_sfdp`.
_ALTERNATIVE = re.compile(r"_pattern_\d+\w*$")


@dataclass(frozen=True)
class Claim:
    """Entries of a kind of their own.

    covers: whether an entry of this handler is one; name: PATTERN in the ID; text: the decision in a
    sentence, of a pattern `{0}` and a node `{1}`.
    """

    kind: str
    covers: Callable[[str], bool]
    name: Callable[[str], str]
    text: str


_claims = [Claim(KIND.name, lambda handler: True, lambda name: name, "the pattern {0} replaces {1}")]


def claim(entries: Claim) -> None:
    """Gives entries to another kind, before any graph is rewritten."""
    _claims.insert(0, entries)


@functools.cache
def install() -> None:
    stages.install()
    require(pattern_matcher, "guard_or_false", "PatternEntry")
    wrap(pattern_matcher.PatternMatcherPass, "apply", _ask_for_each)


def _ask_for_each(original: Callable[..., int]) -> Callable[..., int]:
    def apply(self: Any, *args: Any, **kwargs: Any) -> int:
        if current() is not None:
            for entries in self.patterns.values():
                for entry in entries:
                    _make_ask(entry)
        return original(self, *args, **kwargs)

    return apply


def _make_ask(entry: Any) -> None:
    """Wraps the entry's check and its effect, once for each entry."""
    check, apply_entry = entry.extra_check, entry.apply
    if hasattr(check, _ASKS):
        return
    name, random = _pattern_name(entry), _replaces_random(entry)
    claim = next(claim for claim in _claims if claim.covers(name))

    def asked() -> Control | None:
        return None if random or not stages.stage() else current(claim.kind)

    def allowed(match: Any) -> bool:
        control = asked()
        try:
            found = check(match)
        except Exception:  # the check traces the replacement
            if control is None:
                raise
            if control.refuses(_decision(claim, name, _output(match))):
                return False
            control.take(_decision(claim, name, _output(match)))
            raise
        if control is None or not pattern_matcher.guard_or_false(found):
            return found
        # Whether a denied match would have changed anything is not known.
        return not control.refuses(_decision(claim, name, _output(match)))

    def apply(match: Any, graph: Graph, node: Node) -> None:
        control = asked()
        if control is None:
            return apply_entry(match, graph, node)
        # It is put into words before: afterwards the output may be erased from the graph.
        output = _output(match)
        decision, before = _decision(claim, name, output), _state(graph, match)
        root, backward = naming.root_of(output), naming.is_backward(output)
        try:
            apply_entry(match, graph, node)
        except Exception:
            control.take(decision)  # what it raises comes of it
            raise
        if _state(graph, match) != before:
            naming.adopt(graph, root, backward)
            control.take(decision)
        return None

    setattr(allowed, _ASKS, True)
    entry.extra_check, entry.apply = allowed, apply


def _decision(claim: Claim, name: str, node: Node) -> Decision:
    text = claim.text.format(name, tags.described(node))
    return tags.decision(claim.kind, node, text, f"{claim.name(name)}{naming.suffix(node)}")


def _state(graph: Graph, match: Any) -> object:
    """Differs before and after if the handler did anything: some handlers look closer and give up."""
    return len(graph.nodes), [(n._erased, n.target, n.args, n.kwargs, tuple(n.users)) for n in match.nodes]


def _pattern_name(entry: Any) -> str:
    if own := getattr(entry, "pattern_name", None):
        return _ALTERNATIVE.sub("", own)
    if searched := _searched(entry.extra_check):
        return searched
    handler = getattr(entry, "handler", None) or entry.extra_check
    handler = getattr(handler, "__wrapped__", handler)
    # A partial or a callable object has no name: its class must do.
    return getattr(handler, "__qualname__", type(handler).__name__).replace("<locals>.", "")


def _searched(check: Callable[..., Any]) -> str:
    """The name of the function whose graph is looked for: `register_replacement` has it in the closure of its
    check, which is one function for all patterns. Empty for other checks."""
    code = getattr(check, "__code__", None)
    cells = dict(zip(code.co_freevars, check.__closure__ or (), strict=True)) if code is not None else {}
    searched = cells["search_fn"].cell_contents if "search_fn" in cells else None
    return getattr(searched, "__name__", "")


def _replaces_random(entry: Any) -> bool:
    """Whether the entry gives random ops their lowering (fx_passes/replace_random.py): they have no other."""
    module = getattr(getattr(entry, "handler", None), "__module__", "")
    return module.endswith(".replace_random")


def _output(match: Any) -> Node:
    return max(match.nodes)  # FX nodes order by their place in the graph
