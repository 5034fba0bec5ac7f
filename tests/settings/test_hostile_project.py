"""A repository decides nothing: every setting, in both files of a project, through every command and every worker.

Nothing leaves, nothing is written outside our own folders, no program runs. In a hook of its own session, a project's
destination counts, and no key of the user goes there.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pytest
from backend import HttpBackend
from installed import snapshot
from lines import prompt, reply, write

from cc_trace.cli import main
from cc_trace.settings.catalogue import SETTINGS
from cc_trace.settings.distrust import remove_distrusted
from cc_trace.settings.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

FILES = ("settings.json", "settings.local.json")
SESSION = "11111111-0000-4000-8000-000000000001"
OTHER = "22222222-0000-4000-8000-000000000002"
# What programs read by themselves, each of which has sent data or keys elsewhere in some program.
DISTRUSTED = (
    *("HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "CLAUDE_CONFIG_DIR", "CC_TRACE_HOME"),
    *("http_proxy", "https_proxy", "all_proxy", "no_proxy", "grpc_proxy", "no_grpc_proxy"),
    *("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "GRPC_PROXY", "WS_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"),
    *("OPENSSL_CONF", "SSLKEYLOGFILE", "NETRC", "LD_LIBRARY_PATH", "TMPDIR", "PATH"),
    *("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "CC_TRACE_PYTHON", "CC_TRACE_WAIT", "CC_TRACE_WAIT_SECONDS"),
    *("CC_TRACE_FILE", "CC_TRACE_OTLP_CA_FILE", "CC_TRACE_OTLP_CERT_FILE", "CC_TRACE_OTLP_KEY_FILE"),
    *("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_HEADERS", "CC_TRACE_DIE_AT", "CC_TRACE_UNCLEAR_SECONDS"),
    *("CLAUDE_PLUGIN_OPTION_OTLP_ENDPOINT", "CLAUDE_PLUGIN_OPTION_DESTINATIONS"),
)


class Sink:
    """Notes who connects; nobody may."""

    def __init__(self) -> None:
        self.connections = 0
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"http://127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._server.accept()
                self.connections += 1
                connection.close()

    def close(self) -> None:
        self._server.close()


@pytest.fixture
def sink() -> Iterator[Sink]:
    made = Sink()
    yield made
    made.close()


class Victim:
    """A user with a session in a cloned repository, and one elsewhere."""

    def __init__(self, folder: Path, sink: Sink) -> None:
        self.folder, self.sink = folder, sink
        self.home, self.cloned, self.mine = folder / "home", folder / "cloned", folder / "mine"
        self.claude = self.home / ".claude"
        self.state = self.claude / "state" / "cc-trace"
        self.transcript = self._session(SESSION, self.cloned)
        self._session(OTHER, self.mine)
        for each in (self.cloned, self.mine):
            each.mkdir()
        (self.home / ".bashrc").write_text("# mine\n")
        (self.home / ".bashrc").chmod(0o644)
        self.environment = {"HOME": str(self.home), "PATH": os.environ["PATH"], "CC_TRACE_REST_SECONDS": "0"}

    def _session(self, session_id: str, project: Path) -> Path:
        path = self.claude / "projects" / "-p" / f"{session_id}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        about = {"sessionId": session_id, "cwd": str(project)}
        write(path, [prompt("private", 0, **about), reply(f"m{session_id[:3]}", "b", at=1, **about)])
        return path

    def settings(self, name: str, **env: str) -> None:
        """What the repository brings along."""
        (self.cloned / ".claude").mkdir(exist_ok=True)
        (self.cloned / ".claude" / name).write_text(json.dumps({"env": env}))

    def payload(self, path: Path) -> Path:
        spooled = self.state / "spool" / "1.json"
        spooled.parent.mkdir(parents=True, exist_ok=True)
        spooled.write_text(json.dumps({"transcript_path": str(path), "hook_event_name": "Stop"}))
        return spooled

    def seen(self) -> dict[str, Any]:
        """All there is but our own folder."""
        return snapshot(self.folder, without=self.state)

    def worker(self, project: Path, path: Path, **environment: str) -> subprocess.CompletedProcess[bytes]:
        """The worker of a hook in a project, as a process of its own."""
        command = [sys.executable, "-E", "-P", "-m", "cc_trace", "sync", "--spooled", str(self.payload(path))]
        variables = {**self.environment, "CLAUDE_PROJECT_DIR": str(project), **environment}
        (self.state / "swept").unlink(missing_ok=True)
        return subprocess.run(command, env=variables, cwd=project, capture_output=True, timeout=60, check=False)


@pytest.fixture
def victim(tmp_path: Path, sink: Sink) -> Victim:
    return Victim(tmp_path, sink)


def hostile(victim: Victim, program: Path) -> dict[str, str]:
    """Every variable of every setting, with the value that would hurt most."""
    values = {
        "otlp_endpoint": victim.sink.address,
        "langfuse_base_url": victim.sink.address,
        "langfuse_public_key": "pk-lf-1",
        "langfuse_secret_key": "sk-lf-1",
        "trace_to_langfuse": "true",
        "destinations": "file,otlp,langfuse,otel:otlp_json_file",
        "file": str(victim.home / ".bashrc"),
        "tags": "$(touch ran)",
        "home": str(victim.folder / "elsewhere"),
        "python": str(program),
        "otlp_ca_file": str(victim.home / ".bashrc"),
        "enabled": "true",
        "content": "full",
        "mask": "zzzzzz",
        "exclude": "/nowhere",
    }
    number = {"number": "1", "flag": "true"}
    return {
        variable: values.get(setting.name, number.get(setting.kind, "x=y"))
        for setting in SETTINGS
        for variable in setting.variables
    } | {
        "HTTP_PROXY": victim.sink.address,
        "ALL_PROXY": victim.sink.address,
        "OTEL_EXPORTER_OTLP_ENDPOINT": victim.sink.address,
        "XDG_CONFIG_HOME": str(victim.cloned),
    }


def test_repository_settings_do_not_affect_commands_and_sweeps(
    victim: Victim, monkeypatch: pytest.MonkeyPatch, capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path
) -> None:
    """One setting at a time and all at once, in each of both files, through all that looks at that project."""
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    program.chmod(0o755)
    every = hostile(victim, program)
    for name in list(os.environ):
        if name.startswith(("CC_", "LANGFUSE", "CLAUDE", "XDG_", "OTEL")):
            monkeypatch.delenv(name)
    for name, value in victim.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(victim.cloned)
    assert main(["config"]) == 0  # which makes the state folder
    commands = (
        ["doctor"],
        ["config"],
        ["status"],
        ["show", SESSION],
        ["show", SESSION, "--json"],
        ["preview", SESSION],
        ["sync", "--session", SESSION],
        ["sync"],
        ["backfill"],
    )
    (victim.state / "installed").touch()
    for name in FILES:
        for env in [{key: value} for key, value in every.items()] + [every]:
            victim.settings(name, **env)
            before = victim.seen()
            for command in commands if env is every else (["preview", SESSION], ["sync", "--session", SESSION]):
                main(command)
                capsysbinary.readouterr()
            assert victim.seen() == before, (name, env)
            assert victim.sink.connections == 0, (name, env)
        before = victim.seen()
        assert victim.worker(victim.mine, victim.claude / "projects" / "-p" / f"{OTHER}.jsonl").returncode == 0
        assert victim.seen() == before
        (victim.cloned / ".claude" / name).unlink()
    assert victim.sink.connections == 0
    assert not (tmp_path / "ran").exists()
    assert (victim.home / ".bashrc").read_text() == "# mine\n"


@pytest.mark.parametrize("name", FILES)
def test_a_worker_drops_all_that_a_project_may_not_set(tmp_path: Path, name: str) -> None:
    """Before anything can read it; what the shell sets stays, and so does what Claude Code says itself."""
    (tmp_path / ".claude").mkdir()
    allowed = {"CC_TRACE_TAGS": "a", "CC_TRACE_OTLP_ENDPOINT": "b", "CLAUDE_PROJECT_DIR": "c", "CLAUDE_PID": "1"}
    for dropped in DISTRUSTED:
        (tmp_path / ".claude" / name).write_text(json.dumps({"env": {dropped: "evil", **allowed}}))
        environment = {dropped: "evil", **allowed, "SHELL_ONLY": "x"}
        assert remove_distrusted(environment, tmp_path) == [dropped]
        assert environment == {**allowed, "SHELL_ONLY": "x"}
    for encoded in ("utf-8-sig", "utf-16"):  # which Claude Code reads, both with a byte order mark
        (tmp_path / ".claude" / name).write_text(json.dumps({"env": {"HTTP_PROXY": "evil"}}), encoded)
        assert remove_distrusted({"HTTP_PROXY": "evil"}, tmp_path) == ["HTTP_PROXY"]
    (tmp_path / ".claude" / name).unlink()
    os.mkfifo(tmp_path / ".claude" / name)  # nobody knows what it sets, so all goes
    environment = {**dict.fromkeys(DISTRUSTED, "evil"), "CC_TRACE_TAGS": "a", "CLAUDE_PID": "1"}
    remove_distrusted(environment, tmp_path)
    assert environment == {"CLAUDE_PID": "1"}
    (tmp_path / ".claude" / name).unlink()
    mine = dict.fromkeys(DISTRUSTED, "mine")
    (tmp_path / ".claude" / name).write_text("{}")
    assert remove_distrusted(mine, tmp_path) == []
    assert mine == dict.fromkeys(DISTRUSTED, "mine")


def repository_with(root: Path, env: dict[str, str]) -> tuple[Path, Path]:
    """A repository whose root has local settings; return a folder in it and one in a worktree of it."""
    git = root / ".git" / "worktrees" / "tree"
    for folder in (root / ".claude", root / "sub" / "deep", git, root.parent / "tree" / "sub"):
        folder.mkdir(parents=True)
    (root / ".claude" / "settings.local.json").write_text(json.dumps({"env": env}))
    (git / "commondir").write_text("../..\n")
    (root.parent / "tree" / ".git").write_text(f"gitdir: {git}\n")
    return root / "sub" / "deep", root.parent / "tree" / "sub"


def test_the_local_settings_of_a_repository_are_those_of_all_folders_in_it(tmp_path: Path) -> None:
    """Claude Code 2.1.325 reads those of the root, in a worktree those of the main one, besides the folder's own."""
    for folder in repository_with(tmp_path / "root", {"HTTP_PROXY": "evil", "CC_TRACE_CONTENT": "metadata"}):
        environment = {"HTTP_PROXY": "evil", "CLAUDE_PID": "1"}
        assert remove_distrusted(environment, folder) == ["HTTP_PROXY"]
        assert Sources({}, tmp_path, from_hook=False, managed=()).settings(folder).text("content") == "metadata"
    (tmp_path / "root" / ".claude" / "settings.json").write_text('{"env": {"PATH": "evil"}}')  # is not read there
    assert remove_distrusted({"PATH": "mine"}, tmp_path / "root" / "sub") == []
    assert remove_distrusted({"HTTP_PROXY": "mine"}, tmp_path) == []
    for odd in ("gitdir: \0", "gitdir: /nowhere", "", "x" * 5000, f"gitdir: {tmp_path}"):
        (tmp_path / "root" / ".git").rename(tmp_path / "root" / f"git{len(odd)}")
        (tmp_path / "root" / ".git").write_text(odd)
        assert remove_distrusted({"HTTP_PROXY": "evil"}, tmp_path / "root" / "sub") == ["HTTP_PROXY"]


@pytest.mark.parametrize("name", FILES)
def test_options_that_a_project_sets_for_our_plugin_are_not_the_users(victim: Victim, name: str) -> None:
    """Claude Code 2.1.197 takes them from a project's files; the user's key, another option, is not for that place."""
    options = {"otlp_endpoint": victim.sink.address, "file": "/evil"}
    (victim.cloned / ".claude").mkdir()
    settings = {"pluginConfigs": {"cc-trace@cc-trace": {"options": options}, "x": 1, "y": {"options": 1}}}
    (victim.cloned / ".claude" / name).write_text(json.dumps(settings))
    given = {
        "CLAUDE_PLUGIN_OPTION_OTLP_ENDPOINT": victim.sink.address,
        "CLAUDE_PLUGIN_OPTION_OTLP_HEADERS": "authorization=Bearer mine",
    }
    assert remove_distrusted({**given}, victim.cloned) == ["CLAUDE_PLUGIN_OPTION_OTLP_ENDPOINT"]
    assert victim.worker(victim.cloned, victim.transcript, **given).returncode == 0
    assert victim.sink.connections == 0


@pytest.mark.parametrize("name", FILES)
def test_in_its_own_hook_a_projects_destination_counts_and_no_key_of_the_user_goes_there(
    victim: Victim, name: str
) -> None:
    """A real worker, with every distrusted name set by the project: none has an effect."""
    config = victim.home / ".config" / "cc-trace"
    config.mkdir(parents=True)
    (config / "config.toml").write_text('otlp_headers = "authorization=Bearer mine"\nuser_id = "me"\n')
    with HttpBackend() as backend:
        theirs = {key: victim.sink.address for key in DISTRUSTED if "proxy" in key.lower()}
        theirs |= {key: str(victim.cloned) for key in DISTRUSTED if key not in theirs and key not in ("PATH", "HOME")}
        theirs["CC_TRACE_OTLP_ENDPOINT"] = backend.url
        victim.settings(name, **theirs)
        # As it is when the hook has started its worker: the hook itself has dropped what says where the state is.
        given = {key: value for key, value in theirs.items() if key not in ("CC_TRACE_HOME", "CLAUDE_CONFIG_DIR")}
        done = victim.worker(victim.cloned, victim.transcript, **given)
        assert done.returncode == 2
        log = (victim.state / "cc-trace.log").read_text()
        assert f"CC_TRACE_OTLP_ENDPOINT is set in environment of its hook, set by {victim.cloned}, otlp_headers" in log
        assert backend.requests == []
        (config / "config.toml").write_text('user_id = "me"\n')
        before = victim.seen()
        done = victim.worker(victim.cloned, victim.transcript, **given)
        assert done.returncode == 0
        assert len(backend.spans) == 2
        assert victim.seen() == before
        assert victim.sink.connections == 0
        kept = json.loads((victim.state / "sessions" / f"{SESSION}.json").read_text())["environment"]
        assert kept["project"] == {"CC_TRACE_OTLP_ENDPOINT": backend.url}


def test_a_session_whose_key_came_with_the_environment_waits_for_it(victim: Victim) -> None:
    """The state has no secret; `status` says what it waits for; a command that has it delivers."""
    with HttpBackend() as backend:
        backend.authorization = "Bearer right"
        keys = {"CC_TRACE_OTLP_ENDPOINT": backend.url, "CC_TRACE_OTLP_HEADERS": "authorization=Bearer right"}
        wrong = keys | {"CC_TRACE_OTLP_HEADERS": "authorization=Bearer wrong"}
        assert victim.worker(victim.cloned, victim.transcript, **wrong).returncode == 0
        assert backend.spans == []
        state = (victim.state / "sessions" / f"{SESSION}.json").read_text()
        assert "Bearer" not in state

        def command(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
            line = [sys.executable, "-m", "cc_trace", *arguments]
            variables = victim.environment | environment
            return subprocess.run(
                line, env=variables, cwd=victim.mine, capture_output=True, text=True, timeout=60, check=False
            )

        waits = "waits for CC_TRACE_OTLP_HEADERS, which was in the environment of its hook"
        assert waits in command("sync", "--session", SESSION).stdout
        assert waits in command("status").stdout
        assert backend.spans == []
        assert command("sync", "--session", SESSION, **keys).returncode == 0
        assert len(backend.spans) == 2


def test_a_mask_that_a_projects_file_still_has_keeps_no_session_waiting(victim: Victim) -> None:
    """The state keeps no mask, which may be the secret itself; the file is read again. Without it, it is missed."""
    command = [sys.executable, "-m", "cc_trace", "sync", "--session", SESSION]
    with HttpBackend() as backend:
        backend.authorization = "Bearer right"
        keys = {"CC_TRACE_OTLP_ENDPOINT": backend.url, "CC_TRACE_OTLP_HEADERS": "authorization=Bearer wrong"}
        victim.settings("settings.json", CC_TRACE_MASK="priv[a-z]+")
        assert victim.worker(victim.cloned, victim.transcript, **keys, CC_TRACE_MASK="priv[a-z]+").returncode == 0
        keys["CC_TRACE_OTLP_HEADERS"] = "authorization=Bearer right"
        victim.settings("settings.json")
        variables = victim.environment | keys
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
        assert "waits for CC_TRACE_MASK" in done.stdout
        assert "run `cc-trace sync` in a shell that has it set" in done.stdout
        assert backend.spans == []
        victim.settings("settings.json", CC_TRACE_MASK="priv[a-z]+")
        done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout
        assert len(backend.spans) == 2
        assert "private" not in str(backend.spans)


def test_a_project_does_not_choose_how_long_a_worker_waits_for_its_backend(tmp_path: Path) -> None:
    """There are only a few workers, and one that waits for an hour keeps the sessions of all others waiting."""
    project = tmp_path / "project"
    (project / ".claude").mkdir(parents=True)
    env = {"CC_TRACE_TIMEOUT_SECONDS": "999999", "CC_TRACE_TAGS": "a"}
    (project / ".claude" / "settings.json").write_text(json.dumps({"env": env}))
    environment = {**env, "CLAUDE_PROJECT_DIR": str(project)}
    assert remove_distrusted(environment, project) == ["CC_TRACE_TIMEOUT_SECONDS"]
    remembered: dict[str, dict[str, str | None]] = {"shell": {}, "project": {**env}}  # as an earlier version kept it
    sources = Sources({}, tmp_path, from_hook=False, managed=())
    assert sources.settings(project, remembered).number("timeout_seconds") == 10


def test_a_folder_that_others_can_write_sends_nothing_to_them(victim: Victim) -> None:
    """At the next sweep: its settings file belongs to another user, so the session stays pending, and it is said."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a file to another user")
    victim.settings("settings.json", CC_TRACE_OTLP_ENDPOINT=victim.sink.address, CC_TRACE_DESTINATIONS="otlp")
    os.chown(victim.cloned / ".claude" / "settings.json", 12345, -1)
    other = victim.claude / "projects" / "-p" / f"{OTHER}.jsonl"
    assert victim.worker(victim.mine, other).returncode == 0
    assert victim.sink.connections == 0
    command = [sys.executable, "-m", "cc_trace", "sync", "--session", SESSION]
    done = subprocess.run(
        command, env=victim.environment, cwd=victim.mine, capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert f"cannot use {victim.cloned}/.claude/settings.json: it belongs to another user (uid 12345)" in done.stdout


@pytest.mark.parametrize("link", [".claude", ".claude/settings.json", ".claude/settings.local.json"])
@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_a_link_in_a_repository_does_not_lead_install_to_another_file(
    victim: Victim,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    command: str,
    link: str,
) -> None:
    """A clone can bring links along; in the user's own folder one is the user's wish."""
    for name, value in victim.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(victim.cloned)
    (victim.home / "other").mkdir()
    hook = {"type": "command", "command": f"exec {victim.home}/cc-trace-hook"}
    (victim.home / "other" / "settings.json").write_text(json.dumps({"hooks": {"Stop": [{"hooks": [hook]}]}}))
    (victim.cloned / link).parent.mkdir(exist_ok=True)
    target = victim.home / "other"
    (victim.cloned / link).symlink_to(target if link == ".claude" else target / "settings.json")
    before = victim.seen()
    assert main([command, "--project"]) == 2
    assert "links outside the project" in capsys.readouterr().err
    assert victim.seen() == before


CONTROLS = "\x1b]0;owned\x07\x9b2J\x7f\u202egnp\u2066\u200f\u061c"


def test_hostile_text_does_not_control_the_terminal(victim: Victim) -> None:
    """Whatever a transcript, a path, a setting or a state says, in every command; JSON stays JSON."""
    about = {"sessionId": SESSION, "cwd": str(victim.cloned), "gitBranch": CONTROLS, "version": CONTROLS}
    lines = [prompt(CONTROLS, 0, **about), reply("m1", CONTROLS, at=1, **about)]
    write(victim.transcript, [*lines, {"type": CONTROLS}])
    victim.environment |= {"CC_TRACE_USER_ID": CONTROLS, "CC_TRACE_TAGS": CONTROLS}
    (victim.mine / CONTROLS).mkdir()
    commands = (
        ["show", SESSION],
        ["show", SESSION, "--full"],
        ["show", SESSION, "--json"],
        ["preview", SESSION],
        ["sync", "--session", SESSION],
        ["sync", "--session", CONTROLS],
        ["backfill"],
        ["status"],
        ["status", "--json"],
        ["config"],
        ["config", "--json"],
        ["config", "set", CONTROLS, "x"],
        ["doctor"],
        ["doctor", "--json"],
        [CONTROLS],
    )
    for command in commands:
        done = subprocess.run(
            [sys.executable, "-m", "cc_trace", *command],
            env=victim.environment,
            cwd=victim.mine / CONTROLS,
            capture_output=True,
            timeout=60,
            check=False,
        )
        for said in (done.stdout, done.stderr):
            text = said.decode()
            assert not set(text) & set(CONTROLS.replace("gnp", "").replace("]0;owned", "").replace("2J", "")), command
            if text and ("--json" in command or command[0] == "preview") and said is done.stdout:
                for part in [text] if command[0] in ("status", "config", "doctor") else text.splitlines():
                    json.loads(part)


def test_named_pipes_block_nothing(victim: Victim) -> None:
    """In the place of transcripts, agents' files, settings, the state and the spool."""
    command = [sys.executable, "-m", "cc_trace"]
    state = victim.state
    places = [
        victim.claude / "projects" / "-p" / "33333333-0000-4000-8000-000000000003.jsonl",
        victim.claude / "projects" / "-p" / SESSION / "subagents" / "agent-x.jsonl",
        victim.claude / "projects" / "-p" / SESSION / "subagents" / "agent-y.meta.json",
        victim.cloned / ".claude" / "settings.json",
        victim.claude / "settings.json",
        victim.home / ".config" / "cc-trace" / "config.toml",
        state / "sessions" / f"{OTHER}.json",
        state / "pending" / f"{OTHER}.json",
        state / "spool" / "7.json",
        state / "spool" / f"{OTHER}.request",
        state / "spool" / f"{OTHER}.taken",
        state / "cc-trace.log",
        state / "ledger.db",
        state / "ledger.db-journal",
        state / "index.db-journal",
        state / "traces.db",
        state / "traces.db-journal",
        state / "installed",
    ]
    for place in places:
        place.parent.mkdir(parents=True, exist_ok=True)
        place.unlink(missing_ok=True)
        os.mkfifo(place)
        os.utime(place, (1, 1))
        for arguments in (["status"], ["doctor"], ["show", "--request", "msg_none"]):
            subprocess.run(
                [*command, *arguments], env=victim.environment, cwd=victim.cloned, capture_output=True, timeout=60,
                check=False,
            )  # fmt: skip
        if place != victim.cloned / ".claude" / "settings.json":
            # There nobody knows who has set HOME: a worker goes to the home that the system says, not to this one.
            victim.worker(victim.cloned, victim.transcript)
        place.unlink(missing_ok=True)
