"""The terminal and Markdown show one list of sections: the same things in the same order."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import pytest

from bisector.report import markdown, sections, terminal
from bisector.report.blocks import Block, Item, Medium, Paragraph, Report, Section, Span, Tone, Verbatim
from tests.report import samples


def texts(blocks: Iterable[Block]) -> Iterator[str]:
    for block in blocks:
        if isinstance(block, Paragraph):
            yield block.text
        elif isinstance(block, Item):
            yield block.head.text
            yield from texts(block.body)


def flat(text: str) -> str:
    return "".join(text.split())


@pytest.mark.parametrize("name", samples.ALL)
def test_both_forms_have_the_same_texts_in_the_same_order(name: str) -> None:
    report = sections.report(samples.document(samples.ALL[name]()), "import torch\n")
    pages = [flat(terminal.render(report, 100, color=False)), flat(markdown.render(report))]
    for section in report.sections:
        if section.shown is Medium.EVERYWHERE:
            for text in (section.title, *texts(section.blocks)):
                public = flat(markdown.without_folders(text))
                assert flat(text) in pages[0] and public in pages[1], text
    titles = [s.title for s in report.sections if s.shown is Medium.EVERYWHERE]
    for page, mark in ((terminal.render(report, 100, color=False), ""), (markdown.render(report), "## ")):
        headings = [re.split(":|  ", line.removeprefix(mark))[0] for line in page.splitlines() if line]
        assert [title for title in headings if title in titles] == titles


def shown(*blocks: Block, where: Medium = Medium.EVERYWHERE) -> Report:
    return Report("A title", Span("An answer."), (Section("Things", blocks, shown=where),))


def test_what_is_for_a_page_is_not_in_the_terminal_and_the_reverse() -> None:
    for where, pages in ((Medium.TERMINAL, (True, False)), (Medium.PAGE, (False, True))):
        report = shown(Paragraph("Said."), where=where)
        found = "Said." in terminal.render(report, 80, color=False), "Said." in markdown.render(report)
        assert found == pages


def test_what_belongs_to_an_item_stands_below_it() -> None:
    body = Paragraph("Said."), Verbatim("x")
    report = shown(Item("1.", Span("a = 1", Tone.NAME), "/home/ada/a.py:3", body))
    printed = terminal.render(report, 80, color=False)
    assert "\n  1. a = 1  /home/ada/a.py:3\n     Said.\n       x\n" in printed
    assert "\n1. `a = 1` (a.py:3)\n\n   Said.\n\n   ```\n   x\n   ```\n" in markdown.render(report)
