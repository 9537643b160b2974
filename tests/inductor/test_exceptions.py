"""What a run raised reads alike however its code was built."""

from __future__ import annotations

import pytest

from bisector.inductor.probing import describe_error

HASHED = "/tmp/cache/xy/c" + "a2" * 25 + "z.main.cpp"
TOGETHER = "/tmp/numbisect-3bosi_3q/3.cpp"
PLACES = (f"kernel, {HASHED}:41", f"kernel_0, {TOGETHER}:703", f"kernel_12, {TOGETHER}:9")


@pytest.mark.parametrize("place", PLACES)
def test_an_error_in_a_kernel_names_no_file_and_no_number_of_it(place: str) -> None:
    error = RuntimeError(f"{place}, index out of bounds: 0 <= tmp34 < 6L")
    told = "RuntimeError: kernel, the generated code, index out of bounds: 0 <= tmp34 < 6L"
    assert describe_error(error) == told


def test_a_file_of_the_users_stays() -> None:
    assert describe_error(OSError("/home/ada/numbisect-runs/3.cpp is gone")) == (
        "OSError: /home/ada/numbisect-runs/3.cpp is gone"
    )
