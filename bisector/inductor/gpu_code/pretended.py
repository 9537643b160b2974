"""A CUDA device that is not there, so that Inductor on a CPU generates Triton code and Triton compiles it.

For a process of its own: what is patched here holds for all of it. Nothing can be run. The names are
private to torch, exercised on 2.13; another release may need others. Triton is needed, which nothing outside
of this folder imports: it is installed with the extra `gpu-sim`.
"""

from __future__ import annotations

import contextlib
import ctypes
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
import torch._inductor.config as inductor_config
import triton
from torch._dynamo import device_interface
from torch._inductor.fx_passes import joint_graph, post_grad
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase

H100 = 90  # its compute capability, as in sm_90
# Fake tensors ask the device guard, which a build of torch for the CPU does not have.
GUARD = """
#include <c10/core/impl/DeviceGuardImplInterface.h>
namespace c10 { namespace impl {
C10_REGISTER_GUARD_IMPL(CUDA, NoOpDeviceGuardImpl<c10::DeviceType::CUDA>);
}}
"""

_visible = False


class Driver(DriverBase):  # type: ignore[misc]
    """Names a target for the compiler; launches nothing. capability: as in sm_90."""

    def __init__(self, capability: int) -> None:
        self.target = GPUTarget("cuda", capability, 32)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def get_current_target(self) -> GPUTarget:
        return self.target

    def get_active_torch_device(self) -> torch.device:
        return torch.device("cpu")

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_device(self) -> int:
        return 0

    def get_current_stream(self, device: int = 0) -> int:
        return 0

    def get_device_capability(self, device: int = 0) -> tuple[int, int]:
        return divmod(self.target.arch, 10)

    def get_benchmarker(self) -> Callable[..., Any]:
        raise NotImplementedError("there is no device to time anything on")


def install(folder: Path, architecture: int = H100) -> None:
    """Patch this process. folder: where the compiled guard goes. architecture: the compute capability that
    code is generated for, 80 for sm_80; all else that Inductor asks of the device is an H100's."""
    ctypes.CDLL(str(_built_guard(folder)))
    triton.runtime.driver.set_active(Driver(architecture))
    capability = divmod(architecture, 10)
    properties = SimpleNamespace(
        name="NVIDIA H100", major=capability[0], minor=capability[1], multi_processor_count=132, warp_size=32,
        max_threads_per_multi_processor=2048, max_threads_per_block=1024, regs_per_multiprocessor=65536,
        shared_memory_per_block=49152, shared_memory_per_block_optin=232448, total_memory=80 << 30,
        shared_memory_per_multiprocessor=233472, L2_cache_size=50 << 20, is_integrated=False, gcnArchName="",
        uuid="0",
    )  # fmt: skip
    state = torch.get_rng_state()
    answers: dict[str, Callable[..., Any]] = {
        "is_available": lambda: _visible,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_properties": lambda device=None: properties,
        "get_device_capability": lambda device=None: capability,
        "get_device_name": lambda device=None: properties.name,
        "get_rng_state": lambda device="cuda": state,
        "set_rng_state": lambda new_state, device="cuda": None,
        "_exchange_device": lambda index: 0,
        "_maybe_exchange_device": lambda index: 0,
        "synchronize": lambda device=None: None,
        "_lazy_init": lambda: None,
    }
    for name, answer in answers.items():
        setattr(torch.cuda, name, answer)
    interface: Any = device_interface.CudaInterface
    for owner in (interface, interface.Worker):
        owner.current_device = staticmethod(lambda: 0)
        owner.get_device_properties = staticmethod(lambda device=None: properties)
    interface.device_count = staticmethod(lambda: 1)
    device_interface.caching_worker_device_properties["cuda"] = [properties]
    modules: list[Any] = [joint_graph, post_grad]
    for module in modules:
        if hasattr(module, "lazy_init"):
            module.lazy_init = _on_fakes(module.lazy_init)
    with visible():
        from torch.utils import _triton

        _triton.has_triton.cache_clear()
        assert _triton.has_triton()  # the answer is cached, and asked for later without the device


def _built_guard(folder: Path) -> Path:
    from torch.utils.cpp_extension import include_paths

    source, library = folder / "guard.cpp", folder / "guard.so"
    source.write_text(GUARD)
    includes = [f"-I{path}" for path in include_paths()]
    lib = Path(torch.__file__).parent / "lib"
    command = ["g++", "-std=c++20", "-shared", "-fPIC", *includes, str(source), "-o", str(library)]
    subprocess.run([*command, f"-L{lib}", "-lc10", f"-Wl,-rpath,{lib}"], check=True)
    return library


def _on_fakes(lazy_init: Callable[..., Any]) -> Callable[..., Any]:
    """Patterns are traced on example tensors of the device, which are fakes here. Were they registered for
    the CPU, those for CUDA alone would be missing (torch/_inductor/fx_passes/misc_patterns.py)."""

    def init(input_device: Any = None, *more: Any) -> Any:
        with FakeTensorMode(), visible(False):
            return lazy_init(torch.device("cuda", 0), *more)

    return init


@contextlib.contextmanager
def visible(there: bool = True) -> Iterator[None]:
    """Whether torch sees the device: yes where it compiles, no where tensors are made."""
    global _visible
    before, _visible = _visible, there
    try:
        yield
    finally:
        _visible = before


@contextlib.contextmanager
def settings(**more: Any) -> Iterator[None]:
    """What a compile for a device that is not there needs: nothing is timed, cached or launched."""
    named = {
        "fx_graph_cache": False, "compile_threads": 1, "shape_padding": False,
        "use_static_triton_launcher": False, "use_static_cuda_launcher": False,
    }  # fmt: skip
    present = {k: v for k, v in named.items() if k in inductor_config._config}  # type: ignore[attr-defined]
    with inductor_config.patch(present | more):
        yield
