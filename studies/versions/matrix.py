"""The worked cases on other releases of torch, each in an environment of its own, as a table.

    python -m studies.versions.matrix VERSION... [--cases NAME,NAME] [--folder FOLDER] [--out FILE]

Where this machine has no GPU, wheels for CUDA run with stand-ins for NVIDIA's libraries, as `numbisect builds
--cpu-stubs` makes them. Exits 1 where a case got another answer than is known of it. The environments stay in
the folder.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from types import MappingProxyType
from typing import Any

from packaging.requirements import Requirement
from pypi_simple import PYPI_SIMPLE_ENDPOINT

from bisector.builds import index
from bisector.builds.environments import Environments
from bisector.builds.predicate import Interpreter
from bisector.core.kinds import KINDS
from bisector.explain import environment
from tests.known import KNOWN, has_the_known_answer

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 60 << 30  # bytes of all environments
CASE_S = 900.0  # for one case; the slowest takes three minutes on two cores


@dataclass(frozen=True)
class Answered:
    """wrong: the answer where it is not as known of the case, else empty. hooks_off: kinds whose hooks do not
    work in this torch, with the reason; not_here: kinds of which it takes no decision."""

    case: str
    wrong: str
    seconds: float
    hooks_off: Mapping[str, str]
    not_here: Mapping[str, str]


def environments(versions: Sequence[str], folder: Path) -> Iterator[tuple[str, Interpreter]]:
    """Each release of torch with this numbisect, made in the folder where it is not there."""
    url = os.environ.get("UV_DEFAULT_INDEX", PYPI_SIMPLE_ENDPOINT)
    files = {wheel.version.public: wheel for wheel in index.wheels(url)}
    made = Environments(folder, LIMIT, cpu_stubs=not environment.has_gpu())
    for version in versions:
        interpreter = made.interpreter(files[version])
        _install(interpreter.python)
        yield version, interpreter


def _install(python: Path) -> None:
    """numbisect and what it needs, but for torch, which is there."""
    asked = map(Requirement, metadata.requires("numbisect") or ())
    own = [r for r in asked if r.marker is None or r.marker.evaluate({"extra": ""})]
    needed = [str(r) for r in own if r.name != "torch"]
    uv = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--python", str(python)]
    subprocess.run([*uv, *needed], check=True)
    subprocess.run([*uv, "--no-deps", "--editable", str(ROOT)], check=True)


def numbisect(
    arguments: Sequence[str],
    interpreter: Interpreter,
    folder: Path,
    variables: Mapping[str, str] = MappingProxyType({}),
) -> subprocess.CompletedProcess[str]:
    """A command of numbisect with that interpreter's torch, its caches in the folder."""
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder / "kernels")}
    return subprocess.run(
        [str(interpreter.python), "-m", "bisector", *arguments],
        env={**os.environ, **interpreter.variables, **caches, **variables},
        capture_output=True, text=True, timeout=CASE_S, check=False,
    )  # fmt: skip


def answered(case: str, interpreter: Interpreter, folder: Path) -> Answered:
    """What numbisect says of a worked case with that interpreter's torch."""
    out = folder / case
    shutil.rmtree(out, ignore_errors=True)  # of an earlier matrix
    done = numbisect(
        ["minimize", str(ROOT / "repros" / case / "case.py"), "--out", str(out)], interpreter, folder
    )
    found = out / "result.json"
    if not found.exists():
        said = done.stderr.strip().splitlines()
        return Answered(case, said[-1] if said else f"status {done.returncode}", 0.0, {}, {})
    result: dict[str, Any] = json.loads(found.read_text(encoding="utf-8"))
    return Answered(
        case, wrong(case, result), result["seconds"]["total"], result["hooks_off"], result["not_here"]
    )


def wrong(case: str, result: dict[str, Any]) -> str:
    try:
        has_the_known_answer(case, result)
    except AssertionError:
        causes = " and ".join(" + ".join(c["decisions"]) for c in result["causes"]) or "no cause"
        return f"{result['verdict']['class']}, {causes}"
    return ""


def row(version: str, answers: Sequence[Answered]) -> str:
    """A row of the table in Markdown."""
    right = [a for a in answers if not a.wrong]
    elsewhere = {kind.name for kind in KINDS.values() if kind.devices}  # those that need a GPU
    off = dict(kind for a in answers for kind in a.hooks_off.items())
    none = dict(kind for a in answers for kind in a.not_here.items() if kind[0] not in elsewhere)
    told = [*_reasons("not examined", off), *_reasons("no such decision", none)]
    return f"| {version} | {len(right)} of {len(answers)} | {'; '.join(told) or 'nothing'} |"


def _reasons(what: str, kinds: Mapping[str, str]) -> Iterator[str]:
    yield from (f"{what}: `{kind}` ({reason})" for kind, reason in kinds.items())


def main() -> int:
    asked = argparse.ArgumentParser()
    asked.add_argument("versions", nargs="+", metavar="VERSION")
    asked.add_argument("--cases", default=",".join(KNOWN))
    asked.add_argument("--folder", type=Path)
    asked.add_argument("--out", type=Path)
    given = asked.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="numbisect-versions-"))
    lines = ["| torch | worked cases answered as known | what is off |", "|---|---|---|"]
    failed = False
    for version, interpreter in environments(given.versions, folder):
        answers = []
        for case in given.cases.split(","):
            answers.append(answered(case, interpreter, folder / f"{version}-runs"))
            said = answers[-1].wrong or "as known"
            print(f"{version} {case}: {said} ({answers[-1].seconds:.0f} s)", flush=True)
        failed |= any(a.wrong for a in answers)
        lines.append(row(version, answers))
    print("\n".join(lines))
    if given.out:
        given.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
