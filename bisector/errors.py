"""Errors that a user can cause or must act on. Each message is one line and says what to do next."""

from __future__ import annotations

INTERRUPTED = 130  # the shells' status of a program that Ctrl-C ended
# As the system, compilers and linkers say it.
NO_ROOM = (
    "No space left on device",
    "Disk quota exceeded",
    "File too large",
    "File size limit exceeded",
    "Read-only file system",
)
_OF_THE_MACHINE = (*NO_ROOM, "Killed signal terminated")


class NumbisectError(Exception):
    """Base of all errors that end a run with a line instead of a traceback.

    exit_status: what the command ends with; check_status: the same of `numbisect check`, where 125 tells
    `git bisect run` to skip a commit instead of calling it bad (docs/cli.md).
    """

    exit_status = 2
    check_status = 2


class BadTarget(NumbisectError):
    """The target cannot be loaded: missing, not Python, raises, never compiles anything."""


class AnotherHead(BadTarget):
    """A run was begun about another version of its subject, or in other circumstances, than hold now."""


class BadOption(NumbisectError):
    """An option has a value that cannot work."""


class MissingTool(NumbisectError):
    """Something the machine must have is not there (a C++ compiler, a network)."""

    check_status = 125


class NoAnswer(NumbisectError):
    """The run ended without an answer, by no mistake of the user's."""

    exit_status = 3
    check_status = 125


class WorkerLost(NoAnswer):
    """The process that holds the subject died and could not be started again."""


class OutOfTime(NoAnswer):
    """The target did not end within its time."""


class CannotWrite(NoAnswer):
    """What the run has to keep, or its answer, cannot be written: the disk is full, the folder is gone."""


def first_line(error: BaseException) -> str:
    """Type and first line of an exception's text, for a reason that fits one line."""
    text = str(error).strip().splitlines()
    if not text:
        return type(error).__name__
    # What a compiler says of the machine stands below a first line that says that it failed.
    machine = next((phrase for phrase in _OF_THE_MACHINE if any(phrase in line for line in text[1:])), None)
    return f"{type(error).__name__}: {text[0][:300]}{f' ({machine})' if machine else ''}"
