"""The labels of pytorch/pytorch that a result is given."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from bisector.report import markdown, sections
from bisector.report.document import Document
from bisector.report.labels import labels, section
from tests.report import samples

CPU = "oncall: cpu inductor"


def diverging(kind: str, backend: str | None, **values: Any) -> Document:
    result = samples.softmax_pair()
    result["verdict"] |= {"class": kind, "first_bad_backend": backend, **values}
    return samples.document(result)


@pytest.mark.parametrize(
    ("backend", "label"),
    [
        ("eager", "module: dynamo"),
        ("aot_eager", "module: pt2-dispatcher"),
        ("aot_eager_decomp_partition", "module: decompositions"),
        ("inductor", "module: inductor"),
    ],
)
def test_the_first_backend_that_diverges_says_whose_it_is(backend: str, label: str) -> None:
    given = dict(labels(diverging("compiled-worse", backend)))
    assert label in given
    assert (CPU in given) == (backend == "inductor")


def test_a_layer_that_is_not_known_is_not_guessed() -> None:
    given = dict(labels(diverging("compiled-worse", None)))
    assert not {"module: dynamo", "module: inductor", "module: pt2-dispatcher", CPU} & given.keys()


def test_on_a_gpu_it_is_not_the_cpu_s() -> None:
    result = diverging("compiled-worse", "inductor")
    on_gpu = replace(result, environment=replace(result.environment, gpu="NVIDIA H100"))
    assert CPU not in dict(labels(on_gpu))


@pytest.mark.parametrize("kind", ["amplified-rounding", "equally-accurate", "compiled-better"])
def test_rounding_is_no_wrong_result(kind: str) -> None:
    given = dict(labels(diverging(kind, "inductor")))
    assert "module: numerical-stability" in given and "module: correctness (silent)" not in given
    page = markdown.render(sections.report(diverging(kind, "inductor")))
    assert "here the difference is ordinary rounding" in page


def test_what_is_farther_from_float64_is_worth_an_issue() -> None:
    page = markdown.render(sections.report(diverging("compiled-worse", "inductor", rule="accuracy")))
    assert "farther from the float64 reference than eager; PyTorch's maintainers ask for an issue" in page


def test_a_result_of_another_kind_is_not_told_by_rounding() -> None:
    page = markdown.render(sections.report(diverging("compiled-worse", "inductor", rule="kind")))
    assert "of another kind than eager's" in page.partition("## Triage")[2]


def test_a_workaround_is_one_that_was_confirmed() -> None:
    result = diverging("compiled-worse", "inductor")
    assert "has workaround" in dict(labels(result))
    fixes = tuple(replace(fix, confirmed=False) for fix in result.fixes)
    assert "has workaround" not in dict(labels(replace(result, fixes=fixes)))


@pytest.mark.parametrize("result", [samples.agrees(), samples.nondeterministic(), samples.unresolved()])
def test_what_does_not_diverge_has_no_labels(result: dict[str, Any]) -> None:
    assert section(samples.document(result)) is None
