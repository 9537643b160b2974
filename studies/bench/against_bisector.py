"""Time numbisect beside torch's own bisector on the same scripts, each run on cold caches of its own.

    python studies/bench/against_bisector.py [SCRIPT...] [--runs N] [--timeout S] [--json FILE]

A program, not a test. Without SCRIPT it takes every repros/*/case.py. The tools take turns (A B C A B C), so
that a machine that is busy for a while slows all of them. torch's bisector exits 0 whatever it found; its
answer is the line with `BisectionResult(`. Its own state is in the cache folder.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import track
from rich.table import Table
from running import Ended, answer, causes, cold_folder, last_line, numbisect, probes, run_command

ROOT = Path(__file__).resolve().parents[2]
BISECTOR = "torch bisector"  # what the ratios are over
# Numbers in the table.
COLUMNS = (("known_s", ".1f"), ("wall_s", ".1f"), ("cpu_s", ".1f"), ("probes", "g"), ("ratio", ".2f"))
# numbisect says so on stderr once a second process has confirmed cause and fix.
_CONFIRMED = re.compile(r"^\[ *([\d.]+) s\] confirmed: ", re.MULTILINE)


@dataclass(frozen=True)
class Tool:
    """command: from a script and a fresh folder to what is run. read: the answer in its output and folder."""

    name: str
    command: Callable[[Path, Path], list[str]]
    read: Callable[[Ended, Path], Reading]


@dataclass(frozen=True)
class Reading:
    """answer: what the tool named, None where it gave no answer; why: then the reason, as far as it told.
    known_s: when cause and fix were confirmed, where the tool says so before its end."""

    answer: str | None
    why: str = ""
    probes: int | None = None
    known_s: float | None = None


@dataclass(frozen=True)
class Run:
    """One run. cpu_s: user and system time of the tool and of all processes that it waited for."""

    script: str
    tool: str
    wall_s: float
    cpu_s: float
    reading: Reading


def ours(command: str, read: Callable[[dict[str, Any]], str]) -> Tool:
    """A numbisect command; `read` gives the answer in its result.json."""

    def reading(ended: Ended, folder: Path) -> Reading:
        found, why = answer(ended, folder)
        if found is None or why:
            return Reading(None, why, probes(found) if found else None)
        said = _CONFIRMED.search(ended.output)
        return Reading(read(found), "", probes(found), float(said[1]) if said else None)

    return Tool(f"numbisect {command}", partial(numbisect, command), reading)


def _flags(found: dict[str, Any]) -> str:
    return " or ".join(fix["id"] for fix in found["fixes"])


def _bisector_command(script: Path, _: Path) -> list[str]:
    return [sys.executable, "-m", "torch._inductor.compiler_bisector", "run", sys.executable, str(script)]


def _bisector_reading(ended: Ended, _: Path) -> Reading:
    if ended.status is None:
        return Reading(None, "timeout")
    found = re.search(r"BisectionResult\((.*)\)", ended.output)
    return Reading(found[1]) if found else Reading(None, last_line(ended.output))


def _plain_command(script: Path, _: Path) -> list[str]:
    return [sys.executable, str(script)]


TOOLS = (
    Tool("one cold run", _plain_command, lambda ended, folder: Reading("the script itself")),
    ours("minimize", causes),
    ours("flags", _flags),
    Tool(BISECTOR, _bisector_command, _bisector_reading),
)


def run_once(tool: Tool, script: Path, timeout_s: float) -> Run:
    """Run a tool on a script with nothing compiled before."""
    with cold_folder() as folder:
        ended = run_command(tool.command(script, folder), folder, timeout_s)
        return Run(_name(script), tool.name, ended.wall_s, ended.cpu_s, tool.read(ended, folder))


def _name(script: Path) -> str:
    return f"{script.parent.name}/{script.name}"


def summary(runs: list[Run]) -> list[dict[str, Any]]:
    """One row for each script and tool: medians over its runs.

    ratio: the bisector's wall time over the tool's. None unless both gave an answer in every run, since the
    time of a run without one says nothing.
    """
    rows: list[dict[str, Any]] = []
    for script, tool in dict.fromkeys((run.script, run.tool) for run in runs):
        mine = [run for run in runs if (run.script, run.tool) == (script, tool)]
        missing = [run.reading.why for run in mine if run.reading.answer is None]
        probes = [run.reading.probes for run in mine if run.reading.probes is not None]
        known = [run.reading.known_s for run in mine if run.reading.known_s is not None]
        rows.append({
            "script": script, "tool": tool, "runs": len(mine),
            "wall_s": statistics.median(run.wall_s for run in mine),
            "cpu_s": statistics.median(run.cpu_s for run in mine),
            "probes": statistics.median(probes) if probes else None,
            "known_s": statistics.median(known) if known else None,
            "answers": list(dict.fromkeys(run.reading.answer for run in mine if run.reading.answer)),
            "missing": missing,
        })
    for row in rows:
        bisector = next(o for o in rows if (o["script"], o["tool"]) == (row["script"], BISECTOR))
        answered = not row["missing"] and not bisector["missing"]
        row["ratio"] = bisector["wall_s"] / row["wall_s"] if answered else None
    return rows


def table(rows: list[dict[str, Any]]) -> Table:
    columns = ("script", "tool", "confirmed at s", "wall s", "user+sys s", "probes", "ratio", "answer")
    title = f"medians; ratio: wall time of {BISECTOR} over that of the tool"
    shown = Table(*columns, title=title, show_lines=True)
    for row in rows:
        answers = list(row["answers"])
        if row["missing"]:
            answers.append(f"NO ANSWER in {len(row['missing'])} of {row['runs']}: {row['missing'][0]}")
        numbers = [_number(row[key], form) for key, form in COLUMNS]
        shown.add_row(row["script"], row["tool"], *numbers, "\n".join(answers))
    return shown


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def main() -> int:
    parser = argparse.ArgumentParser(description="Time numbisect beside torch's own compiler_bisector.")
    parser.add_argument("script", nargs="*", type=Path, help="default: repros/*/case.py")
    parser.add_argument("--runs", type=int, default=3, help="runs of each tool on each script (default 3)")
    parser.add_argument("--timeout", type=float, default=1800, help="seconds for one run (default 1800)")
    parser.add_argument("--json", type=Path, help="write all runs and the medians here")
    given = parser.parse_args()
    scripts = [path.resolve() for path in given.script] or sorted(ROOT.glob("repros/*/case.py"))
    absent = [str(path) for path in scripts if not path.is_file()]
    if absent or given.runs < 1:
        parser.error(f"no such file: {', '.join(absent)}" if absent else "--runs must be at least 1")
    turns = [(tool, script) for script in scripts for _ in range(given.runs) for tool in TOOLS]
    progress = Console(stderr=True)
    runs = [
        run_once(tool, script, given.timeout)
        for tool, script in track(turns, "running", console=progress, disable=not progress.is_terminal)
    ]
    rows = summary(runs)
    Console(width=None if sys.stdout.isatty() else 160, markup=False).print(table(rows))
    if given.json:
        kept = {"runs": [asdict(run) for run in runs], "medians": rows}
        given.json.write_text(json.dumps(kept, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
