"""What fuzzers and torch itself leave of a failure, run such that torch.compile is called on it.

Formats: torch/_dynamo/repro/after_aot.py and after_dynamo.py (`repro.py`, `minifier_launcher.py`,
`fx_graph_runnable`), torch/export/pt2_archive (`.pt2`), nnsmith/materialize (bug directories).
"""

from __future__ import annotations

import importlib
import inspect
import os
import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch._dynamo.debug_utils import InputReader

# What a repro of torch's sets of the process that wrote it: places of that machine, none of ours.
PLACES = ("TORCHINDUCTOR_CACHE_DIR", "TORCH_TRACE", "TORCH_COMPILE_DEBUG", "TORCH_LOGS", "TORCH_LOGS_OUT")


class CannotLoad(Exception):
    """The artifact lacks something; the message says what, and what to do."""


class Inputs(InputReader):
    """The inputs of a repro of torch's. drawn: whether some were not recorded, and are random."""

    def __init__(self, save_dir: str | None, script: Path) -> None:
        super().__init__(save_dir=save_dir)
        nearby = (script.parent, script.parent / "checkpoints")
        self.folders = [*([Path(save_dir)] if save_dir else []), *nearby]
        self.drawn = False

    def storage(self, storage_hash: str | None, nbytes: int, **described: Any) -> Any:
        """Raises CannotLoad where a recorded storage is gone: torch would draw another, and say nothing."""
        if storage_hash is None:
            self.drawn = True
            return super().storage(None, nbytes, **described)
        for folder in self.folders:
            if (folder / "storages" / storage_hash).is_file():
                self.store = torch.utils._content_store.ContentStoreReader(str(folder))
                return super().storage(storage_hash, nbytes, **described)
        wanted = f"{self.folders[0]}{os.sep}storages"
        raise CannotLoad(f"its recorded inputs are gone; put them back at {wanted}, or beside the file")


def run_repro_stand_in(script: Path, note: Callable[[str], None]) -> Callable[..., None]:
    """In the place of torch's run_repro: what the file holds is compiled and called as a user would."""
    before = {name: os.environ.get(name) for name in PLACES}

    def run_repro(
        mod: Any, load_args: Any, *, save_dir: str | None = None, autocast: bool = False, **_: Any
    ) -> None:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        torch.manual_seed(0)  # what is drawn must be the same in every process
        reader = Inputs(save_dir, script)
        load_args(reader)
        if reader.drawn:
            note("the file records shapes, not values: inputs were drawn at random, from the seed 0")
        with torch.autocast("cuda" if torch.cuda.is_available() else "cpu", enabled=autocast):
            torch.compile(mod)(*reader.args)

    return run_repro


def run_exported(path: Path) -> Mapping[str, Any]:
    """A `.pt2` archive on its own example inputs. It is unpickled, and runs code that it holds."""
    program = torch.export.load(path)
    if program.example_inputs is None:
        raise CannotLoad("it holds no example inputs; write a script that loads it and compiles its module()")
    args, kwargs = program.example_inputs
    unguarded = "check_guards" in inspect.signature(program.module).parameters
    module = program.module(**({"check_guards": False} if unguarded else {}))
    with torch.no_grad():
        torch.compile(module)(*args, **kwargs)
    return {}


def run_nnsmith(folder: Path) -> Mapping[str, Any]:
    """The model of an NNSmith bug directory on the inputs of its oracle. It is unpickled."""
    try:
        from nnsmith.materialize.torch import TorchModelCPU
    except ImportError as error:
        advice = "install the nnsmith that wrote it beside torch"
        raise CannotLoad(f"an NNSmith model is loaded by nnsmith ({error}); {advice}") from error
    with open(folder / "oracle.pkl", "rb") as file:
        oracle = pickle.load(file)
    net = TorchModelCPU.load(str(folder / "model.pth")).torch_model.eval()
    inputs = [torch.from_numpy(oracle["input"][name]) for name in net.input_like]
    with torch.no_grad():
        _check_recorded(net, inputs, oracle["output"])
        torch.compile(_plain(net))(*inputs)
    return {}


def _plain(net: torch.nn.Module) -> torch.nn.Module:
    """The model without NNSmith's interpreter around it, as its own backend compiles it; its release 0.1.0
    has no such backend, and Dynamo takes its interpreter as it is."""
    tracing = getattr(importlib.import_module("nnsmith.materialize.torch.symbolnet"), "FxTracing", None)
    if tracing is None:
        return net
    with tracing():
        return torch.fx.symbolic_trace(net)


def _check_recorded(net: Any, inputs: list[torch.Tensor], recorded: Mapping[str, Any] | None) -> None:
    """Raises CannotLoad where eager gives another output than the fuzzer saw: weights of another version of
    NNSmith's are left out without a word, and drawn anew."""
    for name, value in zip(net.output_like, net(*inputs), strict=True):
        if recorded is None or name not in recorded:
            continue
        if not torch.allclose(value, torch.from_numpy(recorded[name]), rtol=1e-2, atol=1e-3, equal_nan=True):
            advice = "install the nnsmith that wrote it"
            raise CannotLoad(f"eager gives another {name} than its oracle recorded; {advice}")


# By `bisector.subject.targets.TargetKind`; a script is run by `load`.
RUNNERS = {"exported": run_exported, "nnsmith": run_nnsmith}
