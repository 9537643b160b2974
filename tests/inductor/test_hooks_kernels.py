"""split, template and cudagraph: which kernels compute a node and how they are started, each denied alone."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import torch._inductor.config as inductor_config
from torch._inductor import cudagraph_trees, output_code
from torch._inductor.choices import InductorChoices
from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.cpp import CppScheduling
from torch._inductor.graph import GraphLowering

from bisector.inductor.control import Control, activate
from bisector.inductor.hooks import cudagraph
from tests.inductor.helpers import allow, compile_and_run, compile_only, deny

pytestmark = pytest.mark.usefixtures("compiler")


def two_sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.sum(), (x * 2).sum()


@pytest.fixture
def splitting(monkeypatch: pytest.MonkeyPatch) -> None:
    """The C++ backend splits reductions here as the GPU backends do."""
    has_feature = GraphLowering.has_feature

    def without(self: GraphLowering, device: Any, feature: BackendFeature) -> bool:
        return feature is not BackendFeature.REDUCE_TO_SINGLE_ELEMENT and has_feature(self, device, feature)

    def factor(device: Any, numel: int, *_: Any, **__: Any) -> int:
        return 8 if numel > 1000 else 1

    monkeypatch.setattr(GraphLowering, "has_feature", without)
    monkeypatch.setattr(InductorChoices, "reduction_split_factor", staticmethod(factor))


@pytest.mark.usefixtures("splitting")
def test_each_reduction_in_parts_is_a_decision_and_is_whole_where_it_is_denied(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    args = [torch.ones(8, 4096)]
    args[0][0, 0] = 2.0**30  # a one that is added to it is lost; each part that it is not in keeps its ones
    whole = compile_and_run(two_sums, args, deny("split:aten.sum@sum_1", "split:aten.sum@sum_2"))
    default = compile_and_run(two_sums, args, Control())
    splits = [i for i in default.ids if i.startswith("split:")]
    assert splits == ["split:aten.sum@sum_1", "split:aten.sum@sum_2"]
    for at, member in enumerate(splits):
        denied = compile_and_run(two_sums, args, deny(member))
        assert [i for i in denied.ids if i.startswith("split:")] == splits
        # Parts are added in another order: a sum has the bits of the whole one exactly where it is denied.
        for i, (a, b) in enumerate(zip(denied.outputs, whole.outputs, strict=True)):
            assert torch.equal(a, b) == (i == at)
    monkeypatch.setattr(InductorChoices, "reduction_split_factor", staticmethod(lambda *_, **__: 1))
    assert whole.source == compile_only(two_sums, args, Control()).source


def test_a_cpu_reduction_is_not_split() -> None:
    ids = compile_only(two_sums, [torch.ones(8, 4096)], Control()).ids
    assert not [i for i in ids if i.startswith("split:")]


def products(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.bmm(x, w), torch.bmm(x + 1, w)


def factors() -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(4, 32, 256, generator=generator), torch.randn(4, 256, 64, generator=generator)]


@pytest.fixture
def tuned() -> Iterator[None]:
    with inductor_config.patch({"max_autotune_gemm": True, "max_autotune_gemm_backends": "CPP"}):
        yield


@pytest.mark.usefixtures("tuned")
def test_each_template_is_a_decision_and_the_library_runs_where_it_is_denied() -> None:
    default = compile_only(products, factors(), Control())
    templates = [i for i in default.ids if i.startswith("template:")]
    assert templates == ["template:aten.bmm@bmm", "template:aten.bmm@bmm_1"]
    assert "extern_kernels.bmm" not in default.source
    for member in templates:
        denied = compile_only(products, factors(), deny(member))
        assert denied.source.count("extern_kernels.bmm(") == 1
        assert [i for i in denied.ids if i.startswith("template:")] == templates
    assert compile_only(products, factors(), allow()).source.count("extern_kernels.bmm(") == 2


@pytest.fixture
def wrong_templates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a template gives other bits than the library hangs on the processor; here it is wrong."""
    define = CppScheduling.define_kernel

    def define_kernel(self: Any, source: str, *args: Any, **kwargs: Any) -> Any:
        if "_micro_gemm(" in source:
            source = source.rstrip().removesuffix("}") + "    Y[0] += 1;\n}\n"
        return define(self, source, *args, **kwargs)

    monkeypatch.setattr(CppScheduling, "define_kernel", define_kernel)


@pytest.mark.usefixtures("tuned", "wrong_templates")
def test_a_template_is_the_cause_of_other_values_than_those_of_eager() -> None:
    eager = list(products(*factors()))
    for member, at in (("template:aten.bmm@bmm", 0), ("template:aten.bmm@bmm_1", 1)):
        denied = compile_and_run(products, factors(), deny(member))
        agreeing = [torch.equal(a, b) for a, b in zip(denied.outputs, eager, strict=True)]
        assert agreeing == [at == 0, at == 1]


def test_without_tuning_there_is_no_template() -> None:
    ids = compile_only(products, factors(), Control()).ids
    assert not [i for i in ids if i.startswith("template:")]


def recorded(control: Control | None, backward: bool, reasons: list[str]) -> bool:
    """Whether the hook lets a graph be recorded. No GPU: the graph and torch's function are stand-ins."""
    graph = SimpleNamespace(
        cudagraph_info=SimpleNamespace(cudagraph_fail_reasons=reasons),
        fx_kwargs={"is_backward": backward, "is_inference": not backward},
        current_callable=None,
    )
    flag, seen = output_code.BoxedBool(True), []
    hook = cudagraph._ask(lambda *args: seen.append(args))
    if control is None:
        hook([], graph, flag, {}, None)
    else:
        with activate(control), pytest.MonkeyPatch.context() as patch:
            patch.setattr(output_code, "maybe_handle_backward_generation", lambda *args: None)
            hook([], graph, flag, {}, None)
    assert bool(seen) == flag.value
    return bool(seen)


def test_each_recorded_graph_is_a_decision_and_is_not_recorded_where_it_is_denied() -> None:
    listing = Control()
    assert recorded(listing, False, []) and recorded(listing, True, [])
    members = ["cudagraph:forward@graph", "cudagraph:backward@graph"]
    assert [d.id for d in listing.decisions()] == members
    assert not recorded(deny(members[0]), False, [])
    assert recorded(deny(members[0]), True, [])
    assert recorded(None, False, [])


def test_the_manager_of_recordings_is_made_for_a_backward_that_is_compiled_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No GPU: the container that would make it is a stand-in; torch's own function looks for it there."""
    made = SimpleNamespace(set_to_running_backward=lambda: ran.append("manager"))
    container, ran = SimpleNamespace(tree_manager=None), []

    def get_tree_manager() -> Any:
        container.tree_manager = made
        return made

    container.get_tree_manager = get_tree_manager
    monkeypatch.setattr(cudagraph_trees, "get_container", lambda index: container)
    graph = SimpleNamespace(
        fx_kwargs={"is_backward": True}, current_callable=lambda inputs: ran.append("graph")
    )
    output_code.maybe_handle_backward_generation(graph, SimpleNamespace(value=0))  # type: ignore[arg-type]
    graph.current_callable([])
    assert ran == ["manager", "graph"]


def test_a_graph_that_torch_itself_does_not_record_is_no_decision() -> None:
    listing = Control()
    recorded(listing, False, ["an input is on the CPU"])
    assert listing.decisions() == ()
