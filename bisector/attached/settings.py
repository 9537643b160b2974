"""The settings of this process that are not as torch has them by default."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ..inductor.ambient import config_module, config_values, take

# Of torch.backends, as their documentation has them; the others of `ambient` have no default that holds on
# every machine.
BACKENDS = {
    "mkldnn.deterministic": False,
    "cuda.matmul.allow_tf32": False,
    "cudnn.allow_tf32": True,
    "cudnn.benchmark": False,
    "cudnn.deterministic": False,
}


@dataclass(frozen=True)
class Surroundings:
    """Of the calling thread. settings: flags that a script must set, by the names users write."""

    settings: Mapping[str, Any]
    default_dtype: torch.dtype
    num_threads: int


def surroundings() -> Surroundings:
    """Those of now."""
    taken = take(_defaults())
    settings = taken.settings()
    for name, default in BACKENDS.items():
        if taken.backends.get(name, default) != default:
            settings[f"backends.{name}"] = taken.backends[name]
    if taken.deterministic:
        settings["torch.use_deterministic_algorithms"] = True
    if taken.matmul_precision != "highest":
        settings["torch.set_float32_matmul_precision"] = taken.matmul_precision
    return Surroundings(settings, taken.default_dtype, taken.num_threads)


def _defaults() -> dict[str, dict[str, Any]]:
    """The values of the config modules where nobody set another, not even by an environment variable."""
    defaults = {}
    for name, values in config_values().items():
        entries = config_module(name)._config
        defaults[name] = {key: entries[key].default for key in values}
    return defaults
