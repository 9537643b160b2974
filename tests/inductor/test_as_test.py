"""A divergence as a test: it fails by its comparison alone, and leaves the settings as they were."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from bisector.core.fix import SetFlags, UseBackend
from bisector.inductor.graph.repro_spec import ReproSpec
from bisector.inductor.graph.values import CannotWrite
from bisector.inductor.write_scripts import name_of_test, write_test

from .test_repro_file import CONTRACT, Normalized, contraction, gradient, spec
from .test_source import capture, late

Ran = dict[str, list[str | None]]
AFTERWARDS = f"""

def test_afterwards():
    assert torch._{CONTRACT.replace(".", ".config.", 1)} != "fast"
"""


def contracted() -> str:
    return write_test(contraction(fix=SetFlags({CONTRACT: "off"}), header=["Contraction in exp(a*b - max)"]))


def folded() -> str:
    torch.manual_seed(0)
    net = Normalized()
    net(torch.randn(8, 4, 8, 8) * 3 + 1)
    net = net.eval().to(torch.bfloat16)
    x = torch.randn(4, 4, 8, 8).to(torch.bfloat16)
    settings = {"inductor.freezing": True}
    with torch.no_grad():
        return write_test(spec(net, x, tolerances=[(1.6e-2, 1e-5)], settings=settings, grad_enabled=False))


def zeros(signed: bool) -> str:
    x = torch.tensor([-0.5, 0.5])
    made = spec(lambda x: torch.ceil(x) + torch.zeros_like(x), x, signed_zero=True)
    return write_test(replace(made, signed_zero=signed))


def unusual() -> str:
    return write_test(
        contraction(
            settings={"backends.mkldnn.deterministic": True, CONTRACT: "fast", "functorch.cse": False},
            grad_enabled=False,
            default_dtype=torch.float64,
            num_threads=1,
            seed=3,
        )
    )


TEXTS: dict[str, Callable[[], str]] = {
    "contracted": lambda: contracted() + AFTERWARDS,
    "fixed": lambda: contracted().replace('"fast"', '"off"', 1),
    "gradient": lambda: write_test(gradient()),
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
    assert "AssertionError: Tensor-likes are not close!" in str(message)
    assert (afterwards, ran["fixed"]) == (None, [None])


def test_the_file_is_plain_and_reads_from_the_top() -> None:
    text = contracted()
    assert text.startswith(
        "# Contraction in exp(a*b - max)\n"
        '# Fix: torch._inductor.config.cpp.enable_floating_point_contract_flag = "off"\n'
        "#\n"
        "# python -m pytest repro.py   fails while compiled differs\n"
        "import torch\n"
        "import torch._inductor.config\n\n\n"
        "def fn(x, scale):\n"
    )
    assert text.endswith(
        '@torch._inductor.config.patch("cpp.enable_floating_point_contract_flag", "fast")\n'
        "def test_compiled_agrees_with_eager():\n"
        "    torch._dynamo.reset()\n"
        "    expected = fn(*inputs())\n"
        "    actual = torch.compile(fn)(*inputs())\n"
        "    torch.testing.assert_close(actual, expected, rtol=1.3e-06, atol=1e-05, equal_nan=True)\n"
    )
    assert "bisector" not in text and "import pytest" not in text and "FIXED" not in text


@pytest.mark.live
def test_gradients_under_their_own_tolerances_are_compared(ran: Ran) -> None:
    text = write_test(gradient())
    assert "# Fix: torch._inductor.config.force_disable_caches = True" in text
    assert "#      torch._decomp.remove_decompositions(" in text
    assert "#      torch._inductor.lowering.make_fallback(" in text
    (message,) = ran["gradient"]
    assert "AssertionError: gradient of x: " in str(message)


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
    def now() -> tuple[object, ...]:
        return torch.get_default_dtype(), torch.get_num_threads(), torch.backends.mkldnn.deterministic

    assert "@torch.no_grad()\n@settings()\ndef test_" in unusual()
    made: dict[str, Any] = {"__name__": "test_unusual"}
    exec(compile(unusual(), "test_unusual.py", "exec"), made)
    before = now()
    with made["settings"]():
        assert now() == (torch.float64, 1, True)
    assert now() == before == (torch.float32, before[1], False)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"env.A": 1}, "environment variable"),
        ({"torch.use_deterministic_algorithms": True}, "has no counterpart"),
        ({"inductor.no_such_flag": 1}, "no setting inductor.no_such_flag"),
    ],
)
def test_a_setting_that_cannot_be_put_back_is_refused(settings: dict[str, object], said: str) -> None:
    with pytest.raises(CannotWrite, match=said):
        write_test(contraction(settings=settings))


def test_another_backend_as_a_fix_is_said_in_the_comment_alone() -> None:
    text = write_test(contraction(fix=UseBackend("aot_eager"), compile_kwargs={"dynamic": False}))
    assert '# Fix: torch.compile(..., backend="aot_eager")\n' in text
    assert "torch.compile(fn, dynamic=False)(*inputs())" in text


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
    text = write_test(ReproSpec(gm, [torch.randn(20, 20)], [(0.0, 0.0)]))
    places = [text.index(piece) for piece in ("def test_neg_agrees_with_eager()", "def unpack(", "X_DATA = ")]
    assert places == sorted(places)
    assert "import base64\nimport zlib\n\nimport torch\n" in text
