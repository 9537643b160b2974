"""What `numbisect builds` was asked, as data that resume can read back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bisector.builds import stubs
from bisector.builds.bounds import BoundKind, parse_bound
from bisector.errors import BadOption

INTRODUCED, FIXED = "introduced", "fixed"


@dataclass(frozen=True)
class Question:
    """target: the repro, empty while `minimize` has none yet. good: None walks back over releases until one
    agrees. looked_for: whether the build that `introduced` the divergence, or the one that `fixed` it;
    every: all changes, not one. index_urls: of releases, and of nightlies after it. cache_bytes: what the
    environments may take. prefetch: builds that are fetched before they are asked. cpu_stubs: stubs stand in
    for NVIDIA's libraries. pytorch_repo: a clone of PyTorch, for commits as bounds and for those between two
    nightlies. build_command: what builds a commit where its Python alone will not do. timeout_s: for one run
    of the repro.
    """

    target: str
    good: str | None
    bad: str
    looked_for: str = INTRODUCED
    every: bool = False
    index_urls: tuple[str, ...] = ()
    repeat: int = 1
    timeout_s: float = 600.0
    budget_s: float | None = None
    cache_bytes: int = 20 << 30
    prefetch: int = 1
    cpu_stubs: bool = False
    pytorch_repo: str | None = None
    build_command: str | None = None
    command: str = "builds"

    def __post_init__(self) -> None:
        """Raises BadOption for bounds that leave no range, before anything is fetched."""
        if self.cpu_stubs:
            stubs.check_machine()
        bounds = [parse_bound(bound) for bound in (self.good, self.bad) if bound is not None]
        commits = [bound for bound in bounds if bound.kind is BoundKind.COMMIT]
        if self.pytorch_repo is not None and len(commits) == 1:
            raise BadOption(f"{commits[0]} is a commit; name a second one, or two builds")
        if self.pytorch_repo is None and commits:
            raise BadOption(f"{commits[0]}: for commits, name a clone of PyTorch with --pytorch-repo")
        if self.pytorch_repo is None and self.build_command is not None:
            raise BadOption("--build-command builds commits; name a clone of PyTorch with --pytorch-repo")
        if self.good is not None and parse_bound(self.good) == parse_bound(self.bad):
            raise BadOption(f"--good and --bad are both {self.good}; name two builds")
        if self.good is None and self.looked_for == FIXED:
            raise BadOption("--find-fix needs --good, the later build that agrees; name it, such as latest")

    @property
    def of_commits(self) -> bool:
        """Whether both bounds are commits, so that no index is read."""
        return parse_bound(self.bad).kind is BoundKind.COMMIT

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

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Question:
        return cls(**{**raw, "index_urls": tuple(raw["index_urls"])})
