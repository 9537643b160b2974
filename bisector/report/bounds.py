"""Bounds of the values in result.json, beside their types: what its JSON Schema says of them."""

from __future__ import annotations

from typing import Annotated, Any

from bisector.core.decision import DecisionId
from bisector.core.kinds import KINDS

_KIND = "|".join(KINDS)
_HOOKS_ON_TRITON = [f"{part} on Triton" for part in ("fma", "vec", "cast", "reductions")]


class Bounds:
    """Keywords of JSON Schema, in `Annotated`, for the type that they stand with."""

    def __init__(self, **keywords: Any) -> None:
        self.keywords = keywords


_OF_KIND = {"enum": list(KINDS)}
_OF_DECISION = {"pattern": rf"^(g[0-9]+/)?({_KIND}):.+@.+$"}

Count = Annotated[int, Bounds(minimum=0)]
# With `not`, since NaN, which some parsers let through, passes every plain bound.
_NOT_NEGATIVE = {"type": "number", "not": {"exclusiveMaximum": 0}}
# Every float is one; the maximum keeps out a bare Infinity.
MAGNITUDE = Bounds(
    anyOf=[{**_NOT_NEGATIVE, "maximum": 1.7976931348623157e308}, {"enum": ["inf", "-inf", "nan"]}]
)
Fraction = Annotated[float, Bounds(**_NOT_NEGATIVE, maximum=1)]
RelativePath = Annotated[str, Bounds(pattern=r"^(?!/|[A-Za-z]:[\\/]).+$")]  # to the run directory
Kind = Annotated[str, Bounds(**_OF_KIND)]
ByKind = Bounds(propertyNames=_OF_KIND)
ByHook = Bounds(propertyNames={"enum": [*KINDS, *_HOOKS_ON_TRITON]})
ByDecision = Bounds(propertyNames=_OF_DECISION)
AnyDecision = Annotated[DecisionId, Bounds(**_OF_DECISION)]  # `g2/fma:sub@mul_1`, of any kind that there is
DecisionSet = Annotated[tuple[AnyDecision, ...], Bounds(minItems=1, uniqueItems=True)]
Place = Annotated[DecisionId, Bounds(pattern=r"^(g[0-9]+/)?(lower|frame):.+$")]
