"""`python -m tests.gpu.record`: what this GPU computes for each case, kept under tests/goldens/gpu/.

For the default compile, the plain baseline and each denied decision of the Triton backend: the settings,
the generated code and the bits of every output, beside the inputs and eager's outputs. Needs a CUDA device;
`NUMBISECT_TEST_DEVICE=cpu python -m tests.gpu.record FOLDER` tries all but that on a CPU.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy
import torch

from bisector import wire
from bisector.core.case import WHOLE
from bisector.core.model import Base, Candidate
from bisector.inductor import autotuned, execute, source_capture
from bisector.inductor.capture import load
from bisector.inductor.describe import machine
from bisector.inductor.serving import warm
from bisector.inductor.serving.pristine import Pristine

HERE = Path(__file__).parent
GOLDENS = HERE.parent / "goldens" / "gpu"
KINDS = ("cast:", "fma:", "split:", "unroll:", "vec:")


def record(script: Path, folder: Path) -> None:
    """Run the case on the device that it names and write `folder` anew."""
    folder.mkdir(parents=True, exist_ok=True)
    autotuned.pin(str(folder / "autotuned.jsonl"))
    loaded = load.load(load.LoadOptions(str(script), threads=torch.get_num_threads()))
    if loaded.problem is not None:
        raise SystemExit(loaded.problem)
    pristine, call = Pristine(loaded), loaded.recorder.calls[0]
    pristine.restore()
    subject = execute.prepare(call, WHOLE, None)
    _save(folder / "inputs.npz", dict(zip(subject.names, subject.edited.args, strict=True)))
    _save(folder / "eager.npz", execute.run(subject, execute.eager_program(subject)))
    index: dict[str, Any] = {"machine": wire.dump(machine()), "triton": _triton(), "compiles": {}}
    listed: list[str] = []
    for name, candidate in _candidates(listed):
        pristine.restore()
        subject, control = execute.prepare(call, WHOLE, None), execute.control_for(candidate)
        with source_capture.collected() as sources, execute.active(control):
            outputs = execute.run(subject, execute.compile_subject(subject, candidate))
        ids = [d.id for d in control.decisions()] if control is not None else []
        listed += ids if name == "default" else []
        _save(folder / f"{name}.npz", outputs)
        (folder / f"{name}.py.txt").write_text("\n".join(map(source_capture.normalized, sources)) + "\n")
        index["compiles"][name] = {"candidate": wire.dump(candidate), "decisions": ids}
    (folder / "index.json").write_text(json.dumps(index, indent=1) + "\n")


def _candidates(listed: list[str]) -> Iterator[tuple[str, Candidate]]:
    """`listed` has the default's decisions once the first compile is done."""
    yield "default", Candidate()
    yield "plain", Candidate(base=Base.PLAIN)
    members = [i for i in listed if i.startswith(KINDS)]
    for number, member in enumerate(members):
        yield f"denied-{number}", Candidate.deny([member])


def bits(value: torch.Tensor) -> numpy.ndarray[Any, Any]:
    """The bytes of a tensor: NumPy does not know all of torch's dtypes."""
    raw = value.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    array: numpy.ndarray[Any, Any] = raw.numpy()
    return array


def _save(path: Path, values: Mapping[str, Any]) -> None:
    tensors = {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
    shapes = {name: [str(value.dtype), list(value.shape)] for name, value in tensors.items()}
    arrays = {name: bits(value) for name, value in tensors.items()}
    numpy.savez_compressed(path, _shapes=numpy.array(json.dumps(shapes)), **arrays)


def _triton() -> str | None:
    try:
        import triton
    except ImportError:
        return None
    version: str = triton.__version__
    return version


def main(folder: Path = GOLDENS) -> None:
    warm.warm_up()
    for script in sorted((HERE / "cases").glob("*.py")):
        record(script, folder / script.stem)


if __name__ == "__main__":
    if not torch.cuda.is_available() and os.environ.get("NUMBISECT_TEST_DEVICE") != "cpu":
        raise SystemExit("no CUDA device: there is nothing to record")
    main(*map(Path, sys.argv[1:]))
