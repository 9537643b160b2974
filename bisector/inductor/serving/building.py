"""Kernels of several probes in one file and one call of the C++ compiler."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ...tracing import SILENT, Trace
from ..kernels import Built, Kernel, entry_of, filled
from . import forked, linking

# A compiler is begun although other probes will ask too, once so many kernels wait or the first has waited so
# long: it keeps a core busy, and answers must not stay out. On a busy machine the kernels of slower probes
# come later than a second after the first, which was then built alone.
ENOUGH, PATIENCE_S = 12, 5.0
# Of one call; whoever waits then builds for itself, within its own time.
MOST_S = 120.0
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)(.*)$", re.MULTILINE)
_INSIDE = ("pragma", "ifdef", "ifndef", "endif", "define")  # may stand within a namespace
_FIRST = "#define PY_SSIZE_T_CLEAN"  # before Python.h


@dataclass(frozen=True)
class Found:
    """The kernels of one who asked, as they are built; None for one that its own process is to build."""

    asker: int
    kernels: list[Built | None]


@dataclass
class _Batch:
    """Kernels of one command line, which one compiler builds."""

    kernels: list[Kernel]
    library: Path
    compiler: subprocess.Popen[bytes]
    begun: float = field(default_factory=time.monotonic)


@dataclass
class _Asked:
    kernels: list[Kernel]
    since: float = field(default_factory=time.monotonic)


@dataclass
class Builder:
    """Collects kernels and builds them in a folder. lanes: compilers at a time. asked: whose kernels wait, by
    the number of who asked."""

    folder: Path
    lanes: int
    trace: Trace = SILENT
    asked: dict[int, _Asked] = field(default_factory=dict)
    _running: dict[int, _Batch] = field(default_factory=dict)  # by the pipe of the compiler
    _built: dict[str, Built | None] = field(default_factory=dict)  # by the target
    _made: int = 0

    def ask(self, asker: int, kernels: Sequence[Kernel]) -> None:
        """From now on these kernels are wanted."""
        self.asked[asker] = _Asked(list(kernels))

    def forget(self, asker: int) -> None:
        """It is gone; a compiler that builds for it goes on, since others may wait for the same one."""
        self.asked.pop(asker, None)

    def begin(self, more: bool) -> list[int]:
        """Begin compilers where it is time to; their pipes, each readable to its end once its compiler has
        ended. more: whether others may ask too."""
        pending = {k.target for batch in self._running.values() for k in batch.kernels} | self._built.keys()
        wanted = [kernel for asked in self.asked.values() for kernel in asked.kernels]
        fresh = {kernel.target: kernel for kernel in wanted if kernel.target not in pending}
        if not fresh or len(self._running) >= self.lanes:
            return []
        waited = time.monotonic() - min(asked.since for asked in self.asked.values())
        if more and len(fresh) < ENOUGH and waited < PATIENCE_S:
            return []
        pipes = []
        for command in dict.fromkeys(kernel.command for kernel in fresh.values()):
            pipes += self._begun(command, [k for k in fresh.values() if k.command == command])
        return pipes

    def _begun(self, command: tuple[str, ...], kernels: list[Kernel]) -> list[int]:
        """Nothing where they are built by who asked, since one of them cannot be combined with others."""
        texts = [Path(kernel.source).read_text(encoding="utf-8") for kernel in kernels]
        combined = together(texts)
        if combined is None:
            self._built |= dict.fromkeys((kernel.target for kernel in kernels), None)
            return []
        self._made += 1
        source, library = (self.folder / f"{self._made}.{suffix}" for suffix in ("cpp", "so"))
        source.write_text(combined, encoding="utf-8")
        words = linking.against_empty_libraries(command, self.folder / "empty")
        compiler = subprocess.Popen(
            filled(words, str(source), str(library)),
            cwd=self.folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            start_new_session=True,  # a kill is to reach what the driver started, which holds the pipe too
        )  # fmt: skip
        assert compiler.stdout is not None
        self._running[compiler.stdout.fileno()] = _Batch(kernels, library, compiler)
        return [compiler.stdout.fileno()]

    def has_ended(self, pipe: int) -> bool:
        """Whether this is the pipe of a compiler, and read to its end."""
        return pipe in self._running and not os.read(pipe, 1 << 16)

    def collect(self, pipe: int) -> None:
        """Of a compiler that has ended. Where it failed, each kernel is built by who asked, which then hears
        what is wrong with it."""
        batch = self._running.pop(pipe)
        status = batch.compiler.wait()
        self.trace.span("compilers", f"{len(batch.kernels)} kernels", batch.begun)
        assert batch.compiler.stdout is not None
        batch.compiler.stdout.close()
        for number, kernel in enumerate(batch.kernels):
            self._built[kernel.target] = Built(str(batch.library), number) if status == 0 else None

    def take(self) -> Found | None:
        """The next who asked and whose kernels are all there, which waits no longer."""
        for asker, asked in self.asked.items():
            if all(kernel.target in self._built for kernel in asked.kernels):
                del self.asked[asker]
                self.trace.span("waiting for kernels", str(len(asked.kernels)), asked.since)
                return Found(asker, [self._built[kernel.target] for kernel in asked.kernels])
        return None

    def end_late(self) -> None:
        """Kill a compiler that takes too long; it counts as one that failed."""
        for batch in self._running.values():
            if time.monotonic() - batch.begun > MOST_S:
                forked.kill(batch.compiler.pid)

    def stop(self) -> None:
        """Kill the compilers; nobody waits any longer."""
        for batch in self._running.values():
            forked.kill(batch.compiler.pid)
            batch.compiler.wait()


def together(sources: Sequence[str]) -> str | None:
    """One file of several kernels, each in a namespace of its own; None where a source has directives that
    cannot stand there."""
    includes: dict[str, None] = {}
    parts = []
    for number, source in enumerate(sources):
        defined = ["kernel", "PyInit_kernel"]
        for name, rest in _DIRECTIVE.findall(source):
            if name == "include":
                includes[f"#{name}{rest}".strip()] = None
            elif name not in _INSIDE:
                return None
            elif name == "define":
                defined.append(rest.split()[0].partition("(")[0])
        body = _DIRECTIVE.sub(lambda m: "" if m[1] == "include" else m[0], source)
        entry = entry_of(number)
        undone = "\n".join(f"#undef {name}" for name in defined)
        parts.append(
            f"#define kernel {entry}\n#define PyInit_kernel PyInit_{entry}\n"
            f"namespace numbisect_{number} {{\n{body}\n}}\n{undone}\n"
        )
    return "\n".join([_FIRST, *includes, *parts])
