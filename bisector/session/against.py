"""`numbisect flags TARGET --against FILE`: the target's own configuration beside another one."""

from __future__ import annotations

from dataclasses import replace

from bisector.core.case import WHOLE
from bisector.core.judge import judge
from bisector.core.model import Candidate, Outcome
from bisector.errors import BadOption

from .flags.contrast import Between, Contrast, contrast
from .options import Against
from .run import Session
from .subject import Chosen


def against(session: Session, chosen: Chosen, other: Against) -> Contrast:
    """Which settings make the difference. Raises BadOption for a flag that this torch does not have."""
    study = chosen.study
    as_is = {name: found.value for name, found in study.settings(list(other.settings)).items()}
    if absent := [name for name in other.settings if name not in as_is]:
        raise BadOption(f"--against {other.name}: this torch has no flag {absent[0]}; leave it out")
    theirs = {name: value for name, value in other.settings.items() if value != as_is[name]}
    ours = {name: as_is[name] for name in theirs}
    default = judge(chosen.evidence.default, study.criterion)
    here = default.outcome
    if not theirs:
        return Contrast(other.name, here, unknown=f"{other.name} sets nothing that the target does not")
    if here is Outcome.FAIL:
        return contrast(Between(study, WHOLE, default, theirs, ours, as_is), other.name)
    there = study.probe(Candidate.with_flags(theirs))
    if {here, there.outcome} != {Outcome.PASS, Outcome.FAIL}:
        return Contrast(other.name, here, unknown=_alike(other.name, here, there.outcome))
    study = replace(study, signatures=there.signatures)  # of the one that diverges, and no other bug's
    return contrast(Between(study, WHOLE, default, ours, theirs, as_is), other.name)


def _alike(name: str, here: Outcome, there: Outcome) -> str:
    if here is there is Outcome.PASS:
        return f"the target agrees as it is, and with the settings of {name} too"
    return f"the target gives {here.value}, and with the settings of {name} {there.value}"

