"""What Triton chose by timing for one kernel holds for every later probe of the run.

Two probes whose kernels differ in one decision must not differ in a block size too, which changes the order
of additions. Patches `CachingAutotuner.benchmark_all_configs` (torch/_inductor/runtime/triton_heuristics.py):
the first time that a kernel is timed its best configuration is written to a file of the run; afterwards
that one is taken and nothing is timed. So is what is tuned from there on, where a program asks for that:
`coordinate_descent_tuning`, and the parts of a combined kernel one after the other. A kernel is known by its
name without the number, its sizes and its signature, which a denied contraction or division leaves alone.
Templates of matrix products choose elsewhere and are not pinned. Exercised on torch 2.13 without a device: on
stand-ins for kernels alone.
"""

from __future__ import annotations

import contextlib
import copy
import json
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from . import compilation
from .hooks.patching import HookUnavailable, wrap

_COUNT = re.compile(r"_\d+$")
_OF_THE_LAUNCH = ("num_warps", "num_stages")  # of a configuration, besides the sizes of its blocks

_file: Path | None = None


def pin(path: str) -> None:
    """From now on choices are read from the file and added to it. Without Triton there is nothing to pin."""
    global _file
    from torch._inductor.runtime.triton_heuristics import CachingAutotuner

    first, _file = _file is None, Path(path)
    if first:
        try:
            wrap(CachingAutotuner, "benchmark_all_configs", _pinned)
        except HookUnavailable:
            _file = None  # this torch chooses elsewhere: as a plain run of the script would
            return
        for method, mark in REFINING.items():
            with contextlib.suppress(HookUnavailable):  # of combined kernels from 2.12 on
                wrap(CachingAutotuner, method, partial(_refined, mark))
    # Inductor remembers choices by the source, which a probe varies.
    compilation.CACHES_OFF["autotune_local_cache"] = False


def _pinned(original: Callable[..., dict[Any, float]]) -> Callable[..., dict[Any, float]]:
    def benchmark_all_configs(self: Any, *args: Any, **kwargs: Any) -> dict[Any, float]:
        """Seconds by launcher; the caller takes the fastest."""
        if _file is None:
            return original(self, *args, **kwargs)
        key = _key(self)
        chosen = _read(_file).get(key)
        for launcher in self.launchers:
            if chosen is not None and _described(launcher.config) == chosen:
                return {launcher: 0.0}
        timings = original(self, *args, **kwargs)
        if chosen is None and timings:
            _add(_file, key, _described(min(timings, key=lambda launcher: timings[launcher]).config))
        return timings

    return benchmark_all_configs


# Methods that start from the best configuration, and what they mark theirs with.
REFINING = {
    "coordinate_descent_tuning": "found_by_coordesc",
    "_combo_sequential_autotune": "found_by_combo_autotune",
}


def _refined(mark: str, original: Callable[..., Any]) -> Callable[..., Any]:
    def tune(self: Any, launcher: Any, *args: Any, **kwargs: Any) -> Any:
        """A launcher."""
        if _file is None:
            return original(self, launcher, *args, **kwargs)
        key = f"{_key(self)} {mark}"
        chosen = _read(_file).get(key)
        if chosen is None:
            tuned = original(self, launcher, *args, **kwargs)
            _add(_file, key, _described(tuned.config))
            return tuned
        config = copy.deepcopy(launcher.config)
        for name, value in chosen.items():
            if name in _OF_THE_LAUNCH:
                setattr(config, name, value)
            else:
                config.kwargs[name] = value
        setattr(config, mark, True)
        with self.lock:
            return self._precompile_config(config).make_launcher()

    return tune


def _key(kernel: Any) -> str:
    """The same for a kernel in every probe that generates it with these sizes and arguments."""
    name = _COUNT.sub("", kernel.fn.__name__)
    return f"{name} {sorted((kernel.size_hints or {}).items())} {kernel.triton_meta.get('signature')}"


def _described(config: Any) -> dict[str, Any]:
    """A Triton configuration as JSON."""
    numbers = {name: getattr(config, name) for name in _OF_THE_LAUNCH}
    return dict(sorted((dict(config.kwargs) | numbers).items()))


def _read(path: Path) -> dict[str, Any]:
    """The first choice for each kernel: two workers of a run may have written at once."""
    found: dict[str, Any] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # a line that a kill cut short
        found.setdefault(entry["kernel"], entry["config"])
    return found


def _add(path: Path, key: str, config: dict[str, Any]) -> None:
    with path.open("a") as file:
        file.write(json.dumps({"kernel": key, "config": config}) + "\n")
