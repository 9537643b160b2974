"""What numbisect says of planted truths, beside what they are: `python -m studies.truth.matrix --count 200`.

Each script is run by `numbisect check`, in a process of its own. A planted truth that does not show on this
machine (the script's own comparison holds in plain Python) is counted apart.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from studies.truth.planted import RIGHT, Planted, Truth, draw

LIMIT_S = 300


@dataclass(frozen=True)
class Said:
    """The class that was said of a truth, with its reason; shown: whether the script itself shows it."""

    truth: Truth
    verdict: str
    reason: str
    shown: bool

    @property
    def right(self) -> bool:
        return self.verdict in {kind.value for kind in RIGHT[self.truth.planted]}

    @property
    def counts(self) -> bool:
        """Not a truth that neither the script nor numbisect sees."""
        return self.shown or self.verdict != "agrees"


def ask(truth: Truth, folder: Path) -> Said:
    script = folder / f"truth_{truth.seed}.py"
    script.write_text(truth.source)
    plain = subprocess.run([sys.executable, script], capture_output=True, timeout=LIMIT_S, check=False)
    told = folder / f"truth_{truth.seed}.json"
    run = ["check", str(script), "--out", str(folder / f"run_{truth.seed}"), "--json", str(told), "-q"]
    done = subprocess.run(
        [sys.executable, "-m", "bisector", *run], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    if not told.exists():
        return Said(truth, "no answer", done.stderr.strip()[-200:], plain.returncode != 0)
    verdict = json.loads(told.read_text())["verdict"]
    return Said(truth, verdict["class"], verdict["reason"], plain.returncode != 0)


def table(said: Sequence[Said]) -> str:
    """Rows: what was planted; columns: what was said, with how many."""
    counted = Counter((one.truth.planted, one.verdict) for one in said if one.counts)
    columns = sorted({verdict for _, verdict in counted})
    lines = ["| planted | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for planted in Planted:
        cells = (str(counted[planted, verdict] or "") for verdict in columns)
        lines.append(f"| {planted.value} | " + " | ".join(cells) + " |")
    right = sum(one.right for one in said if one.counts)
    total = sum(one.counts for one in said)
    lines += ["", f"{right} of {total} right; {len(said) - total} of {len(said)} did not show."]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--lanes", type=int, default=2)
    given = parser.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    truths = [draw(seed) for seed in range(given.first, given.first + given.count)]
    said: list[Said] = []
    with ThreadPoolExecutor(given.lanes) as lanes:
        for one in lanes.map(lambda truth: ask(truth, given.out), truths):
            said.append(one)
            if one.counts and not one.right:
                first = one.truth.source.partition("\n")[0]
                print(f"seed {one.truth.seed}: {first}: {one.verdict}: {one.reason}", flush=True)
    print(table(said))


if __name__ == "__main__":
    main()
