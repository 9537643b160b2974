"""The C++ kernels of a forked probe, which its server builds together with those of the other probes.

Most of what g++ takes for one kernel it takes for an empty file too: the headers. Inductor is let collect the
kernels of a graph, as it does for its own pool of compilers (torch/_inductor/async_compile.py).
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

SOURCE, TARGET = "{source}", "{target}"


@dataclass(frozen=True)
class Kernel:
    """A kernel to build. source: its file. target: the library that Inductor would make of it. command: the
    compiler's words, with SOURCE and TARGET in the place of the files."""

    source: str
    target: str
    command: tuple[str, ...]


def filled(command: Sequence[str], source: str, target: str) -> list[str]:
    """A kernel's command line with these files."""
    files = {SOURCE: source, TARGET: target}
    return [files.get(word, word) for word in command]


@dataclass(frozen=True)
class Built:
    """Where a kernel is: the library, and the number under which it is there."""

    library: str
    number: int

    @property
    def entry(self) -> str:
        """What the module is called, by which Python finds its initialisation."""
        return entry_of(self.number)


def entry_of(number: int) -> str:
    """The name of a kernel's function in a library of several."""
    return f"kernel_{number}"


ENTRY = re.compile(r"\bkernel_\d+\b")


# None for a kernel that its own process is to build.
BuildAll = Callable[[Sequence[Kernel]], Sequence[Built | None]]


@contextmanager
def built_by(build: BuildAll) -> Iterator[None]:
    """Kernels that are compiled in the block are built by `build`, those of one graph at a time; without
    effect where this torch has not what that takes."""
    with ExitStack() as stack:
        try:
            from torch._inductor import async_compile, codecache

            patches = _patches(_Kernels(build), async_compile, codecache)
        except (ImportError, AttributeError):
            yield
            return
        for patch in patches:
            stack.enter_context(patch)
        yield


@dataclass
class _Kernels:
    """Those of this process. waiting: of the graph that is compiled now; known, built: by the target."""

    build: BuildAll
    waiting: list[Kernel] = field(default_factory=list)
    known: dict[str, Kernel] = field(default_factory=dict)
    built: dict[str, Built] = field(default_factory=dict)

    def submit(self, job: Callable[[], None]) -> _Pending:
        """In the place of the pool of compilers. job: `_worker_compile_cpp` with its arguments."""
        _, builders = job.args  # type: ignore[attr-defined]
        if len(builders) == 1:
            target, words = builders[0].get_target_file_path(), shlex.split(builders[0].get_command_line())
            sources = [word for word in words if word.endswith(".cpp")]
            if len(sources) == 1 and words.count(target) == 1:
                files = {sources[0]: SOURCE, target: TARGET}
                command = tuple(files.get(word, word) for word in words)
                self.waiting.append(Kernel(sources[0], target, command))
        return _Pending(self)

    def build_waiting(self) -> None:
        kernels, self.waiting = self.waiting, []
        self.known |= {kernel.target: kernel for kernel in kernels}
        if kernels:
            found = zip(kernels, self.build(kernels), strict=True)
            self.built |= {kernel.target: built for kernel, built in found if built is not None}

    def build_here(self, target: str) -> None:
        """Build a library in this process, as Inductor would."""
        kernel = self.known[target]
        words = filled(kernel.command, kernel.source, kernel.target)
        subprocess.run(words, capture_output=True, check=True)


@dataclass
class _Pending:
    """Stands for the end of a compiler."""

    kernels: _Kernels

    def result(self) -> None:
        self.kernels.build_waiting()


def _patches(kernels: _Kernels, async_compile: Any, codecache: Any) -> list[Any]:
    cache = codecache.CppPythonBindingsCodeCache
    compile_cpp, load_inner = codecache._worker_compile_cpp, cache._load_library_inner.__func__
    wait, wait_for = async_compile.AsyncCompile.wait, async_compile.AsyncCompile._wait_futures

    def collected(self: Any, argtypes: Any, source_code: str) -> Any:
        loads = cache.load_pybinding_async(argtypes, source_code, submit_fn=kernels.submit)
        return async_compile.LambdaFuture(loads)

    def wait_too(self: Any, scope: dict[str, Any]) -> None:
        wait_for(self, scope)  # which Inductor leaves out where it has no pool
        wait(self, scope)

    def unless_built(lock_path: str, builders: Any) -> None:
        if not all(builder.get_target_file_path() in kernels.built for builder in builders):
            compile_cpp(lock_path, builders)

    def load(cls: Any, path: str, key: str) -> Any:
        built = kernels.built.get(path)
        if built is not None:
            try:
                return _loaded(built, key)
            except ImportError:  # a name that it leaves open is in no library of this process
                kernels.build_here(path)
        return load_inner(cls, path, key)

    return [
        mock.patch.object(async_compile.AsyncCompile, "cpp_pybinding", collected),
        mock.patch.object(async_compile.AsyncCompile, "wait", wait_too),
        mock.patch.object(codecache, "_worker_compile_cpp", unless_built),
        mock.patch.object(cache, "_load_library_inner", classmethod(load)),
    ]


def _loaded(built: Built, key: str) -> Any:
    """The module of a kernel, as `CppPythonBindingsCodeCache._load_library_inner` loads one from a library of
    its own; key: Inductor's."""
    from torch._C._dynamo import guards

    data_ptr: int = guards._torchinductor_pyobject_tensor_data_ptr  # type: ignore[attr-defined]
    os.environ["_TORCHINDUCTOR_PYOBJECT_TENSOR_DATA_PTR"] = str(data_ptr)
    spec = importlib.util.spec_from_file_location(f"{key}.{built.entry}", built.library)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
