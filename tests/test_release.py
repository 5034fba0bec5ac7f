"""What is published: the wheel and the source distribution hold what they should, and the wheel is all one needs."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from typing import TYPE_CHECKING

import pytest
import yaml
from installed import Home, copy_of_project, run, snapshot
from shared import ROOT

from cc_trace import __version__
from cc_trace.install.self_check import SESSION_ID

if TYPE_CHECKING:
    from pathlib import Path

NAME = f"cc_trace-{__version__}"
TOP = {
    ".claude-plugin",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CODE_OF_CONDUCT.md",
    "CONTRIBUTING.md",
}
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


WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "publish.yml").read_text())
REPOSITORY = "https://git.example.com/someone/cc-trace"


def steps(job: str) -> dict[str, str]:
    """What a job runs, or which action, by the step's name."""
    listed = WORKFLOW["jobs"][job]["steps"]
    return {step.get("name", f"{number}"): step.get("run") or step["uses"] for number, step in enumerate(listed)}


def succeeds(script: str, folder: Path, tag: str) -> bool:
    """Run a step as GitHub does, in a folder."""
    server, _, name = REPOSITORY.partition("/someone/")
    variables = {"GITHUB_SERVER_URL": server, "GITHUB_REPOSITORY": f"someone/{name}", "GITHUB_REF_NAME": tag}
    command = ["bash", "--noprofile", "--norc", "-e", "-c", script]
    environment = {"PATH": os.environ["PATH"], **variables}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, check=False).returncode == 0


def test_publish_workflow_needs_no_token() -> None:
    """By trusted publishing, in a job of its own, which gets what the other one tested and built."""
    assert WORKFLOW[True] == {"push": {"tags": ["v*"]}}  # YAML takes `on` for a truth value
    assert (set(WORKFLOW["jobs"]), WORKFLOW["permissions"]) == ({"build", "publish"}, {"contents": "read"})
    publish = WORKFLOW["jobs"]["publish"]
    assert (publish["needs"], publish["environment"], publish["permissions"]) == (
        "build",
        "pypi",
        {"id-token": "write"},
    )
    assert list(steps("publish").values()) == ["actions/download-artifact@v4", "pypa/gh-action-pypi-publish@release/v1"]
    done = [step for step in steps("build").values() if step.startswith(("make", "python3", "actions/upload"))]
    addresses = 'python3 scripts/addresses.py "$GITHUB_SERVER_URL/$GITHUB_REPOSITORY" "$GITHUB_REF_NAME"'
    check = steps("build")["Nothing is published without them"]
    assert done == ["make test", addresses, "make dist", check, "actions/upload-artifact@v4"]
    assert "secrets." not in str(WORKFLOW)


def test_tag_must_match_version_and_changelog(tmp_path: Path) -> None:
    """The tag, the program and the top of the changelog must agree."""
    check = steps("build")["The tag is the version, and the changelog begins with it"]
    (tmp_path / "cc_trace").mkdir()
    (tmp_path / "cc_trace" / "__init__.py").write_text('__version__ = "1.2.3"\n')
    changes = tmp_path / "CHANGELOG.md"
    changes.write_text("# Changelog\n\n## 1.2.3\n\n## 1.2.2\n")
    assert succeeds(check, tmp_path, "v1.2.3")
    assert not succeeds(check, tmp_path, "v1.2.4")
    changes.write_text("# Changelog\n\n## Unreleased\n\n## 1.2.3\n")
    assert not succeeds(check, tmp_path, "v1.2.3")


def test_changelog_has_this_version() -> None:
    """At the top, but for what will be in the next one."""
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert next(heading for heading in headings if heading != "Unreleased") == __version__
    assert "Unreleased" not in headings[1:]


def test_publishing_adds_project_urls_and_absolute_links(dist: Path, tmp_path: Path) -> None:
    """The project names no repository; the one that publishes it is written into what it publishes."""
    check = steps("build")["Nothing is published without them"]
    copy_of_project(tmp_path / "copy")
    shutil.copytree(ROOT / "scripts", tmp_path / "copy" / "scripts")
    (tmp_path / "before").mkdir()
    shutil.copytree(dist, tmp_path / "before" / "dist")
    assert not succeeds(check, tmp_path / "before", "v9")
    assert (tmp_path / "before" / "unpacked" / "cc_trace").is_dir()
    assert succeeds(steps("build")["The addresses of this repository"], tmp_path / "copy", "v9")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", str(tmp_path / "copy")]
    subprocess.run(command, check=True, capture_output=True)
    assert succeeds(check, tmp_path / "copy", "v9")
    with zipfile.ZipFile(next((tmp_path / "copy" / "dist").iterdir())) as wheel:
        about = wheel.read(f"{NAME}.dist-info/METADATA").decode()
    assert dict(re.findall(r"^Project-URL: (\w+), (.*)$", about, re.MULTILINE)) == {
        "Source": REPOSITORY,
        "Issues": f"{REPOSITORY}/issues",
        "Changelog": f"{REPOSITORY}/blob/v9/CHANGELOG.md",
        "Documentation": f"{REPOSITORY}/tree/v9/docs",
    }
    links = re.findall(r"\]\(([^)]*)\)", about)
    assert [link for link in links if not link.startswith("https://")] == []
    assert f"{REPOSITORY}/raw/v9/docs/pictures/turn.png" in links
    assert f"{REPOSITORY}/blob/v9/docs/install.md" in links


def test_issue_forms_ask_for_doctor_output() -> None:
    """And must have it; every form is one that GitHub takes: a name, a description, labelled fields."""
    forms = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/ISSUE_TEMPLATE").glob("*.yml")}
    assert forms.pop("config") == {"blank_issues_enabled": False}
    for form in forms.values():
        assert {"name", "description", "body"} <= set(form)
        assert all(field["id"] and field["attributes"]["label"] for field in form["body"])
    [doctor] = [field for field in forms["bug"]["body"] if field["id"] == "doctor"]
    assert doctor["attributes"]["label"] == "cc-trace doctor --json"
    assert doctor["validations"] == {"required": True}
