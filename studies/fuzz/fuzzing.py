"""A fuzzer of torch.compile around `bisector.attach`: each program that diverges leaves a bundle.

    python -m studies.fuzz.fuzzing FOLDER [COUNT] [SEED]

FOLDER/programs/NUMBER.py  the programs, each a script of its own
FOLDER/bundles/            of those that diverge, in folders that begin with the program's number
FOLDER/ran.jsonl           a line for each program: how it ended
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch
from hypothesis import HealthCheck, Phase, given, seed, settings

import bisector
from bisector.errors import first_line
from studies.fuzz.grammar import programs

AT_ONCE = 2  # processes
CHUNK = 20  # programs of one process: code that crashes takes the rest of it along
WAITED_S = 900
OURS = str(Path(bisector.__file__).parent)


def generated(count: int, number: int = 0) -> list[str]:
    """That many programs, the same for the same number; none twice."""
    texts: dict[str, None] = {}

    @seed(number)
    @settings(
        max_examples=2 * count, database=None, deadline=None, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )  # fmt: skip
    @given(programs())
    def collect(text: str) -> None:
        texts[text] = None

    collect()
    return list(texts)[:count]


def ran(script: Path, bundles: Path) -> dict[str, Any]:
    """How one program ended in this process: agrees, diverges (with its bundles, or why there is none), or
    raises (with the error; a bug of torch's, which is no divergence, or of numbisect's)."""
    torch._dynamo.reset()
    begun = time.perf_counter()
    end: dict[str, Any] = {"number": script.stem, "outcome": "agrees"}
    try:
        with bisector.attach(bundles, name=script.stem) as scope:
            exec(compile(script.read_text(), str(script), "exec"), {"__name__": "__main__"})
        if scope.bundles:
            end |= {"outcome": "diverges", "bundles": [bundle.name for bundle in scope.bundles]}
    except AssertionError as error:
        end |= {"outcome": "diverges", "bundles": [], "problem": scope.problem or str(error)}
    except Exception as error:  # noqa: BLE001 - whatever a program nobody chose raises is its end
        innermost = traceback.extract_tb(error.__traceback__)[-1].filename
        said = f"{type(error).__name__}: {first_line(error)}"
        end |= {"outcome": "raises", "problem": said, "ours": innermost.startswith(OURS)}
    return end | {"seconds": round(time.perf_counter() - begun, 2)}


def fuzz(folder: Path, count: int, number: int = 0) -> list[dict[str, Any]]:
    """Runs generated programs in processes of their own; returns how each ended. `died` is an end too."""
    (folder / "programs").mkdir(parents=True)
    scripts = []
    for place, text in enumerate(generated(count, number)):
        scripts.append(folder / "programs" / f"p{place:03}.py")
        scripts[-1].write_text(text)
    parts = [scripts[start :: AT_ONCE] for start in range(AT_ONCE)]
    chunks = [[part[start : start + CHUNK] for start in range(0, len(part), CHUNK)] for part in parts]
    ends: list[dict[str, Any]] = []
    with ThreadPoolExecutor(AT_ONCE) as lanes:
        for told in lanes.map(lambda lane: [end for chunk in lane for end in _chunk(folder, chunk)], chunks):
            ends += told
    ends.sort(key=lambda end: str(end["number"]))
    (folder / "ran.jsonl").write_text("".join(json.dumps(end) + "\n" for end in ends))
    return ends


def _chunk(folder: Path, scripts: Sequence[Path]) -> list[dict[str, Any]]:
    """In one process after the other, until each program has ended in one."""
    ends: list[dict[str, Any]] = []
    while len(ends) < len(scripts):
        left = [str(script) for script in scripts[len(ends) :]]
        command = [sys.executable, "-m", "studies.fuzz.fuzzing", "--run", str(folder / "bundles"), *left]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=WAITED_S)
            printed, why = done.stdout, f"exit status {done.returncode}"
        except subprocess.TimeoutExpired as late:
            printed = (late.stdout or b"").decode()
            why = f"no end in {WAITED_S} s"
        told = [json.loads(line) for line in printed.splitlines() if line.startswith('{"number"')]
        ends += told
        if len(told) < len(left):
            ends.append({"number": Path(left[len(told)]).stem, "outcome": "died", "problem": why})
    return ends


def main(arguments: Sequence[str]) -> None:
    if arguments[0] == "--run":
        for script in arguments[2:]:
            print(json.dumps(ran(Path(script), Path(arguments[1]))), flush=True)
        return
    ends = fuzz(Path(arguments[0]), *map(int, arguments[1:]))
    for outcome in ("agrees", "diverges", "raises", "died"):
        print(outcome, sum(end["outcome"] == outcome for end in ends))


if __name__ == "__main__":
    main(sys.argv[1:])
