"""Which tests catch a fault of numbisect's own: `python -m studies.planted [--only TEXT] [--out FILE]`.

Each fault is planted into a clone of the last commit. Run in turn, up to the first test that fails: the quick
tests that are likely to see it, all quick tests, the live tests that are likely to, all live tests. Takes a
minute for a fault that is caught where it is likely to be, and ten for one that is not.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path

from .faults import FAULTS, Fault

ROOT = Path(__file__).resolve().parents[2]
STOP_AT_FIRST = ["-x", "-q", "-p", "no:cacheprovider", "--no-header"]
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)
MOST_S = 1800.0  # for one lane


@dataclass(frozen=True)
class Caught:
    """lane: "quick" or "live"; None where no test failed. by: the test that failed first."""

    name: str
    group: str
    lane: str | None
    by: str


def clone(folder: Path) -> Path:
    """The last commit, with a Python that imports it and otherwise what this one imports."""
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / ".venv")], check=True)
    [packages] = (folder / ".venv/lib").glob("*/site-packages")
    beside = sysconfig.get_paths()["purelib"]
    (packages / "clone.pth").write_text(f"{folder}\nimport site; site.addsitedir({beside!r})\n")
    return folder / ".venv/bin/python"


def first_failure(python: Path, folder: Path, *arguments: str) -> str | None:
    """The first test that fails; None where none does."""
    command = [str(python), "-m", "pytest", *STOP_AT_FIRST, *arguments]
    variables = {**os.environ, "PYTHONHASHSEED": "random"}
    try:
        done = subprocess.run(
            command, cwd=folder, env=variables, capture_output=True, text=True, check=False, timeout=MOST_S
        )
    except subprocess.TimeoutExpired:
        return f"no end within {MOST_S:g} s"
    if done.returncode in (0, 5):  # 5: none of these tests is in that lane
        return None
    found = FAILED.search(done.stdout)
    return found[1] if found else done.stdout.strip()[-200:]


def caught(fault: Fault, python: Path, folder: Path, whole: bool) -> Caught:
    """Plant the fault, run the lanes, and take it out. whole: where the likely tests of a lane pass, all."""
    file = folder / "bisector" / fault.file
    before = file.read_text(encoding="utf-8")
    if before.count(fault.old) != 1:
        raise ValueError(f"{fault.name}: its text does not stand once in {fault.file}")
    if missing := [name for name in fault.likely if not (folder / name).exists()]:
        raise ValueError(f"{fault.name}: no {missing[0]}")
    file.write_text(before.replace(fault.old, fault.new), encoding="utf-8")
    try:
        for lane in ("quick", "live"):
            marks = ["-m", "live"] if lane == "live" else []
            for tests in (["-n", "0", *fault.likely], [] if whole else None):
                if tests is not None and (by := first_failure(python, folder, *marks, *tests)):
                    return Caught(fault.name, fault.group, lane, by)
    finally:
        file.write_text(before, encoding="utf-8")
    return Caught(fault.name, fault.group, None, "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="faults whose name or group has this text")
    parser.add_argument("--part", default="1/1", help="N/M: every Mth fault from the Nth")
    parser.add_argument("--likely", action="store_true", help="the likely tests alone, not whole lanes")
    parser.add_argument("--out", type=Path, help="a line of JSON for each fault")
    asked = parser.parse_args()
    part, parts = map(int, asked.part.split("/"))
    faults = [f for f in FAULTS if asked.only in f.name or asked.only in f.group][part - 1 :: parts]
    lanes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory(prefix="planted-") as temporary:
        python = clone(folder := Path(temporary) / "clone")
        for fault in faults:
            found = caught(fault, python, folder, whole=not asked.likely)
            lanes[found.lane or "no lane"] += 1
            print(f"| {found.group} | {found.name} | {found.lane or '**none**'} | {found.by} |", flush=True)
            if asked.out is not None:
                with asked.out.open("a") as file:
                    file.write(json.dumps(asdict(found)) + "\n")
    print(", ".join(f"{count} {lane}" for lane, count in lanes.items()))


if __name__ == "__main__":
    main()
