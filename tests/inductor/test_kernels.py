"""Kernels of several probes in one file: the program is the one that each gets when it builds its own."""

from __future__ import annotations

import re
import select
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bisector import wire
from bisector.core.model import Candidate
from bisector.core.protocol import RunProbe
from bisector.inductor.compilation import probe_caches
from bisector.inductor.kernels import Built, Kernel, built_by, entry_of
from bisector.inductor.serving.building import Builder, together
from tests.inductor.workers import ABOUT, answers, working

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.usefixtures("undisturbed")
KERNEL = """#include <cmath>
extern "C" void kernel(float* x)
{
    #pragma GCC ivdep
    for (int i = 0; i < 8; i++) x[i] = 1;
}
"""
_ADDRESSES = re.compile(r"\b[0-9a-f]{3,}\b|<[^>]*>|#.*$|0x[0-9a-f]+", re.MULTILINE)


def two_kernels(x: Any) -> Any:
    return torch.softmax((torch.cumsum(x.sin() * 1.3, 0) * 2).exp(), -1)


class Directly:
    """Builds in this process what a probe's server would."""

    def __init__(self, folder: Path) -> None:
        self.builder = Builder(folder, 1)
        self.asked: list[Sequence[Kernel]] = []

    def __call__(self, kernels: Sequence[Kernel]) -> Sequence[Built | None]:
        self.asked.append(kernels)
        self.builder.ask(0, kernels)
        for pipe in self.builder.begin(more=False):
            while not self.builder.has_ended(pipe):
                select.select([pipe], [], [])
            self.builder.collect(pipe)
        found = self.builder.take()
        assert found is not None and found.asker == 0
        return found.kernels


@pytest.fixture
def no_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inductor's folder is empty, so that each kernel is to be built."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "kernels"))
    torch._dynamo.reset()


def compiled(x: Any, build: Directly | None) -> Any:
    from torch._inductor import codecache

    torch._dynamo.reset()
    codecache.CppPythonBindingsCodeCache.cache_clear()
    with probe_caches(1):
        if build is None:
            return torch.compile(two_kernels)(x)
        with built_by(build):
            return torch.compile(two_kernels)(x)


@pytest.mark.live
def test_the_kernels_of_a_graph_are_built_in_one_call_and_give_the_same_bits(
    tmp_path: Path, no_kernels: None
) -> None:
    x, build = torch.randn(40, 64), Directly(tmp_path)
    found = compiled(x, build)
    [kernels] = build.asked
    assert len(kernels) == 2 and not any(Path(kernel.target).exists() for kernel in kernels)
    assert torch.equal(found, compiled(x, None))
    assert all(Path(kernel.target).exists() for kernel in kernels)


@pytest.mark.live
def test_the_machine_code_is_that_of_a_file_of_its_own(tmp_path: Path, no_kernels: None) -> None:
    x, build = torch.randn(40, 64), Directly(tmp_path)
    compiled(x, build)
    compiled(x, None)
    [kernels] = build.asked
    [library] = tmp_path.glob("*.so")
    for number, kernel in enumerate(kernels):
        assert code(Path(kernel.target), "kernel") == code(library, entry_of(number))


def code(library: Path, function: str) -> list[str]:
    """Instructions of a function, without addresses."""
    command = ["objdump", "-d", "--no-show-raw-insn", f"--disassemble={function}", str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = [line.partition(":\t")[2] for line in text.splitlines() if ":\t" in line]
    found = [" ".join(_ADDRESSES.sub("", line).split()) for line in lines]
    assert len(found) > 20
    return found


def test_a_kernel_that_does_not_compile_takes_itself_out(tmp_path: Path) -> None:
    files = {}
    for name, text in (("good", KERNEL), ("bad", KERNEL.replace("x[i]", "y[i]"))):
        files[name] = tmp_path / f"{name}.cpp"
        files[name].write_text(text)
    command = ("g++", "{source}", "-shared", "-fPIC", "-o", "{target}")
    kernels = [Kernel(str(path), str(path.with_suffix(".so")), command) for path in files.values()]
    assert Directly(tmp_path)(kernels) == [None, None], "each is then built by who asked"
    others = [Kernel(str(files["good"]), str(tmp_path / f"{i}.so"), command) for i in range(2)]
    assert None not in Directly(tmp_path)(others)


def test_a_single_kernel_is_built_too(tmp_path: Path) -> None:
    (tmp_path / "one.cpp").write_text(KERNEL)
    command = ("g++", "{source}", "-shared", "-fPIC", "-o", "{target}")
    one = Kernel(str(tmp_path / "one.cpp"), str(tmp_path / "one.so"), command)
    [built] = Directly(tmp_path)([one])
    assert built is not None and Path(built.library).exists()


def needed_by(library: Path) -> set[str]:
    """The libraries that the loader is to find with this one."""
    command = ["readelf", "-d", str(library)]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"\(NEEDED\).*\[(.+)\]", text))


@pytest.mark.live
def test_a_kernel_is_linked_against_empty_libraries_and_asks_for_those_of_torch(
    tmp_path: Path, no_kernels: None
) -> None:
    x, build = torch.randn(40, 64), Directly(tmp_path)
    compiled(x, build)
    compiled(x, None)
    [kernels] = build.asked
    [library] = tmp_path.glob("*.so")
    assert {path.name for path in (tmp_path / "empty").iterdir()} <= needed_by(library)
    assert needed_by(Path(kernels[0].target)) <= needed_by(library)
    assert "-L" in " ".join(kernels[0].command) and (tmp_path / "empty" / "libtorch_cpu.so").exists()


@pytest.mark.live
def test_a_kernel_whose_open_names_nobody_has_is_built_by_who_asked(
    tmp_path: Path, no_kernels: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that names one of its own."""

    class Unfit(Directly):
        def __call__(self, kernels: Sequence[Kernel]) -> Sequence[Built | None]:
            self.asked.append(kernels)
            broken, source = tmp_path / "broken.so", tmp_path / "broken.cpp"
            source.write_text('extern "C" void nobody(); extern "C" void* PyInit_kernel_0() '
                              '{ nobody(); return nullptr; }')  # fmt: skip
            subprocess.run(["g++", "-shared", "-fPIC", source, "-o", broken], check=True)
            return [Built(str(broken), 0) for _ in kernels]

    x, build = torch.randn(40, 64), Unfit(tmp_path)
    found = compiled(x, build)
    [kernels] = build.asked
    assert all(Path(kernel.target).exists() for kernel in kernels)
    assert torch.equal(found, compiled(x, None))


def test_a_source_with_conditions_of_its_own_stands_alone() -> None:
    both = together([KERNEL, KERNEL])
    assert both is not None and both.count("#include <cmath>") == 1
    assert both.count("#pragma GCC ivdep") == 2
    assert together([KERNEL, f"#if x\n{KERNEL}#endif\n"]) is None


def test_what_one_source_defines_is_not_defined_in_the_next(tmp_path: Path) -> None:
    helper = "static float twice(float a) { return TWICE(a); }"
    guarded = f"#ifndef TWICE\n#define TWICE(a) (a + a)\n{helper}\n#endif\n"
    for name in ("one", "other"):
        (tmp_path / f"{name}.cpp").write_text(guarded + KERNEL.replace("= 1", "= twice(i)"))
    command = ("g++", "{source}", "-shared", "-fPIC", "-o", "{target}")
    asked = [Kernel(str(path), str(path.with_suffix(".so")), command) for path in tmp_path.glob("o*.cpp")]
    assert None not in Directly(tmp_path)(asked)


def test_a_compiler_is_begun_once_nobody_else_may_ask_or_enough_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bisector.inductor.serving.building.ENOUGH", 3)
    command = ("g++", "{source}", "-shared", "-fPIC", "-o", "{target}")
    builder = Builder(tmp_path, 1)
    (tmp_path / "k.cpp").write_text(KERNEL)
    begun = []
    for asker in range(3):
        builder.ask(asker, [Kernel(str(tmp_path / "k.cpp"), str(tmp_path / f"{asker}.so"), command)])
        begun.append(bool(builder.begin(more=True)))
    assert begun == [False, False, True]


SCRIPT = """
import torch
torch.manual_seed(0)
torch.compile(lambda x: torch.softmax(torch.cumsum(x.half().float() * 1.7, 0).exp(), -1))(torch.randn(40, 96))
"""


@pytest.mark.live
def test_a_worker_whose_probes_share_a_compiler_gives_the_answers_of_one_whose_probes_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unfused = Candidate.with_flags({"inductor.max_fusion_size": 1})
    requests = [RunProbe(ABOUT, candidate) for candidate in (Candidate(), unfused)]
    said, built = [], []
    for lanes in (2, None):
        folder = tmp_path / f"kernels-{lanes}"
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(folder))
        with working(tmp_path / "script.py", SCRIPT, lanes=lanes) as worker:
            said.append([wire.dump(answer.outputs) for answer in answers(worker, *requests, at_a_time=4)])
        built.append(len(list(folder.rglob("*.main.so"))))
    assert said[0] == said[1]
    assert built[0] < built[1], "each kernel that was built alone has a library"
