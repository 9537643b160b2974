"""Stand-ins for NVIDIA's libraries: with them a CUDA wheel is imported on a machine that has none.

The wheels of the default index name two gigabytes of libraries that have to be there when torch is loaded,
and that nothing calls on a CPU. An empty library is not enough: CPython binds every function at once
(RTLD_NOW), so each symbol that is asked for is defined, under the version that it is asked for by. One that
is called says its name and aborts, so that no number can come of it; those alone that ask for a device
answer, that there is none. A library that is not NVIDIA's is never replaced: a made-up libz breaks Python.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
import re
import shutil
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.dynamic import DynamicSection
from elftools.elf.elffile import ELFFile
from elftools.elf.gnuversions import GNUVerNeedSection, GNUVerSymSection
from elftools.elf.sections import SymbolTableSection

from .. import processes
from ..errors import BadOption, MissingTool
from .predicate import CannotInstall

NVIDIA = re.compile(r"lib(cu|nv|nccl)[^/]*\.so")  # of a library's name
NO_DEVICE = 100  # cudaErrorNoDevice of CUDA's driver_types.h
COMPILE_S = 600.0  # for one library of stubs
COMPILERS = ("gcc", "cc")

_HEAD = """\
#include <stdio.h>
#include <stdlib.h>
static void *handle[4];
static void stop(const char *name) { fprintf(stderr, "CUDA stub called: %s\\n", name); abort(); }
"""
_NO_DEVICE = f"{{ *out = 0; return {NO_DEVICE}; }}"
_TEXT = '{ return "no device: this is a stub"; }'
# What torch asks at import and before it takes the CPU; __cuda* register the kernels in a library, unused.
_ANSWERS = {
    "cudaGetDeviceCount": f"int cudaGetDeviceCount(int *out) {_NO_DEVICE}",
    "cudaDriverGetVersion": "int cudaDriverGetVersion(int *out) { *out = 0; return 0; }",
    "cudaRuntimeGetVersion": "int cudaRuntimeGetVersion(int *out) { *out = 0; return 0; }",
    "cudaGetErrorString": f"const char *cudaGetErrorString(int code) {_TEXT}",
    "cudaGetErrorName": f"const char *cudaGetErrorName(int code) {_TEXT}",
    "__cudaRegisterFatBinary": "void **__cudaRegisterFatBinary(void *binary) { return handle; }",
}
_NOTHING = (
    "cudaGetLastError",
    "cudaPeekAtLastError",
    "__cudaRegisterFatBinaryEnd",
    "__cudaUnregisterFatBinary",
    "__cudaRegisterFunction",
    "__cudaRegisterVar",
    "__cudaRegisterManagedVar",
    "__cudaInitModule",
)

Stubs = Mapping[str, Mapping[str, Iterable[str]]]  # names by library and version; "" for those without one


@dataclass(frozen=True)
class Wanted:
    """A symbol that a library leaves to others. version and library: under which, of which; "" where it does
    not say."""

    name: str
    version: str
    library: str


@dataclass(frozen=True)
class Library:
    """What matters of a shared library: the names of those it needs, and its symbols."""

    needs: tuple[str, ...]
    defines: frozenset[str]
    wants: tuple[Wanted, ...]


def check_machine() -> None:
    """Raises BadOption on a machine where stubs cannot be, or must not."""
    if (sys.platform, platform.machine()) != ("linux", "x86_64"):
        raise BadOption("--cpu-stubs is for Linux on x86-64; leave it out and name an index of CPU wheels")
    if Path("/dev/nvidiactl").exists():
        raise BadOption("--cpu-stubs is for a machine without a GPU, and this one has one; leave it out")
    if _compiler() is None:
        raise MissingTool("--cpu-stubs needs a C compiler; install gcc")


def make(site: Path, folder: Path) -> None:
    """Libraries in folder for all of NVIDIA's that the torch in that site-packages needs; none where it
    needs none. Raises CannotInstall."""
    files = [*site.glob("torch/**/*.so*"), *site.glob("torch*.libs/*.so*")]
    libraries = {file.name: read(file) for file in files}
    folder.mkdir(parents=True, exist_ok=True)
    for name, versions in wanted(libraries).items():
        _compile(folder / name, versions)


def read(file: Path) -> Library:
    """Raises CannotInstall for what is no shared library."""
    try:
        with file.open("rb") as stream:
            elf = ELFFile(stream)
            return Library(tuple(_needed(elf)), *_symbols(elf))
    except Exception as error:  # elftools raises what its parsers do
        raise CannotInstall(f"{file.name} cannot be read: {type(error).__name__}") from error


def wanted(libraries: Mapping[str, Library]) -> Stubs:
    """What the NVIDIA libraries that these need, and are not among them, have to define.

    A symbol under a version belongs to the library of that version. One without may be in any that its
    library needs, if neither one of these nor of the system's has it: then the first of NVIDIA's is given it.
    """
    defined = frozenset[str]().union(*(library.defines for library in libraries.values()))
    needed = {name for library in libraries.values() for name in library.needs}
    system = [ctypes.CDLL(None), *_loaded(n for n in needed - set(libraries) if not NVIDIA.match(n))]
    stubs: dict[str, dict[str, set[str]]] = {}
    for library in libraries.values():
        theirs = [name for name in library.needs if NVIDIA.match(name) and name not in libraries]
        for name in theirs:
            stubs.setdefault(name, defaultdict(set))
        for symbol in library.wants if theirs else ():
            if symbol.library in theirs:
                stubs[symbol.library][symbol.version].add(symbol.name)
            elif symbol.version or symbol.name in defined:
                continue
            elif not any(hasattr(library, symbol.name) for library in system):
                stubs[theirs[0]][""].add(symbol.name)
    return stubs


def _loaded(names: Iterable[str]) -> Iterator[ctypes.CDLL]:
    """The system's libraries of these names; one that is not there is left for the loader to miss."""
    for name in names:
        with contextlib.suppress(OSError):
            yield ctypes.CDLL(name)


def _needed(elf: ELFFile) -> Iterator[str]:
    for section in elf.iter_sections():
        if isinstance(section, DynamicSection):
            # elftools gives a tag the attribute that its kind has.
            yield from (str(vars(tag)["needed"]) for tag in section.iter_tags("DT_NEEDED"))


def _symbols(elf: ELFFile) -> tuple[frozenset[str], tuple[Wanted, ...]]:
    """Of the dynamic table: the names that are defined, and what is wanted and not weak."""
    table = elf.get_section_by_name(".dynsym")
    numbers = elf.get_section_by_name(".gnu.version")
    assert isinstance(table, SymbolTableSection)
    versions = _versions(elf)
    defines, wants = set(), []
    for index, symbol in enumerate(table.iter_symbols()):
        if symbol["st_shndx"] != "SHN_UNDEF":
            defines.add(symbol.name)
        elif symbol.name and symbol["st_info"]["bind"] != "STB_WEAK":
            number = numbers.get_symbol(index)["ndx"] if isinstance(numbers, GNUVerSymSection) else None
            wants.append(Wanted(symbol.name, *versions.get(number, ("", ""))))
    return frozenset(defines), tuple(wants)


def _versions(elf: ELFFile) -> dict[object, tuple[str, str]]:
    """The version of each number in the table of versions, and the library that has it."""
    section = elf.get_section_by_name(".gnu.version_r")
    if not isinstance(section, GNUVerNeedSection):
        return {}
    return {
        version["vna_other"]: (version.name or "", needed.name or "")
        for needed, versions in section.iter_versions()
        for version in versions
    }


def _compile(library: Path, versions: Mapping[str, Iterable[str]]) -> None:
    source, script = library.with_suffix(".c"), library.with_suffix(".map")
    names = sorted({name for of_one in versions.values() for name in of_one})
    source.write_text(_HEAD + "\n".join(map(_function, names)) + "\n")
    script.write_text("".join(_node(v, sorted(of_one)) for v, of_one in versions.items() if v))
    command = [str(_compiler()), "-shared", "-fPIC", "-fno-builtin", "-w", "-o", str(library), str(source)]
    options = [f"-Wl,-soname,{library.name}", *([f"-Wl,--version-script={script}"] if any(versions) else [])]
    done = processes.run([*command, *options], COMPILE_S)
    if done.status != 0:
        error = done.err.strip()[-200:] or done.how
        raise CannotInstall(f"no stub of {library.name} could be made: {error}")
    source.unlink()
    script.unlink()


def _function(name: str) -> str:
    if name in _NOTHING:
        return f"int {name}(void) {{ return 0; }}"
    return _ANSWERS.get(name) or f'void {name}(void) {{ stop("{name}"); }}'


def _node(version: str, names: Iterable[str]) -> str:
    return f"{version} {{ global: {' '.join(f'{name};' for name in names)} }};\n"


def _compiler() -> str | None:
    return next(filter(None, map(shutil.which, COMPILERS)), None)
