"""Stand-ins for missing NVIDIA libraries: a real compiler, a real loader, a library that CPython imports."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from bisector.builds import stubs
from bisector.builds.predicate import CannotInstall
from bisector.errors import BadOption, MissingTool

CUDART = """
int cudaGetDeviceCount(int *n) { *n = 8; return 0; }
int cudaGetLastError(void) { return 7; }
int cudaMalloc(void **p, long n) { return 0; }
"""
NODE = "libcudart.so.99 { global: cudaGetDeviceCount; cudaGetLastError; cudaMalloc; };"
CUDNN = "int cudnnCreate(void **handle) { return 0; }"  # without a version, as NVIDIA builds it
CXX = "void _ZdlPv(void *p) {} void *_Znwm(unsigned long n) { return 0; }"
SIBLING = "int c10_ready(void) { return 5; }"
ASKED = ("count", "last", "ready", "released")
EXTENSION = """
int cudaGetDeviceCount(int *n), cudaGetLastError(void), cudaMalloc(void **p, long n);
int cudnnCreate(void **handle), c10_ready(void);
long PyLong_AsLong(void *);
int count(void) { int n = 3; return cudaGetDeviceCount(&n) * 10 + n; }
int last(void) { return cudaGetLastError(); }
int ready(void) { return c10_ready(); }
void _ZdlPv(void *), *_Znwm(unsigned long);  /* of libstdc++, which the tests' own Python does not load */
int released(void) { _ZdlPv(_Znwm(8)); return 6; }
int allocate(void) { void *p; return cudaMalloc(&p, 8); }
int create(void) { void *p; return cudnnCreate(&p); }
void *unused = PyLong_AsLong;
"""


def compiled(source: str, library: Path, *options: str) -> None:
    text = library.with_suffix(".c")
    text.write_text(source)
    command = ["gcc", "-shared", "-fPIC", "-fno-builtin", "-w", str(text), "-o", str(library)]
    subprocess.run([*command, f"-Wl,-soname,{library.name}", *options], check=True)
    text.unlink()


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """site-packages with a torch that needs two NVIDIA libraries, both gone, and one of its own."""
    lib = tmp_path / "site" / "torch" / "lib"
    lib.mkdir(parents=True)
    node = tmp_path / "node.map"
    node.write_text(NODE)
    compiled(CUDART, lib / "libcudart.so.99", f"-Wl,--version-script={node}")
    compiled(CUDNN, lib / "libcudnn.so.9")
    compiled(SIBLING, lib / "libc10.so")
    compiled(CXX, lib / "libstdc++.so.6")  # which asks for its names without the version that they have
    named = ["-l:libcudart.so.99", "-l:libcudnn.so.9", "-l:libc10.so", "-l:libstdc++.so.6"]
    compiled(EXTENSION, lib / "libtorch.so", "-Wl,-z,now", f"-L{lib}", "-Wl,-rpath,$ORIGIN", *named)
    (lib / "libcudart.so.99").unlink()
    (lib / "libcudnn.so.9").unlink()
    (lib / "libstdc++.so.6").unlink()
    return tmp_path / "site"


def called(site: Path, function: str, stubbed: Path) -> subprocess.CompletedProcess[str]:
    library = site / "torch" / "lib" / "libtorch.so"
    program = f"import ctypes; print(ctypes.PyDLL({str(library)!r}).{function}())"
    command = [sys.executable, "-c", program]
    variables = {"LD_LIBRARY_PATH": str(stubbed)}
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=False)


def test_what_could_not_be_loaded_is_loaded_and_asked_for_devices_has_none(
    site: Path, tmp_path: Path
) -> None:
    assert "cannot open shared object file" in called(site, "count", tmp_path).stderr
    stubs.make(site, tmp_path / "stubs")
    assert sorted(f.name for f in (tmp_path / "stubs").iterdir()) == ["libcudart.so.99", "libcudnn.so.9"]
    answers = [called(site, function, tmp_path / "stubs").stdout for function in ASKED]
    assert answers == [f"{stubs.NO_DEVICE * 10}\n", "0\n", "5\n", "6\n"]


@pytest.mark.parametrize(("function", "symbol"), [("allocate", "cudaMalloc"), ("create", "cudnnCreate")])
def test_a_stub_that_is_called_names_itself_and_aborts(
    site: Path, tmp_path: Path, function: str, symbol: str
) -> None:
    stubs.make(site, tmp_path / "stubs")
    done = called(site, function, tmp_path / "stubs")
    assert done.returncode < 0
    assert f"CUDA stub called: {symbol}\n" in done.stderr


def test_nothing_is_stubbed_that_a_sibling_or_python_has_or_that_is_not_of_nvidia(
    site: Path, tmp_path: Path
) -> None:
    lib = site / "torch" / "lib"
    compiled("int deflate(void) { return 1; }", lib / "libz.so.1")
    named = [f"-L{lib}", "-l:libz.so.1"]
    compiled("int deflate(void); int packed(void) { return deflate(); }", lib / "libshm.so", *named)
    (lib / "libz.so.1").unlink()
    libraries = {file.name: stubs.read(file) for file in lib.iterdir()}
    found = stubs.wanted(libraries)
    assert {name: {v: sorted(n) for v, n in versions.items()} for name, versions in found.items()} == {
        "libcudart.so.99": {
            "libcudart.so.99": ["cudaGetDeviceCount", "cudaGetLastError", "cudaMalloc"],
            "": ["cudnnCreate"],
        },
        "libcudnn.so.9": {},
    }


def test_a_wheel_that_needs_nothing_of_nvidia_gets_no_stub(tmp_path: Path) -> None:
    lib = tmp_path / "torch" / "lib"
    lib.mkdir(parents=True)
    compiled(SIBLING, lib / "libc10.so")
    stubs.make(tmp_path, tmp_path / "stubs")
    assert list((tmp_path / "stubs").iterdir()) == []


def test_a_file_that_is_no_library_is_no_build(tmp_path: Path) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "libbroken.so").write_text("no ELF")
    with pytest.raises(CannotInstall, match=r"libbroken\.so cannot be read"):
        stubs.make(tmp_path, tmp_path / "stubs")


def test_another_machine_and_a_missing_compiler_are_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("PATH", "")
        with pytest.raises(MissingTool, match="install gcc"):
            stubs.check_machine()
    monkeypatch.setattr(stubs.platform, "machine", lambda: "arm64")
    with pytest.raises(BadOption, match="for Linux on x86-64"):
        stubs.check_machine()
