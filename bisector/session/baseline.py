"""The plain end of a search: what must be denied beside the decisions, so that it agrees with eager."""

from __future__ import annotations

from collections.abc import Sequence

from bisector.core.case import Case
from bisector.core.model import Decision, Outcome, ProbeResult
from bisector.core.search.ahead import Inverted

from .asking import Formulas, new_decisions
from .grouping import PLACE, by_groups, ordered
from .study import Study, config_id

# Denying decisions can make others appear, and denying those again others; few rounds bring all to light.
MOST_ROUNDS = 3


def needed_beside(study: Study, case: Case, elements: Sequence[str], flags: Sequence[str]) -> list[str]:
    """What must be denied beside the elements, so that the plain baseline agrees: nothing in most cases.

    Else the flags, as decisions of kind `config`; else the fewest lowerings whose own formula makes it
    diverge. Nothing, too, where none of these helps.
    """
    members, nothing = frozenset(elements), frozenset[str]()
    # The other ends are asked next; together they take less time.
    ends = (study.plain(nothing, []), study.plain(members, []), study.deny(members))
    plain = study.probe_all([(end, case) for end in ends])[0]
    if plain.outcome is not Outcome.FAIL:
        return []
    config = [config_id(name) for name in flags]
    if config and study.enabled(nothing, case, config).outcome is Outcome.PASS:
        return config
    return _formulas(study, case, plain) or config


def _formulas(study: Study, case: Case, plain: ProbeResult) -> list[str]:
    """Of the lowerings in a plain baseline that diverges, a smallest set to deny so that it agrees."""
    places = [d.id for d in plain.measurement.decisions if d.kind == PLACE and d.kind not in study.hooks_off]
    if not places or study.enabled(frozenset(), case, places).outcome is not Outcome.PASS:
        return []
    return list(by_groups(places, Inverted(Formulas(study, case))).members)


def with_appeared(study: Study, case: Case, everything: list[str]) -> tuple[ProbeResult, list[Decision]]:
    """Deny everything; while that still diverges, deny what only came up by it as well.

    `everything` grows by what appeared. Returns the last result, and those decisions.
    """
    grown: list[Decision] = []
    denied = study.denied(frozenset(everything), case)
    for _ in range(MOST_ROUNDS):
        fresh = new_decisions(study, denied, set(everything)) if denied.outcome is Outcome.FAIL else []
        if not fresh:
            break
        grown += fresh
        everything += ordered(d.id for d in fresh)
        denied = study.denied(frozenset(everything), case)
    return denied, grown
