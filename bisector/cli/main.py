"""The command line: parse, call the session, exit with its status. torch is never imported here.

Each command imports what it needs itself: `check` starts without git and what reads indexes and wheels.
"""

from __future__ import annotations

import contextlib
import errno
import math
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
from click.exceptions import Exit

from bisector.core.budget import BudgetSpent
from bisector.errors import INTERRUPTED, NumbisectError
from bisector.report import endings
from bisector.runner import crash


class Flag(click.ParamType):
    """KEY=VALUE of `-c`: a flag by the name users write, and its value."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: Any, ctx: Any) -> tuple[str, Any]:
        from .command_line import parse_setting

        if isinstance(value, tuple):
            return value
        parsed = parse_setting(value)
        if parsed is None:
            self.fail(f"{value}: write it as KEY=VALUE, such as cpp.simdlen=1", param, ctx)
        return parsed


class Finite(click.FloatRange):
    """A number in a range. NaN is outside of none, and nothing can be held to it."""

    def convert(self, value: Any, param: Any, ctx: Any) -> float:
        number: float = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value}: write a finite number in the range {self._describe_range()}.", param, ctx)
        return number


PATH = click.Path()  # a shell completes it
_WRITING: list[Callable[[Any], Any]] = [
    click.option("--out", metavar="DIR", type=PATH, help="Run directory; all that the run writes is in it."),
    click.option("--json", "json_path", metavar="FILE", type=PATH, help="Result as JSON; - for stdout."),
]
_TRUST = click.option("--trust", is_flag=True, help="The target may be unpickled, which can run code.")
_PROBING: list[Callable[[Any], Any]] = [
    *_WRITING,
    click.option("--rtol", type=Finite(min=0), help="Relative tolerance (with --atol)."),
    click.option("--atol", type=Finite(min=0), help="Absolute tolerance (with --rtol)."),
    click.option("--max-ulp", type=click.IntRange(min=0), help="Units in the last place that may differ."),
    click.option("--cosine", type=Finite(0, 1), help="Least cosine of an output and eager's."),
    click.option("--profile", metavar="NAME|FILE", help="Tolerances and options under a name."),
    click.option("--signed-zero", is_flag=True, help="Treat -0.0 and +0.0 as different."),
    click.option("-c", "config", type=Flag(), multiple=True, help="Set a config flag in every compile."),
    click.option("--device", help="Where a module target runs; a script chooses for itself."),
    click.option("--dynamic/--static", default=None, help="Compile with dynamic or static shapes."),
    click.option("--train/--infer", default=None, help="Compare gradients too, or the forward alone."),
    click.option("--seed", type=int, help="Random seed, set before the script runs."),
    click.option(
        "--repeat", type=click.IntRange(min=1), help="Trials of each probe.  [default: 1]"
    ),
    click.option("--jobs", type=click.IntRange(min=1), help="Probes at a time; default: one for each core."),
    click.option(
        "--timeout",
        type=Finite(min=1),
        help="Seconds for one probe.  [default: 120, and one for each call of a larger graph]",
    ),
    click.option("--budget", type=Finite(min=1), help="Seconds for the whole run."),
    click.option("--entry", metavar="NAME", help="The compiled function to examine."),
    click.option("--call", type=click.IntRange(min=1), help="The compiled call to examine, from 1."),
    _TRUST,
]
_BUILDS_ARE: list[Callable[[Any], Any]] = [
    click.option(
        "--index-url", "index_urls", metavar="URL", multiple=True,
        help="Where builds are; repeat for nightlies.",
    ),
    click.option(
        "--pytorch-repo", metavar="PATH", type=PATH, help="A clone of PyTorch, to go down to single commits."
    ),
    click.option(
        "--cpu-stubs", is_flag=True, help="Import CUDA wheels without NVIDIA's libraries, on a CPU."
    ),
]
_WATCHING: list[Callable[[Any], Any]] = [
    click.option("--json-lines", is_flag=True, help="On stdout, a JSON object for each thing learned."),
    click.option("--trace", metavar="FILE", type=PATH, help="Write where the time goes, as a Chrome trace."),
]
_OUTPUT: list[Callable[[Any], Any]] = [
    click.option("-v", "--verbose", is_flag=True, help="The whole report, and every probe on stderr."),
    click.option("-q", "--quiet", is_flag=True, help="Write only errors to stderr."),
    click.option("--no-color", is_flag=True, help="No colour."),
]


def options(*groups: list[Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Add groups of options to a command, in order."""

    def add(command: Any) -> Any:
        for option in reversed([o for group in groups for o in group]):
            command = option(command)
        return command

    return add


def status_of(error: BaseException, arguments: Sequence[str]) -> int:
    """The exit status of a command that ended with this error, which is printed in one line on stderr.

    Never 0 or 1, which are answers: an error of numbisect's own is 125 of `check`, so that `git bisect run`
    skips the commit, and 3 of the other commands.
    """
    check = arguments[:1] == ["check"]
    if isinstance(error, BrokenPipeError) and _asks_help(arguments):
        return 0
    if isinstance(error, KeyboardInterrupt):
        line, status = "interrupted", INTERRUPTED
    elif isinstance(error, NumbisectError):
        line, status = str(error), error.check_status if check else error.exit_status
    elif isinstance(error, BudgetSpent):
        line, status = f"{endings.words(error.reason)}, and there is no answer yet", 125 if check else 3
    elif isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        line, status = "no further file can be opened; raise the limit (`ulimit -n`)", 125 if check else 3
    else:
        line, status = crash.crash_line(error, arguments), 125 if check else 3
    with contextlib.suppress(OSError):  # nobody reads stderr: the status still tells
        click.echo(f"numbisect: {line}", err=True)
    return status


class Commands(click.Group):
    """A group of commands that return their exit status, and end with no other."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            raise Exit(super().invoke(ctx))
        except (click.ClickException, Exit):
            raise  # usage, --help
        except BaseException as error:
            raise Exit(status_of(error, sys.argv[1:])) from error

    def main(self, *given: Any, **named: Any) -> Any:
        open_standard_streams()
        try:
            super().main(*given, **named)
        except SystemExit as left:
            # click ends with 1 where the reader of its own texts has seen enough.
            sys.exit(0 if _asks_help(sys.argv[1:]) else left.code)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it must not look like an answer
            sys.exit(status_of(error, sys.argv[1:]))


def _asks_help(arguments: Sequence[str]) -> bool:
    return not {"-h", "--help", "--version"}.isdisjoint(arguments)


def open_standard_streams() -> None:
    """What was closed is opened on nothing: else the next file to be opened, the journal say, would be what
    a child process takes for its stdout."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)
    sys.stdout = sys.stdout or open(1, "w", closefd=False)  # noqa: SIM115 - it stays open
    sys.stderr = sys.stderr or open(2, "w", closefd=False)  # noqa: SIM115


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="numbisect")
def main() -> None:
    """Say why a PyTorch model gives one answer in eager mode and another under torch.compile."""


@main.command()
@click.argument("target", type=PATH)
@click.option("--as-test", is_flag=True, help="Write the minimal case as a test for pytest too.")
@click.option("--no-minimize", is_flag=True, help="Stop with cause and fix; do not make the case smaller.")
@click.option("--all", "every", is_flag=True, help="Explain every call that diverges, each in a run.")
@click.option("--builds", metavar="GOOD..BAD", help="Then ask which build of PyTorch it came with.")
@options(_BUILDS_ARE, _PROBING, _WATCHING, _OUTPUT)
def minimize(target: str, **given: Any) -> int:
    """The whole job: verdict, flags, causes, repairs, minimal case, repro and report."""
    from .commands import probing

    return probing("minimize", target, given)


@main.command()
@click.argument("target", type=PATH, required=False)
@click.option("--against", metavar="FILE", type=PATH, help="YAML of flags: which make the difference.")
@click.option("--family", metavar="NAME", help="Of the catalogue, this family alone.")
@options(_PROBING, _WATCHING, _OUTPUT)
def flags(target: str | None, **given: Any) -> int:
    """Which flags matter for TARGET; without TARGET, the catalogue of numerics flags."""
    if target is None:
        from .flags_catalogue import list_flags

        return list_flags(given)
    from .commands import walk_flags

    return walk_flags(target, given)


@main.command()
@click.argument("target", type=PATH)
@options(_PROBING, _WATCHING, _OUTPUT)
def check(target: str, **given: Any) -> int:
    """The verdict alone: exits 0 where compiled agrees, 1 where it diverges, 125 where it cannot tell."""
    from .commands import probing

    return probing("check", target, given)


@main.command()
@click.argument("target", type=PATH)
@click.option("--good", metavar="BUILD", help="An older build that agrees; default: walk back to one.")
@click.option("--bad", metavar="BUILD", default="installed", show_default=True, help="One that diverges.")
@click.option(
    "--find-fix", "looked_for", flag_value="fixed", default="introduced", help="Look for its fix."
)
@click.option(
    "--cxx", "compilers", metavar="NAME", multiple=True,
    help="Ask which of these C++ compilers shows it; repeat.",
)
@options(_WRITING)
@click.option("--repeat", type=click.IntRange(min=1), default=1, help="Runs of each build.  [default: 1]")
@click.option(
    "--timeout", type=Finite(min=1), default=600, help="Seconds for one run.  [default: 600]"
)
@click.option("--budget", type=Finite(min=1), help="Seconds for the whole search.")
@click.option(
    "--cache-gib", type=click.IntRange(min=0), default=20, help="Of environments kept.  [default: 20]"
)
@click.option(
    "--prefetch", type=click.IntRange(0, 2), default=1, help="Builds fetched ahead.  [default: 1]"
)
@options(_BUILDS_ARE, _OUTPUT)
def builds(target: str, **given: Any) -> int:
    """Which build of PyTorch introduced a repro's divergence or fixed it, or which C++ compiler shows it.

    BUILD: a release (2.11, 2.12.1), a nightly's date (2026-08-14), installed, latest, or a commit.
    """
    from . import commands

    return commands.builds(target, given)


@main.command()
@click.argument("target", type=PATH)
@click.option("--arch", default="sm_90", show_default=True, help="The GPU to compile for: sm_80, sm_90.")
@click.option("--call", type=click.IntRange(min=1), help="The recorded call, from 1.  [default: 1]")
@click.option("--json", "json_path", metavar="FILE", type=PATH, help="As JSON; - for stdout.")
@_TRUST
def contractions(target: str, **given: Any) -> int:
    """Which products are contracted into sums in the code for a GPU. None is needed: nothing is run on it."""
    from . import contractions as listing

    return listing.contractions(target, given)


@main.command()
@click.argument("paths", metavar="PATH...", type=PATH, nargs=-1)
@click.option("--watch", metavar="DIR", multiple=True, help="Go on with what appears there, until Ctrl-C.")
@click.option("--ray", metavar="ADDRESS", help="Run the jobs on this Ray cluster.")
@click.option("--again", is_flag=True, help="Start over: forget the failures that the folder knows.")
@options(_PROBING, _OUTPUT)
def triage(paths: tuple[str, ...], **given: Any) -> int:
    """Many failures, clustered by cause: what a fuzzer left, folders of scripts, bundles.

    --out is a folder that grows: run it again with more failures, and only the new ones are worked on.
    """
    from . import triage_command

    return triage_command.triage(paths, given)


@main.command()
@click.argument("run", metavar="RUN", type=PATH)
@click.option(
    "--format", "form", type=click.Choice(["text", "markdown", "html", "json"]), default="text",
    show_default=True,
)
@click.option("--open", "in_browser", is_flag=True, help="Show the page in a browser.")
@click.option("-v", "--verbose", is_flag=True, help="All of the text, not what fits a screen.")
@click.option("--no-color", is_flag=True, help="No colour.")
def report(run: str, form: str, in_browser: bool, **given: Any) -> int:
    """Print the report of a finished run again."""
    from . import past_runs

    return past_runs.show(run) if in_browser else past_runs.report(run, form, given)


@main.command()
@click.argument("run", metavar="RUN", type=PATH)
@options(_WRITING[1:])
@click.option("--budget", type=Finite(min=1), help="Seconds for the rest of the run.")
@click.option("--again", is_flag=True, help="Start over: nothing is taken from the run but its options.")
@options(_OUTPUT)
def resume(run: str, **given: Any) -> int:
    """Go on where a run stopped; probes in its journal are not run again."""
    from . import commands

    return commands.resume(run, given)


@main.command()
@click.argument("word", required=False)
def explain(word: str | None) -> int:
    """What a kind of decision, a flag or a verdict is; without WORD, which there are."""
    from . import glossary

    return glossary.explain(word)


@main.command()
def doctor() -> int:
    """What works on this machine, what is missing, and what that costs."""
    from . import doctor as checks

    return checks.run(Path.cwd())


if __name__ == "__main__":
    main()
