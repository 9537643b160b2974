"""A repro in pytest: it fails by its comparison alone, and leaves the settings as they were."""

from __future__ import annotations

import os
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._functorch.config
import torch._inductor.config

from bisector.core.fix import SetFlags
from bisector.inductor.graph.repro_spec import ReproSpec
from bisector.inductor.graph.values import CannotWrite
from bisector.inductor.write_scripts import name_of_test, write_repro

from .test_repro_file import CONTRACT, Normalized, contraction, gradient, spec
from .test_source import capture, late

BUG = "cpp.inject_relu_bug_TESTING_ONLY"
Ran = dict[str, list[str | None]]
AFTERWARDS = f"""

def test_afterwards():
    assert torch._{CONTRACT.replace(".", ".config.", 1)} != "fast"
"""


def contracted() -> str:
    return write_repro(contraction(fix=SetFlags({CONTRACT: "off"})))


def raising() -> str:
    """Compiled raises alone, by a bug that Inductor has for its own tests."""
    settings, fix = {f"inductor.{BUG}": "compile_error"}, SetFlags({f"inductor.{BUG}": None})
    return write_repro(spec(torch.relu, torch.ones(3), settings=settings, fix=fix, raises="InductorError"))


def folded() -> str:
    torch.manual_seed(0)
    net = Normalized()
    net(torch.randn(8, 4, 8, 8) * 3 + 1)
    net = net.eval().to(torch.bfloat16)
    x = torch.randn(4, 4, 8, 8).to(torch.bfloat16)
    settings = {"inductor.freezing": True}
    with torch.no_grad():
        return write_repro(spec(net, x, tolerances=[(1.6e-2, 1e-5)], settings=settings, grad_enabled=False))


def zeros(signed: bool) -> str:
    x = torch.tensor([-0.5, 0.5])
    made = spec(lambda x: torch.ceil(x) + torch.zeros_like(x), x, signed_zero=True)
    return write_repro(replace(made, signed_zero=signed))


def unusual() -> str:
    return write_repro(
        contraction(
            settings={"backends.mkldnn.deterministic": True, CONTRACT: "fast", "functorch.cse": False},
            grad_enabled=False,
            default_dtype=torch.float64,
            num_threads=1,
            seed=3,
        )
    )


def now() -> tuple[object, ...]:
    """Some settings, those among them that the files above change."""
    flag = torch._inductor.config.cpp.enable_floating_point_contract_flag
    defaults = torch.get_default_dtype(), torch.get_num_threads(), torch.backends.mkldnn.deterministic
    return (*defaults, torch.is_grad_enabled(), torch._functorch.config.cse, flag)


TEXTS: dict[str, Callable[[], str]] = {
    "contracted": lambda: contracted() + AFTERWARDS,
    "fixed": lambda: contracted().replace('"fast"', '"off"', 1),
    "raising": raising,
    "not_raising": lambda: raising().replace(f'"{BUG}", "compile_error"', f'{{"{BUG}": None}}'),
    "gradient": lambda: write_repro(gradient()),
    "folded": folded,
    "not_folded": lambda: folded().replace('"freezing", True', '"freezing", False'),
    "zeros": lambda: zeros(False),
    "signed_zeros": lambda: zeros(True),
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str | None]]:
    """Every text as a file of one run of pytest, from a folder that is not its own: the message of each of
    its tests, None where it passed. One process, since to import torch takes longer than they do."""
    folder, elsewhere = (tmp_path_factory.mktemp(name) for name in ("test", "elsewhere"))
    for name, text in TEXTS.items():
        (folder / f"test_{name}.py").write_text(text(), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml=told.xml"]
    done = subprocess.run(
        [*command, str(folder)], cwd=elsewhere, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 1, done.stdout + done.stderr
    told: dict[str, list[str | None]] = {name: [] for name in TEXTS}
    for case in ElementTree.parse(elsewhere / "told.xml").iter("testcase"):
        failure = case.find("failure")
        name = case.attrib["classname"].rpartition(".")[2].removeprefix("test_")
        told[name].append(None if failure is None else failure.attrib["message"])
    return told


@pytest.mark.live
def test_the_test_fails_while_it_diverges_passes_with_the_fix_and_restores(ran: Ran) -> None:
    message, afterwards = ran["contracted"]
    assert "Differs: Tensor-likes are not close!" in str(message)
    assert (afterwards, ran["fixed"]) == (None, [None])


@pytest.mark.live
def test_an_exception_that_compiled_alone_raises_fails(ran: Ran) -> None:
    (message,) = ran["raising"]
    assert "Differs: eager returns" in str(message)
    assert ran["not_raising"] == [None]


@pytest.mark.live
@pytest.mark.parametrize("text", [contracted, raising])
def test_the_same_file_ends_with_1_and_with_the_fix_with_0_under_python(
    text: Callable[[], str], warm: str, tmp_path: Path
) -> None:
    file = tmp_path / "repro.py"
    file.write_text(text())
    statuses = [subprocess.run([warm, file, *fixed], check=False).returncode for fixed in ([], ["--fixed"])]
    assert statuses == [1, 0]


@pytest.mark.parametrize("text", [contracted, unusual])
def test_to_import_the_file_changes_no_setting(text: Callable[[], str], monkeypatch: Any) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_FX_GRAPH_CACHE", raising=False)
    hook, before = sys.excepthook, now()
    exec(compile(text(), "repro.py", "exec"), {"__name__": "repro"})
    assert (sys.excepthook, now()) == (hook, before)
    assert "TORCHINDUCTOR_FX_GRAPH_CACHE" not in os.environ


@pytest.mark.live
def test_gradients_under_their_own_tolerances_are_compared(ran: Ran) -> None:
    (message,) = ran["gradient"]
    assert "Differs: gradient of x: " in str(message)


@pytest.mark.live
def test_what_freezing_folds_is_held_by_a_module(ran: Ran) -> None:
    (message,) = ran["folded"]
    assert "Tensor-likes are not close" in str(message)
    assert ran["not_folded"] == [None]


@pytest.mark.live
def test_the_sign_of_a_zero_counts_where_asked(ran: Ran) -> None:
    (message,) = ran["signed_zeros"]
    assert "Tensor-likes are not equal" in str(message)
    assert ran["zeros"] == [None]


def test_settings_without_a_patch_hold_for_the_test_and_are_put_back() -> None:
    assert "@torch.no_grad()\n@settings()\ndef test_" in unusual()
    made: dict[str, Any] = {"__name__": "test_unusual"}
    exec(compile(unusual(), "test_unusual.py", "exec"), made)
    before = now()
    with made["settings"]():
        assert now()[:3] == (torch.float64, 1, True)
    assert now() == before
    assert before[0] is torch.float32 and before[2] is False


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"torch.use_deterministic_algorithms": True}, "has no counterpart"),
        ({"inductor.no_such_flag": 1}, "no setting inductor.no_such_flag"),
    ],
)
def test_a_setting_that_cannot_be_put_back_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(CannotWrite, match=said):
        write_repro(contraction(settings=settings))


def test_a_test_is_named_after_few_operations() -> None:
    assert name_of_test(late("ceil_7")) == "test_ceil_agrees_with_eager"
    gm, _ = capture(lambda x: torch.ops.aten._softmax(x.half()[0] * 2, -1, False), torch.ones(1, 2))
    assert name_of_test(gm) == "test_half_getitem_mul_softmax_agrees_with_eager"
    gm, _ = capture(lambda x: x.sin().cos().tan().exp().log(), torch.ones(2))
    assert name_of_test(gm) == "test_compiled_agrees_with_eager"


def test_long_inputs_stand_after_what_is_read() -> None:
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.neg, (graph.placeholder("x"),)),))
    gm = torch.fx.GraphModule(torch.nn.Module(), graph)
    text = write_repro(ReproSpec(gm, [torch.randn(20, 20)], [(0.0, 0.0)]))
    places = [text.index(piece) for piece in ("def test_neg_agrees_with_eager()", "def unpack(", "X_DATA = ")]
    assert places == sorted(places)
    assert "import base64\nimport zlib\n\nimport torch\n" in text
