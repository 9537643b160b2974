"""What `bisector.attach` costs a fuzzer: on a call that agrees, and to keep one that does not.

    python studies/bench/attach.py

The oracle with and without it take turns, so that a slow moment of the machine meets both; medians of each.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

import bisector

ROUNDS = 300
SIZES = {"16 KiB": (64, 64), "1 MiB": (512, 512)}


def program(x: torch.Tensor) -> torch.Tensor:
    return x.half().float() * 3


def milliseconds(call: Callable[[], object]) -> float:
    before = time.perf_counter()
    call()
    return (time.perf_counter() - before) * 1e3


def passing(shape: tuple[int, ...], folder: Path) -> tuple[float, float]:
    """Median of one call that agrees, without and with `attach`."""
    compiled, x = torch.compile(program), torch.zeros(shape)

    def oracle() -> None:
        torch.testing.assert_close(compiled(x), program(x))

    attached = bisector.attach(folder)(oracle)
    attached()
    pairs = [(milliseconds(oracle), milliseconds(attached)) for _ in range(ROUNDS)]
    plain, with_it = zip(*pairs, strict=True)
    return statistics.median(plain), statistics.median(with_it)


def keeping(shape: tuple[int, ...], folder: Path) -> tuple[float, float]:
    """Median of a call that fails, without `attach` and with the bundle that it then writes."""
    compiled, pairs = torch.compile(program), []
    compiled(torch.zeros(shape))
    for number in range(ROUNDS // 10):
        x = torch.rand(shape) + number

        def failing(x: torch.Tensor = x) -> None:
            torch.testing.assert_close(compiled(x), program(x), rtol=0, atol=0)

        def caught(failing: Callable[[], None] = failing) -> None:
            with contextlib.suppress(AssertionError):
                failing()

        pairs.append((milliseconds(caught), milliseconds(bisector.attach(folder)(failing))))
    plain, with_it = zip(*pairs, strict=True)
    assert len(list(folder.iterdir())) == len(pairs)
    return statistics.median(plain), statistics.median(with_it)


def told(what: str, plain: float, with_it: float) -> str:
    return f"{what} {plain:.3f} ms, attached {with_it:.3f} ms: {with_it - plain:+.3f} ms"


if __name__ == "__main__":
    for name, shape in SIZES.items():
        with tempfile.TemporaryDirectory() as folder:
            print(f"{name}:", told("a call that agrees", *passing(shape, Path(folder))))
            print(f"{name}:", told("one that is kept", *keeping(shape, Path(folder))))
