"""When two outputs agree: tolerances, by output or by dtype."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

# The defaults of torch.testing.assert_close (torch/testing/_comparison.py, _DTYPE_PRECISIONS);
# what is not here (integers, bool, float8) is compared exactly.
DTYPE_TOLERANCES: dict[str, tuple[float, float]] = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


@dataclass(frozen=True)
class Criterion:
    """Compiled agrees where |compiled - eager| <= atol + rtol*|eager|; NaN equals NaN, infinities must match.

    everywhere: tolerances for every output (command line), or None.
    by_path: tolerances for single outputs (the script's own assert_close), by output path.
    by_dtype: tolerances for a smaller graph, whose outputs are other nodes: an output of the dtype that
    diverged is held to the tolerance it diverged under, others to their dtype's default.
    source: where the tolerances come from, in words, for the report.
    """

    everywhere: tuple[float, float] | None = None
    by_path: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    by_dtype: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    signed_zero: bool = False
    source: str = "defaults of torch.testing.assert_close"

    def tolerance(self, path: str, dtype: str) -> tuple[float, float]:
        """(rtol, atol) for an output of that path and dtype (`float32`, without `torch.`)."""
        if self.everywhere is not None:
            return self.everywhere
        if path in self.by_path:
            return self.by_path[path]
        return self.by_dtype.get(dtype, DTYPE_TOLERANCES.get(dtype, (0.0, 0.0)))

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Criterion:
        every = raw["everywhere"]
        return cls(
            everywhere=None if every is None else (every[0], every[1]),
            by_path={path: (r, a) for path, (r, a) in raw["by_path"].items()},
            by_dtype={dtype: (r, a) for dtype, (r, a) in raw["by_dtype"].items()},
            signed_zero=raw["signed_zero"],
            source=raw["source"],
        )

    def for_smaller(self, outputs: Iterable[tuple[str, str]]) -> Criterion:
        """The criterion of a reduced graph; `outputs` are (path, dtype) of what diverged in the whole.

        Of two tolerances for one dtype the stricter holds, as it does between two comparisons of one output.
        """
        held: dict[str, tuple[float, float]] = {}
        for path, dtype in outputs:
            tolerance = self.tolerance(path, dtype)
            held[dtype] = min(held.get(dtype, tolerance), tolerance)
        return replace(self, by_path={}, by_dtype=held)
