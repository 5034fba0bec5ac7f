"""install.sh: once for real, with the package index's help; and what it decides, with a Python that is a script."""

from __future__ import annotations

import os
import re
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from installed import MADE_BY, Home, copy_of_project, for_install_sh, run, snapshot
from shared import ROOT

from cc_trace import __version__

if TYPE_CHECKING:
    import subprocess

    Done = subprocess.CompletedProcess[str]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="install.sh is for POSIX systems")

SCRIPT = ROOT / "install.sh"
SETTINGS = b'{"model":"opus","hooks":{"Stop":[{"hooks":[{"type":"command","command":"say done"}]}]}}'


@dataclass(frozen=True, slots=True)
class Story:
    """One installation from beginning to end, and what was found on the way."""

    home: Home
    first: Done
    second: Done
    changed_by_second: list[str]
    open_to_others: list[str]
    version: Done
    spans: int
    uninstalled: Done
    left: dict[str, tuple[str, bytes | str]]


@pytest.fixture(scope="module")
def story(tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Install under umask 0, again, delete the project's folder, run the hook, uninstall from another copy."""
    base = tmp_path_factory.mktemp("install")
    home = Home(base / "it's my höme", for_install_sh(base))
    home.path.mkdir()
    home.write_settings(SETTINGS, 0o640)
    project = copy_of_project(base / "che'ck [1] öut")
    command = ["/bin/sh", "-c", 'umask 0; exec "$0"', str(project / "install.sh")]
    first = run(command, home.variables(), home.path)
    assert first.returncode == 0, first.stderr
    before = snapshot(home.path)
    second = run(command, home.variables(), home.path)
    after = snapshot(home.path)
    changed = [name for name in before.keys() | after if "/venv/" not in name and before.get(name) != after.get(name)]
    shutil.rmtree(project)
    version = run([str(home.path / ".local/bin/cc-trace"), "--version"], home.variables(), base)
    # In line, a Stop leaves the root to the session's end: the settings have another Stop hook.
    home.claude_runs(home.commands()["SessionEnd"][-1], "SessionEnd")
    spans = len(home.stored()) - 1
    uninstalled = run([str(SCRIPT), "--uninstall", "--purge"], home.variables(), home.path)
    open_to_others = [name for name, (mode, _) in before.items() if mode[0] != "l" and "w" in mode[5:10]]
    return Story(home, first, second, changed, open_to_others, version, spans, uninstalled, snapshot(home.path))


def test_one_command_installs_and_shows_a_trace(story: Story) -> None:
    """In a home with an awkward name, from a folder with one; nothing is asked."""
    assert (story.first.returncode, "install.sh" in story.first.stderr) == (0, False)  # pip may have its say
    lines = story.first.stdout.splitlines()
    bin_ = story.home.path / ".local/bin"
    venv = story.home.path / ".local/share/cc-trace/venv"
    assert lines[:2] == [
        f"creating  an environment in {venv} ({MADE_BY}, Python: {sys.executable})",
        "fetching  the packages that cc-trace needs, about 30 MB; this can take a minute or two",
    ]
    assert lines[2:5] == [
        f"command   {bin_}/cc-trace (add {bin_} to your PATH to run it as cc-trace)",
        f"hook      {story.home.hook}",
        f"settings  {story.home.settings}: registered for Stop and SessionEnd",
    ]
    assert lines[5].startswith(f"backup    {story.home.path}/.local/share/cc-trace/backups/settings-")
    assert [line.split(" ")[0] for line in lines[8:]].count("Turn") == 1
    assert sum("claude-sonnet-4-5" in line for line in lines) == 5


def test_twice_changes_nothing_outside_the_environment(story: Story) -> None:
    assert (story.second.returncode, "install.sh" in story.second.stderr) == (0, False)
    assert "cc-trace is already installed; nothing changed in " in story.second.stdout
    assert story.changed_by_second == []


def test_the_project_may_be_deleted(story: Story) -> None:
    """The command and the hook need nothing of it."""
    assert story.version.stdout.startswith("cc-trace ")
    assert story.spans == 10


def test_nobody_else_can_write_where_code_and_settings_are(story: Story) -> None:
    """Installed under umask 0."""
    assert story.open_to_others == []


def test_uninstalling_leaves_the_home_as_it_was(story: Story) -> None:
    """settings.json byte for byte, and no folder that was made for it."""
    assert (story.uninstalled.returncode, story.uninstalled.stderr) == (0, "")
    assert story.home.settings.read_bytes() == SETTINGS
    assert stat.S_IMODE(story.home.settings.stat().st_mode) == 0o640
    assert sorted(story.left) == [".claude", ".claude/settings.json"]


# A Python that makes an environment of scripts, and says what it was asked to do.
FAKE = """#!/bin/sh
case "$*" in
"-I -m venv "*) mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; echo >"$4/bin/cc-trace"; chmod +x "$4/bin/cc-trace" ;;
*"import sys"* | *ensurepip* | *"import pip"*) ;;
"-I -m pip install "*) exit "${PIP_ENDS_WITH:-0}" ;;
*) echo "python $*" ;;
esac
"""


@pytest.fixture
def fake(tmp_path: Path) -> Home:
    """A home, and a PATH on which there is a Python that is a script, and little else."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "dirname", "mkdir", "rm", "rmdir", "ln", "readlink", "cat", "cp", "chmod", "find", "head", "id"):
        (tools / name).symlink_to(shutil.which(name) or name)
    (tools / "python3").write_text(FAKE)
    (tools / "python3").chmod(0o755)
    home = tmp_path / "home of mine"
    home.mkdir()
    return Home(home, {"PATH": str(tools)})


def install(home: Home, *options: str, shell: tuple[str, ...] = ("/bin/sh",), **changes: str | None) -> Done:
    return run([*shell, str(SCRIPT), *options], home.variables(**changes), home.path)


@pytest.mark.parametrize("shell", [("dash",), ("bash", "--posix"), ("busybox", "sh")], ids=" ".join)
def test_every_shell_passes_the_options_on(fake: Home, shell: tuple[str, ...]) -> None:
    program = shutil.which(shell[0])
    if program is None:
        pytest.skip(f"{shell[0]} is not installed")
    whole = (program, *shell[1:])
    assert install(fake, shell=whole).stdout.splitlines()[3:] == ["python -I -m cc_trace install"]
    project = install(fake, "--project", shell=whole)
    assert project.stdout.splitlines()[2:] == ["python -I -m cc_trace install --project"]
    [tried] = install(fake, "--no-hooks", shell=whole).stdout.splitlines()[2:]
    assert tried.endswith(f"try_out(sys.argv[1], os.environ)) {ROOT}/hooks/cc-trace-hook")
    removed = install(fake, "--uninstall", "--purge", shell=whole)
    assert removed.stdout.splitlines()[-1] == "python -I -m cc_trace uninstall --purge"


def test_no_hooks_does_not_claim_that_sessions_are_traced(tmp_path: Path) -> None:
    """What `--no-hooks` ends with: the hook works, and somebody else registers it."""
    code = re.search(r"'(import os, sys; from cc_trace.*)'", SCRIPT.read_text())
    assert code
    home = Home(tmp_path / "home")
    (home.path / ".local/share/cc-trace").mkdir(parents=True)
    (home.path / ".local/share/cc-trace/venv").symlink_to(sys.prefix)
    hook = copy_of_project(tmp_path / "plugin") / "hooks" / "cc-trace-hook"
    done = run([sys.executable, "-I", "-c", code[1], str(hook)], home.variables(), home.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "Turn 1" in done.stdout
    assert "traced" not in done.stdout
    assert done.stdout.splitlines()[-1].startswith("The hook works. To register it, enable the plugin")
    assert not home.settings.exists()


def test_the_path_is_mentioned_only_when_it_lacks_the_command(fake: Home) -> None:
    bin_ = fake.path / ".local" / "bin"
    assert install(fake).stdout.splitlines()[2].endswith(f"(add {bin_} to your PATH to run it as cc-trace)")
    on_path = install(fake, PATH=f"{fake.environment['PATH']}:{bin_}")
    assert on_path.stdout.splitlines()[1] == "command   cc-trace"


def test_somebody_elses_command_stays(fake: Home) -> None:
    theirs = fake.path / ".local" / "bin" / "cc-trace"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    done = install(fake)
    target = fake.path / ".local/share/cc-trace/venv/bin/cc-trace"
    assert (
        done.stderr == f"install.sh: {theirs} was not created by install.sh and was not changed; run {target} instead\n"
    )
    assert (done.returncode, theirs.read_text()) == (0, "theirs")


def test_a_half_made_environment_is_made_anew(fake: Home) -> None:
    environment = fake.path / ".local/share/cc-trace/venv"
    environment.mkdir(parents=True)
    (environment / "torn").touch()
    assert install(fake).returncode == 0
    assert not (environment / "torn").exists()
    (environment / "kept").touch()
    assert install(fake).returncode == 0
    assert (environment / "kept").exists()
    shutil.rmtree(environment / "bin")  # its Python is gone
    assert install(fake).returncode == 0
    assert not (environment / "kept").exists()


def test_without_a_python_that_will_do_uv_is_asked_and_else_it_is_said(fake: Home) -> None:
    """No Python; none that is new enough; one without venv; the one that was named."""
    tools = Path(fake.environment["PATH"])
    needed = "cc-trace needs Python 3.11 or newer, or uv; install one, or run: PYTHON=/path/to/python3 ./install.sh"
    named = install(fake, PYTHON="/bin/false")
    assert (named.returncode, named.stderr) == (
        1,
        "install.sh: PYTHON is /bin/false, which is not Python 3.11 or newer; set PYTHON to another one\n",
    )
    (tools / "python3").write_text("#!/bin/sh\nexit 1\n")
    done = install(fake)
    assert (done.returncode, done.stderr) == (1, f"install.sh: {needed}\n")
    (tools / "python3").write_text(
        FAKE.replace('*"import sys"* | *ensurepip*', '*ensurepip*) exit 1 ;;\n*"import sys"*')
    )
    done = install(fake)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "install.sh: python3 has no venv module; install it (on Debian and Ubuntu: apt install "
    )
    assert snapshot(fake.path) == {}  # said before anything is made
    (tools / "uv").write_text('#!/bin/sh\n[ "$1" != --version ] || exit 0\necho "uv $*"\nshift 4; mkdir -p "$1/bin"\n')
    (tools / "uv").chmod(0o755)
    environment = fake.path / ".local/share/cc-trace/venv"
    assert install(fake).stdout.splitlines()[1] == f"uv venv --quiet --python python3 {environment}"
    (tools / "python3").unlink()
    assert install(fake).stdout.splitlines()[1] == f"uv venv --quiet --python >=3.11,<3.15 {environment}"


def test_a_python_that_dependencies_have_wheels_for_is_preferred(fake: Home) -> None:
    """python3 is 3.15: an older one beside it, else one that uv finds, else, with nothing else there, itself."""
    tools = Path(fake.environment["PATH"])
    too_new = FAKE.replace('*"import sys"*', '*"< (3, 15)"*) exit 1 ;;\n*"import sys"*')
    (tools / "python3").write_text(too_new)
    making = f"creating  an environment in {fake.path}/.local/share/cc-trace/venv ("
    assert install(fake).stdout.splitlines()[0] == f"{making}venv, Python: python3)"
    shutil.rmtree(fake.path / ".local")
    (tools / "python3.12").write_text(FAKE)
    (tools / "python3.12").chmod(0o755)
    assert install(fake).stdout.splitlines()[0] == f"{making}venv, Python: python3.12)"
    shutil.rmtree(fake.path / ".local")
    (tools / "python3.12").unlink()
    (tools / "uv").write_text("#!/bin/sh\n")
    (tools / "uv").chmod(0o755)
    assert install(fake).stdout.splitlines()[0] == f"{making}uv, Python: >=3.11,<3.15)"
    shutil.rmtree(fake.path / ".local")
    assert install(fake, PYTHON="python3").stdout.splitlines()[0] == f"{making}venv, Python: python3)"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make another user's files")
def test_what_another_user_left_is_one_line(fake: Home) -> None:
    assert install(fake).returncode == 0
    left = fake.path / ".local/share/cc-trace/venv/bin/cc-trace"
    os.chown(left, 12345, 12345)
    for options in ([], ["--uninstall"]):
        done = install(fake, *options)
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"install.sh: {left} belongs to another user, perhaps from an installation with sudo; "
            f"run this again after: sudo rm -rf '{fake.path}/.local/share/cc-trace' '{fake.path}/.local/bin/cc-trace'\n"
        )


def test_the_command_says_that_its_python_is_gone_or_is_another_version(fake: Home) -> None:
    """And what to run, whether the folder it was installed from is still there or not."""
    assert install(fake).returncode == 0
    command, venv = fake.path / ".local/bin/cc-trace", fake.path / ".local/share/cc-trace/venv"
    again = (
        "Nothing is traced until it is installed again, and nothing is lost.\n"
        f"Run: sh '{SCRIPT}'\nThen: cc-trace sync\n"
    )
    python = venv / "bin" / "python"
    python.unlink()
    python.symlink_to(sys.executable)  # cc_trace is not installed beside it
    (venv / "pyvenv.cfg").write_text(f"home = {Path(sys.executable).resolve().parent}\n")
    done = run([str(command), "status"], fake.variables(), fake.path)
    version = sys.version.split()[0]
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"cc-trace: its Python is now {version}, which it is not installed for\n{again}"
    python.unlink()
    python.symlink_to("/usr/bin/python9")
    done = run([str(command), "status"], fake.variables(), fake.path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"cc-trace: its Python is gone: /usr/bin/python9\n{again}"


def test_wrong_calls_are_one_clear_line(fake: Home) -> None:
    unset = install(fake, HOME=None)
    assert (unset.returncode, unset.stderr) == (
        2,
        "install.sh: HOME is not set; set it to your home folder and try again\n",
    )
    wrong = install(fake, "--frobnicate")
    assert (wrong.returncode, wrong.stderr.splitlines()[-1]) == (2, "install.sh: unknown option --frobnicate")
    both = install(fake, "--project", "--no-hooks")
    assert (both.returncode, both.stderr) == (2, "install.sh: --project and --no-hooks exclude each other\n")
    assert install(fake, "--purge").stderr == "install.sh: --purge needs --uninstall\n"
    shown = install(fake, "--help")
    assert (shown.returncode, shown.stdout.splitlines()[0]) == (0, "usage: ./install.sh [--project | --no-hooks]")
    assert snapshot(fake.path) == {}


def test_a_package_that_cannot_be_installed_is_said(fake: Home) -> None:
    """And what is there of it counts as half made."""
    done = install(fake, PIP_ENDS_WITH="1")
    assert (done.returncode, len(done.stdout.splitlines())) == (1, 2)
    assert done.stderr == (
        "install.sh: cannot install the package (see above); is the Python package index reachable?\n"
    )
    assert not (fake.path / ".local/share/cc-trace/venv/.complete").exists()


def test_without_a_network_what_is_installed_will_do(fake: Home) -> None:
    """If it is this version; the environment of another one is not taken for it."""
    assert install(fake).returncode == 0
    complete = fake.path / ".local/share/cc-trace/venv/.complete"
    version = complete.read_text()
    done = install(fake, PIP_ENDS_WITH="1")
    assert done.stderr == (
        f"install.sh: cannot update the package (see above); cc-trace {__version__}, installed before, is kept\n"
    )
    assert (done.returncode, complete.read_text()) == (0, version)
    assert done.stdout.splitlines()[0] == "updating  cc-trace and the packages that it needs"
    assert done.stdout.splitlines()[-1] == "python -I -m cc_trace install"
    complete.write_text("0.0.9\n")
    done = install(fake, PIP_ENDS_WITH="1")
    assert (done.returncode, complete.exists()) == (1, False)
    assert "cannot install the package" in done.stderr


def test_a_script_without_its_clone_is_refused(fake: Home) -> None:
    """As by `curl ... | sh`: what the current folder is must not be installed."""
    done = run(["/bin/sh", "-c", 'exec sh <"$0"', str(SCRIPT)], fake.variables(), fake.path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"install.sh: {fake.path} is not a copy of cc-trace; run install.sh in a clone of it\n"
    assert snapshot(fake.path) == {}


def test_uninstalling_works_without_our_environment(fake: Home) -> None:
    """By any Python; and without one, all goes but what stands in settings.json, which then does nothing."""
    before = fake.write_settings(SETTINGS)
    checkout = Home(fake.path)
    assert checkout.cc_trace("install").returncode == 0
    registered = fake.settings.read_bytes()
    tools = Path(fake.environment["PATH"])
    (tools / "python3").unlink()
    done = install(fake, "--uninstall")
    assert done.returncode == 1
    assert done.stderr.startswith(
        "install.sh: the environment and the hook were removed, but editing settings.json needs Python 3.11"
    )
    assert (fake.settings.read_bytes(), fake.hook.exists()) == (registered, False)
    done = install(fake, "--uninstall", PYTHON=sys.executable)
    assert (done.returncode, done.stderr) == (0, "")
    assert fake.settings.read_bytes() == before
