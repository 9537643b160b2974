"""The state of torch around a compiled call: taken in the script's thread, put back in each probe.

Grad mode, autocast and (since torch 2.12) the values of the config modules belong to a thread, and the
random generators move on with every draw; so a probe that is to repeat the user's call sets all of them.
"""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from ..core.fix_source import ARGUMENT

# The config modules whose values a script may set, by the name users write (docs/words.md, "flag").
CONFIG_MODULES = {
    "inductor": "torch._inductor.config",
    "functorch": "torch._functorch.config",
    "dynamo": "torch._dynamo.config",
}
# Attributes of torch.backends that change numbers, as dotted paths below torch.backends.
BACKEND_FLAGS = (
    "mkldnn.enabled",
    "mkldnn.deterministic",
    "mkldnn.matmul.fp32_precision",
    "mkldnn.conv.fp32_precision",
    "mkldnn.rnn.fp32_precision",
    "cuda.matmul.allow_tf32",
    "cuda.matmul.allow_fp16_reduced_precision_reduction",
    "cuda.matmul.allow_bf16_reduced_precision_reduction",
    "cudnn.enabled",
    "cudnn.allow_tf32",
    "cudnn.benchmark",
    "cudnn.deterministic",
    "fp32_precision",
    "cuda.matmul.fp32_precision",
    "cudnn.conv.fp32_precision",
    "cudnn.rnn.fp32_precision",
)
# Their defaults as torch's documentation has them; the others have none that holds on every machine.
_BACKEND_DEFAULTS = {
    "mkldnn.deterministic": False,
    "cuda.matmul.allow_tf32": False,
    "cudnn.allow_tf32": True,
    "cudnn.benchmark": False,
    "cudnn.deterministic": False,
}
# Of the precisions by their newer names; to set one of them and read an older name raises
# (aten/src/ATen/Context.cpp), so that a state has either.
_PRECISION_DEFAULTS = {
    "fp32_precision": "none",
    "cuda.matmul.fp32_precision": "none",
    "cudnn.conv.fp32_precision": "tf32",
    "cudnn.rnn.fp32_precision": "tf32",
    "mkldnn.matmul.fp32_precision": "none",
    "mkldnn.conv.fp32_precision": "none",
    "mkldnn.rnn.fp32_precision": "none",
}
# Which attention kernels eager may take (torch.nn.attention.sdpa_kernel); functions, not attributes.
_ATTENTION = ("flash", "mem_efficient", "math", "cudnn")
# Set by torch.compile(dynamic=…) itself around a call; the repro says `dynamic` instead.
_SET_BY_DYNAMO = ("automatic_dynamic_shapes", "assume_static_by_default")
_INFERENCE_GUARDS: list[Any] = []  # inference mode lasts as long as its guard object
_AUTOCAST_DEVICES = ("cpu", "cuda")


class CannotSet(Exception):
    """A flag does not get the value that it was given: this torch lacks the flag, or another setting decides
    over it. The message says which."""


class Implied(NamedTuple):
    """What a setting is while another one has a certain value. by: the other, `inductor.numerics=strict`."""

    value: Any
    by: str


@dataclass(frozen=True)
class Modes:
    """What belongs to the calling thread and takes microseconds to read.

    autocast: device type -> (whether it is on, dtype). rng: the state of the CPU's generator.
    """

    grad_enabled: bool
    inference_mode: bool
    autocast: Mapping[str, tuple[bool, torch.dtype]]
    rng: torch.Tensor

    @classmethod
    def now(cls) -> Modes:
        """Those of the calling thread."""
        return cls(
            grad_enabled=torch.is_grad_enabled(),
            inference_mode=torch.is_inference_mode_enabled(),
            autocast={
                d: (torch.is_autocast_enabled(d), torch.get_autocast_dtype(d)) for d in _AUTOCAST_DEVICES
            },
            rng=torch.get_rng_state(),
        )

    def autocast_on(self) -> list[tuple[str, torch.dtype]]:
        """The device types for which autocast is on, each with its dtype."""
        return [(device, dtype) for device, (enabled, dtype) in self.autocast.items() if enabled]


@dataclass(frozen=True)
class TorchState(Modes):
    """One snapshot. `configs` holds, for each config module, the settings that differ from the start.
    matmul_precision: None where the script has set precisions by their newer names."""

    default_dtype: torch.dtype
    deterministic: bool
    deterministic_warns: bool
    matmul_precision: str | None
    num_threads: int
    autocast_cache: bool
    backends: Mapping[str, Any]
    attention: Mapping[str, bool]
    configs: Mapping[str, Mapping[str, Any]]
    cuda_rng: list[Any] = field(default_factory=list)
    cuda_device: int | None = None  # the current one, which belongs to a thread; None before CUDA is up

    def settings(self) -> dict[str, Any]:
        """The subject's own settings under the names that users write: `inductor.freezing` -> value."""
        named = {f"{module}.{key}": v for module, values in self.configs.items() for key, v in values.items()}
        return {name: value for name, value in named.items() if isinstance(value, (bool, int, float, str))}

    def with_settings(self, flags: Mapping[str, Any]) -> TorchState:
        """The same, with these flags set, by the names that users write."""
        configs = {module: dict(values) for module, values in self.configs.items()}
        backends = dict(self.backends)
        for name, value in flags.items():
            family, _, key = name.partition(".")
            where = backends if family == "backends" else configs.setdefault(family, {})
            where[key] = value
        return replace(self, configs=configs, backends=backends)

    def script_settings(self) -> dict[str, Any]:
        """`settings`, and what else is not as torch has it by default: all that a script must set before it
        compiles, besides modes, the default dtype and the number of threads."""
        found = self.settings()
        newer = _PRECISION_DEFAULTS if self.matmul_precision is None else {}
        for name, default in (_BACKEND_DEFAULTS | newer).items():
            if self.backends.get(name, default) != default:
                found[f"backends.{name}"] = self.backends[name]
        if self.deterministic:
            found["torch.use_deterministic_algorithms"] = True
        if self.matmul_precision not in ("highest", None):
            found["torch.set_float32_matmul_precision"] = self.matmul_precision
        return found


def config_module(name: str) -> Any:
    """The config module behind `inductor`, `functorch` or `dynamo`."""
    return importlib.import_module(CONFIG_MODULES[name])


def config_values() -> dict[str, dict[str, Any]]:
    """The current values of the three config modules: what a snapshot is compared with. What another setting
    implies is not among them: to set it would have no effect now, and one when the other changes."""
    values = {name: config_module(name).get_config_copy() for name in CONFIG_MODULES}
    for family, settings in values.items():
        for key in _implications(family):
            if implied(f"{family}.{key}") is not None:
                del settings[key]
    return values


def default_values() -> dict[str, dict[str, Any]]:
    """The values of the config modules where nobody set another, not even by an environment variable."""
    return {
        name: {key: entry.default for key, entry in config_module(name)._config.items()}
        for name in CONFIG_MODULES
    }


def take(start: Mapping[str, Mapping[str, Any]]) -> TorchState:
    """The settings of the calling thread; `start`: `config_values()` before the script ran, or
    `default_values()`."""
    now = config_values()
    changed = {
        name: {
            k: v
            for k, v in values.items()
            if (k not in start[name] or not same_value(start[name][k], v)) and k not in _SET_BY_DYNAMO
        }
        for name, values in now.items()
    }
    return TorchState(
        **vars(Modes.now()),
        default_dtype=torch.get_default_dtype(),
        deterministic=torch.are_deterministic_algorithms_enabled(),
        deterministic_warns=torch.is_deterministic_algorithms_warn_only_enabled(),
        matmul_precision=_matmul_precision(),
        num_threads=torch.get_num_threads(),
        autocast_cache=torch.is_autocast_cache_enabled(),
        backends={name: value for name in BACKEND_FLAGS if (value := backend_value(name)) is not None},
        attention={name: getattr(torch.backends.cuda, f"{name}_sdp_enabled")() for name in _ATTENTION},
        configs={name: values for name, values in changed.items() if values},
        cuda_rng=torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else [],
        cuda_device=torch.cuda.current_device() if torch.cuda.is_initialized() else None,
    )


def restore(torch_state: TorchState) -> None:
    """Make the calling thread as it was at the snapshot, the random generators included."""
    torch.set_num_threads(torch_state.num_threads)
    if torch_state.cuda_device is not None:
        torch.cuda.set_device(torch_state.cuda_device)
    if torch_state.inference_mode:
        _INFERENCE_GUARDS.append(torch._C._InferenceMode(True))
    torch.set_grad_enabled(torch_state.grad_enabled)
    torch.set_default_dtype(torch_state.default_dtype)
    torch.use_deterministic_algorithms(torch_state.deterministic, warn_only=torch_state.deterministic_warns)
    if torch_state.matmul_precision is not None:
        torch.set_float32_matmul_precision(torch_state.matmul_precision)
    for device, (enabled, dtype) in torch_state.autocast.items():
        torch.set_autocast_enabled(device, enabled)
        torch.set_autocast_dtype(device, dtype)
    torch.set_autocast_cache_enabled(torch_state.autocast_cache)
    for name, value in torch_state.backends.items():
        if backend_value(name) != value:
            set_backend_flag(name, value)
    for name, enabled in torch_state.attention.items():
        getattr(torch.backends.cuda, f"enable_{name}_sdp")(enabled)
    for module, values in torch_state.configs.items():
        for key, value in values.items():
            setattr(config_module(module), key, value)
    restore_rng(torch_state)


def reset(start: Mapping[str, Mapping[str, Any]]) -> None:
    """Give the settings of the config modules the values that `config_values` found."""
    for module, values in start.items():
        now = config_module(module).get_config_copy()
        for key, value in values.items():
            if not same_value(now.get(key), value):
                setattr(config_module(module), key, value)


def restore_rng(torch_state: TorchState) -> None:
    """Put torch's random generators alone back: eager and compiled then draw the same numbers."""
    torch.set_rng_state(torch_state.rng)
    if torch_state.cuda_rng:
        torch.cuda.set_rng_state_all(torch_state.cuda_rng)


def seed(value: int) -> None:
    """Of the generators that a script draws tensors from: two runs of it must have equal inputs."""
    torch.manual_seed(value)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(value % 2**32)


def apply_flags(flags: Mapping[str, Any], options: Mapping[str, Any] = MappingProxyType({})) -> None:
    """Set flags by the names users write: `inductor.cpp.simdlen`, `backends.cudnn.allow_tf32`.

    options: Inductor's, of the call of torch.compile under which the flags are to hold. Raises CannotSet.
    """
    for name, value in flags.items():
        family, _, key = name.partition(".")
        if family == ARGUMENT:
            continue  # torch.compile's own call takes it
        if family == "backends":
            set_backend_flag(key, value)
        elif family in CONFIG_MODULES and key in config_module(family)._config:
            setattr(config_module(family), key, value)
        else:
            raise CannotSet(f"this torch has no flag {name}")
    with config_module("inductor").patch(dict(options)) if options else nullcontext():
        _check_in_force(flags)


def _check_in_force(flags: Mapping[str, Any]) -> None:
    """Raises CannotSet where a flag has another value than it was given."""
    for name, value in flags.items():
        if name.partition(".")[0] in CONFIG_MODULES and not same_value(now := current_flag(name), value):
            why = found.by if (found := implied(name)) is not None else "an environment variable"
            raise CannotSet(f"{name}={value!r} has no effect: {why} makes it {now!r}")


def implied(name: str, value_of: Callable[[str], Any] | None = None) -> Implied | None:
    """What a flag is by another one's value; None where it has a value of its own.

    value_of: reads a flag, by default where it is now. Since torch 2.15 (`implies` of
    torch/utils/_config_module.py): what is assigned to such a flag is kept, and not used.
    """
    family, _, key = name.partition(".")
    for source, condition, value in _implications(family).get(key, ()):
        if same_value((value_of or current_flag)(f"{family}.{source}"), condition):
            return Implied(value, f"{family}.{source}={condition}")
    return None


def _implications(family: str) -> Mapping[str, Sequence[tuple[str, Any, Any]]]:
    """Flags of a config module that others imply: (the other one, its value, this one's value) for each."""
    if family not in CONFIG_MODULES:
        return {}
    found: Mapping[str, Sequence[tuple[str, Any, Any]]] = getattr(config_module(family), "_implications", {})
    return found


@contextmanager
def kept(names: Iterable[str]) -> Iterator[None]:
    """Put these flags back, as far as this torch has them, when the block ends."""
    before = {name: current_flag(name) for name in names if has_flag(name)}
    with ExitStack() as stack:
        for family in CONFIG_MODULES:
            values = {n.partition(".")[2]: v for n, v in before.items() if n.startswith(f"{family}.")}
            stack.enter_context(config_module(family).patch(values))
        try:
            yield
        finally:
            apply_flags({name: value for name, value in before.items() if name.startswith("backends.")})


def current_flag(name: str) -> Any:
    """The present value of a flag; None for an argument of torch.compile.

    Raises KeyError for a name that this torch does not have.
    """
    family, _, key = name.partition(".")
    if family == ARGUMENT and key in inspect.signature(torch.compile).parameters:
        return None  # as the script has it
    if family == "backends":
        value = backend_value(key)
        if value is None:
            raise KeyError(name)
        return value
    if family not in CONFIG_MODULES or key not in config_module(family)._config:
        raise KeyError(name)
    owner: Any = config_module(family)
    for part in key.split("."):
        owner = getattr(owner, part)
    return owner


def has_flag(name: str) -> bool:
    """Whether this torch has the flag."""
    try:
        current_flag(name)
    except KeyError:
        return False
    return True


def set_backend_flag(path: str, value: Any) -> None:
    """Set `torch.backends.PATH`."""
    *owners, last = path.split(".")
    owner: Any = torch.backends
    for part in owners:
        owner = getattr(owner, part)
    setattr(owner, last, value)


def _matmul_precision() -> str | None:
    try:
        return torch.get_float32_matmul_precision()
    except RuntimeError:
        return None


def backend_value(path: str) -> Any:
    """The value of `torch.backends.PATH`; None where it has none, or cannot be read."""
    owner: Any = torch.backends
    for part in path.split("."):
        try:
            owner = getattr(owner, part)
        except (AttributeError, RuntimeError):
            return None  # not in this build of torch: nothing to keep
    return owner


def same_value(a: Any, b: Any) -> bool:
    """Whether two settings are equal; values without an equality are equal to themselves alone."""
    try:
        return type(a) is type(b) and bool(a == b)
    except (TypeError, ValueError, RuntimeError):
        return a is b  # values without a usable equality (arrays, callables)
