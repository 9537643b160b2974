"""What the command line asked for, as data that resume can read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from .builds.question import Question

PROBE_S = 120.0  # for a graph of few calls
_SHAPING = frozenset({"config", "device", "dynamic", "train", "seed", "entry"})


@dataclass(frozen=True)
class Against:
    """A configuration to compare the target's own with. name: of its file; settings: flag -> value."""

    name: str
    settings: Mapping[str, Any]


def probe_timeout(calls: int) -> float:
    """Seconds that a probe of a graph may take: a training step compiles in a quarter of a second for each
    call of its forward graph, and this allows for a busy machine and for a graph with all values returned."""
    return max(PROBE_S, float(calls))


@dataclass(frozen=True)
class Options:
    """One invocation of a probing command.

    command: minimize, flags or check. rtol, atol: both or neither. profile: the name of what gave the
    tolerances by dtype. config: baseline flags by the names users write. dynamic, train: None leaves it to
    the script. timeout_s: one probe, None for what `probe_timeout` says. budget_s: the whole run, None for
    any time. memory_bytes: one probe, None for no limit. against: of `flags` alone. as_test: of `minimize`
    alone, whether to write a test too. builds: of `minimize` alone, what to ask of builds about its repro.
    trust: whether the target may be unpickled.
    """

    target: str
    command: str = "minimize"
    rtol: float | None = None
    atol: float | None = None
    profile: str | None = None
    tolerances: Mapping[str, tuple[float, float]] | None = None
    signed_zero: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None
    dynamic: bool | None = None
    train: bool | None = None
    seed: int | None = None
    repeat: int = 1
    jobs: int = 1
    timeout_s: float | None = None
    budget_s: float | None = None
    memory_bytes: int | None = None
    entry: str | None = None
    trust: bool = False
    folder: str | None = None
    against: Against | None = None
    as_test: bool = False
    builds: Question | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    def shaping(self) -> dict[str, Any]:
        """Those that shape the answers to what a worker is asked."""
        return {name: value for name, value in asdict(self).items() if name in _SHAPING}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Options:
        against, builds = raw.get("against"), raw.get("builds")
        told = {
            "against": Against(**against) if against else None,
            "builds": Question.from_json(builds) if builds else None,
        }
        return cls(**{**raw, **told})
