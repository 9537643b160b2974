"""Which settings make the difference between two configurations, on planted truths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from bisector.core.case import WHOLE
from bisector.core.endings import AnotherOutcome, Ending
from bisector.core.flags import Contrast
from bisector.core.model import Candidate, Measurement
from bisector.core.outcome import Outcome
from bisector.core.protocol import RunProbe
from bisector.explain.flags.contrast import Between, contrast
from tests.explain.fake_lab import DIVERGES, FakeLab, bytes_that_differ

Settings = dict[str, Any]
NAMES = [f"inductor.f{i}" for i in range(6)]
ONES: Settings = dict.fromkeys(NAMES, 1)
ZEROS: Settings = dict.fromkeys(NAMES, 0)


class Lab(FakeLab):
    """diverges: told the value of every setting. as_is: what a setting is that a probe does not name."""

    def __init__(self, diverges: Callable[[Settings], bool], as_is: Settings | None = None) -> None:
        super().__init__({RunProbe: self.probe}, jobs=1)
        self.diverges = diverges
        self.as_is = dict(ONES if as_is is None else as_is)
        self.tried: list[Settings] = []

    def probe(self, request: RunProbe) -> Measurement:
        flags = dict(request.candidate.flags)
        if flags not in self.tried:
            self.tried.append(flags)
        return bytes_that_differ(int(self.diverges({**self.as_is, **flags})))


def between(lab: Lab, good: Settings, bad: Settings) -> Between:
    study = lab.study(DIVERGES)
    default = study.probe(Candidate())
    lab.tried.clear()
    return Between(study, WHOLE, default, good, bad, lab.as_is)


def ones(*numbers: int) -> Settings:
    return {f"inductor.f{i}": 1 for i in numbers}


def zeros(*numbers: int) -> Settings:
    return {f"inductor.f{i}": 0 for i in numbers}


def test_two_settings_that_are_both_needed_are_one_cause_and_two_repairs() -> None:
    lab = Lab(lambda s: bool(s["inductor.f1"] and s["inductor.f4"]))
    found = contrast(between(lab, ZEROS, ONES), "other")
    assert found.causes == (ones(1, 4),)
    assert sorted(map(str, found.repairs)) == sorted(map(str, (zeros(1), zeros(4))))
    assert (found.target, found.unknown) == (Outcome.FAIL, None)


def test_two_settings_of_which_each_will_do_are_two_causes_and_one_repair() -> None:
    lab = Lab(lambda s: bool(s["inductor.f0"] or s["inductor.f5"]))
    found = contrast(between(lab, ZEROS, ONES), "other")
    assert found.repairs == (zeros(0, 5),)
    assert sorted(map(str, found.causes)) == sorted(map(str, (ones(0), ones(5))))


def test_where_the_other_configuration_diverges_the_sets_are_in_its_terms() -> None:
    lab = Lab(lambda s: not s["inductor.f3"])
    found = contrast(between(lab, ONES, ZEROS), "other")
    assert (found.target, found.repairs, found.causes) == (Outcome.PASS, (ones(3),), (zeros(3),))


def test_what_a_setting_is_already_is_not_set() -> None:
    lab = Lab(lambda s: bool(s["inductor.f1"]))
    contrast(between(lab, ZEROS, ONES), "other")
    assert {"inductor.f1": 0} in lab.tried
    assert {} not in lab.tried  # what the subject gives as it is was known
    assert all(value == 0 for flags in lab.tried for value in flags.values())


@pytest.mark.parametrize(
    ("diverges", "unknown"),
    [
        (lambda s: True, AnotherOutcome("other", Outcome.FAIL, Outcome.PASS)),
        (lambda s: False, AnotherOutcome(None, Outcome.PASS, Outcome.FAIL)),
    ],
)
def test_two_configurations_that_are_alike_give_no_sets(diverges: Any, unknown: Ending) -> None:
    found = contrast(between(Lab(diverges), ZEROS, ONES), "other")
    assert found == Contrast("other", Outcome.FAIL, unknown=unknown)


def test_the_sets_that_are_likely_save_probes() -> None:
    def lab() -> Lab:
        return Lab(lambda s: bool(s["inductor.f1"] and s["inductor.f4"]))

    plain, told = lab(), lab()
    contrast(between(plain, ZEROS, ONES), "other")
    likely = [frozenset({"config:inductor.f1@graph", "config:inductor.f4@graph"})]
    assert contrast(between(told, ZEROS, ONES), "other", likely).causes == (ones(1, 4),)
    assert len(told.asked) < len(plain.asked)
