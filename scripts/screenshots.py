"""Take the pictures of the viewer, docs/pictures/*.png, from recorded sessions. `make screenshots` runs it."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from playwright.sync_api import sync_playwright
from shared import CASES, ROOT
from viewer import TOKEN, copy_cases, running

PICTURES: Final = ROOT / "docs" / "pictures"
SHOP: Final = "5403f1c5-0000-4000-8000-000000000001"
PAGES: Final = {
    "turn": (f"/sessions/{SHOP}/turns/1", ".detail-body"),
    "session": (f"/sessions/{SHOP}", ".turn"),
    "insights": ("/insights", "#dearest"),
}


def main() -> None:
    """Serve the recordings and photograph each page."""
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        projects = Path(folder) / ".claude" / "projects" / "-home-dev-project"
        projects.mkdir(parents=True)
        copy_cases(projects, *(path.name for path in CASES.glob("2.1.325--*")))
        program = os.environ.get("CHROMIUM") or shutil.which("chromium")
        with running(Path(folder)) as viewer, sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            page = browser.new_page(viewport={"width": 1200, "height": 800})
            page.goto(viewer.url(f"/?token={TOKEN}"))
            page.wait_for_selector("#list.drawn")
            for name, (path, ready) in PAGES.items():
                page.goto(viewer.url(path))
                page.wait_for_selector(ready)
                page.screenshot(path=PICTURES / f"{name}.png")
            browser.close()


if __name__ == "__main__":
    main()
