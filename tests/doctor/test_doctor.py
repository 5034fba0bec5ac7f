"""`cc-trace doctor`, run as users run it: a healthy installation passes, and every planted fault is found.

Each installation is a real one in a home of its own: our hook registered by `install`, run once for a session.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import io
import json
import os
import re
import shlex
import shutil
import sqlite3
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from backend import HANG, REFUSE, HttpBackend, partial_success, status
from installed import run as run_process
from installed import without_privileges
from lines import SESSION, prompt, reply, session, turn_duration
from shared import ROOT

from cc_trace.cli.doctor import run
from cc_trace.delivery.app import App
from cc_trace.delivery.cursor import Cursor
from cc_trace.delivery.state import StateFolder
from cc_trace.doctor.check import Check, moment, ok, run_check
from cc_trace.doctor.configuration import configuration
from cc_trace.doctor.databases import check_store
from cc_trace.doctor.deliveries import deliveries, locks
from cc_trace.doctor.destinations import destinations, fix, prove
from cc_trace.doctor.hook_run import hook_run
from cc_trace.doctor.registration import hook, hook_events, hooks_enabled
from cc_trace.doctor.state_folder import hooks_state_folder, log
from cc_trace.doctor.subject import Subject
from cc_trace.doctor.transcripts import last_run
from cc_trace.export.destination import DestinationSettings
from cc_trace.install.hooks import with_hooks
from cc_trace.install.installation import find_install_paths, install, own_python
from cc_trace.settings.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from cc_trace.export.destination import DestinationKind

PUBLIC, SECRET = "pk-lf-" + "0" * 20, "sk-lf-" + "very-secret-" * 2
BASIC = "Basic " + base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
LINES = (prompt("hello", 0), reply("m1", "hi", at=1), turn_duration(1000, at=2))


class Home:
    """A home in which cc-trace is installed and has traced one session."""

    def __init__(self, folder: Path, backend: HttpBackend) -> None:
        self.folder = folder
        self.backend = backend
        self.project = folder / "project"
        self.project.mkdir(parents=True, exist_ok=True)
        self.environment = {"HOME": str(folder), "PATH": "/usr/bin:/bin", "CC_TRACE_TIMEOUT_SECONDS": "5"}
        self.claude = folder / ".claude"
        self.settings = self.claude / "settings.json"
        self.config = folder / ".config" / "cc-trace" / "config.toml"
        self.paths = find_install_paths(self.environment, None)
        self.hook = self.paths.hook
        self.state = self.paths.state
        self.transcripts = self.claude / "projects" / "-project"

    def installed(self) -> Home:
        states = StateFolder(self.state)
        install(self.paths, own_python(), states.prepare)
        states.stamp_installed()
        return self

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command that a user runs in the project."""
        return subprocess.run(
            [sys.executable, "-m", "cc_trace", *arguments],
            env=self.environment,
            cwd=self.project,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )

    def traced(self, *lines: Any) -> Home:
        """Write a session and run the registered command for it."""
        path = session(self.transcripts, *(lines or LINES))
        command = json.loads(self.settings.read_text())["hooks"]["Stop"][0]["hooks"][0]["command"]
        payload = {"session_id": SESSION, "transcript_path": str(path), "hook_event_name": "Stop"}
        done = subprocess.run(
            ["/bin/sh", "-c", command],
            input=json.dumps({**payload, "last_assistant_message": "hi", "cwd": str(self.project)}).encode(),
            env={**self.environment, "CC_TRACE_WAIT": "1", "CLAUDE_PROJECT_DIR": str(self.project)},
            cwd=self.project,
            capture_output=True,
            check=False,
            timeout=60,
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
        return self

    def checks(self, *, process: bool = False) -> tuple[int, list[Check]]:
        """What doctor says, as JSON. Whatever it is, each verdict that is not ok has a fix, and no key is told."""
        if process:
            done = self.run("doctor", "--json")
            code, said = done.returncode, done.stdout
            assert done.stderr == ""
        else:
            with contextlib.chdir(self.project), contextlib.redirect_stdout(io.StringIO()) as stdout:
                code = run(argparse.Namespace(json=True), self.environment)
            said = stdout.getvalue()
        assert SECRET not in said
        assert PUBLIC not in said
        made = [Check(**row) for row in json.loads(said)]
        assert [check for check in made if (check.verdict == "ok") != (check.fix is None)] == []
        assert code == (1 if any(check.verdict == "failed" for check in made) else 0)
        return code, made

    def subject(self, now: float | None = None) -> Subject:
        sources = Sources(self.environment, self.folder, from_hook=False)
        return Subject(sources, self.claude, StateFolder(self.state), self.project, time.time() if now is None else now)

    def otlp(self) -> None:
        self.environment["CC_TRACE_OTLP_ENDPOINT"] = self.backend.url

    def langfuse(self) -> None:
        self.environment |= {
            "CC_TRACE_DESTINATIONS": "langfuse",
            "LANGFUSE_PUBLIC_KEY": PUBLIC,
            "LANGFUSE_SECRET_KEY": SECRET,
            "LANGFUSE_BASE_URL": self.backend.url,
        }
        self.backend.authorization = BASIC

    def write_config(self, text: str, mode: int = 0o600) -> None:
        self.config.parent.mkdir(parents=True, exist_ok=True)
        self.config.write_text(text)
        self.config.chmod(mode)

    def change_settings(self, **values: Any) -> None:
        self.settings.write_text(json.dumps(json.loads(self.settings.read_text()) | values))


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


@pytest.fixture
def home(tmp_path: Path, backend: HttpBackend) -> Home:
    return Home(tmp_path, backend)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A healthy installation to copy: installing and tracing takes a second."""
    with HttpBackend() as unused:
        return Home(tmp_path_factory.mktemp("healthy") / "home", unused).installed().traced().folder


@pytest.fixture
def healthy(model: Path, tmp_path: Path, backend: HttpBackend) -> Home:
    shutil.copytree(model, tmp_path / "home", symlinks=True)
    home = Home(tmp_path / "home", backend)
    for path in (home.settings, *(home.state / "sessions").iterdir()):
        path.write_text(path.read_text().replace(str(model), str(home.folder)))
    return home


def named(name: str, checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if check.name == name]


# A healthy installation


@pytest.mark.parametrize("kind", ["local", "otlp", "langfuse", "file"])
def test_a_healthy_installation_passes(home: Home, kind: str) -> None:
    """All is ok, and the destination is proven: read back where that is possible."""
    found = {
        "local": f"a test span was sent to {home.state}/traces.db and read back",
        "otlp": f"127.0.0.1:{home.backend.port} accepted a test span; it cannot be read back from there",
        "langfuse": f"a test span was sent to 127.0.0.1:{home.backend.port}, project my project, read back and removed",
        "file": f"a test span was written to {home.state}/traces.jsonl",
    }
    if kind == "otlp":
        home.otlp()
    elif kind == "langfuse":
        home.langfuse()
    else:
        home.environment["CC_TRACE_DESTINATIONS"] = kind
    code, checks = home.installed().traced().checks(process=True)
    assert [check for check in checks if check.verdict != "ok"] == []
    assert code == 0
    assert named(f"destination {kind}", checks) == [ok(f"destination {kind}", found[kind])]
    assert named(f"delivery {kind}", checks) == [ok(f"delivery {kind}", "1 session, 2 spans, nothing pending")]
    assert len({check.name for check in checks}) == len(checks)


def test_the_test_span_says_what_it_is(home: Home) -> None:
    """It is in a trace and a session of its own, marked, and happens now."""
    home.otlp()
    before = time.time_ns()
    home.installed().checks()
    [span] = home.backend.spans
    attributes = {pair.key: pair.value for pair in span.attributes}
    assert (span.name, span.parent_span_id) == ("cc-trace doctor", b"")
    assert before <= span.start_time_unix_nano == span.end_time_unix_nano <= time.time_ns()
    assert attributes["session.id"].string_value == "cc-trace-doctor"
    assert [value.bool_value for key, value in attributes.items() if key.endswith("cc_trace_test")] == [True]


def test_text_says_the_same(healthy: Home) -> None:
    """One line per check, its verdict first, failures before warnings; its fix stands below; a count stands last."""
    home = healthy
    home.hook.chmod(0o644)
    _, checks = home.checks()
    done = home.run("doctor")
    *lines, empty, count = done.stdout.splitlines()
    assert done.returncode == 1
    shown = [line.split(maxsplit=1) for line in lines if not line.startswith(" ")]
    checks.sort(key=lambda check: ("failed", "warning", "ok").index(check.verdict))
    assert [verdict for verdict, _ in shown] == [check.verdict for check in checks]
    assert all(line.startswith(check.name) for (_, line), check in zip(shown, checks, strict=True))
    at = next(number for number, line in enumerate(lines) if line.startswith("failed"))
    assert lines[at] == f"failed   hook run               {home.hook} cannot be executed"
    assert lines[at + 1] == f"         fix: chmod +rx {home.hook}"
    assert (empty, count) == ("", f"{len(checks)} checks: 1 failed, 0 warnings")


def test_nothing_is_changed(healthy: Home) -> None:
    """A test span is taken out of the local store again, and no file is made or written but the store's own."""
    home = healthy

    def content() -> tuple[dict[Path, bytes], list[Any]]:
        with contextlib.closing(sqlite3.connect(home.state / "traces.db")) as database:
            rows = database.execute("SELECT * FROM spans ORDER BY span_id").fetchall()
        files = (path for path in home.folder.rglob("*") if path.is_file() and not path.name.startswith("traces.db"))
        return {path: path.read_bytes() for path in files}, rows

    before = content()
    assert home.checks()[0] == 0
    assert content() == before
    assert len(before[1]) == 2


def test_nothing_installed_is_said_and_stays_so(tmp_path: Path, backend: HttpBackend) -> None:
    """In an empty home nothing is made, not even the state folder."""
    home = Home(tmp_path, backend)
    code, checks = home.checks()
    bad = {check.name: check.verdict for check in checks if check.verdict != "ok"}
    assert bad == {"hook": "failed", "transcripts": "warning", "last run": "warning"}
    assert code == 1
    assert sorted(tmp_path.rglob("*")) == [home.project]


@pytest.mark.parametrize(
    "environment",
    [
        {"HOME": "/no/such/folder"},
        {"CLAUDE_CONFIG_DIR": "relative"},
        {"CLAUDE_CONFIG_DIR": "/dev/null"},
        {"CC_TRACE_HOME": "/dev/null/x", "XDG_CONFIG_HOME": "/dev/null", "XDG_DATA_HOME": "/dev/null"},
    ],
    ids=str,
)
def test_odd_places_are_no_reason_to_give_up(home: Home, environment: dict[str, str]) -> None:
    """Whatever the variables name, every check is made; none ends with an exception."""
    home.environment |= environment
    code, checks = home.checks(process=True)
    assert code == 1
    assert len(checks) >= 4
    assert [check for check in checks if "the check failed with" in check.found] == []


def test_without_a_home_that_alone_is_said(home: Home) -> None:
    """There is nothing to look at."""
    home.environment["HOME"] = ""
    code, checks = home.checks(process=True)
    assert ([(check.name, check.verdict) for check in checks], code) == ([("home", "failed")], 1)


def test_nothing_slow_is_imported_unasked(home: Home) -> None:
    """With the local store, doctor needs neither httpx nor opentelemetry, langfuse or rich."""
    home.installed()
    program = "import sys; from cc_trace.cli import main; main(['doctor'])\n"
    program += "print(sorted({'httpx', 'opentelemetry', 'langfuse', 'rich', 'grpc'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=home.environment,
        cwd=home.project,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout.splitlines()[-1] == "[]"


# Planted faults


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault: how it is planted in a healthy installation, and what must be said of it."""

    plant: Callable[[Home], object]
    check: str
    found: str
    fix: str
    verdict: str = "failed"


def take_the_timeout_out(home: Home) -> None:
    home.settings.write_text(re.sub(r',\s*"timeout": 60', "", home.settings.read_text()))


def take_the_hook_out(home: Home) -> None:
    home.settings.write_text("{}")


def only_session_end(home: Home) -> None:
    settings = json.loads(home.settings.read_text())
    del settings["hooks"]["Stop"]
    home.settings.write_text(json.dumps(settings))


def break_settings(home: Home) -> None:
    home.settings.write_text('{\n  "model": "opus",\n}\n')


def register_in_the_project_too(home: Home) -> None:
    path = home.project / ".claude" / "settings.json"
    path.parent.mkdir()
    path.write_text(home.settings.read_text())


def an_event_unknown_to_an_old_version(home: Home) -> None:
    """Later versions skip the event."""
    home.change_settings(hooks={"Stopp": [{}], **json.loads(home.settings.read_text())["hooks"]})
    session(home.transcripts, prompt("hello", 0, version="2.0.77"))


def enable_the_plugin_too(home: Home) -> None:
    home.change_settings(enabledPlugins={"cc-trace@somewhere": True})


def other_python(path: str) -> Callable[[Home], None]:
    def plant(home: Home) -> None:
        script = home.hook.read_text().splitlines(keepends=True)
        home.hook.write_text("".join(f"installed={path}\n" if "installed=" in line[:10] else line for line in script))

    return plant


def with_wrong_key(home: Home) -> None:
    home.langfuse()
    home.environment["LANGFUSE_SECRET_KEY"] = SECRET + "-wrong"


def behaving(behaviour: Any) -> Callable[[Home], None]:
    def plant(home: Home) -> None:
        home.otlp()
        home.backend.behaviour = behaviour

    return plant


def damage_the_store(home: Home) -> None:
    data = bytearray((home.state / "traces.db").read_bytes())
    data[32768:65536] = b"\xff" * 32768
    (home.state / "traces.db").write_bytes(data)


def no_database(home: Home) -> None:
    (home.state / "traces.db").write_bytes(b"nothing of the kind" * 100)


def newer_store(home: Home) -> None:
    with contextlib.closing(sqlite3.connect(home.state / "traces.db")) as database:
        database.execute("PRAGMA user_version = 7")


def a_file_for_a_folder(home: Home) -> None:
    for path in sorted(home.state.rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    home.state.rmdir()
    home.state.write_text("")


def delivered_while(behaviour: Any) -> Callable[[Home], None]:
    """A backend that behaved badly when the session was delivered, and is well again."""

    def plant(home: Home) -> None:
        home.otlp()
        well, home.backend.behaviour = home.backend.behaviour, behaviour
        home.traced()
        home.backend.behaviour = well

    return plant


def unfinished_for_days(home: Home) -> None:
    state = home.state / "sessions" / f"{SESSION}.json"
    state.write_text(state.read_text().replace('"unfinished": 0', '"unfinished": 1'))
    a_while_ago(home.transcripts / f"{SESSION}.jsonl", days=3)


def a_while_ago(path: Path, *, days: float) -> None:
    then = time.time() - days * 86_400
    os.utime(path, (then, then))


def a_hook_that_stopped_running(home: Home) -> None:
    """Everything of the hook's is a week old, a session is of this day."""
    for path in home.state.rglob("*"):
        if path.is_file():
            a_while_ago(path, days=7)
    path = home.transcripts / "22222222-0000-4000-8000-000000000002.jsonl"
    session(home.transcripts, *LINES).rename(path)
    a_while_ago(path, days=0.5)


def worked_by_hand_since(home: Home) -> None:
    """As above, but the user has delivered by hand: that the hook is dead stays to be told."""
    a_hook_that_stopped_running(home)
    known = session(home.transcripts, *LINES, prompt("more", 3), reply("m2", "yes", at=4), turn_duration(1000, at=5))
    done = home.run("sync", "--transcript", str(known))
    assert (done.returncode, (home.state / "cc-trace.log").stat().st_mtime > time.time() - 60) == (0, True)


def a_worker_that_died(home: Home) -> None:
    at = datetime.now(UTC) + timedelta(seconds=1)
    with (home.state / "cc-trace.log").open("a") as log:
        log.write("2020-01-01T00:00:00.000000Z 1 the worker ended: OSError: of old\n")
        log.write(f"{at:%Y-%m-%dT%H:%M:%S.%fZ} 7 the worker ended: OSError: no room\n")
        log.write(f"{at:%Y-%m-%dT%H:%M:%S.%fZ} 7 something else\n")


def damage_the_ledger(home: Home) -> None:
    data = bytearray((home.state / "ledger.db").read_bytes())
    data[4096:8192] = b"\xff" * 4096
    (home.state / "ledger.db").write_bytes(data)


def a_folder_for_the_ledger(home: Home) -> None:
    (home.state / "ledger.db").unlink()
    (home.state / "ledger.db").mkdir(mode=0o700)


def a_link_for_the_ledger(home: Home) -> None:
    (home.state / "ledger.db").rename(home.folder / "ledger.db")
    (home.state / "ledger.db").symlink_to(home.folder / "ledger.db")


def a_plugin_whose_keys_are_elsewhere(home: Home) -> None:
    options = {"cc-trace@somewhere": {"options": {"destinations": "langfuse"}}}
    home.change_settings(enabledPlugins={"cc-trace@somewhere": True}, pluginConfigs=options)


def keys_in_plugin_options(home: Home) -> None:
    home.change_settings(pluginConfigs={"cc-trace@somewhere": {"options": {"langfuse_secret_key": SECRET}}})
    home.environment["CC_TRACE_DESTINATIONS"] = "local"
    home.settings.chmod(0o644)


def without_transcripts(home: Home) -> None:
    (home.transcripts / f"{SESSION}.jsonl").unlink()


def written_in_the_future(home: Home) -> None:
    a_while_ago(home.transcripts / f"{SESSION}.jsonl", days=-1)


def spool_something(home: Home) -> None:
    path = home.state / "spool" / "1-0.json"
    path.write_text("{}")
    path.chmod(0o600)
    a_while_ago(path, days=1)


def put_something_aside(home: Home) -> None:
    path = home.state / "sessions" / f"{SESSION}.json.aside-1"
    path.write_text("{")
    path.chmod(0o600)


def keys_for_everybody(home: Home) -> None:
    home.write_config(f'destinations = "local"\nlangfuse_secret_key = "{SECRET}"\n', 0o644)


def a_projects_keys_for_everybody(home: Home) -> None:
    home.write_config(f'[project."/some/where"]\nlangfuse_secret_key = "{SECRET}"\n', 0o644)


def keys_in_settings(home: Home) -> None:
    home.change_settings(env={"LANGFUSE_SECRET_KEY": SECRET})
    home.settings.chmod(0o644)


def a_key_in_the_command(home: Home) -> None:
    home.settings.write_text(with_hooks("{}", f"LANGFUSE_SECRET_KEY={SECRET} {home.hook}"))


def another_version(home: Home) -> None:
    """A Python whose cc-trace says that it is older."""
    python = home.folder / "python"
    program = (
        "import runpy, sys, cc_trace; cc_trace.__version__ = '0.0.9'; runpy.run_module('cc_trace', run_name='__main__')"
    )
    python.write_text(f'#!/bin/sh\nshift 4\nexec {shlex.quote(sys.executable)} -c "{program}" "$@"\n')
    python.chmod(0o755)
    home.environment["CC_TRACE_PYTHON"] = str(python)


def metrics_for_nobody(home: Home) -> None:
    home.environment |= {"CC_TRACE_DESTINATIONS": "local", "CC_TRACE_METRICS": "on"}


FAULTS = {
    "metrics that nobody takes": Fault(
        metrics_for_nobody,
        "configuration",
        "only destination otlp accepts metrics, not local",
        "unset metrics",
        "warning",
    ),
    "a SessionEnd hook without a timeout": Fault(
        take_the_timeout_out, "hook", "the SessionEnd hook has no timeout of its own", "cc-trace install", "warning"
    ),
    "hook not registered": Fault(
        take_the_hook_out, "hook", "not registered", "cc-trace install (not needed if you always"
    ),
    "hook not registered for Stop": Fault(only_session_end, "hook", "but not for Stop", "cc-trace install"),
    "hook registered twice": Fault(
        register_in_the_project_too, "hook", "still delivered once", "uninstall --project", "warning"
    ),
    "hook and plugin": Fault(
        enable_the_plugin_too, "hook", "plugin cc-trace@somewhere", "claude plugin uninstall cc-trace@", "warning"
    ),
    "hook gone": Fault(lambda home: home.hook.unlink(), "hook run", "does not exist", "cc-trace install"),
    "hook not executable": Fault(lambda home: home.hook.chmod(0o644), "hook run", "be executed", "chmod +rx"),
    "a key in the command": Fault(a_key_in_the_command, "hook command", "contains a key", "config set", "warning"),
    "settings.json broken": Fault(break_settings, "settings.json", "a comma before the closing", "correct"),
    "an unknown event": Fault(
        an_event_unknown_to_an_old_version,
        "hook events",
        "hooks for Stopp, so Claude Code 2.0.77 silently ignores the whole file",
        "remove Stopp from",
        "warning",
    ),
    "hooks disabled": Fault(
        lambda home: home.change_settings(disableAllHooks=True), "hooks enabled", "disableAllHooks", "remove"
    ),
    "Python gone": Fault(
        other_python("/nowhere/python"),
        "hook run",
        "0 of 10 spans arrived. The Python that it starts is missing or cannot run cc-trace",
        "cc-trace install",
    ),
    "another Python": Fault(
        other_python(shlex.quote(os.path.realpath(sys.executable))),
        "hook run",
        "0 of 10 spans arrived. The Python that it starts is missing or cannot run cc-trace",
        "cc-trace install",
    ),
    "a Python of the user's choice that is wrong": Fault(
        lambda home: home.environment.update(CC_TRACE_PYTHON="/bin/false"),
        "hook run",
        "0 of 10 spans arrived",
        "correct or unset CC_TRACE_PYTHON",
    ),
    "a Python of the user's choice that is gone": Fault(
        lambda home: home.environment.update(CC_TRACE_PYTHON="/nowhere/python"),
        "hook python",
        "CC_TRACE_PYTHON is /nowhere/python, which is not a program",
        "unset CC_TRACE_PYTHON",
        "warning",
    ),
    "another version of cc-trace": Fault(
        another_version, "hook run", "the hook runs cc-trace 0.0.9, but this is ", "cc-trace install", "warning"
    ),
    "unknown destination": Fault(
        lambda home: home.environment.update(CC_TRACE_DESTINATIONS="lokal"),
        "configuration",
        "CC_TRACE_DESTINATIONS contains 'lokal'; the destinations are",
        "cc-trace config",
    ),
    "tracing off": Fault(
        lambda home: home.write_config("enabled = false\n"), "configuration", "not traced", "cc-trace config", "warning"
    ),
    "a mistyped key": Fault(
        lambda home: home.write_config("enable = false\n"), "config.toml", "has unknown settings: 'enable'", "correct"
    ),
    "keys for everybody": Fault(keys_for_everybody, "keys", "other users can read (mode 0644)", "chmod 600", "warning"),
    "a project's keys for everybody": Fault(
        a_projects_keys_for_everybody, "keys", "other users can read (mode 0644)", "chmod 600", "warning"
    ),
    "keys in settings.json": Fault(keys_in_settings, "keys", "other users can read", "config set", "warning"),
    "keys in the options of the plugin": Fault(
        keys_in_plugin_options, "keys", "other users can read", "config set", "warning"
    ),
    "keys that only hooks get": Fault(
        a_plugin_whose_keys_are_elsewhere,
        "configuration",
        "destination langfuse needs LANGFUSE_PUBLIC_KEY",
        "Keys in the plugin's options reach only hooks",
    ),
    "wrong Langfuse key": Fault(
        with_wrong_key, "destination langfuse", "401 Unauthorized", "config set langfuse_secret_key"
    ),
    "nothing listens": Fault(behaving(REFUSE), "destination otlp", "cannot connect to", "start the server"),
    "redirected": Fault(
        behaving(status(308, location="https://elsewhere.example/v1/traces")),
        "destination otlp",
        "308 Permanent Redirect to https://elsewhere.example/v1/traces",
        "config set otlp_endpoint URL",
    ),
    "wrong path": Fault(behaving(status(404, "no such page")), "destination otlp", "404", "correct the address"),
    "refusing": Fault(behaving(status(400, "not protobuf")), "destination otlp", "refused", "config set otlp_protocol"),
    "thrown away": Fault(
        behaving(partial_success(1, "quota")), "destination otlp", "discarded it: quota", "check the server's log"
    ),
    "overloaded": Fault(behaving(status(503)), "destination otlp", "503 Service Unavailable", "nothing is lost"),
    "a damaged store": Fault(damage_the_store, "local store", "is damaged", "mv"),
    "no store at all": Fault(no_database, "local store", "file is not a database", ".recover"),
    "a newer store": Fault(newer_store, "local store", "has schema version 7", "update cc-trace"),
    "a damaged ledger": Fault(damage_the_ledger, "ledger", "is damaged", "mv "),
    "no ledger but text": Fault(
        lambda home: (home.state / "ledger.db").write_bytes(b"nothing of the kind" * 100),
        "ledger",
        "file is not a database",
        "each session's state knows what was sent",
    ),
    "no ledger but a folder": Fault(a_folder_for_the_ledger, "ledger", "is not a file", "mv "),
    "no ledger but a link": Fault(a_link_for_the_ledger, "ledger", "is a symlink", "mv "),
    "a worker died": Fault(
        a_worker_that_died, "log", "the worker ended: OSError: no room (at ", "`cc-trace sync`", "warning"
    ),
    "state folder open to all": Fault(
        lambda home: home.state.chmod(0o777), "state folder", "(mode 0777)", "chmod -R go= "
    ),
    "no state folder but a file": Fault(a_file_for_a_folder, "state folder", "is not a folder", "mv"),
    "spooled and never taken": Fault(spool_something, "spool", "1 hook payload waiting", "cc-trace sync", "warning"),
    "put aside": Fault(put_something_aside, "files put aside", "1 damaged file", "rm ", "warning"),
    "session behind": Fault(
        delivered_while(REFUSE), "delivery otlp", "1 session pending: cannot connect to", "`cc-trace sync`"
    ),
    "everything refused": Fault(
        delivered_while(status(400, "bad header")),
        "delivery otlp",
        "1 session pending: 400 bad header; it refuses everything",
        "`cc-trace sync`",
    ),
    "spans refused": Fault(
        delivered_while(partial_success(1, "bad span")),
        "delivery otlp",
        "1 span refused for good: partial success bad span (1 span, last at 20",
        "cc-trace status",
        "warning",
    ),
    "unfinished": Fault(unfinished_for_days, "delivery local", "unfinished for more than", "cc-trace sync", "warning"),
    "hook stopped running": Fault(
        a_hook_that_stopped_running, "last run", "22222222-0000-4000-8000-000000000002", "restart claude"
    ),
    "hook stopped running, delivered by hand": Fault(
        worked_by_hand_since, "last run", "22222222-0000-4000-8000-000000000002", "restart claude"
    ),
    "no transcripts": Fault(
        without_transcripts, "transcripts", "no transcripts in", "--no-session-persistence", "warning"
    ),
    "clock behind": Fault(written_in_the_future, "clock", "the newest transcript is from", "set the clock", "warning"),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_planted_fault_is_found(healthy: Home, fault: Fault) -> None:
    """The check that it belongs to names it, with a fix."""
    fault.plant(healthy)
    code, checks = healthy.checks()
    blamed = [check for check in named(fault.check, checks) if check.verdict != "ok"]
    assert len(blamed) == 1
    assert blamed[0].verdict == fault.verdict
    assert fault.found in blamed[0].found
    assert blamed[0].fix is not None
    assert fault.fix in blamed[0].fix
    assert code == (1 if fault.verdict == "failed" else 0)


def test_a_settings_file_that_is_broken_is_told_once(healthy: Home) -> None:
    """Neither that the hook is not registered, which nobody knows, nor that the settings cannot be read."""
    break_settings(healthy)
    assert [check.name for check in healthy.checks()[1] if check.verdict == "failed"] == ["settings.json"]


@pytest.mark.parametrize("scope", ["user", "project"])
def test_a_settings_file_that_links_to_itself_is_told(home: Home, scope: str) -> None:
    """As a folder that somebody cloned can have it."""
    path = home.settings if scope == "user" else home.project / ".claude" / "settings.json"
    path.parent.mkdir(parents=True)
    path.symlink_to(path.name)
    [check] = named("settings.json", home.checks()[1])
    assert (check.verdict, "Too many levels of symbolic links" in check.found) == ("failed", True)


@pytest.mark.parametrize("blocked", ["link", "file", "mode"])
def test_a_state_folder_that_cannot_be_made_is_told(home: Home, blocked: str) -> None:
    """By what is in its way."""
    above = home.folder / "above"
    if blocked == "link":
        above.symlink_to("nowhere")
    elif blocked == "file":
        above.write_text("")
    else:
        above.mkdir(0o500)
    home.environment["CC_TRACE_HOME"] = str(above / "state")
    command = without_privileges([sys.executable, "-m", "cc_trace", "doctor", "--json"])
    done = run_process(command, home.environment, home.project)
    if done.returncode == 9:
        pytest.skip("root cannot give up its privileges here")
    [check] = named("state folder", [Check(**row) for row in json.loads(done.stdout)])
    said = f"{above} cannot be written to" if blocked == "mode" else f"{above} is not a folder"
    assert (check.verdict, check.found) == ("failed", said)


def test_unknown_line_types_are_counted(home: Home) -> None:
    """They are named with how often they were seen, and the version that wrote them."""
    unknown = {"type": "hologram", "version": "9.0.0", "sessionId": SESSION}
    code, checks = home.installed().traced(*LINES, unknown, unknown).checks()
    found = "unknown in 1 session of Claude Code 2.1.200: hologram (2)"
    [check] = named("line types", checks)
    assert (check.verdict, check.found, code) == ("warning", found, 0)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
def test_a_state_folder_of_another_user_is_found(healthy: Home) -> None:
    """As after a run with sudo."""
    home = healthy
    os.chown(home.state / "sessions" / f"{SESSION}.json", 65_534, -1)
    code, checks = home.checks()
    [check] = named("state folder", checks)
    assert (check.verdict, code) == ("failed", 1)
    assert f"{SESSION}.json belongs to user 65534, but you are user 0" in check.found


def test_the_hooks_of_a_project_are_not_run(healthy: Home) -> None:
    """A folder that somebody cloned must not run programs by being looked at."""
    home = healthy
    evil = home.project / "evil"
    evil.write_text("#!/bin/sh\ntouch ran\n")
    evil.chmod(0o755)
    folder = home.project / ".claude"
    folder.mkdir()
    hooks = json.loads(with_hooks("{}", f"cd {home.project}; {evil}; exec {home.hook}"))
    env = {"CC_TRACE_PYTHON": str(evil), "ENV": str(evil), "BASH_ENV": str(evil)}
    (folder / "settings.json").write_text(json.dumps({**hooks, "env": env}))
    registered = home.settings.read_text()
    home.settings.write_text("{}")
    _, checks = home.checks()
    assert (named("hook", checks)[0].verdict, named("hook run", checks)) == ("ok", [])
    [project] = named("project hook", checks)
    assert (project.verdict, "not tried" in project.found) == ("ok", True)
    home.settings.write_text(registered)
    _, checks = home.checks()
    assert [check.verdict for check in named("hook run", checks)] == ["ok"]
    assert sorted(path.name for path in home.project.iterdir()) == [".claude", "evil"]


def test_a_projects_variables_do_not_say_what_the_users_command_starts(healthy: Home) -> None:
    """A command that is found on the PATH, or through a variable, is not looked for where a project says."""
    home = healthy
    evil = home.project / "evil"
    evil.mkdir()
    (evil / "python").write_text(f"#!/bin/sh\ntouch {home.project / 'ran'}\n")
    (evil / "python").chmod(0o755)
    (evil / "cc-trace-hook").write_text(f"#!/bin/sh\ninstalled={evil / 'python'}\n")
    (evil / "cc-trace-hook").chmod(0o755)
    folder = home.project / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"env": {"PATH": str(evil), "TOOLS": str(evil)}}))
    for command in ("cc-trace-hook", "$TOOLS/cc-trace-hook"):
        home.settings.write_text(with_hooks("{}", command))
        home.checks()
        assert not (home.project / "ran").exists()


def test_a_project_is_no_source_of_addresses(home: Home) -> None:
    """What a folder that somebody cloned says of Langfuse is not looked at, its own keys or not."""
    home.langfuse()
    url = home.environment.pop("LANGFUSE_BASE_URL")
    home.environment |= {"CC_TRACE_DESTINATIONS": "local"}
    folder = home.project / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(json.dumps({"env": {"LANGFUSE_BASE_URL": url}}))
    keys = {"CC_LANGFUSE_PUBLIC_KEY": PUBLIC, "CC_LANGFUSE_SECRET_KEY": SECRET, "TRACE_TO_LANGFUSE": "true"}
    (folder / "settings.local.json").write_text(json.dumps({"env": keys}))
    _, checks = home.checks()
    assert named("configuration", checks)[0].found == f"traces of {home.project} go to local"
    assert home.backend.requests == []


def test_a_key_in_a_wrong_place_is_not_repeated(home: Home) -> None:
    """A wrong value is quoted; not if it is a key."""
    home.environment |= {"CC_TRACE_DESTINATIONS": SECRET, "LANGFUSE_SECRET_KEY": SECRET}
    _, checks = home.checks()
    assert "CC_TRACE_DESTINATIONS contains '[masked: langfuse secret key]'" in named("configuration", checks)[0].found


def test_a_projects_key_in_a_wrong_place_is_not_repeated(home: Home) -> None:
    """Nor one from a project's table of config.toml, even if it does not look like a key."""
    home.write_config('[project."/some/where"]\notlp_headers = "x-key=swordfish"\n')
    home.environment |= {"CC_TRACE_DESTINATIONS": "swordfish"}
    _, checks = home.checks()
    assert "swordfish" not in repr(checks)
    assert named("configuration", checks)[0].found.startswith("CC_TRACE_DESTINATIONS contains ")


# Single checks


@pytest.mark.parametrize(("excluded", "started"), [("link", "real"), ("real", "link")])
def test_a_folder_excluded_through_a_link_is_left_out_as_by_the_worker(home: Home, excluded: str, started: str) -> None:
    """Whichever of the two names is in `exclude`: nothing is sent, and doctor says so."""
    (home.folder / "real").mkdir()
    (home.folder / "link").symlink_to("real")
    home.otlp()
    home.environment["CC_TRACE_EXCLUDE"] = str(home.folder / excluded)
    subject = replace(home.subject(), project=home.folder / started)
    [check] = configuration(subject)
    assert (check.verdict, check.found) == (
        "warning",
        f"sessions of {subject.project} are not traced: CC_TRACE_EXCLUDE contains {home.folder / excluded}",
    )
    assert list(destinations(subject)) == []
    assert (
        App.open(home.environment).why_off(str(subject.project))
        == f"CC_TRACE_EXCLUDE contains {home.folder / excluded}"
    )
    assert home.backend.requests == []


def test_a_store_of_an_earlier_version_is_no_fault(healthy: Home) -> None:
    """It is brought up to date when it is next written to."""
    path = healthy.state / "traces.db"
    with contextlib.closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA user_version = 1")
    assert check_store(path) is None


def test_a_store_that_is_in_use_is_not_damaged(healthy: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """As while another program has locked it."""
    monkeypatch.setattr("cc_trace.doctor.databases._BUSY_SECONDS", 0.1)
    path = healthy.state / "traces.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("PRAGMA locking_mode = EXCLUSIVE")
        other.execute("BEGIN EXCLUSIVE")
        assert check_store(path) is None


def test_a_session_that_is_behind_elsewhere_is_told(healthy: Home) -> None:
    """Its project has a destination that this one has not; or had, and then it may be dropped."""
    home = healthy
    other = home.folder / "other"
    (other / ".claude").mkdir(parents=True)
    settings = home.subject().sources.config_file
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(f'[project."{other}"]\notlp_endpoint = "{home.backend.url}"\n')
    state = StateFolder(home.state).peek(SESSION)
    assert state is not None
    state.cwd = str(other)
    state.destinations["otlp"] = Cursor(pending_spans=2, error="cannot connect", error_at=1e9)
    StateFolder(home.state).save(state)
    local, otlp = deliveries(home.subject())
    said = "1 session pending: cannot connect (1 session, last at 2001-09-09 01:46:40 UTC)"
    assert local == ok("delivery local", "1 session, 2 spans, nothing pending")
    fix = f"run `cc-trace sync`; if that does not help, run `cc-trace doctor` in {other}"
    assert otlp == Check("delivery otlp", "failed", said, fix)
    settings.unlink()
    _, dropped = deliveries(home.subject())
    fix = "nothing, if you no longer use otlp; otherwise run `cc-trace sync` where it is configured"
    said += f". As configured here, otlp is not a destination of {other}"
    assert dropped == Check("delivery otlp", "warning", said, fix)


def test_lines_that_no_sync_has_read_are_told(healthy: Home) -> None:
    """Of the session, or of an agent that went on: then not all is delivered. After a day a sync is advised."""
    main = healthy.transcripts / f"{SESSION}.jsonl"
    agent = main.with_suffix("") / "subagents" / "agent-a1.jsonl"
    agent.parent.mkdir(parents=True)
    agent.write_bytes(b"{}\n")
    said = "1 session, 2 spans; 1 session with new lines, which the next sync reads"
    assert [*deliveries(healthy.subject())] == [ok("delivery local", said)]
    for path in (main, agent):
        a_while_ago(path, days=2)
    said = "1 session with lines more than a day old that no sync has read"
    assert [*deliveries(healthy.subject())] == [Check("delivery local", "warning", said, "cc-trace sync")]
    agent.unlink()
    assert [*deliveries(healthy.subject())] == [ok("delivery local", "1 session, 2 spans, nothing pending")]
    with main.open("ab") as file:
        file.write(b"{}\n")
    said = "1 session, 2 spans; 1 session with new lines, which the next sync reads"
    assert [*deliveries(healthy.subject())] == [ok("delivery local", said)]
    healthy.run("sync")
    assert [*deliveries(healthy.subject())] == [ok("delivery local", "1 session, 2 spans, nothing pending")]


def test_a_worker_that_died_is_made_up_for_by_the_next_delivery(healthy: Home) -> None:
    """Then it is history."""
    a_worker_that_died(healthy)
    [before] = log(healthy.subject())
    state = StateFolder(healthy.state).peek(SESSION)
    assert state is not None
    state.destinations["local"].last_attempt_at = time.time() + 60
    StateFolder(healthy.state).save(state)
    [after] = log(healthy.subject())
    assert (before.verdict, after.verdict) == ("warning", "ok")


def test_a_hook_whose_worker_never_came_has_run(home: Home) -> None:
    """What it spooled tells."""
    home.installed()
    assert [check.found for check in last_run(home.subject())] == ["the hook has never run"]
    spool_something(home)
    [check] = last_run(home.subject())
    assert (check.verdict, check.found) == ("ok", moment((home.state / "spool" / "1-0.json").stat().st_mtime))


def test_a_ledger_that_may_not_be_read_is_told(healthy: Home) -> None:
    """As after a run by somebody else."""
    (healthy.state / "ledger.db").chmod(0)
    command = [sys.executable, "-m", "cc_trace", "doctor", "--json"]
    done = run_process(without_privileges(command), healthy.environment, healthy.project)
    if done.returncode == 9:
        pytest.skip("root cannot give up its privileges here")
    [check] = named("ledger", [Check(**row) for row in json.loads(done.stdout)])
    assert (check.verdict, check.found) == ("failed", f"{healthy.state}/ledger.db cannot be read and written")


def test_a_check_that_raises_is_a_failed_check(home: Home) -> None:
    """It is named after what it was to look at, and keeps no other from being made."""

    def some_thing(_: Subject) -> Iterator[Check]:
        yield ok("some thing", "fine so far")
        message = "oh"
        raise RuntimeError(message)

    first, second = run_check(some_thing, home.subject())
    assert first == ok("some thing", "fine so far")
    assert (second.name, second.verdict, second.found) == (
        "some thing",
        "failed",
        "the check failed with RuntimeError: oh",
    )
    assert second.fix is not None


def test_a_span_that_never_shows_is_a_warning(backend: HttpBackend) -> None:
    """Langfuse accepts into a queue: what is never read back has to be looked for."""
    settings = DestinationSettings("langfuse", "langfuse", endpoint=backend.url, public_key=PUBLIC, secret_key=SECRET)
    backend.lag = 2
    slow = prove(settings, time.time(), pauses=(0, 0))
    backend.lag = 3
    never = prove(settings, time.time(), pauses=(0, 0))
    assert (slow.verdict, never.verdict) == ("ok", "warning")
    assert never.fix is not None
    assert backend.spans[-1].trace_id.hex() in never.fix


def test_what_langfuse_does_not_remove_is_in_an_environment_of_its_own(
    backend: HttpBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = DestinationSettings("langfuse", "langfuse", endpoint=backend.url, public_key=PUBLIC, secret_key=SECRET)
    monkeypatch.setattr("cc_trace.export.langfuse_api.LangfuseApi.remove_trace", lambda *_: "refused")
    check = prove(settings, time.time())
    assert (check.verdict, check.found.partition("; ")[2]) == ("ok", "it is in environment cc-trace-doctor")
    [span] = backend.spans
    environment = {pair.key: pair.value.string_value for pair in span.attributes}["langfuse.environment"]
    assert environment == "cc-trace-doctor"


def test_a_page_for_browsers_is_not_printed(backend: HttpBackend) -> None:
    settings = DestinationSettings("langfuse", "langfuse", endpoint=backend.url, public_key=PUBLIC, secret_key=SECRET)
    backend.behaviour = status(404, "<!DOCTYPE html><html><body>This page could not be found</body></html>")
    check = prove(settings, time.time())
    assert (check.verdict, check.found) == ("failed", f"127.0.0.1:{backend.port}: 404 Not Found")


def test_a_langfuse_that_is_too_old_to_be_asked_is_told(backend: HttpBackend) -> None:
    """Spans arrive, but after a lost response nobody knows of which."""
    settings = DestinationSettings("langfuse", "langfuse", endpoint=backend.url, public_key=PUBLIC, secret_key=SECRET)
    backend.reads = status(404)
    check = prove(settings, time.time())
    assert (check.verdict, "does not allow reading it back" in check.found) == ("warning", True)
    assert "<html" not in check.found
    assert check.fix is not None
    assert check.fix.startswith("update Langfuse to 4.16 or newer")


def test_a_lock_that_is_held_for_long_is_told(home: Home) -> None:
    """After five minutes; an old lock file that nobody holds is nothing."""
    home.installed()
    path = home.state / "locks" / f"{SESSION}.lock"
    with StateFolder(home.state).locked(SESSION) as held:
        assert held
        assert list(locks(home.subject())) == []
        [later] = locks(home.subject(time.time() + 1000))
    assert list(locks(home.subject(time.time() + 1000))) == []
    assert (later.verdict, later.fix) == ("warning", f"find the process with `lsof {path}`; if it hangs, end it")
    assert f"session {SESSION} has been locked by a process since 20" in later.found


@pytest.mark.parametrize(
    ("command", "verdict"),
    [
        ('"{hook}"; true', "ok"),
        ("sh {hook}", "ok"),
        ("$HOME/.local/share/cc-trace/hooks/cc-trace-hook", "ok"),
        ("~/.local/share/cc-trace/hooks/cc-trace-hook", "ok"),
        ("sh -c 'exec {hook}'", "ok"),
        ("{python} -I -m cc_trace.hook", "ok"),
        ("$UNKNOWN/cc-trace-hook", "failed"),
        ("/nowhere/python -I -m cc_trace.hook", "failed"),
        ("cc-trace-hook", "failed"),
        ("cc-trace-hook 'unended", "failed"),
        ("{hook}; echo hello", "failed"),
    ],
)
def test_a_command_is_tried_however_it_is_written(healthy: Home, command: str, verdict: str) -> None:
    """As Claude Code runs it: by a shell."""
    text = command.format(hook=healthy.hook, python=sys.executable)
    healthy.settings.write_text(with_hooks("{}", text))
    assert [check.verdict for check in hook_run(healthy.subject())] == [verdict]


def test_a_projects_hook_whose_program_is_gone_is_found(healthy: Home) -> None:
    """Without running anything: as in a settings file that came from another machine."""
    folder = healthy.project / ".claude"
    folder.mkdir()
    (folder / "settings.json").write_text(with_hooks("{}", "[ ! -x /gone/cc-trace-hook ] || exec /gone/cc-trace-hook"))
    mine, projects = hook_run(healthy.subject())
    assert mine.verdict == "ok"
    found = f"/gone/cc-trace-hook is registered in {folder / 'settings.json'}, but does not exist"
    assert projects == Check("project hook", "failed", found, "cc-trace install --project")


def test_every_command_is_tried(healthy: Home) -> None:
    """One that works does not hide one that does not."""
    name, folder = "cc-trace@somewhere", healthy.claude / "plugins" / "cache" / "cc-trace"
    shutil.copytree(ROOT / "hooks", folder / "hooks")
    installed = {"version": 1, "plugins": {name: {"installPath": str(folder)}}}
    (healthy.claude / "plugins" / "installed_plugins.json").write_text(json.dumps(installed))
    healthy.change_settings(enabledPlugins={name: True})
    assert [check.verdict for check in hook_run(healthy.subject())] == ["ok", "failed"]


def test_an_exporter_that_prints_does_not_spoil_the_json(home: Home) -> None:
    """OpenTelemetry's console exporter writes to stdout."""
    home.environment["CC_TRACE_DESTINATIONS"] = "otel:console"
    _, checks = home.installed().checks(process=True)
    assert [check.verdict for check in named("destination otel:console", checks)] == ["ok"]


@pytest.mark.parametrize(
    ("managed", "own", "verdict"),
    [
        ({"disableAllHooks": True}, {}, ["failed"]),
        ({"allowManagedHooksOnly": True}, {}, ["failed"]),
        ({}, {"disableAllHooks": True}, ["failed"]),
        ({"allowManagedHooksOnly": True, "hooks": "ours"}, {"disableAllHooks": True}, []),
    ],
)
def test_what_an_administrator_says_goes_first(
    home: Home, managed: dict[str, Any], own: dict[str, Any], verdict: list[str]
) -> None:
    """Users cannot switch off an administrator's hooks, and an administrator can switch off users'."""
    home.installed()
    home.change_settings(**own)
    path = home.folder / "managed-settings.json"
    if managed.get("hooks"):
        managed = {**managed, "hooks": json.loads(home.settings.read_text())["hooks"]}
    path.write_text(json.dumps(managed))
    subject = home.subject()
    subject = replace(subject, sources=replace(subject.sources, managed=(path,)))
    assert [check.verdict for check in hooks_enabled(subject)] == verdict


def test_an_event_that_only_newer_versions_know_is_a_warning_for_older_ones(home: Home) -> None:
    """The transcripts tell which version is in use."""
    home.installed()
    home.change_settings(hooks={"StopFailure": [{}], **json.loads(home.settings.read_text())["hooks"]})
    verdicts = []
    for version in ("2.1.325", "2.0.77"):
        session(home.transcripts, prompt("hello", 0, version=version))
        verdicts.append([check.verdict for check in hook_events(home.subject())])
    assert verdicts == [[], ["warning"]]


def test_a_plugin_alone_is_enough(home: Home) -> None:
    """And a stronger file can take it back."""
    home.installed()
    home.settings.write_text('{"enabledPlugins": {"cc-trace@somewhere": true}}')
    assert [check.verdict for check in hook(home.subject())] == ["ok"]
    local = home.project / ".claude" / "settings.local.json"
    local.parent.mkdir()
    local.write_text('{"enabledPlugins": {"cc-trace@somewhere": false}}')
    assert [check.verdict for check in hook(home.subject())] == ["failed"]


def test_a_plugin_says_where_its_hook_is(home: Home) -> None:
    """As Claude Code 2.1.325 keeps it. A plugin has no Python of its own, and its options hold in a shell, too."""
    name, folder = "cc-trace@somewhere", home.claude / "plugins" / "cache" / "cc-trace"
    shutil.copytree(ROOT / "hooks", folder / "hooks")
    installed = {"version": 2, "plugins": {name: [{"scope": "user", "installPath": str(folder), "version": "0.1.0"}]}}
    (home.claude / "plugins" / "installed_plugins.json").write_text(json.dumps(installed))
    options = {name: {"options": {"destinations": "file", "tags": ""}}}
    home.settings.write_text(json.dumps({"enabledPlugins": {name: True}, "pluginConfigs": options}))
    _, checks = home.checks()
    assert named("hook", checks) == [ok("hook", f"registered for Stop and SessionEnd in plugin {name}")]
    [tried] = named("hook run", checks)
    assert (tried.verdict, tried.fix) == ("failed", f"sh {folder}/install.sh --no-hooks")
    shutil.rmtree(folder)
    [tried] = hook_run(home.subject())
    assert (tried.verdict, tried.fix) == ("failed", f"claude plugin install {name}")
    assert named("configuration", checks) == [ok("configuration", f"traces of {home.project} go to file")]
    assert named("plugin options", checks) == []


@pytest.mark.parametrize(
    ("kind", "message", "wanted"),
    [
        ("langfuse", "403 Forbidden: no", "langfuse_secret_key"),
        ("otlp", "UNAUTHENTICATED: no", "otlp_headers"),
        ("otlp", "UNIMPLEMENTED", "otlp_endpoint"),
        ("otlp", "200 with a web page for an answer: the URL is not one that takes traces", "otlp_endpoint"),
        ("otlp", "UNKNOWN: Received http2 header with status: 302", "redirects to"),
        ("otlp", "cannot connect to h:4318: [SSL: CERTIFICATE_VERIFY_FAILED] self-signed", "otlp_ca_file"),
        ("langfuse", "cannot connect to h:443: [SSL: CERTIFICATE_VERIFY_FAILED] self-signed", "SSL_CERT_FILE"),
        ("otlp", "cannot connect to h:4318: [Errno -2] Name or service not known", "start the server"),
        ("otlp", "h:4318: no response within 5 seconds", "start the server"),
        ("otlp", "UNAVAILABLE: failed to connect to all addresses", "start the server"),
        ("otlp", "429 Too Many Requests", "wait until the backend has recovered"),
        ("otel", "the exporter raised ValueError: no", "OTEL_EXPORTER_"),
    ],
)
def test_what_to_do_follows_from_what_was_said(kind: DestinationKind, message: str, wanted: str) -> None:
    """A wrong key, a wrong address, no network and a certificate each have their own fix."""
    assert wanted in fix(DestinationSettings(kind, kind, endpoint="https://h.example"), message)


def test_a_destination_that_does_not_end_is_given_up(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exporters of others keep to no time of ours."""
    monkeypatch.setattr("cc_trace.doctor.destinations._MAX_SECONDS", 0.2)
    home.otlp()
    home.backend.behaviour = HANG
    [check] = destinations(home.subject())
    assert (check.name, check.verdict) == ("destination otlp", "failed")
    assert "did not finish within 0.2 seconds" in check.found


def test_a_state_folder_that_only_hooks_use_is_told(home: Home) -> None:
    home.claude.mkdir()
    home.settings.write_text(json.dumps({"env": {"CC_TRACE_HOME": "/elsewhere"}}))
    [state] = hooks_state_folder(home.subject())
    assert (state.verdict, state.fix) == ("warning", "export CC_TRACE_HOME=/elsewhere")


@pytest.mark.parametrize(
    ("module", "imported_by", "protocol", "wanted"),
    [("grpc", "otlp_grpc", "grpc", r"; run: .*pip install .*grpcio googleapis-common-protos")],
)
def test_a_package_that_is_missing_is_found(
    home: Home, monkeypatch: pytest.MonkeyPatch, module: str, imported_by: str, protocol: str, wanted: str
) -> None:
    """By the destination that needs it, whether an extra or not."""
    home.environment |= {"CC_TRACE_OTLP_ENDPOINT": "127.0.0.1:9", "CC_TRACE_OTLP_PROTOCOL": protocol}
    for each in (imported_by, "http", "langfuse"):
        monkeypatch.delitem(sys.modules, f"cc_trace.export.{each}", raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    [check] = destinations(home.subject())
    assert (check.name, check.verdict) == ("destination otlp", "failed")
    assert re.search(wanted, check.found)
