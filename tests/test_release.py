"""What is published: the wheel and the source distribution hold what they should, and the wheel is all one needs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
from installed import Home, run, snapshot
from shared import ROOT

from cc_trace import __version__
from cc_trace.install.self_check import SESSION_ID

if TYPE_CHECKING:
    from pathlib import Path

NAME = f"cc_trace-{__version__}"
TOP = {".claude-plugin", ".gitignore", "ARCHITECTURE.md", "CHANGELOG.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md"}
TOP |= {
    "LICENSE",
    "Makefile",
    "PKG-INFO",
    "README.md",
    "SECURITY.md",
    "bench",
    "cc_trace",
    "docs",
    "hooks",
    "install.sh",
}
TOP |= {"pyproject.toml", "scripts", "tests"}
NEVER = re.compile(r"(^|/)(\.venv|__pycache__|\.[a-z]+_cache|\.hypothesis|\.backends|\.fuzz|\.git|dist|build)/|\.pyc$")


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with both, as `make dist` makes them."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, capture_output=True)
    return folder


def package() -> set[str]:
    """All files of the package but what Python makes."""
    paths = (path for path in (ROOT / "cc_trace").rglob("*") if path.is_file() and path.suffix != ".pyc")
    return {path.relative_to(ROOT).as_posix() for path in paths}


def test_the_wheel_is_the_package_and_the_hook(dist: Path) -> None:
    """With pages, styles, sample and types, and nothing else."""
    with zipfile.ZipFile(dist / f"{NAME}-py3-none-any.whl") as wheel:
        names = set(wheel.namelist())
        hook = wheel.getinfo("cc_trace/cc-trace-hook")
        metadata = wheel.read(f"{NAME}.dist-info/METADATA").decode()
    about = {
        f"{NAME}.dist-info/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    }
    assert names == package() | about | {"cc_trace/cc-trace-hook"}
    for part in ("py.typed", "view/templates/base.html", "view/static/style.css", f"sample/{SESSION_ID}.jsonl"):
        assert f"cc_trace/{part}" in names
    assert hook.external_attr >> 16 & 0o111  # it is run
    assert f"\nVersion: {__version__}\n" in metadata
    assert "\nLicense-Expression: MIT\n" in metadata


def test_the_source_has_what_one_needs_to_build_and_test(dist: Path) -> None:
    with tarfile.open(dist / f"{NAME}.tar.gz") as archive:
        names = {member.name.removeprefix(f"{NAME}/") for member in archive.getmembers() if member.isfile()}
    assert {name.partition("/")[0] for name in names} == TOP
    assert package() <= names
    assert [name for name in names if NEVER.search(name)] == []


def test_the_index_would_take_both(dist: Path) -> None:
    command = [sys.executable, "-m", "twine", "--no-color", "check", "--strict", *map(str, sorted(dist.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout


def test_the_wheel_alone_installs_traces_shows_and_goes_again(dist: Path, tmp_path: Path) -> None:
    """In an environment of its own, as pipx and uv make one, with no checkout around."""
    script = ["/bin/sh", str(ROOT / "scripts" / "environment.sh"), str(tmp_path / "environment")]
    made = subprocess.run(
        [*script, str(dist / f"{NAME}-py3-none-any.whl")],
        env={**os.environ, "PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    home = Home(tmp_path / "home")
    home.path.mkdir()
    command = str(tmp_path / "environment" / "bin" / "cc-trace")

    def cc_trace(*arguments: str) -> str:
        done = run([command, *arguments], home.variables(), home.path)
        assert (done.returncode, done.stderr) == (0, ""), (arguments, done.stderr)
        return done.stdout

    assert cc_trace("--version") == f"cc-trace {__version__}\n"
    assert "It works: new sessions are now traced." in cc_trace("install")
    home.claude_runs(home.commands()["SessionEnd"][0], "SessionEnd")
    shown = [json.loads(line) for line in cc_trace("show", SESSION_ID, "--json").splitlines()]
    assert [span["kind"] for span in shown].count("turn") == 1
    assert "10 delivered" in cc_trace("status")
    assert "0 failed" in cc_trace("doctor")
    assert "settings" in cc_trace("uninstall", "--purge")
    left = [name for name in snapshot(home.path) if not name.startswith(".claude/projects")]
    assert left == [".claude"]


def test_a_tag_publishes_without_a_token() -> None:
    """By trusted publishing; what is published was tested, and its tag is its version."""
    workflow = (ROOT / ".github" / "workflows" / "publish.yml").read_text()
    assert "id-token: write" in workflow
    assert "make test dist" in workflow
    assert "secrets." not in workflow
    check = re.search(r"run: (test .*)", workflow)
    assert check
    for tag, code in ((f"v{__version__}", 0), ("v9.9.9", 1)):
        environment = {"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin"}
        assert subprocess.run(["/bin/sh", "-c", check[1]], cwd=ROOT, env=environment, check=False).returncode == code
    changes = (ROOT / "CHANGELOG.md").read_text()
    assert "## Unreleased" in changes or f"## {__version__}" in changes


def test_a_report_asks_for_the_doctor() -> None:
    assert "cc-trace doctor --json" in (ROOT / ".github" / "ISSUE_TEMPLATE" / "bug.yml").read_text()
