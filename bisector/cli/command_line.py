"""What the command line asked for: the options as data that resume can read back, settings as users write
them (`-c KEY=VALUE`, YAML files), and the profiles that stand for several options.
"""

from __future__ import annotations

import ast
import json
import os
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from bisector.core.criterion import DTYPE_TOLERANCES
from bisector.core.dtypes import CODES, INTEGERS
from bisector.core.options import Against, Options
from bisector.errors import BadOption
from bisector.explain.build_question import of_range

FAMILIES = ("inductor", "functorch", "dynamo", "backends", "env")
_KEYS: dict[str, Any] = {
    "criterion": (str, dict), "config": dict, "train": bool, "dynamic": bool, "seed": int, "repeat": int
}  # fmt: skip
_CRITERION_KEYS: dict[str, Any] = {"tolerances": (dict, type(None)), "signed_zero": bool, "about": str}
_DTYPES = (*DTYPE_TOLERANCES, *INTEGERS, *CODES)
Tolerances = Mapping[str, tuple[float, float]]


def parse_setting(text: str) -> tuple[str, Any] | None:
    """(full flag name, value) of KEY=VALUE, or None where there is no `=`.

    A name without a module is Inductor's. A value that reads as a JSON value or as the Python for one is that
    value (`true`, `False`, `1`, `0.5`, `none`, `[1, 2]`); anything else, `off` too, is a string.
    """
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        return None
    return full_name(name.strip()), parse_value(value.strip())


def full_name(name: str) -> str:
    """`cpp.simdlen` -> `inductor.cpp.simdlen`; a name with its module stays."""
    return name if name.partition(".")[0] in FAMILIES and "." in name else f"inductor.{name}"


def parse_value(text: str) -> Any:
    """The JSON value that the text spells (a tuple is a list), or the text."""
    words = {"true": True, "false": False, "none": None, "null": None}
    if text.lower() in words:
        return words[text.lower()]
    try:
        return json.loads(json.dumps(ast.literal_eval(text), allow_nan=False))
    except (ValueError, SyntaxError, TypeError, RecursionError):
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
    _check(name, read, _KEYS)
    options = {key: value for key, value in read.items() if key != "criterion"}
    if "config" in options:
        options["config"] = _config(name, options["config"])
    if "criterion" not in read:
        return Profile(name, options=options)
    criterion = _criterion(name, read["criterion"])
    tolerances = _tolerances(name, criterion.get("tolerances") or {})
    return Profile(name, tolerances, criterion.get("signed_zero", False), options)


def _check(name: str, read: Mapping[str, Any], kinds: Mapping[str, Any]) -> None:
    """Raises BadOption for a key that is not among the kinds, and for a value of another type."""
    for key, value in read.items():
        if key not in kinds:
            raise BadOption(f"--profile {name}: unknown key {key}; it may have {', '.join(kinds)}")
        if not isinstance(value, kinds[key]) or (isinstance(value, bool) and kinds[key] is int):
            raise BadOption(f"--profile {name}: {key} cannot be {value!r}; see configs/profiles for examples")


def _config(name: str, settings: Mapping[Any, Any]) -> dict[str, Any]:
    for flag in settings:
        if not isinstance(flag, str):
            hint = "write lines like `cpp.simdlen: 1`"
            raise BadOption(f"--profile {name}: config cannot name {flag!r}; {hint}")
    return {full_name(flag): value for flag, value in settings.items()}


def _criterion(name: str, wanted: str | Mapping[str, Any]) -> Mapping[str, Any]:
    if not isinstance(wanted, str):
        _check(name, wanted, _CRITERION_KEYS)
        return wanted
    criteria = _criteria()
    if wanted not in criteria:
        raise BadOption(f"--profile {name}: there is no criterion {wanted}; one of {', '.join(criteria)}")
    found: Mapping[str, Any] = criteria[wanted]
    return found


def _tolerances(name: str, by_dtype: Mapping[Any, Any]) -> Tolerances:
    found: dict[str, tuple[float, float]] = {}
    for dtype, pair in by_dtype.items():
        if dtype not in _DTYPES:
            raise BadOption(f"--profile {name}: no dtype {dtype}; one of {', '.join(_DTYPES)}")
        if not isinstance(pair, list) or len(pair) != 2:
            raise BadOption(f"--profile {name}: {dtype} needs [rtol, atol], such as [1.0e-3, 0.0]")
        rtol, atol = (_tolerance(name, dtype, value) for value in pair)
        found[dtype] = (rtol, atol)
    return found


def _tolerance(name: str, dtype: str, value: Any) -> float:
    """YAML takes `1e-3` for a text and `true` for a number."""
    if type(value) not in (int, float) or not 0 <= value <= sys.float_info.max:
        shown = reprlib.repr(value)
        hint = "write a finite number that is not negative, such as 1.0e-3"
        raise BadOption(f"--profile {name}: {dtype} cannot be held to {shown}; {hint}")
    return float(value)

# A probe that takes more than this share of the memory, times the lanes, would drive the machine to swap.
MEMORY_SHARE = 0.8


def parse_options(command: str, target: str, given: Mapping[str, Any]) -> Options:
    """The options of one run. Raises BadOption for what does not go together."""
    if (given["rtol"] is None) != (given["atol"] is None):
        raise BadOption("--rtol and --atol go together: give both")
    measures = [name for name in ("rtol", "max_ulp", "cosine") if given[name] is not None]
    if len(measures) > 1:
        names = " and ".join(f"--{name.replace('_', '-')}" for name in measures[:2])
        raise BadOption(f"{names} each say what agrees: give one")
    if given["entry"] is not None and given["call"] is not None:
        raise BadOption("--entry and --call each name the call to examine: leave one out")
    profile = load(given["profile"]) if given["profile"] else Profile("")
    if given.get("every") and given["json_path"] == "-":
        raise BadOption("--all gives more than one result: name a file for --json, or leave it out")
    if given.get("json_lines") and given["json_path"] == "-":
        raise BadOption("--json-lines and --json - both write to stdout: name a file for --json")
    given = _completed(given, profile.options)
    jobs = given["jobs"] or len(os.sched_getaffinity(0))
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return Options(
        target=target,
        command=command,
        rtol=given["rtol"],
        atol=given["atol"],
        max_ulp=given["max_ulp"],
        cosine=given["cosine"],
        profile=profile.name or None,
        tolerances=profile.tolerances,
        signed_zero=given["signed_zero"] or profile.signed_zero,
        config=dict(given["config"]),
        device=given["device"],
        dynamic=given["dynamic"],
        train=given["train"],
        seed=given["seed"],
        repeat=given["repeat"],
        jobs=jobs,
        timeout_s=given["timeout"],
        budget_s=given["budget"],
        memory_bytes=int(total * MEMORY_SHARE / jobs),
        entry=given["entry"],
        call=given["call"],
        every=given.get("every", False),
        trust=given["trust"],
        folder=os.getcwd(),
        against=_against(given.get("against")),
        as_test=given.get("as_test", False),
        builds=of_range(given),
        minimal=not given.get("no_minimize", False),
        trace=given.get("trace"),
    )


def _completed(given: Mapping[str, Any], profile: Mapping[str, Any]) -> dict[str, Any]:
    """What the command line says, and where it says nothing, the profile; their settings together."""
    merged = {**given, "repeat": given["repeat"] or profile.get("repeat", 1)}
    merged |= {name: profile.get(name) for name in ("train", "dynamic", "seed") if given[name] is None}
    return merged | {"config": {**profile.get("config", {}), **dict(given["config"])}}


def _against(path: str | None) -> Against | None:
    """The settings of a YAML file, `FLAG: VALUE` a line. Raises BadOption for any other file."""
    if path is None:
        return None
    hint = "write lines like `inductor.cpp.simdlen: 1`"
    read = read_yaml("--against", path, "name a YAML file of flags", hint)
    if not isinstance(read, dict) or not read or not all(isinstance(name, str) for name in read):
        raise BadOption(f"--against {path}: no flags in it; {hint}")
    return Against(Path(path).name, {full_name(name): value for name, value in read.items()})
