"""The curated flags: which are offered for which device, and that this torch has them."""

from __future__ import annotations

import pytest

from bisector.session.flagcatalogue import catalogue, live_catalogue


def test_flags_of_another_device_are_not_offered() -> None:
    on_cpu, on_cuda = catalogue(["cpu"]), catalogue(["cpu", "cuda"])
    assert on_cuda == catalogue()
    assert {flag.device for flag in on_cpu} == {None}
    assert {flag.name for flag in on_cuda} - {flag.name for flag in on_cpu} >= {
        "inductor.eager_numerics.division_rounding",
        "inductor.eager_numerics.disable_ftz",
        "inductor.eager_numerics.use_pytorch_libdevice",
        "inductor.triton.persistent_reductions",
        "backends.cuda.matmul.allow_tf32",
    }


def test_this_torch_has_every_flag_of_the_catalogue() -> None:
    pytest.importorskip("torch")
    assert [row["name"] for row in live_catalogue() if not row["present"]] == []
