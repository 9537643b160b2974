"""The steps of a traced function that make a script differ: calls, and items and attributes that are read or
set."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from .decision import Decision, DecisionId
from .outcome import Outcome


@dataclass(frozen=True)
class Step(Decision):
    """One step. code: what the program says there. becomes: what the compiled code has in its place
    (`torch.sin in the graph`, `the constant 26`); empty where that is not known. within: the step by which
    Dynamo comes to it, such as the call of its function; None where that is the traced function itself."""

    code: str = ""
    becomes: str = ""
    within: DecisionId | None = None


@dataclass(frozen=True)
class Steps:
    """In the order in which they are traced."""

    steps: tuple[Step, ...]


class Needed(enum.Enum):
    """How many of some steps must be left to Python so that the script agrees."""

    ALL = "all"
    ANY = "any"  # one suffices: what makes it diverge is that all of them are traced


@dataclass(frozen=True)
class FoundSteps:
    """steps: left to Python they make the script agree, as many as are `needed`, and none can be taken out.
    alone: the outcome where all other steps of their functions are left to Python: FAIL where these steps by
    themselves make it diverge. inside: of a step that Dynamo traces as a whole (the call of an
    autograd.Function), the steps in it: a graph cannot break there, so which of them is to blame is not
    known."""

    steps: tuple[Step, ...]
    alone: Outcome
    inside: tuple[Step, ...] = ()
    needed: Needed = Needed.ALL
