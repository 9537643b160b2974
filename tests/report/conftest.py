"""A real Chromium for the tests of pages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")  # else playwright's own


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM)
        yield opened
        opened.close()


def violations(browser: Any, file: Path, theme: str) -> list[str]:
    """What axe-core finds wrong with a page: contrast, labels, headings, keyboard."""
    from axe_playwright_python.sync_playwright import Axe

    # The page's own policy lets no other script in.
    opened = browser.new_page(color_scheme=theme, bypass_csp=True)
    opened.goto(file.as_uri())
    found = Axe().run(opened).response["violations"]
    opened.close()
    return [f"{one['id']}: {node['html'][:120]}" for one in found for node in one["nodes"]]
