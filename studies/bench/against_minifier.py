"""Put numbisect beside PyTorch's own accuracy minifier on planted bugs, each run on cold caches of its own.

    python studies/bench/against_minifier.py [SUBJECT...] [--tool NAME]... [--layers N] [--runs N]
        [--timeout S] [--json FILE]

A program, not a test. The subjects are those of subjects/encoder.py. The tools take turns (A B C A B C), so
that a machine that is busy for a while slows all of them. The first of them, the script as it is, is one
compile, which the others are measured in. What a minifier's repro.py does is looked at off the clock.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from minifier import After, minify
from rich.console import Console
from rich.progress import track
from rich.table import Column, Table
from running import answer, causes, cold_folder, last_line, numbisect, probes, run_command

SCRIPT = Path(__file__).resolve().parent / "subjects" / "encoder.py"
SUBJECTS = ("inference", "training")  # what the script does
ONE_COMPILE = "one compile"  # what the ratios are over
OPS_SHOWN = 4  # names of operators in a cell


@dataclass(frozen=True)
class Reading:
    """outcome: in the tool's words. ops: operators of the smallest case, input_numel: elements of all its
    inputs together; None where there is no such case."""

    wall_s: float
    outcome: str
    ops: list[str] | None = None
    input_numel: int | None = None
    probes: int | None = None


@dataclass(frozen=True)
class Run:
    subject: str
    tool: str
    reading: Reading


Tool = Callable[[Path, float, dict[str, str]], Reading]  # of a cold folder, a timeout in seconds, variables


def one_compile(folder: Path, timeout_s: float, variables: dict[str, str]) -> Reading:
    ended = run_command([sys.executable, str(SCRIPT)], folder, timeout_s, variables)
    if ended.status == 0:
        return Reading(ended.wall_s, "ran")
    return Reading(ended.wall_s, "timeout" if ended.status is None else last_line(ended.output))


def ours(folder: Path, timeout_s: float, variables: dict[str, str]) -> Reading:
    ended = run_command(numbisect("minimize", SCRIPT, folder), folder, timeout_s, variables)
    found, why = answer(ended, folder)
    if found is None:
        return Reading(ended.wall_s, why)
    minimal = found["minimal"] or {"ops": None, "input_numel": None}
    ops, input_numel = minimal["ops"], minimal["input_numel"]
    return Reading(ended.wall_s, why or causes(found), ops, input_numel, probes(found))


def minifier(after: After, folder: Path, timeout_s: float, variables: dict[str, str]) -> Reading:
    found = minify(SCRIPT, folder, after, timeout_s, variables)
    if found.left is None:
        return Reading(found.wall_s, found.outcome)
    return Reading(found.wall_s, found.outcome, found.left.ops, found.left.input_numel)


TOOLS: dict[str, Tool] = {
    ONE_COMPILE: one_compile,
    "numbisect minimize": ours,
    **{f"minifier after {after.value}": partial(minifier, after) for after in After},
}


def run_once(tool: str, subject: str, layers: int, timeout_s: float) -> Run:
    variables = {"ENCODER_STEP": subject, "ENCODER_LAYERS": str(layers)}
    with cold_folder() as folder:
        return Run(subject, tool, TOOLS[tool](folder, timeout_s, variables))


def summary(runs: list[Run]) -> list[dict[str, Any]]:
    """One row for each subject and tool. wall_s: the median. ratio: over the median of one compile.

    The rest is that of the run with the most operators left, since a tool is as good as its worst answer.
    """
    rows: list[dict[str, Any]] = []
    for subject, tool in dict.fromkeys((run.subject, run.tool) for run in runs):
        mine = [run.reading for run in runs if (run.subject, run.tool) == (subject, tool)]
        worst = max(mine, key=lambda reading: float("inf") if reading.ops is None else len(reading.ops))
        median = statistics.median(reading.wall_s for reading in mine)
        rows.append({"subject": subject, "tool": tool, "runs": len(mine), **asdict(worst), "wall_s": median})
    compiles = {row["subject"]: row["wall_s"] for row in rows if row["tool"] == ONE_COMPILE}
    for row in rows:
        row["ratio"] = row["wall_s"] / compiles[row["subject"]]
    return rows


def table(rows: list[dict[str, Any]], layers: int) -> Table:
    columns = ("subject", "tool", "wall s", "ratio", "ops left", "input elements", "probes", "outcome")
    title = f"{layers} layers; ratio: wall time over that of {ONE_COMPILE}"
    shown = Table(*(Column(name, overflow="fold") for name in columns), title=title, show_lines=True)
    for row in rows:
        counts = ["-" if row[key] is None else str(row[key]) for key in ("input_numel", "probes")]
        times = (f"{row['wall_s']:.1f}", f"{row['ratio']:.1f}")
        shown.add_row(row["subject"], row["tool"], *times, _ops(row["ops"]), *counts, row["outcome"])
    return shown


def _ops(ops: list[str] | None) -> str:
    if ops is None:
        return "-"
    return f"{len(ops)}: {', '.join(ops)}" if len(ops) <= OPS_SHOWN else str(len(ops))


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Put numbisect beside PyTorch's own accuracy minifier.")
    parser.add_argument("subject", nargs="*", help=f"default: {' '.join(SUBJECTS)}")
    others = [tool for tool in TOOLS if tool != ONE_COMPILE]
    parser.add_argument("--tool", action="append", choices=others, help="this one alone; may be repeated")
    parser.add_argument("--layers", type=int, default=12, help="of the encoder, 2 or more (default 12)")
    parser.add_argument("--runs", type=int, default=1, help="runs of each tool on each subject (default 1)")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for one run (default 1800)")
    parser.add_argument("--json", type=Path, help="write all runs and the rows here")
    given = parser.parse_args()
    unknown = [subject for subject in given.subject if subject not in SUBJECTS]
    if unknown:
        parser.error(f"no such subject: {', '.join(unknown)}; there are {', '.join(SUBJECTS)}")
    if given.layers < 2 or given.runs < 1:
        parser.error("--layers must be at least 2 and --runs at least 1")
    return given


def main() -> int:
    given = arguments()
    tools = [tool for tool in TOOLS if tool == ONE_COMPILE or tool in (given.tool or TOOLS)]
    subjects = given.subject or SUBJECTS
    turns = [(tool, subject) for subject in subjects for _ in range(given.runs) for tool in tools]
    progress = Console(stderr=True)
    runs = [
        run_once(tool, subject, given.layers, given.timeout)
        for tool, subject in track(turns, "running", console=progress, disable=not progress.is_terminal)
    ]
    rows = summary(runs)
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(table(rows, given.layers))
    if given.json:
        kept = {"layers": given.layers, "runs": [asdict(run) for run in runs], "rows": rows}
        given.json.write_text(json.dumps(kept, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
