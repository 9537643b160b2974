"""What the command line asked for: the options as data that resume can read back, settings as users write
them (`-c KEY=VALUE`, YAML files), and the profiles that stand for several options.
"""

from __future__ import annotations

import ast
import json
import reprlib
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import yaml

from bisector import wire
from bisector.core.criterion import DTYPE_TOLERANCES, INTEGERS, NARROW, Criterion
from bisector.errors import BadOption

from .build_question import Question

PROBE_S = 120.0  # for a graph of few calls
_SHAPING = frozenset({"config", "device", "dynamic", "train", "seed", "entry"})
FAMILIES = ("inductor", "functorch", "dynamo", "backends", "env")
_KEYS: dict[str, Any] = {
    "criterion": (str, dict), "config": dict, "train": bool, "dynamic": bool, "seed": int, "repeat": int
}  # fmt: skip
_CRITERION_KEYS: dict[str, Any] = {"tolerances": (dict, type(None)), "signed_zero": bool, "about": str}
_DTYPES = (*DTYPE_TOLERANCES, *INTEGERS, *NARROW)
Tolerances = Mapping[str, tuple[float, float]]


@dataclass(frozen=True)
class Against:
    """A configuration to compare the target's own with. name: of its file; settings: flag -> value."""

    name: str
    settings: Mapping[str, Any]


def probe_timeout(calls: int) -> float:
    """Seconds that a probe of a graph may take: a training step compiles in a quarter of a second for each
    call of its forward graph, and this allows for a busy machine and for a graph with all values returned."""
    return max(PROBE_S, float(calls))


@dataclass(frozen=True)
class Options:
    """One invocation of a probing command.

    command: minimize, flags or check. rtol, atol: both or neither. max_ulp, cosine: as in `Criterion`.
    profile: the name of what gave the tolerances by dtype. config: baseline flags by the names users write.
    dynamic, train: None leaves it to the script. timeout_s: one probe, None for what `probe_timeout` says.
    budget_s: the whole run, None for any time. memory_bytes: one probe, None for no limit. against: of
    `flags` alone. as_test: of `minimize` alone, whether to write a test too. builds: of `minimize` alone,
    what to ask of builds about its repro. trust: whether the target may be unpickled. call: of the recorded
    calls, from 1, the one to examine. every: of `minimize` alone, whether the other calls that diverge are
    explained too. minimal: of `minimize` alone, whether the case is made smaller. trace: the file of the
    profile.
    """

    target: str
    command: str = "minimize"
    rtol: float | None = None
    atol: float | None = None
    max_ulp: int | None = None
    cosine: float | None = None
    profile: str | None = None
    tolerances: Mapping[str, tuple[float, float]] | None = None
    signed_zero: bool = False
    config: Mapping[str, Any] = field(default_factory=dict)
    device: str | None = None
    dynamic: bool | None = None
    train: bool | None = None
    seed: int | None = None
    repeat: int = 1
    jobs: int = 1
    timeout_s: float | None = None
    budget_s: float | None = None
    memory_bytes: int | None = None
    entry: str | None = None
    call: int | None = None
    every: bool = False
    trust: bool = False
    folder: str | None = None
    against: Against | None = None
    as_test: bool = False
    minimal: bool = True
    builds: Question | None = None
    trace: str | None = None

    def to_json(self) -> dict[str, Any]:
        """What a file of a run holds; `from_json` makes equal options of it."""
        return {"command": self.command, **wire.dump(self)}

    @property
    def criterion(self) -> Criterion | None:
        """What the user holds outputs to; None where that is left to the script."""
        by_hand = Criterion(signed_zero=self.signed_zero, strides=True, source="command line")
        if self.rtol is not None and self.atol is not None:
            return replace(by_hand, everywhere=(self.rtol, self.atol))
        if self.max_ulp is not None or self.cosine is not None:
            return replace(by_hand, max_ulp=self.max_ulp, cosine=self.cosine)
        if self.tolerances is None:
            return None
        by_dtype = {dtype: (tolerance,) for dtype, tolerance in self.tolerances.items()}
        return replace(by_hand, by_dtype=by_dtype, source=f"profile {self.profile}")

    def shaping(self) -> dict[str, Any]:
        """Those that shape the answers to what a worker is asked."""
        return {name: value for name, value in asdict(self).items() if name in _SHAPING}

    @classmethod
    def from_json(cls, raw: Mapping[str, Any]) -> Options:
        return wire.load(cls, raw)


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
