"""PyTorch's accuracy minifier, run on a script as its manual says, and what it ended with.

The manual: run the script with TORCHDYNAMO_REPRO_AFTER and TORCHDYNAMO_REPRO_LEVEL=4. Where a graph's output
is off, that writes minifier_launcher.py and stops; the launcher, run without arguments, minifies. What it has
so far is repro.py in the working folder. Both files set what the script set in torch's configs, so a planted
bug is in them too.
"""

from __future__ import annotations

import ast
import math
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from running import Ended, last_line, run_command

LOG_PREFIX = re.compile(r"^[A-Z]\d{4} \S+ \d+ \S+\] (\[\S+\] )?")  # of torch's log: level, date, time, place
FROM_A_QUERY = ">>  "  # starts the lines that a query's own process printed
OVERLOAD = re.compile(r"^torch\.ops\.(\w+\.\w+)\.\w+$")


class After(Enum):
    """After which stage the graph is taken: AOTAutograd's, of ATen operators, or Dynamo's, of torch calls.

    With torch 2.13 the latter found nothing on a CPU, not in a graph of two ops either: its check hands the
    compiled graph the list of inputs as one input, and takes the error for agreement.
    """

    AOT = "aot"
    DYNAMO = "dynamo"


@dataclass(frozen=True)
class Left:
    """A repro: the operators of its graph, in order, and the elements of all its inputs together."""

    ops: list[str]
    input_numel: int


@dataclass(frozen=True)
class Minified:
    """wall_s: of the script and the launcher. outcome: the minifier's last words, and what repro.py does."""

    wall_s: float
    left: Left | None
    outcome: str


def minify(script: Path, folder: Path, after: After, timeout_s: float, variables: dict[str, str]) -> Minified:
    """Run the script and the launcher, in `timeout_s` together, and then, off the clock, the repro."""
    debug = {"TORCH_COMPILE_DEBUG_DIR": str(folder)}
    asked = {"TORCHDYNAMO_REPRO_AFTER": after.value, "TORCHDYNAMO_REPRO_LEVEL": "4"}
    found = run_command([sys.executable, str(script)], folder, timeout_s, {**variables, **debug, **asked})
    launchers = sorted(folder.glob("torch_compile_debug/*/minifier/minifier_launcher.py"))
    if not launchers:
        return Minified(found.wall_s, None, f"wrote no launcher: {_words(found)}")
    repro = folder / "tmp" / "repro.py"
    repro.unlink(missing_ok=True)  # the script's own has the whole graph, and nothing was minified yet
    rest_s = timeout_s - found.wall_s
    minified = run_command([sys.executable, str(launchers[0])], folder, rest_s, {**variables, **debug})
    wall_s, outcome = found.wall_s + minified.wall_s, _words(minified)
    if not repro.exists():
        return Minified(wall_s, None, f"{outcome}; no repro.py")
    again = run_command([sys.executable, str(repro)], folder, timeout_s, {**variables, **debug})
    holds = "diverges" if "AccuracyError" in again.output else f"does not diverge ({_words(again)})"
    return Minified(wall_s, _left(repro.read_text()), f"{outcome}; repro.py {holds}")


def _words(ended: Ended) -> str:
    if ended.status is None:
        return "timeout"
    own = [line for line in ended.output.splitlines() if not line.startswith(FROM_A_QUERY)]
    return LOG_PREFIX.sub("", last_line("\n".join(own)))


def _left(repro: str) -> Left:
    calls = [node for node in ast.walk(ast.parse(repro)) if isinstance(node, ast.Call)]
    shapes = [call.args[1] for call in calls if ast.unparse(call.func) == "reader.tensor"]
    return Left(list(_ops(repro)), sum(math.prod(ast.literal_eval(shape)) for shape in shapes))


def _ops(repro: str) -> Iterator[str]:
    """A node is an assignment in `forward`; one that only takes an item of a value, or drops it, is no op."""
    functions = (node for node in ast.walk(ast.parse(repro)) if isinstance(node, ast.FunctionDef))
    forward = next(function for function in functions if function.name == "forward")
    for node in forward.body:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            if isinstance(node.value, ast.Call):
                yield OVERLOAD.sub(r"\1", ast.unparse(node.value.func))
            elif isinstance(node.value, (ast.BinOp, ast.UnaryOp, ast.Compare)):
                yield ast.unparse(node.value)
