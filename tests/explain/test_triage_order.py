"""Which failure is worked on next, with jobs that are told what they find; a real triage is in tests/e2e."""

from __future__ import annotations

import json
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from bisector.core.clusters import Cause
from bisector.core.options import Options
from bisector.core.outcome import Outcome
from bisector.errors import BadOption, BadTarget
from bisector.explain.run import Clock
from bisector.explain.triage.driver import Triage
from bisector.explain.triage.failure import Looked, clustered
from bisector.explain.triage.store import Store
from bisector.subject.targets import Failure, Target, TargetKind
from tests.runner.test_head import HEAD

DIES = "dies"


class ToldPool:
    """Each job does at once what its target's name says before a dash: a cause, `agrees` or `dies`."""

    def __init__(self, store: Store, width: int = 2) -> None:
        self.store, self.width = store, width
        self.asked: list[tuple[str, str, tuple[str, ...]]] = []  # command, target, known causes

    def submit(self, request: Path) -> Future[str | None]:
        raw = json.loads(request.read_text())
        looked, command = Looked.from_json(raw["looked"]), raw["options"]["command"]
        known = tuple(Cause.from_json(cause).key for cause in raw["known"])
        done: Future[str | None] = Future()
        target = Path(looked.target).name
        self.asked.append((command, target, known))
        cause = target.partition("-")[0]
        if cause == DIES:
            done.set_result("its job ended with signal 11")
            return done
        after = self._after(looked, command, cause, known)
        self.store.write(request.parent / "failure.json", after.to_json())
        done.set_result(None)
        return done

    def _after(self, looked: Looked, command: str, cause: str, known: tuple[str, ...]) -> Looked:
        if command == "check":
            outcome = Outcome.PASS if cause == "agrees" else Outcome.FAIL
            return replace(looked, outcome=outcome, signature="value", patterns=(f"vec:{cause}",), probes=1)
        is_known = f"vec:{cause}" in known
        found = Cause(frozenset({f"vec:{cause}"}))
        return replace(looked, cause=found, known=is_known, explained=True, probes=3 if is_known else 100)

    def close(self) -> None:
        pass


class OneJob(Clock):
    """A budget that is spent with the first job."""

    def __init__(self, pool: ToldPool) -> None:
        super().__init__(None)
        self.pool = pool

    def exhausted(self) -> str | None:
        return "the budget is spent" if self.pool.asked else None


def triage(store: Store, names: list[str], pool: ToldPool, **options: object) -> Triage:
    for place, name in enumerate(names):
        failure = Failure(f"{place:02}{name}", Path(name), Target(TargetKind.SCRIPT, Path(name)))
        store.begin(failure, f"2026-01-01T00:00:{place:02}Z")
    driver = Triage(store, pool, Options(""), lambda stage, text: None)
    for name, value in options.items():
        setattr(driver, name, value)
    return driver


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.opened(tmp_path / "triage", {}, HEAD)


def test_one_full_run_for_each_cause_and_the_rest_is_told_by_it(store: Store) -> None:
    pool = ToldPool(store, width=1)
    driver = triage(store, [f"{cause}-{n}" for n in range(5) for cause in ("erf", "tanh")], pool)
    assert driver.work(list(store.known().values())) is None
    found = list(store.known().values())
    assert sum(not one.known for one in found) == 2
    assert [(c.cause.key, len(c.members)) for c in clustered(found)] == [("vec:erf", 5), ("vec:tanh", 5)]


def test_the_least_like_are_explained_first(store: Store) -> None:
    pool = ToldPool(store, width=1)
    driver = triage(store, ["erf-1", "erf-2", "erf-3", "tanh-1"], pool)
    driver.work(list(store.known().values()))
    explained = [target for command, target, _ in pool.asked if command == "minimize"]
    assert {target.partition("-")[0] for target in explained[:2]} == {"erf", "tanh"}


def test_what_agrees_is_not_explained_and_a_job_that_dies_is_no_verdict(store: Store) -> None:
    pool = ToldPool(store)
    driver = triage(store, ["agrees-1", "dies-1", "erf-1"], pool)
    driver.work(list(store.known().values()))
    found = {Path(one.target).name: one for one in store.known().values()}
    assert (found["agrees-1"].outcome, found["agrees-1"].explained) == (Outcome.PASS, False)
    assert (found["dies-1"].outcome, found["dies-1"].problem) == (
        Outcome.UNRESOLVED, "its job ended with signal 11",
    )  # fmt: skip
    assert found["erf-1"].cause is not None


def test_stopped_at_any_job_it_goes_on_without_asking_one_twice(store: Store) -> None:
    names = ["erf-1", "tanh-1", "erf-2", "agrees-1"]
    asked: list[tuple[str, str]] = []
    for allowed in range(1, 9):
        pool = ToldPool(store, width=1)
        driver = triage(store, names, pool) if allowed == 1 else Triage(store, pool, Options(""), print)
        driver.clock = OneJob(pool)
        waiting = [o for o in store.known().values() if not o.explained and o.outcome is not Outcome.PASS]
        stopped = driver.work(waiting)
        asked += [(command, target) for command, target, _ in pool.asked]
        if stopped is None:
            break
    assert len(asked) == len(set(asked)) == 4 + 3
    assert [len(cluster.members) for cluster in clustered(store.known().values())] == [2, 1]


def test_a_folder_that_is_no_triage_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(BadOption, match="neither empty nor a triage"):
        Store.opened(tmp_path, {}, HEAD)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_triage_grows_under_the_head_that_it_was_begun_with(tmp_path: Path) -> None:
    store = Store.opened(tmp_path, {}, HEAD)
    other = replace(HEAD, versions={**HEAD.versions, "torch": "2.14.0"})
    Store.opened(tmp_path, {}, other)  # nothing was looked at yet
    Store.opened(tmp_path, {}, HEAD)
    (store.failures / "a").mkdir()
    store.write(store.failures / "a" / "failure.json", {})
    with pytest.raises(BadTarget, match=r"torch is 2\.14\.0, and was .*; `--again` starts over"):
        Store.opened(tmp_path, {}, other)
    Store(tmp_path).start_over()
    assert not store.failures.exists()
    Store.opened(tmp_path, {}, other)


def test_a_folder_that_is_no_triage_is_not_cleared(tmp_path: Path) -> None:
    (tmp_path / "failures").mkdir()
    Store(tmp_path).start_over()
    assert (tmp_path / "failures").exists()
