"""Settings as users write them: `-c KEY=VALUE`, with or without the module's name, and YAML files."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import yaml

from bisector.errors import BadOption

FAMILIES = ("inductor", "functorch", "dynamo", "backends", "env")


def parse_setting(text: str) -> tuple[str, Any] | None:
    """(full flag name, value) of KEY=VALUE, or None where there is no `=`.

    A name without a module is Inductor's. A value that reads as a Python or JSON constant is one
    (`true`, `False`, `1`, `0.5`, `none`); anything else, `off` too, is a string.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        return None
    return full_name(name.strip()), parse_value(value.strip())


def full_name(name: str) -> str:
    """`cpp.simdlen` -> `inductor.cpp.simdlen`; a name with its module stays."""
    return name if name.partition(".")[0] in FAMILIES and "." in name else f"inductor.{name}"


def parse_value(text: str) -> Any:
    """The constant that the text spells, or the text."""
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def read_yaml(option: str, path: str, missing: str, hint: str) -> Any:
    """What the YAML file that an option names holds. missing, hint: what to do where the file cannot be read,
    and where it is no YAML. Raises BadOption."""
    try:
        return yaml.safe_load(Path(path).read_text())
    except OSError as error:
        raise BadOption(f"{option} {path}: {error.strerror}; {missing}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BadOption(f"{option} {path}: no YAML; {hint}") from error
