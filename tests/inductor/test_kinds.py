"""What must know of each kind of decision does, or the message says what is left out and where it belongs."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from bisector.core.kinds import KINDS, WELFORD, Kind

pytest.importorskip("torch")
from bisector.inductor import hooks
from bisector.inductor.hooks.selftest import PROGRAMS, SCRIPTS
from bisector.report.schema import schema

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Places:
    """Where kinds are known by name, beside their table.

    hooks, programs: the kinds that have a hook, and a program of the self-test. words: docs/words.md.
    tests: the source of the tests of hooks, by file.
    """

    hooks: Collection[str]
    programs: Collection[str]
    words: str
    tests: Mapping[str, str]

    def strangers(self, kinds: Mapping[str, Kind]) -> list[str]:
        """What is known here and is none of the kinds."""
        told = []
        known = {
            "bisector/inductor/hooks/__init__.py": self.hooks,
            "bisector/inductor/hooks/selftest.py": self.programs,
            "docs/words.md": re.findall(r"^\| `(\w+)` \|", self._table(), re.MULTILINE),
        }
        for place, names in known.items():
            told += [
                f"{place} has the kind {name}, which bisector/core/kinds.py has not"
                for name in set(names) - set(kinds)
            ]
        return told

    def left_out(self, kind: Kind) -> list[str]:
        """What does not know the kind, and where to add it."""
        row = f"| `{kind.name}` | {kind.sentence} |"
        named = re.compile(rf'"(g\d/)?{kind.name}:')
        tested = any(named.search(source) for source in self.tests.values())
        checks = [
            (row in self._table(), f"add the line {row!r} to docs/words.md, under Decisions"),
            (
                kind.sentence.endswith(".") and kind.noun != "",
                "give it a noun and a sentence in bisector/core/kinds.py",
            ),
            (
                kind.name in self.hooks or not kind.hooked,
                "add its hook to bisector/inductor/hooks/__init__.py",
            ),
            (
                kind.name in self.programs or not kind.self_tested,
                "add a program that comes to it to bisector/inductor/hooks/selftest.py",
            ),
            (
                tested or not kind.hooked,
                "add a test that denies one of its decisions to tests/inductor/test_hooks_*.py",
            ),
        ]
        return [f"the kind {kind.name} is left out: {message}" for known, message in checks if not known]

    def _table(self) -> str:
        return self.words.partition("## Decisions")[2].partition("\n## ")[0]


def here() -> Places:
    return Places(
        hooks=hooks.BY_KIND.keys(),
        programs={kind.name for program in PROGRAMS for kind in program.kinds} | set(SCRIPTS),
        words=(ROOT / "docs/words.md").read_text(encoding="utf-8"),
        tests={
            p.name: p.read_text(encoding="utf-8") for p in (ROOT / "tests/inductor").glob("test_hooks_*.py")
        },
    )


def without(names: Collection[str], name: str) -> list[str]:
    return [other for other in names if other != name]


def test_nothing_is_left_out_of_any_kind() -> None:
    places = here()
    told = [message for kind in KINDS.values() for message in places.left_out(kind)]
    told += places.strangers(KINDS)
    assert not told, "\n".join(told)


def test_the_schema_lets_a_hook_that_is_off_on_triton_alone_be_named() -> None:
    names = schema()["properties"]["hooks_off"]["propertyNames"]["enum"]
    assert names == [*KINDS, *hooks.ON_TRITON]


@pytest.mark.parametrize("place", ["hook", "program", "words", "test"])
def test_one_thing_that_is_left_out_is_named_with_the_place_where_it_belongs(place: str) -> None:
    full, name = here(), WELFORD.name
    row = f"| `{name}` | {WELFORD.sentence} |"
    less, said = {
        "hook": (replace(full, hooks=without(full.hooks, name)), "add its hook to"),
        "program": (
            replace(full, programs=without(full.programs, name)),
            "add a program that comes to it to",
        ),
        "words": (replace(full, words=full.words.replace(row, "")), f"add the line {row!r} to docs/words.md"),
        "test": (
            replace(full, tests={f: text.replace(f'"{name}:', '"') for f, text in full.tests.items()}),
            "add a test that denies one of its decisions to",
        ),
    }[place]
    [message] = less.left_out(WELFORD)
    assert message.startswith(f"the kind {name} is left out: {said}")


def test_a_kind_without_words_is_named() -> None:
    [message] = here().left_out(replace(WELFORD, noun=""))
    assert message.startswith("the kind welford is left out: give it a noun and a sentence")


def test_a_kind_that_the_table_lacks_is_named_at_each_place_that_has_it() -> None:
    told = here().strangers({name: kind for name, kind in KINDS.items() if kind is not WELFORD})
    assert len(told) == 3
    assert all("has the kind welford, which bisector/core/kinds.py has not" in message for message in told)
