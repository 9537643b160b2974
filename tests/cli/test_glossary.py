"""`numbisect explain`."""

from __future__ import annotations

import pytest

from bisector.cli.glossary import explain
from bisector.core.flags import Flag
from bisector.core.kinds import KINDS
from bisector.errors import BadOption
from bisector.explain.flags.curated import catalogue
from bisector.report.words import CLASS_SENTENCES


def said(word: str | None, capsys: pytest.CaptureFixture[str]) -> str:
    assert explain(word) == 0
    return " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_is_explained_with_the_flags_that_govern_it(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(name, capsys)
    assert KINDS[name].sentence in text
    assert all(flag.name in text for flag in catalogue() if name in flag.kinds)


@pytest.mark.parametrize("flag", catalogue(), ids=lambda flag: flag.name)
def test_every_flag_is_explained_with_its_kinds_and_where_to_read_on(
    flag: Flag, capsys: pytest.CaptureFixture[str]
) -> None:
    text = said(flag.name, capsys)
    assert " ".join(flag.effect.split()) in text and flag.url in text
    assert all(KINDS[kind].sentence in text for kind in flag.kinds)
    assert said(f"config:{flag.name}@graph", capsys) == text, "the decision that stands for it"


@pytest.mark.parametrize("name", CLASS_SENTENCES)
def test_every_verdict_is_explained(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert CLASS_SENTENCES[name] in said(name, capsys)


def test_the_end_of_a_flag_s_name_will_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert said("force_shape_pad", capsys).startswith("inductor.force_shape_pad ")
    assert said("cpp.simdlen", capsys).startswith("inductor.cpp.simdlen ")


def test_a_whole_decision_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert "`fma:sub@mul_1` is the FMA contraction of `mul_1`." in said("fma:sub@mul_1", capsys)


def test_without_a_word_all_kinds_and_verdicts_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    text = said(None, capsys)
    assert all(sentence in text for sentence in CLASS_SENTENCES.values())
    assert all(kind.sentence in text for kind in KINDS.values())


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("fmaa", "did you mean fma?"),
        ("xyzzy-42", "`numbisect explain` lists all"),
    ],
)
def test_an_unknown_word_ends_in_one_line_that_helps(
    word: str, hint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadOption, match="no kind of decision, flag or verdict has this name") as error:
        explain(word)
    assert hint in str(error.value)
