"""Errors that a user can cause or must act on. Each message is one line and says what to do next."""

from __future__ import annotations


class NumbisectError(Exception):
    """Base of all errors that end a run with a line instead of a traceback.

    exit_status: what the command ends with (docs/cli.md).
    """

    exit_status = 2


class BadTarget(NumbisectError):
    """The target cannot be loaded: missing, not Python, raises, never compiles anything."""


class BadOption(NumbisectError):
    """An option has a value that cannot work."""


class MissingTool(NumbisectError):
    """Something the machine must have is not there (a C++ compiler, disk space)."""


class WorkerLost(NumbisectError):
    """The process that holds the subject died and could not be started again."""

    exit_status = 3
