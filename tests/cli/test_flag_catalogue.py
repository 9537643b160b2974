"""The curated flags: what each entry must say, and that it is true of the installed torch."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.version import Version

from bisector.cli.flags_catalogue import CatalogueFilter, rows
from bisector.core.flags import Flag
from bisector.core.kinds import KINDS
from bisector.errors import BadOption
from bisector.explain.flags.curated import catalogue, families

FAMILIES = {
    "fma", "unroll", "rematerialization", "pattern passes", "precision casts", "reductions",
    "transcendental and division", "vectorization", "layout and padding", "fusion",
    "matmul precision and autotuning", "random", "caching and buffers", "guards", "shapes and numbers",
    "tracing", "autograd", "caches",
}  # fmt: skip


@pytest.mark.parametrize("flag", catalogue(), ids=lambda flag: flag.name)
def test_an_entry_says_what_its_flag_does_and_where(flag: Flag) -> None:
    assert flag.effect
    assert flag.backend in ("graph", "cpp", "triton", "aten")
    assert flag.device in (None, "cpu", "cuda")
    assert flag.url.startswith("https://github.com/pytorch/pytorch/")
    assert not flag.values or flag.values[0] == flag.conservative
    assert flag.since.startswith("2.")
    assert set(flag.kinds) <= set(KINDS)


def test_every_family_has_flags_and_no_name_is_there_twice() -> None:
    names = [flag.name for flag in catalogue()]
    assert set(families()) == FAMILIES
    assert len(names) == len(set(names)) >= 60


def test_flags_of_another_device_are_not_offered() -> None:
    on_cpu, on_cuda = catalogue(["cpu"]), catalogue(["cuda"])
    assert {flag.device for flag in on_cpu} == {None, "cpu"}
    assert {flag.device for flag in on_cuda} == {None, "cuda"}
    assert catalogue(["cpu", "cuda"]) == catalogue()


@pytest.fixture(scope="module")
def listed() -> list[dict[str, Any]]:
    """The whole catalogue, with what the installed torch says."""
    pytest.importorskip("torch")
    return rows(CatalogueFilter())


def test_this_torch_has_every_flag_since_the_release_that_the_entry_names(
    listed: list[dict[str, Any]],
) -> None:
    installed = Version(Version(importlib.metadata.version("torch")).base_version)
    assert [row["name"] for row in listed] == [flag.name for flag in catalogue()]
    wrong = [r["name"] for r in listed if r["present"] != (Version(r["since"]) <= installed)]
    assert wrong == []


CURATED = {flag.name for flag in catalogue()}
OTHERS: Mapping[str, list[str]] = yaml.safe_load(Path(__file__).with_name("other_settings.yaml").read_text())
LEFT_OUT = [pattern for patterns in OTHERS.values() for pattern in patterns]


def unknown(settings: Iterable[str]) -> list[str]:
    """The settings that are neither curated nor left out for a reason."""
    return sorted(s for s in set(settings) - CURATED if not any(fnmatchcase(s, p) for p in LEFT_OUT))


def test_each_setting_of_this_torch_is_curated_or_left_out_for_a_reason() -> None:
    torch_state = pytest.importorskip("bisector.inductor.torch_state")
    known = {f"{family}.{key}" for family, keys in torch_state.default_values().items() for key in keys}
    assert len(known) > 600
    assert unknown(known) == []
    assert [pattern for pattern in LEFT_OUT if pattern in CURATED] == []


def test_the_file_that_an_entry_refers_to_names_the_flag() -> None:
    if Version(importlib.metadata.version("torch")).release[:2] != (2, 13):
        pytest.skip("the references are to files of torch 2.13")
    found = importlib.util.find_spec("torch")
    assert found is not None and found.submodule_search_locations
    above = Path(found.submodule_search_locations[0]).parent
    flags = [f for f in catalogue() if not f.reference.startswith("#") and ":" not in f.reference]
    assert len(flags) >= 60
    lost = [f.name for f in flags if f.name.rpartition(".")[2] not in (above / f.reference).read_text()]
    assert lost == []


def test_a_row_has_what_torch_says_of_the_setting(listed: list[dict[str, Any]]) -> None:
    [row] = [r for r in listed if r["name"] == "inductor.cpp.enable_floating_point_contract_flag"]
    assert (row["type"], row["default"], row["value"]) == ("str", "off", "off")
    assert row["env"] == "TORCHINDUCTOR_CPP_ENABLE_FLOATING_POINT_CONTRACT_FLAG"


def test_a_family_or_a_device_shows_its_flags_alone() -> None:
    pytest.importorskip("torch")
    shown = rows(CatalogueFilter(family="vectorization", device="cpu"))
    assert {row["family"] for row in shown} == {"vectorization"}
    assert rows(CatalogueFilter(family="vectorization", device="cuda")) == []


@pytest.mark.parametrize("asked", [CatalogueFilter(family="vectors"), CatalogueFilter(device="abacus")])
def test_a_family_or_device_that_there_is_none_of_is_refused_in_a_line(asked: CatalogueFilter) -> None:
    with pytest.raises(BadOption, match="one of: "):
        rows(asked)
