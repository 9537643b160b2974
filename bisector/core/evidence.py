"""What a verdict is made of: one call measured in several ways, and how steady each of its two sides is."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from .model import Measurement, OutputMeasurement

# Runs of one compiled program: they miss a race of p = 1/20 with probability 1/27, and a pass rate of 1/10
# with probability 1/800.
MOST_RUNS = 64
# The flag with which compiled draws from the generators of torch that eager draws from.
FALLBACK_RANDOM = "inductor.fallback_random"
NO_REFERENCE = "no float64 reference: "  # begins the note of a worker that says why


@dataclass(frozen=True)
class Rerun:
    """What further runs of one compiled program gave, other bits than its first run.

    count: how many gave about this. against_eager, against_first: that result against eager's, and against
    the first run's.
    """

    count: int
    against_eager: Measurement
    against_first: Measurement


@dataclass(frozen=True)
class Repeated:
    """One compiled program, run several times on the same inputs and random state.

    runs: all of them, the first included. others: the results that are not the first's, bit for bit.
    """

    runs: int
    others: tuple[Rerun, ...] = ()

    @property
    def unlike(self) -> int:
        """Runs that gave other bits than the first."""
        return sum(other.count for other in self.others)


@dataclass(frozen=True)
class Evidence:
    """Measurements of one call; none of them is a judgement.

    default: the default compile against eager, with errors against a float64 run that obeys the casts that
    the program wrote. again: eager against eager with the generators running on; restored: with them put
    back; each None where it is known by other runs, or nothing that differs asks for it. nudged: eager
    against eager with each node moved by one ulp. notes: why there is no reference, or which ops ran narrow.
    alike: where random numbers are drawn, the compile that was set to draw them as eager does.

    widest: the default compile with errors against a float64 run that obeys no cast; None where the program
    casts nothing to a narrower dtype. repeated: the compiled program run again. redrawn: the same program on
    other inputs, where so few elements differ that one input tells nothing. undefined: nodes whose result
    torch leaves undefined for the values they had in eager, each with the reason; undefined_paths: outputs
    that differ at no element but such as change with an undefined value. coarsest: machine epsilon of the
    coarsest float dtype that eager computes in. undeclared: what an operator of the program's
    own does that it does not declare, and what to change; "" where none does. undeclared_paths: outputs that
    change in eager where such operators do as they declare, and an exception that says so. executed: the
    compile in which every cast to a narrower dtype is executed, of which each element says whether rounding
    moves it as far; None where no decision says that one is left out. left_out: the default compile against
    eager without the casts of the program; None where eager does not run so. outside: of outputs that are
    drawn, how many elements lie beyond all that several runs of eager draw, where that is no chance.
    """

    default: Measurement
    again: Measurement | None
    restored: Measurement | None
    nudged: tuple[Measurement, ...]
    notes: tuple[str, ...]
    alike: Measurement | None = None
    widest: Measurement | None = None
    repeated: Repeated | None = None
    redrawn: tuple[Measurement, ...] = ()
    undefined: Mapping[str, str] = field(default_factory=dict)
    undefined_paths: tuple[str, ...] = ()
    coarsest: float = 0.0
    undeclared: str = ""
    undeclared_paths: tuple[str, ...] = ()
    executed: Measurement | None = None
    left_out: Measurement | None = None
    outside: Mapping[str, int] = field(default_factory=dict)

    def nudged_at(self, path: str) -> list[OutputMeasurement]:
        """An output in each run with an ulp at each operation."""
        return [o for one in self.nudged for o in one.outputs if o.path == path]

    def widest_at(self, path: str) -> OutputMeasurement | None:
        """An output with errors against the float64 run that obeys no cast; None without such a run."""
        return _at(self.widest, path)

    def executed_at(self, path: str) -> OutputMeasurement | None:
        """An output where every cast is executed; None where it was not measured so."""
        return _at(self.executed, path)

    def left_out_at(self, path: str) -> OutputMeasurement | None:
        """An output against that of eager without the casts; None where it was not measured so."""
        return _at(self.left_out, path)

    def leaving_out(self, paths: Collection[str]) -> Evidence:
        """The same without these outputs."""

        def kept(one: Measurement | None) -> Any:
            if one is None:
                return None
            return replace(one, outputs=tuple(o for o in one.outputs if o.path not in paths))

        repeated = self.repeated
        if repeated is not None:
            others = (
                replace(o, against_eager=kept(o.against_eager), against_first=kept(o.against_first))
                for o in repeated.others
            )
            repeated = replace(repeated, others=tuple(others))
        return replace(
            self, default=kept(self.default), again=kept(self.again), restored=kept(self.restored),
            nudged=tuple(map(kept, self.nudged)), alike=kept(self.alike), widest=kept(self.widest),
            repeated=repeated, redrawn=tuple(map(kept, self.redrawn)), executed=kept(self.executed),
            left_out=kept(self.left_out),
        )  # fmt: skip

    @classmethod
    def without(cls, failed: Measurement) -> Evidence:
        """Where there was nothing to measure."""
        return cls(failed, failed, failed, (), ())


def _at(measurement: Measurement | None, path: str) -> OutputMeasurement | None:
    outputs = () if measurement is None else measurement.outputs
    return next((o for o in outputs if o.path == path), None)
