"""Directories of NNSmith: by a stand-in of its loader in every run, by NNSmith itself in a network test."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy
import pytest
import torch
import uv

# What nnsmith/materialize/torch does, of a model of one kind: the graph comes from gir.pkl, weights from
# model.pth, and weights under names that it does not know are left out.
LOADER = """
import pickle
from pathlib import Path

import torch


class SymbolNet(torch.nn.Module):
    def __init__(self, times):
        super().__init__()
        self.times, self.weight = times, torch.nn.Parameter(torch.zeros(1))
        self.input_like, self.output_like = {"v0_0": None}, {"v1_0": None}

    def forward(self, *args):
        return (args[0].half().float() * self.times + self.weight,)


class TorchModelCPU:
    @classmethod
    def load(cls, path):
        with open(Path(path).with_name("gir.pkl"), "rb") as file:
            made, made.torch_model = cls(), SymbolNet(pickle.load(file))
        made.torch_model.load_state_dict(torch.load(path), strict=False)
        return made
"""
SYMBOLNET = """
class FxTracing:
    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return None
"""


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("modules")
    package = folder / "nnsmith" / "materialize" / "torch"
    package.mkdir(parents=True)
    for each in (folder / "nnsmith", folder / "nnsmith" / "materialize"):
        (each / "__init__.py").write_text("")
    (package / "__init__.py").write_text(LOADER)
    (package / "symbolnet.py").write_text(SYMBOLNET)
    return folder


def bug(folder: Path, weight_name: str = "weight") -> Path:
    folder.mkdir()
    torch.save({weight_name: torch.ones(1)}, folder / "model.pth")
    (folder / "gir.pkl").write_bytes(pickle.dumps(3.0))
    x = numpy.linspace(0, 1, 16, dtype=numpy.float32)
    rounded = x.astype(numpy.float16).astype(numpy.float32) * numpy.float32(3) + 1
    oracle = {"input": {"v0_0": x}, "output": {"v1_0": rounded}, "provider": "torch[cpu] eager"}
    (folder / "oracle.pkl").write_bytes(pickle.dumps(oracle))
    (folder / "meta.json").write_text(json.dumps({"system": "pt2", "symptom": "inconsistency"}))
    return folder


def check(target: Path, modules: Path | None, *options: str) -> subprocess.CompletedProcess[str]:
    variables = {**os.environ, **({"PYTHONPATH": str(modules)} if modules else {})}
    command = [sys.executable, "-m", "bisector", "check", str(target), *options]
    return subprocess.run(
        command, cwd=target.parent, env=variables, capture_output=True, text=True, check=False
    )


@pytest.mark.live
def test_a_bug_directory_is_judged_on_the_inputs_of_its_oracle(loader: Path, tmp_path: Path) -> None:
    done = check(bug(tmp_path / "bug-1"), loader, "--trust", "--json", "-")
    assert done.returncode == 1, done.stderr
    (output,) = json.loads(done.stdout)["verdict"]["outputs"]
    assert output["shape"] == [16]


@pytest.mark.live
def test_weights_that_do_not_load_are_no_divergence(loader: Path, tmp_path: Path) -> None:
    done = check(bug(tmp_path / "bug-1", "mlist.0.weight"), loader, "--trust")
    assert (done.returncode, len(done.stderr.splitlines()[-1:])) == (2, 1)
    assert "eager gives another v1_0 than its oracle recorded" in done.stderr


@pytest.mark.live
def test_without_nnsmith_and_without_trust_it_is_one_line(tmp_path: Path) -> None:
    folder = bug(tmp_path / "bug-1")
    assert "install the nnsmith that wrote it" in check(folder, None, "--trust").stderr
    refused = check(folder, None)
    assert (refused.returncode, len(refused.stderr.splitlines())) == (2, 1)
    assert "--trust" in refused.stderr


@pytest.mark.network
def test_a_model_that_nnsmith_itself_made_is_judged(tmp_path: Path) -> None:
    modules = tmp_path / "modules"
    install = [uv.find_uv_bin(), "pip", "install", "--quiet", "--target", str(modules), "nnsmith"]
    subprocess.run([*install, "--python", sys.executable], check=True)
    command = [sys.executable, "-m", "nnsmith.cli.model_gen", "model.type=torch", "mgen.max_nodes=5"]
    variables = {**os.environ, "PYTHONPATH": str(modules), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    subprocess.run(
        [*command, "mgen.seed=7", f"mgen.save={tmp_path / 'made'}"], cwd=tmp_path, env=variables, check=True
    )
    done = check(tmp_path / "made", modules, "--trust")
    assert done.returncode in (0, 1), done.stderr
