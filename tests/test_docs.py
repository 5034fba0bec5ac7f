"""The docs and the program say the same: every command, option and variable exists, and every one is documented."""

from __future__ import annotations

import argparse
import re
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

import collector
import pytest
from shared import ROOT

from cc_trace.cli.arguments import parser
from cc_trace.settings.catalogue import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("*.md"))]
# For users; the other pages at the top are for those who work on cc-trace, or tell of former versions.
USERS_PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
README = (ROOT / "README.md").read_text()
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text()
COMMANDS = (ROOT / "docs" / "commands.md").read_text()
INSTALL = (ROOT / "docs" / "install.md").read_text()
SETTINGS_PAGE = (ROOT / "docs" / "settings.md").read_text()
# The system's, and what Claude Code gives to hooks.
CLAUDES = {"HOME", "USERPROFILE", "PATH", "PWD", "CLAUDE_PROJECT_DIR", "CLAUDE_PID", "CLAUDE_CODE_SESSION_ID"}
CLAUDES |= {"CLAUDE_CODE_ENTRYPOINT", "CLAUDE_PLUGIN_ROOT", "CLAUDE_PLUGIN_OPTION_ENABLED"}
FOR_TESTS = {"CC_TRACE_DIE_AT", "CC_TRACE_E2E_CACHE"}
_OURS = re.compile(r"\b(?:CC_TRACE|CC_LANGFUSE|LANGFUSE|TRACE_TO)_[A-Z_]*[A-Z]\b")


def commands() -> dict[str, argparse.ArgumentParser]:
    """All commands by what one types: `config set` too."""

    def below(of: argparse.ArgumentParser, typed: str) -> Iterator[tuple[str, argparse.ArgumentParser]]:
        for action in of._actions:
            if isinstance(action, argparse._SubParsersAction):
                for name, command in action.choices.items():
                    yield f"{typed}{name}", command
                    yield from below(command, f"{typed}{name} ")

    return dict(below(parser(), ""))


def options(command: argparse.ArgumentParser) -> set[str]:
    """The long options that are not hidden."""
    shown = [action for action in command._actions if action.help is not argparse.SUPPRESS]
    return {option for action in shown for option in action.option_strings if option.startswith("--")} - {"--help"}


def settings_table() -> str:
    """The table of settings, as docs/settings.md must have it."""
    rows = ["| name | variable | default | |", "|---|---|---|---|"]
    for setting in SETTINGS:
        variables = ", ".join(f"`{variable}`" for variable in setting.variables[:-1])
        name = "" if setting.hook_only else f"`{setting.name}`"
        default = f"`{setting.default}`" if setting.default is not None else ""
        rows.append(f"| {name} | {variables} | {default} | {setting.about.replace('|', chr(92) + '|')} |")
    return "\n".join(rows)


def test_every_setting_stands_in_the_table() -> None:
    """With all its variables, its default and what it does."""
    assert settings_table() in SETTINGS_PAGE, f"the table is to be:\n{settings_table()}"


def page_name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_variable_that_is_named_exists(page: Path) -> None:
    known = {variable for setting in SETTINGS for variable in setting.variables} | FOR_TESTS
    assert set(_OURS.findall(page.read_text())) - known == set()


def test_every_variable_that_is_read_is_documented() -> None:
    """By the program, its hooks and its installer."""
    python = [path.read_text() for path in (ROOT / "cc_trace").rglob("*.py")]
    shell = [(ROOT / name).read_text() for name in ("install.sh", "hooks/cc-trace-hook", "hooks/session-start")]
    read = {name for text in python for name in re.findall(r"environment(?:\.get\(|\[)\"([A-Z][A-Z_]+)\"", text)}
    read |= {name for text in shell for name in re.findall(r"\$\{?([A-Z][A-Z_]+)", text)}
    documented = "".join(page.read_text() for page in USERS_PAGES)
    assert {name for name in read - FOR_TESTS - CLAUDES if name not in documented} == set()


@pytest.mark.parametrize("page", USERS_PAGES, ids=page_name)
def test_every_command_that_is_named_exists(page: Path) -> None:
    """`cc-trace WORD` in code is a command, and the options behind it are its own."""
    known = commands()
    text = page.read_text()
    code = [*re.findall(r"`([^`\n]+)`", text), *re.findall(r"^    .*$|^cc-trace .*$", text, re.MULTILINE)]
    for name, rest in re.findall(r"(?<![/\w])cc-trace ([a-z]+(?: (?:set|unset|get)\b)?)([^`\n#|]*)", "\n".join(code)):
        assert name in known, name
        used = set(re.findall(r"(?<!\S)--[a-z-]+", rest.split(" -- ")[0]))
        assert used <= options(known[name]) | {"--help"}, (name, used)


def shown(page: Path) -> list[list[str]]:
    """The commands of ours that a page shows, as a shell would read them, without what follows a pipe."""
    text = page.read_text().replace("\\\n", " ")
    lines = re.findall(r"^(?:    (?:\$ )?)?(?:\S+ \| )?(cc-trace .*)$", text, re.MULTILINE)
    return [shlex.split(re.split(r" \| | >>? ", line)[0], comments=True)[1:] for line in lines]


@pytest.mark.parametrize("page", USERS_PAGES, ids=page_name)
def test_documented_commands_work_as_shown(page: Path, tmp_path: Path) -> None:
    """Its options take these values; and a setting takes them too, also in the order of the page."""
    typed = shown(page)
    assert len(typed) > 8 or page.name != "README.md"
    for words in typed:
        parser().parse_args(words)
        if words[:2] != ["config", "set"]:
            continue
        done = subprocess.run(
            [sys.executable, "-m", "cc_trace", *words],
            env={"HOME": str(tmp_path)},
            cwd=tmp_path,
            input="typed-at-the-prompt\n",
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), words


def test_readme_pictures_are_those_that_make_screenshots_takes() -> None:
    taken = re.findall(r'^    "(\w+)": \(f?"/', (ROOT / "scripts" / "screenshots.py").read_text(), re.MULTILINE)
    assert set(re.findall(r"\(docs/pictures/(\w+)\.png\)", README)) == set(taken)


@pytest.mark.skipif(collector.why_not() is not None, reason=str(collector.why_not()))
def test_documented_collector_takes_its_options() -> None:
    """As shown, but for `start`, which would start it."""
    text = (ROOT / "docs" / "backends.md").read_text().replace("\\\n", " ")
    options = set(re.findall(r"(--[a-z-]+)=", re.findall(r"^    rotel-agent start (.*)$", text, re.MULTILINE)[0]))
    done = subprocess.run(
        [str(collector._binary()), "start", "--help"],
        env=collector._ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(options) > 2
    assert options - set(re.findall(r"--[a-z-]+", done.stdout)) == set()


def test_every_command_and_option_is_documented() -> None:
    for name, command in commands().items():
        rows = [row for row in COMMANDS.splitlines() if re.search(rf"`cc-trace {name}\b", row)]
        assert rows, name
        assert options(command) <= set(re.findall(r"--[a-z-]+", "".join(rows))), name


def test_every_option_of_the_installer_is_documented() -> None:
    """And each that is documented is one."""
    text = (ROOT / "install.sh").read_text()
    real = set(re.findall(r"^\s*(--[a-z-]+)\)", text, re.MULTILINE)) - {"--help"}
    named = {name for page in USERS_PAGES for name in re.findall(r"install\.sh (--[a-z-]+)", page.read_text())}
    assert real == named | ({"--purge"} if "`--purge`" in INSTALL else set())


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_every_target_of_make_that_is_named_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z0-9-]*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z][a-z0-9-]*)", page.read_text())) - targets == set()


def test_the_trace_it_shows_is_what_the_command_prints() -> None:
    """Line by line, as wide as it was printed for the README; the last line is cut there."""
    block = README[README.index("    $ cc-trace show") :].split("\n\n")[0]
    command, *expected = [line.removeprefix("    ") for line in block.splitlines()]
    done = subprocess.run(
        [sys.executable, "-m", *command.removeprefix("$ ").replace("cc-trace", "cc_trace", 1).split()],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        env={"HOME": "/nowhere", "COLUMNS": "124", "PYTHONUTF8": "1", "TZ": "UTC"},
    )
    printed = [line.rstrip() for line in done.stdout.splitlines()]
    assert expected[:-1] == printed[: len(expected) - 1]
    assert printed[len(expected) - 1].startswith(expected[-1].removesuffix("…"))


def test_the_tree_in_the_architecture_is_the_package() -> None:
    """One line per module, each in its room, and none that is not there."""
    block = ARCHITECTURE[ARCHITECTURE.index("\ncc_trace/\n") :].split("```")[0]
    named: set[str] = set()
    folders: list[str] = []
    for indent, names in re.findall(r"^((?:  )+)(\w+/?(?:, \w+)*)(?:  |$)", block, re.MULTILINE):
        folders = folders[: len(indent) // 2 - 1]
        if names.endswith("/"):
            folders.append(names)
        else:
            named |= {"".join(folders) + name for name in names.split(", ")}
    package = ROOT / "cc_trace"
    modules = {str(path.relative_to(package).with_suffix("")) for path in package.rglob("[!_]*.py")}
    assert named == modules


def anchors(page: Path) -> set[str]:
    """The headings of a page, as links name them."""
    found = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("page", PAGES, ids=page_name)
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\((?!https?:)([^)#\s]*)(?:#([^)\s]+))?\)", page.read_text()):
        path = page.parent / target if target else page
        assert path.exists(), target
        assert not anchor or anchor in anchors(path), f"{target}#{anchor}"


def test_every_page_is_found_from_the_readme() -> None:
    linked = set(re.findall(r"\]\((docs/[a-z_]+\.md)", README))
    assert linked == {page_name(page) for page in (ROOT / "docs").glob("*.md")}


@pytest.mark.parametrize("module", ["langfuse", "opentelemetry", "rich", "httpx", "grpc", "tomlkit", "multiprocessing"])
def test_no_command_imports_what_it_does_not_need(module: str) -> None:
    """Looking up the parser and every command's module imports none of the slow packages."""
    names = [name for name in commands() if " " not in name]
    code = (
        "import importlib, sys\n"
        "from cc_trace.cli.arguments import parser\n"
        f"for name in {names!r}: importlib.import_module(f'cc_trace.cli.{{name}}')\n"
        f"print({module!r} in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
