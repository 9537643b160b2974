"""What a run found, for result.json: repairs, causes, fixes, flags, shares, the nearest case that agrees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from bisector.core.search.graded import Graded
from bisector.core.search.minimal import MinimalSet
from bisector.report.fixes import fix_lines
from bisector.runner.rundir import NEIGHBOUR

from .answer import Answer
from .fixes import Fix
from .flags.contrast import Contrast
from .flags.trials import FlagTrial
from .neighbour import Neighbour

SHOWN_LINES = 40  # of the difference between the code of two cases; a longer one is in its file alone


def findings(answer: Answer) -> dict[str, Any]:
    """The members of the contract's dict that say what explains the divergence."""
    walk = answer.walk
    return {
        "repairs": [
            {
                "decisions": list(r.found.members),
                "confirmed": r.confirmed,
                "removed_fraction": r.removed_fraction,
            }
            for r in answer.repairs
        ],
        "causes": [_cause(cause, confirmed) for cause, confirmed in answer.causes],
        "fixes": [_fix(fix, confirmed, answer) for fix, confirmed in answer.fixes],
        "flags": [_flag(t, walk.variables) for t in (*walk.trials, *walk.milder)],
        "contrast": None if answer.contrast is None else _contrast(answer.contrast),
        "neighbour": _neighbour(answer.neighbour),
        **_graded(answer.graded),
    }


def _cause(cause: MinimalSet, confirmed: bool) -> dict[str, Any]:
    evidence = {"alone": cause.alone.value, "without_each": [o.value for o in cause.without_each]}
    return {"decisions": list(cause.members), "confirmed": confirmed, "evidence": evidence}


def _fix(fix: Fix, confirmed: bool, answer: Answer) -> dict[str, Any]:
    return {
        "id": fix.id,
        "kind": fix.kind,
        "set": dict(fix.values) if fix.values else None,
        "removed_fraction": fix.removed_fraction,
        "residual_max_abs": fix.residual_max_abs,
        "slowdown": fix.cost.slowdown if fix.cost else None,
        "slowdown_spread": list(fix.cost.spread) if fix.cost else None,
        "confirmed": confirmed,
        "other_inputs": None if fix.others is None else asdict(fix.others),
        "paste": _paste(fix, answer),
        "same_program": _same_program(fix, answer),
    }


def _paste(fix: Fix, answer: Answer) -> list[str]:
    if fix.plain is None:
        return []
    told = {"id": fix.id, "kind": fix.kind, "set": fix.values}
    return fix_lines(told, answer.settings, answer.walk.variables)


def _same_program(fix: Fix, answer: Answer) -> str | None:
    """The ID of an earlier fix."""
    fixes = [f for f, _ in answer.fixes]
    same = fix.same_as(fixes[: fixes.index(fix)])
    return None if same is None else same.id


def _flag(trial: FlagTrial, variables: Mapping[str, str]) -> dict[str, Any]:
    """variables: environment variables that set flags, by the flag."""
    return {
        "name": trial.flag.name,
        "default": trial.default,
        "tried": trial.value,
        "outcome": trial.result.outcome.value,
        "removed_fraction": trial.removed_fraction,
        "role": trial.role,
        "told_by": trial.told_by,
        "grown": trial.grown,
        "env": variables.get(trial.flag.name),
    }


def _contrast(contrast: Contrast) -> dict[str, Any]:
    return {
        "with": contrast.name,
        "target": contrast.target.value,
        "repairs": [dict(settings) for settings in contrast.repairs],
        "causes": [dict(settings) for settings in contrast.causes],
        "unknown": contrast.unknown,
    }


def _graded(graded: Graded | None) -> dict[str, Any]:
    shares = graded.shares if graded is not None else ()
    return {
        "graded": [
            {"decision": s.decision, "removed_fraction": s.removed, "left_fraction": s.left} for s in shares
        ],
        "adds_up": graded.adds_up if graded is not None else None,
        "removed_together": graded.together if graded is not None else None,
    }


def _neighbour(found: Neighbour | None) -> dict[str, Any] | None:
    if found is None:
        return None
    told = list(found.diff) if len(found.diff) <= SHOWN_LINES else []
    return {"differs_by": found.differs_by, "artifact_diff": NEIGHBOUR if found.diff else None, "diff": told}
