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
# Each page, the height of its window, and the part that the picture ends below.
PAGES: Final = {
    "turn": (f"/sessions/{SHOP}/turns/1", 1160, ".detail:has(.detail-body)"),
    "session": (f"/sessions/{SHOP}", 800, ".turn"),
    "insights": ("/insights", 800, "#cache"),
}
WIDTH: Final = 1280
MARGIN: Final = 12


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
            page = browser.new_page()
            page.goto(viewer.url(f"/?token={TOKEN}"))
            page.wait_for_selector("#list.drawn")
            for name, (path, height, last) in PAGES.items():
                page.set_viewport_size({"width": WIDTH, "height": height})
                page.goto(viewer.url(path))
                page.wait_for_selector(last)
                bottom: float = page.locator(last).first.evaluate("each => each.getBoundingClientRect().bottom")
                page.screenshot(
                    path=PICTURES / f"{name}.png",
                    full_page=True,
                    clip={"x": 0, "y": 0, "width": WIDTH, "height": bottom + MARGIN},
                )
            browser.close()


if __name__ == "__main__":
    main()
