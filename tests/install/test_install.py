"""`cc-trace install` and `uninstall` as users run them: processes, in a home folder whose name has everything in it."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from installed import AWKWARD, Home, run, snapshot, without_privileges
from shared import ROOT

from cc_trace.errors import CcTraceError, InstallError
from cc_trace.export.langfuse_prices import Prices
from cc_trace.install.hooks import with_hooks
from cc_trace.install.installation import (
    find_install_paths,
    hook_copy,
    hook_script,
    refuse_throw_away,
    registered_command,
)
from cc_trace.install.settings_file import read_settings, register, unregister
from cc_trace.paths import state_folder
from cc_trace.transcript import Usage

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the hook under test is the one for POSIX shells")

OTHERS = '{"model": "opus",\n\n   "hooks": {"Stop": [{"hooks": [{"type": "command", "command": "say done"}]}]}}'
SAMPLE_SPANS = 10
COMMAND = "exec /opt/cc-trace-hook"
UNTOUCHED = "nothing was changed. Fix the file and run `cc-trace install` again\n"


@pytest.fixture
def home(tmp_path: Path) -> Home:
    path = tmp_path / AWKWARD
    path.mkdir()
    return Home(path)


def installed(home: Home, *arguments: str, cwd: Path | None = None, **changes: str | None) -> str:
    """What a good installation says."""
    done = home.cc_trace("install", *arguments, cwd=cwd, **changes)
    assert (done.returncode, done.stderr) == (0, "")
    assert "A sample session, sent through the hook" in done.stdout
    return done.stdout


def uninstalled(home: Home, *arguments: str, cwd: Path | None = None, **changes: str | None) -> list[str]:
    """What a good removal says."""
    done = home.cc_trace("uninstall", *arguments, cwd=cwd, **changes)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def refused(home: Home, *arguments: str, cwd: Path | None = None, **changes: str | None) -> str:
    """The one line that says why not; nothing has changed."""
    before = snapshot(home.path)
    done = home.cc_trace(*arguments, cwd=cwd, **changes)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert snapshot(home.path) == before
    return done.stderr.removeprefix("cc-trace: ")


def backups(home: Home) -> list[Path]:
    return list((home.hook.parents[1] / "backups").glob("*"))


def test_a_trace_is_shown_and_all_of_it_goes_again(home: Home) -> None:
    """In an empty home: settings are made, closed to others, and with uninstall there is nothing left."""
    said = installed(home)
    assert len(re.findall(r"claude-sonnet|Agent|agent|Bash|Read|Turn 1", said)) >= SAMPLE_SPANS
    assert "→ It has 3 lines; the fir" in said
    assert stat.S_IMODE(home.settings.stat().st_mode) == 0o600
    assert {event: len(commands) for event, commands in home.commands().items()} == {"Stop": 1, "SessionEnd": 1}
    assert uninstalled(home)[0].endswith("settings.json: removed, as there was none before")
    assert snapshot(home.path) == {}


@pytest.mark.parametrize(
    "text",
    [OTHERS, "", "{}", "{ }\n", '{\r\n\t"a": [1,2]\r\n}', '\ufeff{"hooks":{"Stop":[]}}', '{"hooks": { }}'],
    ids=repr,
)
def test_settings_are_byte_identical_after_uninstall(home: Home, text: str) -> None:
    before = home.write_settings(text, 0o640)
    installed(home)
    changed = home.settings.read_bytes()
    [backup] = backups(home)
    assert (backup.read_bytes(), stat.S_IMODE(backup.stat().st_mode)) == (before, 0o600)
    assert stat.S_IMODE(backup.parent.stat().st_mode) == 0o700
    assert changed != before
    assert uninstalled(home)[0].endswith("settings.json: restored to what it was before, byte for byte")
    assert home.settings.read_bytes() == before
    assert stat.S_IMODE(home.settings.stat().st_mode) == 0o640
    assert sorted(path.name for path in home.settings.parent.iterdir()) == ["settings.json"]


def test_other_peoples_hooks_stay(home: Home) -> None:
    home.write_settings(OTHERS)
    installed(home)
    ours = registered_command(home.hook, Path(sys.executable))
    assert home.commands() == {"Stop": ["say done", ours], "SessionEnd": [ours]}


def test_twice_changes_nothing(home: Home) -> None:
    """Not even the time of a file."""
    home.write_settings(OTHERS)
    installed(home)
    before = snapshot(home.path)
    assert installed(home).startswith("cc-trace is already installed; nothing changed in ")
    assert snapshot(home.path) == before


def test_what_the_user_changed_meanwhile_stays(home: Home) -> None:
    """Our hooks alone are removed, and the file keeps its indentation."""
    home.write_settings(OTHERS)
    installed(home)
    home.settings.write_text(home.settings.read_text().replace("opus", "haiku"))
    assert uninstalled(home)[0].endswith("settings.json: hooks removed")
    assert home.settings.read_text() == json.dumps(json.loads(OTHERS.replace("opus", "haiku")), indent=3)
    assert backups(home) == []


def test_a_new_command_keeps_the_first_backup(home: Home) -> None:
    """Only we have changed the file; what it was before our first change is what comes back."""
    before = home.write_settings(OTHERS)
    kept = home.path / "backups"
    for command in (COMMAND, f"X=1 {COMMAND}"):
        register(home.settings, command, kept)
        assert [path.read_bytes() for path in kept.iterdir()] == [before]
    assert unregister(home.settings, kept) == "restored"
    assert (home.settings.read_bytes(), kept.exists()) == (before, False)


def test_a_backup_is_forgotten_once_others_have_changed_the_file(home: Home) -> None:
    """Bringing it back would undo their change."""
    home.write_settings('{"model": "opus"}')
    kept = home.path / "backups"
    register(home.settings, COMMAND, kept)
    home.settings.write_text(home.settings.read_text().replace("opus", "haiku"))
    change = register(home.settings, f"X=1 {COMMAND}", kept)
    assert (change.original, kept.exists()) == (None, False)
    assert unregister(home.settings, kept) == "hooks removed"
    assert home.settings.read_text() == '{"model": "haiku"}'


def test_a_backup_outlives_a_removal_that_failed(home: Home) -> None:
    """Whoever fixes the file by undoing the change gets it back byte for byte."""
    before = home.write_settings(OTHERS)
    kept = home.path / "backups"
    register(home.settings, COMMAND, kept)
    text = home.settings.read_text()
    home.settings.write_text(f"// mine\n{text}")
    with pytest.raises(CcTraceError, match="JSON does not allow comments"):
        unregister(home.settings, kept)
    home.settings.write_text(text)
    assert unregister(home.settings, kept) == "restored"
    assert (home.settings.read_bytes(), kept.exists()) == (before, False)


def test_a_file_that_was_there_before_stays_even_if_it_says_nothing(home: Home) -> None:
    home.write_settings('{"model": "opus"}')
    kept = home.path / "backups"
    register(home.settings, COMMAND, kept)
    settings = json.loads(home.settings.read_text())
    home.settings.write_text(json.dumps({"hooks": settings["hooks"]}))
    assert unregister(home.settings, kept) == "hooks removed"
    assert home.settings.read_text() == "{}"


def test_installed_elsewhere_there_is_still_one_hook(home: Home) -> None:
    """The command is replaced in its place. The second data folder has no backup, so it says what it said before."""
    before = home.write_settings(OTHERS)
    installed(home, XDG_DATA_HOME=str(home.path / "first"))
    installed(home, XDG_DATA_HOME=str(home.path / "second"))
    [_, stop], [end] = home.commands().values()
    assert stop == end == registered_command(home.path / "second/cc-trace/hooks/cc-trace-hook", Path(sys.executable))
    uninstalled(home, XDG_DATA_HOME=str(home.path / "second"))
    assert json.loads(home.settings.read_bytes()) == json.loads(before)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{\n  "a": 1, // mine\n}', "line 2, column 11: JSON does not allow comments"),
        ('{"hooks": {"Stop": "say"}}', "hooks.Stop is not a list"),
        ("[]", "it must be a JSON object"),
    ],
)
def test_settings_that_are_not_plain_json_are_refused_untouched(home: Home, text: str, place: str) -> None:
    home.write_settings(text)
    assert refused(home, "install") == f"{home.settings}: {place}; {UNTOUCHED}"


def test_trailing_commas_and_odd_bytes_are_refused_untouched(home: Home) -> None:
    home.write_settings('{\n  "a": 1,\n}')
    assert re.search(
        r"line [23], column \d+: JSON does not allow a comma before the closing bracket; ", refused(home, "install")
    )
    home.write_settings(b'{\n"a": "\xff"}')
    assert refused(home, "install").startswith(f"{home.settings}: line 2 is not UTF-8; ")


@pytest.mark.parametrize("read_only", ["file", "folder"])
def test_read_only_settings_are_left_alone(home: Home, read_only: str) -> None:
    home.write_settings(OTHERS)
    locked = home.settings if read_only == "file" else home.settings.parent
    locked.chmod(0o444 if read_only == "file" else 0o555)
    before = snapshot(home.path)
    try:
        done = run(without_privileges([sys.executable, "-m", "cc_trace", "install"]), home.variables(), home.path)
        if done.returncode == 9:
            pytest.skip("root cannot give up its privileges here")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            f"cc-trace: cannot write {home.settings}: Permission denied; "
            "check the owner and permissions of the file and its folder, then try again\n"
        )
        assert snapshot(home.path) == before
    finally:
        locked.chmod(0o755)


def test_a_link_that_leads_nowhere_is_refused(home: Home) -> None:
    """The folder of a manager of dotfiles that is not mounted, say."""
    home.settings.parent.mkdir()
    home.settings.symlink_to("gone/settings.json")
    target = home.settings.parent / "gone" / "settings.json"
    said = (
        f"cannot write {home.settings}: it links to {target}, whose folder does not exist; fix that, then try again\n"
    )
    assert refused(home, "install") == said


def test_what_others_write_meanwhile_stays(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Claude Code keeps its own settings there: what was read before is read again."""
    home.write_settings('{"model": "opus"}')

    def changing(path: Path) -> str | None:
        said = read_settings(path)
        if said == '{"model": "opus"}':
            path.write_text('{"model": "haiku"}')
        return said

    monkeypatch.setattr("cc_trace.install.settings_file.read_settings", changing)
    change = register(home.settings, COMMAND, home.path / "backups")
    assert change.before == '{"model": "haiku"}'
    assert json.loads(home.settings.read_text())["model"] == "haiku"
    assert home.commands() == {"Stop": [COMMAND], "SessionEnd": [COMMAND]}
    assert unregister(home.settings, home.path / "backups") == "restored"
    assert home.settings.read_text() == '{"model": "haiku"}'


@pytest.mark.parametrize("direction", ["in", "out"])
def test_settings_that_never_rest_are_given_up(home: Home, monkeypatch: pytest.MonkeyPatch, direction: str) -> None:
    """After a few tries, with one line and the last text of the others in place."""
    home.write_settings("{}")
    kept = home.path / "backups"
    if direction == "out":
        register(home.settings, COMMAND, kept)
    text, written = home.settings.read_text(), 0

    def changing(path: Path) -> str | None:
        nonlocal written
        written += 1
        path.write_text(f"{text}{' ' * written}")
        return read_settings(path)

    monkeypatch.setattr("cc_trace.install.settings_file.read_settings", changing)
    with pytest.raises(CcTraceError, match="kept changing while it was being edited"):
        register(home.settings, COMMAND, kept) if direction == "in" else unregister(home.settings, kept)
    assert written <= 20
    assert home.settings.read_text() == f"{text}{' ' * written}"
    assert [path.name for path in home.settings.parent.iterdir() if path.suffix == ".tmp"] == []


def test_what_stands_in_the_way_is_named_and_nothing_is_half_done(home: Home) -> None:
    """A folder in place of settings.json; files in place of the data, state and Claude folders."""
    home.settings.mkdir(parents=True)
    assert refused(home, "install").startswith(f"cannot read {home.settings}: Is a directory; ")
    shutil.rmtree(home.settings.parent)
    for name, said in {"data": "write to", "claude": "read", "state": "write to"}.items():
        (home.path / name).touch()
        blocked = str(home.path / name)
        variable = {"data": "XDG_DATA_HOME", "claude": "CLAUDE_CONFIG_DIR", "state": "CC_TRACE_HOME"}[name]
        assert refused(Home(home.path, {variable: blocked}), "install").startswith(f"cannot {said} {blocked}")


def test_without_home_there_is_one_line(home: Home) -> None:
    line = "HOME is not set; set it to your home folder and try again\n"
    for command in ("install", "uninstall"):
        for value in (None, ""):
            assert refused(home, command, HOME=value) == line


def test_a_name_that_is_not_utf8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / os.fsdecode(b"\xff")
    path.mkdir()
    assert "is not UTF-8, so settings.json cannot name it; set XDG_DATA_HOME" in refused(Home(path), "install")


def test_a_symlink_is_written_through(home: Home) -> None:
    """Managers of dotfiles put one in place of settings.json."""
    dotfiles = home.path / "dotfiles"
    dotfiles.mkdir()
    (dotfiles / "claude.json").write_text(OTHERS)
    home.settings.parent.mkdir()
    home.settings.symlink_to("../dotfiles/claude.json")
    installed(home)
    assert home.settings.is_symlink()
    assert "cc-trace-hook" in (dotfiles / "claude.json").read_text()
    uninstalled(home)
    assert home.settings.is_symlink()
    assert (dotfiles / "claude.json").read_text() == OTHERS
    assert [path.name for path in dotfiles.iterdir()] == ["claude.json"]


def test_only_the_owner_can_write_under_umask_0(home: Home) -> None:
    command = ["/bin/sh", "-c", 'umask 0; exec "$@"', "sh", sys.executable, "-m", "cc_trace", "install"]
    assert run(command, home.variables(), home.path).returncode == 0
    modes = {path.name: stat.S_IMODE(path.lstat().st_mode) for path in home.path.rglob("*")}
    assert {name: mode for name, mode in modes.items() if mode & 0o022} == {}
    assert (modes["settings.json"], modes[".claude"], modes["cc-trace-hook"]) == (0o600, 0o700, 0o755)


def test_what_is_registered_delivers_and_has_no_secret(home: Home) -> None:
    secret = "sk-lf-" + "0" * 30
    installed(home, LANGFUSE_SECRET_KEY=secret, CC_TRACE_OTLP_HEADERS=f"x={secret}")
    [command] = home.commands()["Stop"]
    assert secret not in home.settings.read_text() + home.hook.read_text()
    done = home.claude_runs(command)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert len(home.stored()) == SAMPLE_SPANS + 1


@pytest.mark.parametrize("gone", ["hook", "python"])
def test_when_the_environment_is_gone_nothing_happens_quietly(home: Home, tmp_path: Path, gone: str) -> None:
    """Neither output nor an error, nor a spool that grows for ever."""
    installed(home)
    [command] = home.commands()["Stop"]
    if gone == "hook":
        home.hook.unlink()
    else:
        home.hook.write_bytes(hook_copy(hook_script().read_bytes(), tmp_path / "gone" / "python"))
    shutil.rmtree(home.state)
    done = home.claude_runs(command)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert not home.state.exists()


@pytest.mark.parametrize("shell", ["sh", "bash", "dash", "zsh", "busybox"])
def test_every_shell_reads_the_command(tmp_path: Path, shell: str) -> None:
    """And the line with the Python in the copy; whatever stands in a path."""
    if not shutil.which(shell):
        pytest.skip(f"{shell} is not installed")
    folder = tmp_path / f"{AWKWARD}\nnext;"
    folder.mkdir()
    hook = folder / "cc-trace-hook"
    command = [shell, *(["sh"] if shell == "busybox" else []), "-c", registered_command(hook, Path(sys.executable))]
    assert subprocess.run(command, check=False, capture_output=True).returncode == 0
    hook.write_text('#!/bin/sh\nprintf %s "$0"; exit 7\n')
    hook.chmod(0o755)
    done = subprocess.run(command, check=False, capture_output=True)
    assert (done.returncode, os.fsdecode(done.stdout), done.stderr) == (7, str(hook), b"")
    line = hook_copy(b"#\ninstalled=\n", hook).decode()
    printed = subprocess.run([*command[:-1], f'{line}printf %s "$installed"'], check=False, capture_output=True)
    assert os.fsdecode(printed.stdout) == str(hook)


def test_a_project_has_its_own(home: Home, tmp_path: Path) -> None:
    """Registered there and not for the user; uninstall knows where, --project takes out only that one."""
    first, second = tmp_path / "first ü", tmp_path / "second"
    (second / ".claude").mkdir(parents=True)
    (second / ".claude" / "settings.local.json").write_text(OTHERS)
    first.mkdir()
    installed(home, "--project", cwd=first)
    installed(home, "--project", cwd=second)
    assert not home.settings.exists()
    assert list(home.commands(second / ".claude" / "settings.local.json")) == ["Stop", "SessionEnd"]
    uninstalled(home, "--project", cwd=second)
    assert (second / ".claude" / "settings.local.json").read_text() == OTHERS
    assert home.hook.exists()
    uninstalled(home, cwd=second)
    assert list(first.iterdir()) == []
    assert snapshot(home.path) == {}


def committed(home: Home, project: Path) -> Path:
    """A project's settings file with our hooks in it, as earlier versions registered them, and with others' hooks."""
    path = project / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.write_text(with_hooks(OTHERS, f"[ ! -x '{home.hook}' ] || exec '{home.hook}'"))
    assert list(home.commands(path)) == ["Stop", "SessionEnd"]
    return path


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_what_was_committed_by_earlier_versions_is_taken_out(home: Home, tmp_path: Path, command: str) -> None:
    """So that no path of this user's home stays in a file that others get, nor the hook runs twice."""
    path = committed(home, tmp_path / "project")
    if command == "install":
        installed(home, "--project", cwd=tmp_path / "project")
        assert list(home.commands(path.with_name("settings.local.json"))) == ["Stop", "SessionEnd"]
    else:
        [said] = uninstalled(home, "--project", cwd=tmp_path / "project")
        assert said == f"settings {path}: hooks removed"
    assert home.commands(path) == {"Stop": ["say done"]}
    assert str(home.path) not in path.read_text()
    assert json.loads(path.read_text()) == json.loads(OTHERS)


@pytest.mark.parametrize("folder", [".cache/uv/archive-v0/x", "Caches/uv/archive-v0/x", "pipx/.cache/x"])
def test_a_temporary_environment_is_refused(tmp_path: Path, folder: str) -> None:
    """Of `uvx` and `pipx run`, by their caches; what lasts is not: uv notes its own environments as caches, too."""
    prefix = tmp_path / folder
    prefix.mkdir(parents=True)
    if "Caches" in folder:  # which uv marks, wherever it is
        (tmp_path / "Caches" / "uv" / "CACHEDIR.TAG").touch()
    with pytest.raises(
        InstallError, match=r"temporary environment, .*: uv tool install .*, then run: cc-trace install"
    ):
        refuse_throw_away(prefix)
    lasting = tmp_path / "share" / "uv" / "tools" / "cc-trace"
    lasting.mkdir(parents=True)
    (lasting / "CACHEDIR.TAG").touch()
    refuse_throw_away(lasting)


def test_install_from_a_temporary_environment_changes_nothing(home: Home, tmp_path: Path) -> None:
    """As uvx starts it: an environment below a cache."""
    environment = tmp_path / ".cache" / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    [packages] = environment.glob("lib/python*/site-packages")
    packages.joinpath("ours.pth").write_text(
        "\n".join([str(ROOT), *(path for path in sys.path if "site-packages" in path)])
    )
    done = run([str(environment / "bin" / "python"), "-m", "cc_trace", "install"], home.variables(), home.path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert f"cc-trace runs in a temporary environment, {environment}; " in done.stderr
    assert snapshot(home.path) == {}


@pytest.mark.parametrize(
    ("origin", "named"),
    [
        ('{"url": "file:///home/a%20b/cc-trace", "dir_info": {}}', "'/home/a b/cc-trace'"),
        ('{"url": "https://example.com/x.git", "vcs_info": {"vcs": "git"}}', "git+https://example.com/x.git"),
        (None, "cc-trace"),
    ],
)
def test_it_is_installed_for_good_from_where_it_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, origin: str | None, named: str
) -> None:
    """As pip and uv note that beside the package."""
    about = tmp_path / "site" / "cc_trace-9.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: cc-trace\nVersion: 9\n")
    if origin is not None:
        (about / "direct_url.json").write_text(origin)
    monkeypatch.syspath_prepend(tmp_path / "site")
    with pytest.raises(InstallError, match=re.escape(f": uv tool install {named}, then run: ")):
        refuse_throw_away(tmp_path / ".cache" / "x")


def test_a_project_that_was_moved_is_told(home: Home, tmp_path: Path) -> None:
    """Its hooks cannot be removed from elsewhere; one whose hooks are out already is no longer spoken of."""
    first, second = tmp_path / "first", tmp_path / "second"
    for project in (first, second):
        project.mkdir()
        installed(home, "--project", cwd=project)
    uninstalled(home, "--project", cwd=first)
    second.rename(tmp_path / "moved")
    gone = second / ".claude" / "settings.local.json"
    line = f"not found: {gone}; if you moved it, delete cc-trace's hooks from it (they no longer do anything)"
    assert [said for said in uninstalled(home) if "not found" in said] == [line]
    said = uninstalled(home, "--project", cwd=tmp_path / "moved")
    assert said == [f"settings {tmp_path}/moved/.claude/settings.local.json: removed, as there was none before"]


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_current_folder_that_is_gone_is_one_line(home: Home, command: str) -> None:
    program = ["/bin/sh", "-c", 'mkdir gone && cd gone && rmdir ../gone && exec "$@"', "sh"]
    done = run([*program, sys.executable, "-m", "cc_trace", command, "--project"], home.variables(), home.path)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("cc-trace: the current folder ")
    assert snapshot(home.path) == {}


def test_claudes_folder_is_where_the_environment_says(home: Home, tmp_path: Path) -> None:
    config = tmp_path / "config"
    installed(home, CLAUDE_CONFIG_DIR=str(config))
    assert list(home.commands(config / "settings.json")) == ["Stop", "SessionEnd"]
    assert not home.settings.parent.exists()
    uninstalled(home)  # noted, so found without the variable
    assert not (config / "settings.json").exists()


def test_what_was_recorded_stays_unless_it_is_purged(home: Home) -> None:
    installed(home)
    home.claude_runs(home.commands()["Stop"][0])
    config = home.path / ".config" / "cc-trace" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("content = 'full'\n")
    assert f"left: state, store and log in {home.state} (--purge removes them)" in uninstalled(home)
    assert not (home.state / "installed").exists()  # the next installation starts anew
    assert len(home.stored()) == SAMPLE_SPANS + 1
    installed(home)
    for stamp in ("swept", "cleaned"):  # a worker's
        (home.state / stamp).touch()
    uninstalled(home, "--purge")
    assert snapshot(home.path) == {".claude": ("drwx------", ""), ".config": ("drwxr-xr-x", "")}


@pytest.mark.parametrize("elsewhere", [False, True])
def test_purging_after_an_uninstall_leaves_nothing(home: Home, elsewhere: bool) -> None:  # noqa: FBT001
    """The first takes out the folders that are empty, and is not the last word."""
    changes: dict[str, Any] = {"CC_TRACE_HOME": str(home.path / "work")} if elsewhere else {}
    installed(home, **changes)
    home.claude_runs(home.commands()["SessionEnd"][0], "SessionEnd", **changes)
    uninstalled(home, **changes)
    state = home.path / "work" if elsewhere else home.state
    assert (state / "traces.db").is_file()
    (state / "langfuse-prices-0123456789abcdef.json").touch()
    (state / "streams" / "-p").mkdir(parents=True)
    (state / "streams" / "-p" / "run.jsonl").touch()
    shutil.rmtree(home.path / ".claude" / "projects")
    assert f"state {state}: removed" in uninstalled(home, "--purge", **changes)
    assert snapshot(home.path) == {".claude": ("drwx------", "")}


def test_purging_takes_what_only_some_use(home: Home) -> None:
    """The streams that `run` and `ingest` kept, which hold what was said, and the prices that Langfuse told."""
    installed(home)
    stream = home.state / "streams" / "5403f1c5-0000-4000-8000-000000000001" / "subagents" / "agent-a.jsonl"
    stream.parent.mkdir(parents=True)
    stream.touch()
    stream.parents[2].joinpath("5403f1c5-0000-4000-8000-000000000001.jsonl").touch()
    Prices(home.state, "pk-lf-made-up", list, lambda: 1e9).is_missing("claude", Usage(), None, may_query=True)
    assert list(home.state.glob("langfuse-prices-*.json"))
    said = uninstalled(home, "--purge")
    assert not [line for line in said if line.startswith(f"left: {home.state}")]
    assert not home.state.exists()


def test_purging_removes_nothing_that_is_not_ours(home: Home) -> None:
    """Whatever CC_TRACE_HOME leads to."""
    work = home.path / "work"
    (work / "sessions").mkdir(parents=True)
    (work / "sessions" / "notes.txt").touch()
    said = uninstalled(home, "--purge", CC_TRACE_HOME=str(work))
    assert said == [f"left: {work}, which does not look like a state folder"]
    (work / "sessions" / "notes.txt").unlink()
    theirs = [
        "essay.txt",
        "langfuse-prices-mine.json",
        "hooked-on-books.md",
        "installed-apps.csv",
        "traces.db.backup",
        ".swept",
    ]
    ours = [".installed.12.tmp", "ledger.db-wal", "ledger.db.aside-1", "ledger.db.aside-1-shm", "cc-trace.log.1"]
    for name in (*theirs, *ours):
        (work / name).touch()
    installed(home, CC_TRACE_HOME=str(work))
    assert f"left: {work / 'essay.txt'}" in uninstalled(home, "--purge", CC_TRACE_HOME=str(work))
    assert sorted(path.name for path in work.iterdir()) == sorted(theirs)
    assert refused(home, "uninstall", "--purge", "--project").startswith("--purge removes what all projects share")


@pytest.mark.parametrize("text", [None, OTHERS, "{// no JSON\n}", "[]"])
def test_not_installed_is_said(home: Home, text: str | None) -> None:
    """Whatever the settings say: what does not name our hook does not stand in the way."""
    if text is not None:
        home.write_settings(text)
    before = snapshot(home.path)
    assert uninstalled(home) == ["cc-trace is not installed"]
    assert snapshot(home.path) == before


def test_settings_that_are_too_large_are_refused(home: Home) -> None:
    """Nobody would read them again: neither `uninstall` nor the hook's worker."""
    rest = 1_048_576 - len(json.dumps({"a": ""}))
    home.write_settings(json.dumps({"a": "x" * rest}))
    said = f"{home.settings} is too large: at most 1,048,576 bytes are read; nothing was changed\n"
    assert refused(home, "install") == said
    home.write_settings(json.dumps({"a": "x" * (rest + 1)}))
    said = f"cannot read {home.settings}: larger than 1,048,576 bytes; make it smaller, then try again\n"
    assert refused(home, "install") == said


# Runs commands in processes of their own. One ends before one of its changes to the file system, a later one each time.
DYING = """
import os, sys
from pathlib import Path
from cc_trace.cli import main
from cc_trace.install import self_check
self_check.check_hook = lambda *_: self_check.SelfCheck(())
root, dying = sys.argv[1], sys.argv[2]
settings = Path(root, ".claude", "settings.json")

def count(event, arguments):
    global left
    writes = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
    changes = writes or event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.chmod", "os.utime")
    path = arguments[0] if arguments else None
    if changes and isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(root):
        left -= 1
        if left < 0:
            os._exit(9)

def run(command, steps=1000):
    global left
    left = steps
    child = os.fork()
    if child == 0:
        sys.addaudithook(count)
        os._exit(main([command]))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])

def look():
    return {
        str(path): path.read_bytes() for path in Path(root).rglob("*") if path.is_file() and path.suffix != ".tmp"
    }

before, steps, code = look(), 0, 9
while code == 9:
    assert dying == "install" or run("install") == 0
    code = run(dying, steps)
    there = settings.read_bytes() if settings.exists() else None
    assert there == before.get(str(settings)) or b"cc-trace-hook" in there, there
    assert run("uninstall") == 0
    assert look() == before, (steps, look())
    steps += 1
assert code == 0
print(steps, file=sys.stderr)
"""


@pytest.mark.parametrize(("command", "text"), [("install", OTHERS), ("uninstall", OTHERS), ("install", None)])
def test_a_process_that_dies_at_any_step_loses_nothing(home: Home, command: str, text: str | None) -> None:
    """Settings are what they were or what they are to be, and `uninstall` ends well, as if nothing had been."""
    if text is not None:
        home.write_settings(text)
    program = [sys.executable, "-c", DYING, str(home.path), command]
    done = run(program, home.variables(PYTHONDONTWRITEBYTECODE="1"), home.path)
    assert done.returncode == 0, done.stderr
    assert int(done.stderr) > 10


def test_two_installations_at_once_are_as_good_as_one(home: Home) -> None:
    """Both end well, and what was there before can be restored."""
    before = home.write_settings(OTHERS)
    command = [sys.executable, "-m", "cc_trace", "install"]
    both = [subprocess.Popen(command, env=home.variables(), cwd=home.path, stdout=subprocess.DEVNULL) for _ in range(2)]
    assert [each.wait(60) for each in both] == [0, 0]
    assert {event: len(commands) for event, commands in home.commands().items()} == {"Stop": 2, "SessionEnd": 1}
    assert uninstalled(home)[0].endswith("restored to what it was before, byte for byte")
    assert home.settings.read_bytes() == before


def test_one_settings_file_does_not_keep_the_others(home: Home, tmp_path: Path) -> None:
    """And all else stays until that one is fixed."""
    project = tmp_path / "project"
    project.mkdir()
    before = home.write_settings(OTHERS)
    installed(home)
    installed(home, "--project", cwd=project)
    broken = project / ".claude" / "settings.local.json"
    text = broken.read_text()
    broken.write_text(f"// mine\n{text}")
    done = home.cc_trace("uninstall")
    assert (done.returncode, done.stdout) == (2, "")
    why, also = done.stderr.splitlines()
    assert why.startswith(f"cc-trace: {broken}: line 1, column 1: JSON does not allow comments; ")
    assert also == "cc-trace: everything else was left in place; run `cc-trace uninstall` again after fixing this"
    assert (home.settings.read_bytes(), home.hook.exists()) == (before, True)
    broken.write_text(text)
    uninstalled(home)
    assert (broken.exists(), home.hook.exists()) == (False, False)


def test_uninstalling_needs_no_package(home: Home) -> None:
    """The environment may be what is broken: the standard library is enough."""
    before = home.write_settings(OTHERS)
    installed(home)
    command = [sys.executable, "-S", "-P", "-m", "cc_trace", "uninstall"]
    done = run(command, home.variables(PYTHONPATH=str(ROOT)), home.path)
    assert (done.returncode, done.stderr) == (0, "")
    assert home.settings.read_bytes() == before


def test_a_hook_that_does_not_work_is_registered_and_said(home: Home, tmp_path: Path) -> None:
    """What went wrong is told, by the worker itself where it has something to say."""
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 1\n")
    broken.chmod(0o755)
    done = home.cc_trace("install", CC_TRACE_PYTHON=str(broken))
    assert done.returncode == 1
    first, *_ = done.stderr.splitlines()
    assert first == f"cc-trace: self-check: the hook ran, but 0 of {SAMPLE_SPANS} spans arrived; install cc-trace again"
    assert list(home.commands()) == ["Stop", "SessionEnd"]


def test_the_check_leaves_and_sends_nothing(home: Home) -> None:
    """Whatever is configured: the sample goes to a store of its own, which is gone afterwards."""
    temporary = home.path / "tmp"
    temporary.mkdir()
    config = home.path / ".config" / "cc-trace"
    config.mkdir(parents=True)
    (config / "config.toml").write_text(
        'destinations = "otlp"\notlp_endpoint = "http://127.0.0.1:9"\nenabled = false\n'
    )
    changes = {"TMPDIR": str(temporary), "CC_TRACE_ENABLED": "false", "CC_TRACE_CONTENT": "nonsense", "CI": "true"}
    installed(Home(home.path, changes))
    assert list(temporary.iterdir()) == []
    assert not (home.state / "traces.db").exists()


def test_what_else_concerns_the_hooks_is_said(home: Home) -> None:
    home.write_settings(json.dumps({"enabledPlugins": {"cc-trace@somewhere": True}, "disableAllHooks": True}))
    said = installed(home)
    assert "the plugin cc-trace@somewhere is enabled too. Turns are still delivered only once" in said
    assert "disableAllHooks is true in that file" in said
    assert any("the plugin cc-trace@somewhere is still enabled" in line for line in uninstalled(home))


def test_places_agree_with_the_rest_of_the_package(tmp_path: Path) -> None:
    for environment in ({"HOME": str(tmp_path)}, {"HOME": "/x", "CC_TRACE_HOME": str(tmp_path)}):
        claude = Path(environment["HOME"]) / ".claude"
        assert find_install_paths(environment, None).state == state_folder(environment, claude)


def test_a_script_without_the_line_is_refused() -> None:
    with pytest.raises(CcTraceError, match="has no line `installed=`"):
        hook_copy(b"#!/bin/sh\n", Path("/python"))
    assert f"\ninstalled={shlex.quote('/a b/python')}\n".encode() in hook_copy(
        hook_script().read_bytes(), Path("/a b/python")
    )
