"""Make recordings again: `python -m tests.replay [--kept | --anew JOB,...] [NAME...]`, all without a name.

--kept: of the recorded answers, for a change of what is made of them; nothing is run. --anew: of them too,
but for those of some jobs (`repro`, `plain`) and what is not among them, which is run. Shows what differs.
The repro and the report of a worked case become those that are shipped with it.
"""

from __future__ import annotations

import argparse
import difflib
import fnmatch
import tempfile
import time
from pathlib import Path

from tests.known import KNOWN

from .recording import FOLDER, ROOT, Ended, Told, read, record, settled, text_of, write
from .runs import RUNS

SHIPPED = ("repro.py", "report.md")  # beside a worked case, out of its run
COST = "Found by numbisect with "  # begins the line of a report that says what its run took


def ship(case: str, ended: Ended, kept: bool) -> None:
    """kept: not all was run, so the line about the cost stays."""
    for name in SHIPPED:
        path = ROOT / "repros" / case / name
        lines = (ended.run / name).read_text().splitlines(keepends=True)
        if kept:
            costs = [line for line in path.read_text().splitlines(keepends=True) if line.startswith(COST)]
            lines = [costs.pop(0) if costs and line.startswith(COST) else line for line in lines]
        path.write_text("".join(lines))


def left(name: str, anew: str | None) -> tuple[Told, ...]:
    """The recorded answers that are taken as they are. anew: the jobs that are run, None for all."""
    return () if anew is None else tuple(o for o in read(name).answers if o.job not in anew.split(","))


def difference(name: str, now: str) -> list[str]:
    """Lines that a recording has and the one that is kept has not, and the reverse."""
    before = text_of(read(name)).splitlines() if (FOLDER / f"{name}.xz").exists() else []
    return list(difflib.unified_diff(before, now.splitlines(), "before", "now", lineterm="", n=0))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=["*"], help="names of recordings, or patterns of them")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--kept", action="store_true", help="of the recorded answers: nothing is run")
    how.add_argument("--anew", metavar="JOBS", help="run these jobs, by commas, and what is not recorded")
    asked = parser.parse_args()
    for name in (name for name in RUNS if any(fnmatch.fnmatch(name, one) for one in asked.names)):
        begun = time.monotonic()
        with tempfile.TemporaryDirectory() as temporary:
            folder = Path(temporary) / "work"
            if asked.kept:
                recording, ended = settled(RUNS[name], read(name).answers, folder)
            else:
                recording, ended = record(RUNS[name], folder, left(name, asked.anew))
            changed = difference(name, text_of(recording))
            write(name, recording)
            if name in KNOWN:
                ship(name, ended, asked.kept or asked.anew is not None)
        said = "another" if changed else "the same"
        took = f"{len(recording.answers)} answers, {time.monotonic() - begun:.0f} s"
        print(f"{name}: {said}, {took}", flush=True)
        print("\n".join(line[:400] for line in changed[:20]), end="\n" if changed else "", flush=True)


if __name__ == "__main__":
    main()
