"""`--profile`: a criterion by name, or a file with a criterion and options of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from bisector.errors import BadOption

from .settings import full_name, read_yaml

_KEYS: dict[str, Any] = {
    "criterion": (str, dict), "config": dict, "train": bool, "dynamic": bool, "seed": int, "repeat": int
}  # fmt: skip
Tolerances = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Profile:
    """What a profile asks for. tolerances: by dtype, None where it leaves them alone; options: of the command
    line, by the names of `Options`."""

    name: str
    tolerances: Tolerances | None = None
    signed_zero: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def load(wanted: str) -> Profile:
    """A profile by the name of a criterion or of an example, or by its file. Raises BadOption."""
    criteria = _criteria()
    if wanted in criteria:
        return _profile(wanted, {"criterion": wanted})
    shipped = _examples().joinpath(f"{wanted}.yaml")
    if shipped.is_file():
        return _profile(wanted, yaml.safe_load(shipped.read_text()))
    hint = "see configs/profiles for examples"
    read = read_yaml("--profile", wanted, f"name a YAML file, or one of {', '.join(names())}", hint)
    if not isinstance(read, dict):
        raise BadOption(f"--profile {wanted}: no settings in it; {hint}")
    return _profile(Path(wanted).name, read)


def names() -> list[str]:
    """The criteria, then the examples that are shipped."""
    return [*_criteria(), *sorted(Path(entry.name).stem for entry in _examples().iterdir())]


def _examples() -> Traversable:
    return resources.files("bisector.configs").joinpath("profiles")


def _criteria() -> dict[str, Any]:
    text = resources.files("bisector.configs").joinpath("criteria.yaml").read_text()
    criteria: dict[str, Any] = yaml.safe_load(text)
    return criteria


def _profile(name: str, read: Mapping[str, Any]) -> Profile:
    for key, value in read.items():
        if key not in _KEYS:
            raise BadOption(f"--profile {name}: unknown key {key}; it may have {', '.join(_KEYS)}")
        if not isinstance(value, _KEYS[key]) or (isinstance(value, bool) and _KEYS[key] is int):
            raise BadOption(f"--profile {name}: {key} cannot be {value!r}; see configs/profiles for examples")
    options = {key: value for key, value in read.items() if key != "criterion"}
    if "config" in options:
        options["config"] = {full_name(flag): value for flag, value in options["config"].items()}
    if "criterion" not in read:
        return Profile(name, options=options)
    criterion = _criterion(name, read["criterion"])
    return Profile(name, _tolerances(name, criterion), bool(criterion.get("signed_zero")), options)


def _criterion(name: str, wanted: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(wanted, str):
        return wanted
    criteria = _criteria()
    if wanted not in criteria:
        raise BadOption(f"--profile {name}: there is no criterion {wanted}; one of {', '.join(criteria)}")
    found: Mapping[str, Any] = criteria[wanted]
    return found


def _tolerances(name: str, criterion: Mapping[str, Any]) -> Tolerances:
    found: dict[str, tuple[float, float]] = {}
    for dtype, pair in (criterion.get("tolerances") or {}).items():
        match pair:
            case [int() | float() as rtol, int() | float() as atol] if rtol >= 0 and atol >= 0:
                found[str(dtype)] = (float(rtol), float(atol))
            case _:
                raise BadOption(f"--profile {name}: {dtype} needs [rtol, atol], neither of them negative")
    return found
