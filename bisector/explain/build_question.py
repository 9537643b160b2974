"""What `numbisect builds` was asked, as data that resume can read back."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bisector.core.options import COMPILER, FIXED, Question
from bisector.errors import BadOption, BadTarget, MissingTool

from ..builds.bounds import BoundKind, parse_bound

# Where uv and pip look first, too: the variables by which users name an index of their own.
INDEX_VARIABLES = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL")
# What says where builds are, and means nothing where none is asked.
WHERE = {"index_urls": "--index-url", "pytorch_repo": "--pytorch-repo", "cpu_stubs": "--cpu-stubs"}


# What the extra `builds` installs, by the names that are imported.
PACKAGES = ("elftools", "git", "pypi_simple", "remotezip", "requests")
INSTALL = "install them with: pip install 'numbisect[builds]'"


def missing_packages() -> list[str]:
    """What builds need and this environment lacks."""
    return [name for name in PACKAGES if importlib.util.find_spec(name) is None]


def check_packages() -> None:
    """Raises MissingTool where some are missing."""
    if missing := missing_packages():
        raise MissingTool(f"to ask builds of PyTorch needs {', '.join(missing)}; {INSTALL}")


def checked(asked: Question) -> Question:
    """The same question. Raises BadOption for bounds that leave no range, before anything is fetched."""
    if asked.compilers:
        _check_compilers(asked)
        return asked
    if asked.cpu_stubs:
        from bisector.builds import stubs  # reads ELF files: not imported where nobody asks for stubs

        stubs.check_machine()
    bounds = [parse_bound(bound) for bound in (asked.good, asked.bad) if bound is not None]
    commits = [bound for bound in bounds if bound.kind is BoundKind.COMMIT]
    if asked.pytorch_repo is not None and len(commits) == 1:
        raise BadOption(f"{commits[0]} is a commit; name a second one, or two builds")
    if asked.pytorch_repo is None and commits:
        raise BadOption(f"{commits[0]}: for commits, name a clone of PyTorch with --pytorch-repo")
    if asked.good is not None and parse_bound(asked.good) == parse_bound(asked.bad):
        raise BadOption(f"--good and --bad are both {asked.good}; name two builds")
    if asked.good is None and asked.looked_for == FIXED:
        raise BadOption("--find-fix needs --good, the later build that agrees; name it, such as latest")
    return asked


def _check_compilers(asked: Question) -> None:
    if asked.good is not None or asked.looked_for != COMPILER or asked.bad != BoundKind.INSTALLED.value:
        raise BadOption("--cxx asks of the installed build alone; leave out --good, --bad and --find-fix")
    if len(set(asked.compilers)) < 2:
        raise BadOption("--cxx: name at least two compilers, each with a --cxx of its own")
    if missing := [name for name in asked.compilers if shutil.which(name) is None]:
        raise BadOption(f"--cxx {missing[0]}: no such program; install it, or name another")


def of_commits(asked: Question) -> bool:
    """Whether both bounds are commits, so that no index is read."""
    return parse_bound(asked.bad).kind is BoundKind.COMMIT


def question(target: str, given: Mapping[str, Any]) -> Question:
    """The question of a command line. Raises BadTarget or BadOption for one that cannot be asked."""
    path = Path(target)
    repro = path / "repro.py" if path.is_dir() else path
    if not repro.is_file():
        advice = "name a repro, or the folder of a run that has one"
        raise BadTarget(f"{target}: no repro there; {advice}")
    of_compilers = given["compilers"] and given["looked_for"] != FIXED
    asked = Question(
        target=str(repro.resolve()),
        good=given["good"],
        bad=given["bad"],
        looked_for=COMPILER if of_compilers else given["looked_for"],
        index_urls=_index_urls(given),
        repeat=given["repeat"],
        timeout_s=given["timeout"],
        budget_s=given["budget"],
        cache_bytes=given["cache_gib"] << 30,
        prefetch=given["prefetch"],
        cpu_stubs=given["cpu_stubs"],
        pytorch_repo=_clone(given),
        compilers=tuple(given["compilers"]),
    )
    return checked(asked)


def of_range(given: Mapping[str, Any]) -> Question | None:
    """What `minimize --builds GOOD..BAD` asks of the repro that is yet to be written; None without it.

    Without GOOD releases are walked back; without BAD it is the installed build. Raises BadOption for what
    is no range, and for options that say where builds are when none is asked; MissingTool where packages are
    missing.
    """
    text = given.get("builds")
    if text is None:
        for option in WHERE:
            if given.get(option):
                advice = "name the builds to ask with --builds GOOD..BAD"
                raise BadOption(f"{WHERE[option]}: {advice}")
        return None
    check_packages()
    good, dots, bad = text.partition("..")
    if not dots:
        raise BadOption(f"--builds {text}: not a range; write GOOD..BAD, such as 2.10..installed")
    asked = Question(
        target="",
        good=good or None,
        bad=bad or BoundKind.INSTALLED.value,
        index_urls=_index_urls(given),
        cpu_stubs=given["cpu_stubs"],
        pytorch_repo=_clone(given),
    )
    return checked(asked)


def _index_urls(given: Mapping[str, Any]) -> tuple[str, ...]:
    named = (os.environ.get(variable) for variable in INDEX_VARIABLES)
    if indexes := tuple(given["index_urls"]) or tuple(filter(None, named))[:1]:
        return indexes
    from pypi_simple import PYPI_SIMPLE_ENDPOINT  # a quarter of a second, which only `builds` should wait

    return (PYPI_SIMPLE_ENDPOINT,)


def _clone(given: Mapping[str, Any]) -> str | None:
    return given["pytorch_repo"] and str(Path(given["pytorch_repo"]).resolve())
