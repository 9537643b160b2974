"""Failures with causes that are known: ten programs of each, of other shapes, names and ops around the cause.

    python -m studies.fuzz.variants FOLDER [VARIANTS]     writes them as scripts
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

SCRIPT = """\
import torch
{settings}
def {name}({parameters}):
{body}

torch.manual_seed({seed})
inputs = ({inputs},)
expected = {name}(*[v.clone() for v in inputs])
actual = torch.compile({name})(*[v.clone() for v in inputs])
torch.testing.assert_close(actual, expected, equal_nan=True{tolerance})
"""
NAMES = ("encode", "attend", "forward", "block", "normalise", "step", "head", "mix", "pool", "score")
# Ops before and after what matters that leave its values alone, as far as they matter.
BEFORE = ("", "{x} = {x}.clone()", "{x} = {x}.reshape({x}.shape)", "{x} = {x} + 0.0", "{x} = {x} * 1.0")
AFTER = ("{y}", "-{y}", "{y}.clone()", "({y}, {y}.shape[0])", "({y}, {y} * 0.5)", "{y}.flatten()")


@dataclass(frozen=True)
class Planted:
    """One cause. body: lines of the function, which end in the value {y}; inputs: expressions of a shape."""

    parameters: tuple[str, ...]
    body: Callable[[random.Random, str], list[str]]
    inputs: Callable[[random.Random], list[str]]
    settings: str = ""
    tolerance: str = ""


def _rows(draw: random.Random, columns: tuple[int, ...] = (16, 33, 64)) -> str:
    return f"{draw.choice((4, 8, 24, 40))}, {draw.choice(columns)}"


def _repeated(times: int, *values: str) -> list[str]:
    return [f"torch.tensor([{each}] * {times})" for each in values]


CAUSES = {
    "cast": Planted(
        ("x",),
        lambda draw, x: [f"y = {x}.half().float() * {draw.choice((3, 5, 0.7))}"],
        lambda draw: [f"torch.rand({_rows(draw)})"],
    ),
    "contraction": Planted(
        ("x", "scale"),
        lambda draw, x: [f"top = ({x} * scale).amax(-1, keepdim=True)", f"y = torch.exp({x} * scale - top)"
                         + draw.choice((".sum(-1)", ".mean(-1)", ".amax(-1)"))],
        lambda draw: [f"torch.randn({_rows(draw, (64, 96))}) * 1e4", "torch.rand(1) * 1e4"],
        settings="import torch._inductor.config\n"
        'torch._inductor.config.cpp.enable_floating_point_contract_flag = "fast"\n',
    ),
    "erf": Planted(
        ("x",),
        lambda draw, x: [f"y = torch.ceil(torch.erf({x} * {draw.choice((0.5, 0.7))}) * 2.0**24)"],
        lambda draw: [f"torch.randn({_rows(draw, (512, 768))})"],
        tolerance=", rtol=0, atol=0",
    ),
    "remainder": Planted(
        ("x", "b"),
        lambda draw, x: [f"y = torch.remainder({x}, b)"],
        lambda draw: _repeated(
            draw.choice((4, 8, 12)), "5.5, -5.5, 1e20, 7.0", 'float("inf"), float("-inf"), 3.0, 0.7'
        ),
    ),
    "std": Planted(
        ("x",),
        lambda draw, x: [f"y = torch.std({x}, dim=1)"],
        lambda draw: [f"torch.randn({_rows(draw)}) * {draw.choice(('1e-30', '3e-30', '1e-29'))}"],
        tolerance=", rtol=1e-4, atol=0",
    ),
    "nearest": Planted(
        ("x",),
        lambda draw, x: [f'y = torch.nn.functional.interpolate({x}, None, (1.3, 1.5), mode="nearest")'],
        lambda draw: [f"torch.rand({draw.choice((1, 2, 3))}, {draw.choice((1, 2))}, 3, 4)"],
    ),
}  # fmt: skip


def script(cause: str, number: int) -> str:
    """The text of one variant; the same for the same number."""
    draw = random.Random(f"{cause}/{number}")
    planted = CAUSES[cause]
    x = draw.choice(("x", "hidden", "values", "q"))
    body = [line.format(x=x) for line in [draw.choice(BEFORE)] if line]
    body += [*planted.body(draw, x), f"return {draw.choice(AFTER).format(y='y')}"]
    return SCRIPT.format(
        settings=planted.settings,
        name=draw.choice(NAMES),
        parameters=", ".join([x, *planted.parameters[1:]]),
        body="\n".join(f"    {line}" for line in body),
        seed=draw.randrange(1000),
        inputs=", ".join(planted.inputs(draw)),
        tolerance=planted.tolerance,
    )


def write(folder: Path, variants: range) -> dict[str, str]:
    """The scripts in a folder, in an order that says nothing; {name of the file: its cause}."""
    folder.mkdir(parents=True, exist_ok=True)
    made = [(cause, number) for cause in CAUSES for number in variants]
    random.Random(len(made)).shuffle(made)
    causes = {}
    for place, (cause, number) in enumerate(made):
        name = f"failure_{variants.start:02}_{place:03}.py"
        (folder / name).write_text(script(cause, number))
        causes[name] = cause
    return causes


if __name__ == "__main__":
    for name, cause in write(Path(sys.argv[1]), range(int(sys.argv[2]) if len(sys.argv) > 2 else 10)).items():
        print(name, cause)
