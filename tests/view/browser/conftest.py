"""A Chromium with pages of recorded sessions. Whatever a test looks at: no error, and nothing asked of another host."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import expect, sync_playwright
from shared import CASES, corpus
from viewer import TOKEN, Viewer, copy_cases, running, write_made, write_old, write_repeated, write_sent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

FLAGS = "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
FLAGS += " --disable-component-update --disable-sync"
PATIENCE_MS = 60_000


@dataclass(slots=True)
class Watched:
    """What a page did that no page may do."""

    wrong: list[str] = field(default_factory=list)

    def watch(self, page: Page, own: str) -> None:
        page.on("console", lambda message: self.wrong.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("request", lambda asked: None if asked.url.startswith((own, "data:")) else self.wrong.append(asked.url))
        page.on("dialog", lambda dialog: self.wrong.append(dialog.message))


@pytest.fixture(scope="session")
def viewer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Viewer]:
    """All recorded sessions, one made by hand, and a file of the corpus where it is at hand."""
    home: Path = tmp_path_factory.mktemp("home")
    projects = home / ".claude" / "projects" / "-home-dev-project"
    projects.mkdir(parents=True)
    copy_cases(projects, *(path.name for path in CASES.glob("2.1.325--*")))
    write_made(projects)
    write_old(projects)
    write_repeated(projects)
    write_sent(projects)
    for path in corpus():
        if path.name.startswith("16-"):
            lines = path.read_text(encoding="utf-8").splitlines()
            session_id = next(found for line in lines if (found := json.loads(line).get("sessionId")))
            shutil.copy(path, projects / f"{session_id}.jsonl")
    with running(home) as found:
        yield found


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS.split())
        expect.set_options(timeout=PATIENCE_MS)
        yield browser
        browser.close()


@pytest.fixture
def open_page(browser: Browser, viewer: Viewer) -> Iterator[Callable[..., Page]]:
    """Return pages that have the token, of a theme and a width."""
    watched, contexts = Watched(), []

    def opened(theme: str = "light", width: int = 1280, height: int = 900) -> Page:
        context = browser.new_context(color_scheme=theme, viewport={"width": width, "height": height})  # type: ignore[arg-type]
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        watched.watch(page, viewer.url("/"))
        page.goto(viewer.url(f"/?token={TOKEN}"))
        page.wait_for_selector("#list.drawn")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert watched.wrong == []


@pytest.fixture
def page(open_page: Callable[..., Page]) -> Page:
    return open_page()
