"""Holds the pages to the program: every command shown is run, every option documented, every link whole."""

from __future__ import annotations

import fnmatch
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bisector.cli.main import main
from tests.command import numbisect
from tests.live_run import LiveRun
from tests.replay.recording import Asked, read, replayed
from tests.replay.runs import RUNS, TRAINING_STEP

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", ROOT / "NOTES.md", ROOT / "CHANGELOG.md"]
PAGES += [*sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "repros").glob("*/README.md"))]
WITH_COMMANDS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]

SHELL = {"sh", "bash", "shell", "console"}  # the marks of code blocks that hold commands
COMMAND = re.compile(r"(?:\.venv/bin/)?((?:numbisect|python3?|pip)(?: .*)?)$")
PATH_TAIL = r"[^\s\"'`]*"

# Command -> the exit status it must have. A run named in a page is replaced by one made here.
SHOWN_RUN = "numbisect-runs/case-1"
WORKED = "tests/e2e/test_worked_cases.py"
RUN_HERE = {
    "numbisect flags": 0,
    "numbisect flags --family fma": 0,
    "numbisect flags --device cuda --json -": 0,
    f"numbisect report {SHOWN_RUN} --format markdown": 0,
    f"numbisect resume {SHOWN_RUN}": 0,
    f"numbisect report {SHOWN_RUN} -v": 0,
    "python repros/softmax_fma/case.py": 1,
    "numbisect explain fma:sub@mul_1": 0,
    "numbisect explain enable_floating_point_contract_flag": 0,
    "numbisect explain amplified-rounding": 0,
    "numbisect doctor": 0,
}
# Command -> the recording from which it is run (tests/replay).
RECORDED = {
    "numbisect flags repros/fp16_round_trip/case.py": "flags-fp16",
    "numbisect check repros/fp16_round_trip/case.py": "check-fp16",
    "numbisect check repros/fp16_round_trip/case.py --profile low-precision": "check-fp16-low-precision",
    "numbisect check repros/fp16_round_trip/case.py --json -": "check-fp16",
    "numbisect check repros/fp16_round_trip/case.py --json-lines": "check-fp16",
}
# Command -> what runs it: a test, or .ci/run, which takes the line out of the README.
RUN_ELSEWHERE = {
    "python3 -m venv .venv": ".ci/run",
    "pip install torch==2.13.0 -e .": ".ci/run",
    "pip install torch==2.13.0 -e '.[dev]'": ".ci/run",
    "python -m pytest": ".ci/run",
    "numbisect minimize repros/softmax_fma/case.py": ".ci/run",
    "numbisect contractions repros/softmax_remat/case.py --arch sm_90": (
        "tests/triton/test_contractions_command.py::test_the_command_of_the_docs_lists_contractions_of_the_worked_case"
    ),
    f"python {SHOWN_RUN}/repro.py": f"{WORKED}::test_the_repro_diverges_alone_and_its_fix_repairs_it",
    f"python {SHOWN_RUN}/repro.py --fixed": f"{WORKED}::test_the_repro_diverges_alone_and_its_fix_repairs_it",
}


# -- commands ---------------------------------------------------------------------------------------------


def shell_lines(page: str) -> Iterator[str]:
    """Lines of the blocks that are marked as shell; of `console` blocks those after a prompt."""
    for mark, body in re.findall(r"^```(\w*)\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        if mark == "console":
            yield from (line[2:] for line in body.splitlines() if line.startswith("$ "))
        elif mark in SHELL:
            yield from body.splitlines()


def commands(page: str) -> Iterator[str]:
    """The single commands of numbisect, Python and pip, without comments and the environment's path."""
    for line in shell_lines(page):
        for part in re.sub(r"\s#.*", "", line).split("&&"):
            if found := COMMAND.match(part.strip()):
                yield found[1]


def shown() -> set[str]:
    return {command for page in WITH_COMMANDS for command in commands(page.read_text(encoding="utf-8"))}


def test_commands_are_found_in_marked_blocks_alone() -> None:
    page = (
        "```sh\npython3 -m venv .venv && .venv/bin/numbisect check a.py  # why\ncd x\n```\n"
        "```console\n$ numbisect doctor\nnumbisect says this\n```\n```\nnumbisect not marked\n```\n"
    )
    assert list(commands(page)) == ["python3 -m venv .venv", "numbisect check a.py", "numbisect doctor"]


def test_every_command_shown_is_run_here_or_by_a_named_test() -> None:
    accounted = {*RUN_HERE, *RECORDED, *RUN_ELSEWHERE}
    assert shown() - accounted == set(), "shown, but run by no test"
    assert accounted - shown() == set(), "in the tables of this file, but shown nowhere"


@pytest.mark.parametrize("runner", sorted(set(RUN_ELSEWHERE.values())))
def test_what_is_said_to_run_a_command_exists(runner: str) -> None:
    path, _, test = runner.partition("::")
    source = (ROOT / path).read_text(encoding="utf-8")
    if test:
        assert re.search(rf"^def {test}\(", source, re.MULTILINE), f"no {test} in {path}"
    else:
        assert os.access(ROOT / path, os.X_OK)


@pytest.mark.parametrize("ending", [r"case\.py", "-m pytest"])
def test_ci_finds_its_two_commands_in_the_readme(ending: str) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert len(re.findall(rf"^python3 -m venv .*{ending}$", readme, re.MULTILINE)) == 1
    assert f"readme_command '{ending}'" in (ROOT / ".ci/run").read_text(encoding="utf-8")


def run_python(arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """In the root of the checkout, as the pages have it."""
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False, timeout=900,
    )


@pytest.mark.parametrize("command", RUN_HERE)
def test_a_command_shown_works(command: str, live: LiveRun, tmp_path: Path) -> None:
    run = live.path
    if " resume " in command:  # which writes
        shutil.copytree(live.path, run := tmp_path / "run")
    program, *arguments = shlex.split(command.replace(SHOWN_RUN, str(run)))
    if program == "python":  # a script of its user's, which fails
        done = run_python(arguments)
        assert (done.returncode, "AssertionError" in done.stderr) == (RUN_HERE[command], True), done.stderr
        return
    done = numbisect(*arguments, folder=ROOT)
    assert done.returncode == RUN_HERE[command], done.stderr
    assert done.stdout.strip()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("command", RECORDED)
def test_a_command_shown_works_on_what_was_recorded(command: str, tmp_path: Path) -> None:
    _, *arguments = shlex.split(command)
    recording = read(RECORDED[command])
    ended = replayed(Asked(tuple(arguments)), recording, tmp_path / "work")
    assert (ended.status, ended.results()) == (recording.status, recording.results)
    assert ended.printed.strip()


def test_the_training_step_that_is_shown_is_a_target(tmp_path: Path) -> None:
    recording = read(TRAINING_STEP)
    ended = replayed(RUNS[TRAINING_STEP], recording, tmp_path / "work")
    assert (ended.status, ended.result["verdict"]["class"]) == (0, "agrees")


def test_the_version_is_that_of_the_project() -> None:
    done = numbisect("--version")
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    version = re.search(r'^version = "(.+)"$', project, re.MULTILINE)
    assert version is not None
    assert done.stdout.split()[-1] == version[1]


# -- options ----------------------------------------------------------------------------------------------

OPTION = re.compile(r"(?<![\w-])-{1,2}[a-z][a-z0-9-]*")
CLI_PAGE = (ROOT / "docs/cli.md").read_text(encoding="utf-8")
TAKES_THE_TABLE = ("minimize", "flags", "check")  # the page says so above its table of options


def section(title: str) -> str:
    """The text under a heading of docs/cli.md; empty where there is no such heading."""
    parts = re.split(r"^## +(.+)$", CLI_PAGE, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(title, "")


def options_in_table() -> set[str]:
    first_cells = re.findall(r"^\|([^|]+)\|", section("Options"), re.MULTILINE)
    return {option for cell in first_cells for option in OPTION.findall(cell)}


def options_of(command: str) -> list[set[str]]:
    """The spellings of each option; `--dynamic` and `--static` are two options."""
    options = [p for p in main.commands[command].params if isinstance(p, click.Option)]
    return [set(names) for p in options for names in (p.opts, p.secondary_opts) if names]


@pytest.mark.parametrize("command", main.commands)
def test_every_option_of_a_command_is_in_its_help_and_documented(command: str) -> None:
    help_text = CliRunner().invoke(main, [command, "--help"]).output
    documented = options_in_table() | set(OPTION.findall(section(command)))
    for spellings in options_of(command):
        assert spellings <= set(OPTION.findall(help_text))
        assert spellings & documented, f"docs/cli.md does not have {sorted(spellings)} of {command}"


@pytest.mark.parametrize("command", main.commands)
def test_every_documented_option_is_one(command: str) -> None:
    documented = set(OPTION.findall(section(command)))
    documented |= options_in_table() if command in TAKES_THE_TABLE else set()
    assert documented - set().union(*options_of(command)) == set()


def test_every_command_is_documented_and_the_reverse() -> None:
    synopsis = set(re.findall(r"^numbisect (\w+)", CLI_PAGE.partition("\n## ")[0], re.MULTILINE))
    assert synopsis == set(main.commands)
    assert all(section(command).strip() for command in main.commands)


# -- links and names --------------------------------------------------------------------------------------


def slug(heading: str) -> str:
    """The anchor that a heading gets on a page of GitHub."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def relative_links() -> Iterator[tuple[Path, str]]:
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
        for link in re.findall(r"\]\(([^)\s]+)\)", text):
            if not re.match(r"\w+:", link):
                yield page, link


LINKS = list(relative_links())


@pytest.mark.parametrize(("page", "link"), LINKS, ids=[f"{p.relative_to(ROOT)}: {link}" for p, link in LINKS])
def test_a_relative_link_leads_somewhere(page: Path, link: str) -> None:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    assert target.exists()
    if anchor:
        headings = re.findall(r"^#+ +(.+)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert anchor in map(slug, headings)


# Where someone's files are, on one machine. Invented people of the examples may have a home.
MACHINE_PATH = re.compile(rf"(?<![\w~.>)/-])/(?:work|root|Users|home/(?!ada/|you/))/?{PATH_TAIL}")
REGISTRY = re.compile(
    r"\b(?:pypi|pythonhosted|npmjs|anaconda|conda|debian|ubuntu|crates)\.(?:org|com|io)\b"
    r"|\bdownload\.pytorch\.org\b|--(?:extra-)?index-url[ =]\S*//|--find-link[s]"  # the option is ours too
)


def tracked_files() -> list[Path]:
    """What git tracks; outside of a repository all that .gitignore does not name."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode == 0 and listed.stdout:
        return [path for name in listed.stdout.split("\0") if name and (path := ROOT / name).is_file()]
    ignored = [line.rstrip("/") for line in (ROOT / ".gitignore").read_text().splitlines() if line]

    def kept(path: Path) -> bool:
        parts = path.relative_to(ROOT).parts
        return not any(fnmatch.fnmatch(part, pattern) for part in parts for pattern in ignored)

    return [path for path in ROOT.rglob("*") if path.is_file() and kept(path)]


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    found = []
    for path in tracked_files():
        text = path.read_text(encoding="utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), 1):
            if hit := pattern.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {hit[0]}")
    return found


def test_no_tracked_file_names_a_path_of_a_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


def test_no_tracked_file_names_a_package_registry() -> None:
    assert lines_with(REGISTRY) == []


@pytest.mark.parametrize("text", ["/{}/x.py", 'open("/{}/a")', "in /{}/b/a.py:3"])
@pytest.mark.parametrize("folder", ["work", "root", "home/bob", "Users/bob"])
def test_a_path_of_a_machine_is_recognized(text: str, folder: str) -> None:
    assert MACHINE_PATH.search(text.format(folder))


@pytest.mark.parametrize("text", ["/home/ada/a.py", "~/work/a.py", "a/root/b", "./work/x", "rework/roots"])
def test_other_paths_are_let_pass(text: str) -> None:
    assert not MACHINE_PATH.search(text)
