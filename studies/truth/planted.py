"""Scripts whose truth is known, since it was planted: the judge of the verdict.

A script is drawn from a seed: layers above, what is planted, and where it shows. Nobody chooses the seeds.
The truth is planted in the compiler (a lowering that the script replaces) or in the program (a cast, an
operation that torch leaves undefined), and is no matter of what numbisect says.
"""

from __future__ import annotations

import enum
import random
from collections.abc import Sequence
from dataclasses import dataclass

from bisector.core.verdict import VerdictClass as Class


class Planted(enum.Enum):
    """What is wrong, or is not."""

    BUG = "bug"
    ROUNDING = "rounding"
    ELIDED_CAST = "elided cast"
    UNDEFINED = "undefined"
    RACE = "race"
    RANDOM = "random"


# A difference of rounding is told by accuracy, which can favour compiled; where a step shows it, it is
# amplified. It is never the fault of the compiler.
RIGHT: dict[Planted, frozenset[Class]] = {
    Planted.BUG: frozenset({Class.COMPILED_WORSE}),
    Planted.ROUNDING: frozenset({Class.EQUALLY_ACCURATE, Class.COMPILED_BETTER, Class.AMPLIFIED_ROUNDING}),
    Planted.ELIDED_CAST: frozenset({Class.ELIDED_ROUNDING}),
    Planted.UNDEFINED: frozenset({Class.UNDEFINED}),
    Planted.RACE: frozenset({Class.NONDETERMINISTIC}),
    Planted.RANDOM: frozenset({Class.RANDOM}),
}


@dataclass(frozen=True)
class Truth:
    """A script with what was planted in it, and where it shows (`mask`, `gradient`, …)."""

    seed: int
    planted: Planted
    shows: str
    source: str


PLANT_LOWERING = """from torch._inductor import lowering as L
from torch._inductor.virtualized import ops
L.lowerings[torch.ops.aten.{op}.default] = L.make_pointwise(
    lambda x: {wrong})
"""
PLANT_RACE = """import random as _random
from torch._inductor import lowering as L
@torch.library.custom_op("planted::racing", mutates_args=())
def racing(x: torch.Tensor) -> torch.Tensor:
    y = torch.{op}(x)
    return y + {size} if _random.SystemRandom().random() < {p} else y
racing.register_fake(lambda x: torch.empty_like(x))
L.lowerings[torch.ops.aten.{op}.default] = L.fallback_handler(torch.ops.planted.racing.default)
"""
WRONG = (
    "ops.where(ops.gt(x, ops.constant({t}, torch.float32)), ops.neg(ops.{op}(x)), ops.{op}(x))",
    "ops.where(ops.lt(x, ops.constant(-{t}, torch.float32)), ops.constant(0.5, torch.float32), ops.{op}(x))",
    "ops.mul(ops.{op}(x), ops.constant({scale}, torch.float32))",
    "ops.add(ops.{op}(x), ops.constant({offset}, torch.float32))",
)
# Above what only shows alone: layers that round alike in both, whatever is made of them.
EXACT_ABOVE = ("alone", "relu", "doubled")
OPS = ("sin", "cos", "exp", "tanh", "erf", "log1p", "atan")
ABOVE = {
    "alone": "x",
    "relu": "torch.relu(x) + 0.0",
    "doubled": "x.abs() * 2",
    "linear": "torch.nn.functional.linear(x, w)",
    "layer norm": "torch.nn.functional.layer_norm(x, x.shape[-1:])",
    "gelu": "torch.nn.functional.gelu(x) * 1.5",
    "attention": "torch.softmax(x @ x.transpose(-1, -2) / 8, -1) @ x",
    "two layers": "torch.nn.functional.gelu(torch.nn.functional.linear(x, w)) + x",
}
SHOWS = {
    "values": "h * 1.25 + x.mean()",
    "mask": "h > {at}",
    "code": "torch.floor(h * 64).to(torch.int16)",
    "index": "(h * 8).round().argmax(-1)",
    "integers": "(h * 1000).to(torch.int32) + 3",
    "scalar": "h.mean()",
    "gradient": "h * 1.25",
}


def draw(seed: int) -> Truth:
    """The truth of a seed."""
    rng = random.Random(seed)
    planted = rng.choice(list(Planted))
    return _DRAWN[planted](seed, rng)


def _bug(seed: int, rng: random.Random) -> Truth:
    op = rng.choice(OPS)
    wrong = rng.choice(WRONG).format(
        op=op,
        t=round(rng.uniform(0.5, 3.0), 2),
        scale=rng.choice((1.01, 0.97, 1.3)),
        offset=rng.choice((0.02, 0.5)),
    )
    plant = PLANT_LOWERING.format(op=op, wrong=wrong)
    value = "torch.log1p(h.abs())" if op == "log1p" else f"torch.{op}(h)"
    return _script(seed, rng, Planted.BUG, plant, value, rng.choice(list(SHOWS)))


def _rounding(seed: int, rng: random.Random) -> Truth:
    value = rng.choice((
        "torch.erf(h) * torch.exp(-h.abs())",
        "torch.tanh(h * 1.7) + h * 0.3",
        "(h * 1.1 - h.mean(-1, keepdim=True)).exp()",
        "torch.log1p(h.abs()) / 0.3",
        "h * h.norm(dim=-1, keepdim=True).reciprocal()",
    ))  # fmt: skip
    return _script(seed, rng, Planted.ROUNDING, "", value, rng.choice(list(SHOWS)))


def _elided(seed: int, rng: random.Random) -> Truth:
    narrow = rng.choice(("float16", "bfloat16"))
    value = f"(h * {rng.uniform(0.3, 3):.3f}).to(torch.{narrow}).to(torch.float32)"
    return _script(seed, rng, Planted.ELIDED_CAST, "", value, rng.choice(("values", "scalar", "gradient")))


# Of the casts that do not fit, these are the ones that the kernels of eager and Inductor make otherwise.
def _undefined(seed: int, rng: random.Random) -> Truth:
    value = rng.choice((
        "(h * 1000).to(torch.int8)",
        "(h * 1e5).to(torch.int8).to(torch.float32) + h",
        "(h * 3e9).to(torch.int8)",
        "(h * 1e20).to(torch.int8) + 1",
        "torch.empty(h.shape) * 0.5 + h",
        "torch.empty_like(h) + h",
        "h.new_empty(h.shape) + 1",
    ))
    return _script(seed, rng, Planted.UNDEFINED, "", value, "as it is", EXACT_ABOVE)


def _race(seed: int, rng: random.Random) -> Truth:
    op = rng.choice(OPS)
    plant = PLANT_RACE.format(op=op, size=rng.choice((1e-2, 0.5)), p=rng.choice((0.3, 0.5, 0.9)))
    shows = rng.choice(("values", "mask", "scalar"))
    return _script(seed, rng, Planted.RACE, plant, f"torch.{op}(h.abs())", shows)


def _random(seed: int, rng: random.Random) -> Truth:
    value = rng.choice((
        "torch.nn.functional.dropout(h, 0.3)", "h + torch.randn_like(h) * 0.1", "h * torch.rand(h.shape)",
    ))
    return _script(seed, rng, Planted.RANDOM, "", value, rng.choice(("values", "mask", "scalar")))


_DRAWN = {
    Planted.BUG: _bug, Planted.ROUNDING: _rounding, Planted.ELIDED_CAST: _elided,
    Planted.UNDEFINED: _undefined, Planted.RACE: _race, Planted.RANDOM: _random,
}  # fmt: skip


def _script(
    seed: int,
    rng: random.Random,
    planted: Planted,
    plant: str,
    value: str,
    shows: str,
    layers: Sequence[str] = tuple(ABOVE),
) -> Truth:
    above = rng.choice(layers)
    rows, width = rng.choice(((64, 64), (16, 256), (256, 32), (3, 512)))
    result = SHOWS.get(shows, "h").format(at=round(rng.uniform(-0.5, 0.8), 2))
    exact = planted is Planted.ROUNDING or shows in ("mask", "code", "index", "integers", "as it is")
    compare = "assert_close(k, e, rtol=0, atol=0, equal_nan=True)" if exact else "assert_close(k, e)"
    lines = [
        f"# {planted.value}, shown as {shows}, above it: {above}",
        "import torch",
        *plant.splitlines(),
        f"torch.manual_seed({seed})",
        f"w = torch.randn({width}, {width}) / {width ** 0.5:.4f}",
        f"x = torch.randn({rows}, {width})",
        "def f(x):",
        f"    h = {ABOVE[above]}",
        f"    h = {value}",
        f"    return {result}",
    ]
    if shows == "gradient":
        lines += [
            "def gradient(fn):",
            "    leaf = x.clone().requires_grad_()",
            "    fn(leaf).sum().backward()",
            "    return leaf.grad",
            "e, k = gradient(f), gradient(torch.compile(f))",
        ]
    else:
        lines += ["torch.manual_seed(1)", "e = f(x)", "torch.manual_seed(1)", "k = torch.compile(f)(x)"]
    return Truth(seed, planted, shows, "\n".join([*lines, f"torch.testing.{compare}", ""]))
