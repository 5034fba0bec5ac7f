"""The README, followed to the letter by somebody who has nothing else: install, trace, look, Langfuse, uninstall."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

import pytest
from installed import Home, copy_of_project, for_install_sh, snapshot
from langfuse_server import PUBLIC, SECRET, LangfuseServer
from shared import ROOT

from cc_trace.install.self_check import SESSION_ID

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="install.sh is for POSIX systems")

README = (ROOT / "README.md").read_text()


def commands(begins: str, ends: str) -> list[str]:
    """The commands between two texts of the README."""
    part = README[README.index(begins) :].partition(ends)[0]
    return [line.partition("  #")[0].strip() for line in re.findall(r"^    (.*)$", part, re.MULTILINE)]


class Reader:
    """Who types what the README says, in a clone, with a new home and its folder for commands on the PATH."""

    def __init__(self, folder: Path) -> None:
        self.clone = copy_of_project(folder / "cc-trace")
        variables = for_install_sh(folder)
        path = f"{folder / 'home' / '.local' / 'bin'}:{variables['PATH']}"
        self.home = Home(folder / "home", {**variables, "PATH": path})
        self.home.path.mkdir()

    def types(self, command: str, at_the_prompt: str = "") -> str:
        """Return what it prints; it must succeed."""
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            env=self.home.variables(),
            cwd=self.clone,
            input=at_the_prompt,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)
        return done.stdout

    def uses_claude(self) -> None:
        """A session of one turn, whose end the registered hook is told of."""
        self.home.sample_payload()  # puts the transcript into its place
        [transcript] = (self.home.path / ".claude" / "projects").rglob(f"{SESSION_ID}.jsonl")
        os.utime(transcript)
        done = self.home.claude_runs(self.home.commands()["SessionEnd"][0], "SessionEnd")
        assert (done.returncode, done.stderr) == (0, b"")
        for _ in range(1200):  # until the hook's worker has delivered it, to the local store
            if "10 delivered" in self.types("cc-trace status"):
                return
            time.sleep(0.1)
        pytest.fail("the session was not delivered")

    def rests(self) -> None:
        """An hour goes by: what was written last is not taken for work that goes on."""
        [transcript] = (self.home.path / ".claude" / "projects").rglob(f"{SESSION_ID}.jsonl")
        os.utime(transcript, (time.time() - 3_600,) * 2)

    def looks(self, command: str) -> str:
        """The page of its session in the viewer, which prints its address."""
        with subprocess.Popen(
            ["/bin/sh", "-c", f"exec {command} --no-browser"],
            env=self.home.variables(),
            cwd=self.clone,
            stdout=subprocess.PIPE,
            text=True,
        ) as viewer:
            assert viewer.stdout
            try:
                address = next(found[0] for line in viewer.stdout if (found := re.search(r"http://\S+", line)))
                opener = urllib.request.build_opener(
                    urllib.request.ProxyHandler({}), urllib.request.HTTPCookieProcessor()
                )
                opener.open(address, timeout=60).close()  # which gives a cookie
                for _ in range(1200):
                    if text := page(opener, f"{address.partition('?')[0]}sessions/{SESSION_ID}"):
                        return text
                    time.sleep(0.1)
                pytest.fail("the viewer never showed the session")
            finally:
                viewer.kill()


def page(opener: urllib.request.OpenerDirector, address: str) -> str:
    """A page, empty as long as there is none: the viewer shows a session once it has read it."""
    try:
        with opener.open(address, timeout=60) as response:
            text: str = response.read().decode()
    except urllib.error.HTTPError:
        return ""
    return text


def test_readme_works_as_written(tmp_path: Path) -> None:
    install, doctor, view = commands("## Quick start", "The installer asks")
    reader = Reader(tmp_path)
    assert reader.types(install).splitlines()[-1].startswith("It works: new sessions are now traced.")
    assert " 0 failed" in reader.types(doctor)
    reader.uses_claude()
    assert "How many lines does notes.txt have?" in reader.looks(view)

    url, public, secret = commands("**Langfuse**", "**Any OTLP")
    backfill, preview = (re.findall(rf"`(cc-trace {name}\b[^`]*)`", README)[0] for name in ("backfill", "preview"))
    with LangfuseServer() as server:
        assert {"pk-lf-…", "https://cloud.langfuse.com"} <= {public.split()[-1], url.split()[-1]}
        reader.types(public.replace("pk-lf-…", PUBLIC))
        reader.types(secret, f"{SECRET}\n")
        reader.types(url.replace("https://cloud.langfuse.com", server.url))
        assert " 0 failed" in reader.types(doctor)
        reader.rests()
        before = len(server.spans)
        assert "How many lines does notes.txt have?" in reader.types(f"{preview} {SESSION_ID} --to langfuse")
        assert len(server.spans) == before
        reader.types(backfill)
        assert len(server.spans) - before == 10
    assert "10 delivered" in reader.types("cc-trace status")

    [uninstall] = re.findall(r"`(\./install\.sh --uninstall)`", README)
    reader.types(f"{uninstall} --purge")
    kept = (".claude/projects", ".cache")  # the sessions, and what pip downloaded
    left = [name for name in snapshot(reader.home.path) if not name.startswith(kept)]
    assert left == [".claude", ".config"]
