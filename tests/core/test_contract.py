import pytest

from bisector.core.contract import Breach, ContractCheck, check_causes, check_repairs
from bisector.core.model import ProbeResult
from bisector.core.outcome import Outcome
from tests.core.helpers import FAIL, PASS, UNRESOLVED
from tests.core.measurements import judged


def result(outcome: Outcome, reason: str = "as measured") -> ProbeResult:
    return judged(outcome, reason)


def test_it_holds_where_the_plain_baseline_passes_and_the_default_compile_fails() -> None:
    assert check_causes(nothing_enabled=result(PASS), everything_enabled=result(FAIL)) == ContractCheck()
    assert check_repairs(nothing_denied=result(FAIL), everything_denied=result(PASS)) == ContractCheck()
    assert ContractCheck().holds


@pytest.mark.parametrize("plain", Outcome)
@pytest.mark.parametrize("default", Outcome)
def test_every_other_pair_of_ends_breaks_it_in_one_way(plain: Outcome, default: Outcome) -> None:
    causes = check_causes(result(plain), result(default))
    repairs = check_repairs(result(default), result(plain))
    for check in (causes, repairs):
        assert check.holds == ((plain, default) == (PASS, FAIL))
        assert check.holds == (check.breach is None)


@pytest.mark.parametrize(
    ("plain", "default", "breach"),
    [
        (PASS, PASS, Breach.DEFAULT_PASSES),
        (PASS, UNRESOLVED, Breach.DEFAULT_UNRESOLVED),
        (FAIL, FAIL, Breach.PLAIN_FAILS),
        (UNRESOLVED, FAIL, Breach.PLAIN_UNRESOLVED),
        (FAIL, PASS, Breach.DEFAULT_PASSES),  # where nothing diverges, the plain end does not matter
        (UNRESOLVED, UNRESOLVED, Breach.DEFAULT_UNRESOLVED),
    ],
)
def test_both_searches_name_the_same_breach(plain: Outcome, default: Outcome, breach: Breach) -> None:
    assert check_causes(result(plain), result(default)).breach is breach
    assert check_repairs(result(default), result(plain)).breach is breach


def test_the_reason_is_that_of_the_end_that_breaks() -> None:
    crash = result(UNRESOLVED, "crash: signal 11 {in} kernel")
    assert check_causes(crash, result(FAIL, "0.5 off")).reason == crash.reason
    assert check_repairs(crash, result(PASS)).reason == crash.reason
