"""What a command was asked, as data: the options of a probing command, and the question of builds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from .criterion import Criterion

INTRODUCED, FIXED, COMPILER = "introduced", "fixed", "compiler"  # what is looked for among builds


@dataclass(frozen=True)
class Question:
    """target: the repro, empty while `minimize` has none yet. good: None walks back over releases until one
    agrees. looked_for: whether the build that `introduced` the divergence, the one that `fixed` it, or which
    C++ `compiler` shows it. compilers: those that are asked then, by name or path.
    index_urls: of releases, and of nightlies after it. cache_bytes: what the environments may take. prefetch:
    builds that are fetched before they are asked. cpu_stubs: stubs stand in for NVIDIA's libraries.
    pytorch_repo: a clone of PyTorch, for commits as bounds and for those between two nightlies. timeout_s:
    for one run of the repro.
    """

    target: str
    good: str | None
    bad: str
    looked_for: str = INTRODUCED
    index_urls: tuple[str, ...] = ()
    repeat: int = 1
    timeout_s: float = 600.0
    budget_s: float | None = None
    cache_bytes: int = 20 << 30
    prefetch: int = 1
    cpu_stubs: bool = False
    pytorch_repo: str | None = None
    compilers: tuple[str, ...] = ()
    command: str = "builds"

    @property
    def before(self) -> str | None:
        """The older bound, as it was written."""
        return self.good if self.looked_for == INTRODUCED else self.bad

    @property
    def after(self) -> str:
        """The newer bound, as it was written."""
        newer = self.bad if self.looked_for == INTRODUCED else self.good
        assert newer is not None, "a question for a fix has both bounds"
        return newer

_SHAPING = frozenset({"config", "device", "dynamic", "train", "seed", "entry"})


@dataclass(frozen=True)
class Against:
    """A configuration to compare the target's own with. name: of its file; settings: flag -> value."""

    name: str
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Options:
    """One invocation of a probing command.

    command: minimize, flags or check. rtol, atol: both or neither. max_ulp, cosine: as in `Criterion`.
    profile: the name of what gave the tolerances by dtype. config: baseline flags by the names users write.
    dynamic, train: None leaves it to the script. timeout_s: one probe, None for what `probe_timeout` says.
    budget_s: the whole run, None for any time. memory_bytes: one probe, None for no limit. against: of
    `flags` alone. as_test: of `minimize` alone, whether to write a test too. builds: of `minimize` alone,
    what to ask of builds about its repro. trust: whether the target may be unpickled. call: of the recorded
    calls, from 1, the one to examine. every: of `minimize` alone, whether the other calls that diverge are
    explained too. minimal: of `minimize` alone, whether the case is made smaller. trace: the file of the
    profile.
    """

    target: str
    command: str = "minimize"
    rtol: float | None = None
    atol: float | None = None
    max_ulp: int | None = None
    cosine: float | None = None
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
    call: int | None = None
    every: bool = False
    trust: bool = False
    folder: str | None = None
    against: Against | None = None
    as_test: bool = False
    minimal: bool = True
    builds: Question | None = None
    trace: str | None = None

    @property
    def criterion(self) -> Criterion | None:
        """What the user holds outputs to; None where that is left to the script."""
        by_hand = Criterion(signed_zero=self.signed_zero, strides=True, source="command line")
        if self.rtol is not None and self.atol is not None:
            return replace(by_hand, everywhere=(self.rtol, self.atol))
        if self.max_ulp is not None or self.cosine is not None:
            return replace(by_hand, max_ulp=self.max_ulp, cosine=self.cosine)
        if self.tolerances is None:
            return None
        by_dtype = {dtype: (tolerance,) for dtype, tolerance in self.tolerances.items()}
        return replace(by_hand, by_dtype=by_dtype, source=f"profile {self.profile}")

    def shaping(self) -> dict[str, Any]:
        """Those that shape the answers to what a worker is asked."""
        return {name: value for name, value in asdict(self).items() if name in _SHAPING}
