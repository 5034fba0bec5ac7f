"""`cc-trace config`: what is in effect and from where, secrets masked; `set` and `unset`."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from cc_trace.settings.catalogue import SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "sk-lf-" + "0123456789" * 3


class Shell:
    """A user's shell in an empty home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.file = home / ".config" / "cc-trace" / "config.toml"
        self.environment = {"HOME": str(home), "PATH": os.environ["PATH"]}

    def run(self, *arguments: str, given: str = "", **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cc_trace", "config", *arguments],
            env=self.environment | environment,
            cwd=self.home,
            input=given,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )

    def shown(self, **environment: str) -> dict[str, dict[str, Any]]:
        done = self.run("--json", **environment)
        assert (done.returncode, done.stderr) == (0, "")
        return {row["name"]: row for row in json.loads(done.stdout)}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def test_every_setting_is_shown_with_its_origin(shell: Shell) -> None:
    """All of them, whether set or not."""
    rows = shell.shown()
    assert list(rows) == [setting.name for setting in SETTINGS]
    assert rows["content"] == {"name": "content", "value": "full", "origin": "default"}
    assert rows["user_id"] == {"name": "user_id", "value": None, "origin": "not set"}


def test_origins_are_the_variable_the_settings_file_or_the_file(shell: Shell) -> None:
    (shell.home / ".claude").mkdir()
    settings = shell.home / ".claude" / "settings.json"
    settings.write_text(json.dumps({"env": {"CC_TRACE_TAGS": "a"}}))
    shell.run("set", "release", "r1")
    rows = shell.shown(CC_TRACE_USER_ID="me", CC_TRACE_WAIT="1")
    assert [(rows[name]["value"], rows[name]["origin"]) for name in ("tags", "release", "user_id", "wait")] == [
        ("a", f"{settings}: CC_TRACE_TAGS"),
        ("r1", str(shell.file)),
        ("me", "environment: CC_TRACE_USER_ID"),
        ("1", "environment: CC_TRACE_WAIT"),
    ]


def test_no_secret_is_shown(shell: Shell) -> None:
    """Neither keys nor headers, nor a password in a URL; the end of a long key tells which it is."""
    environment = {
        "CC_LANGFUSE_SECRET_KEY": SECRET,
        "CC_LANGFUSE_PUBLIC_KEY": "pk-short",
        "CC_TRACE_OTLP_HEADERS": f"authorization=Bearer {SECRET}, x-team=blue",
        "CC_TRACE_OTLP_ENDPOINT": "https://me:hunter2hunter2@collector:4318",
    }
    rows = shell.shown(**environment)
    assert rows["langfuse_secret_key"]["value"] == "****6789"
    assert rows["langfuse_public_key"]["value"] == "****"
    assert rows["otlp_headers"]["value"] == "authorization=****, x-team=****"
    text = shell.run(**environment)
    for word in (SECRET, "pk-short", "hunter2", "blue"):
        assert word not in json.dumps(rows) + text.stdout + text.stderr


@pytest.mark.parametrize(
    ("variable", "value", "shown"),
    [
        ("OTLP_HEADERS", f"authorization: Bearer {SECRET}", "****"),
        ("OTLP_HEADERS", f"x-team=blue,{SECRET} and more", "x-team=****, ****"),
        (
            "OTLP_ENDPOINT",
            f"https://{SECRET}@h:4318/v1?key={SECRET}&sig={SECRET}",
            "https://****@h:4318/v1?key=****&sig=****",
        ),
        ("OTLP_ENDPOINT", "http://localhost:4318/a", "http://localhost:4318/a"),
        ("MASK", f"{SECRET}\nother-\\d+", "2 expressions"),
    ],
)
def test_secrets_inside_values_are_hidden(shell: Shell, variable: str, value: str, shown: str) -> None:
    """Also where a key stands in the wrong place."""
    done = shell.run("--json", **{f"CC_TRACE_{variable}": value})
    rows = {row["name"]: row["value"] for row in json.loads(done.stdout)}
    assert rows[variable.lower()] == shown
    assert SECRET not in done.stdout + done.stderr


def test_the_headers_of_a_table_are_shown_by_name(shell: Shell) -> None:
    shell.run("set", "user_id", "me")
    shell.file.write_text(f'[otlp_headers]\nx-team = "first,{SECRET}"\n')
    assert shell.shown()["otlp_headers"]["value"] == "x-team=****"


def test_a_key_in_the_wrong_place_is_not_repeated(shell: Shell) -> None:
    done = shell.run("set", "destinations", "https://u:hunter2@h.example/")
    assert (done.returncode, done.stderr.count("\n"), "hunter2" in done.stderr) == (2, 1, False)


def test_key_is_read_from_stdin_into_a_private_file(shell: Shell) -> None:
    """Given on stdin it stands in no history and no list of processes; the file is 0600 whatever the umask."""
    before = os.umask(0)
    try:
        done = shell.run("set", "langfuse_secret_key", given=f"{SECRET}\n")
    finally:
        os.umask(before)
    assert (done.returncode, done.stdout) == (0, f"langfuse_secret_key is set in {shell.file}\n")
    assert shell.file.read_text() == f'langfuse_secret_key = "{SECRET}"\n'
    assert stat.S_IMODE(shell.file.stat().st_mode) == 0o600
    assert stat.S_IMODE(shell.file.parent.stat().st_mode) == 0o700


def test_comments_and_order_are_kept(shell: Shell) -> None:
    shell.file.parent.mkdir(parents=True)
    shell.file.write_text('# mine\ntags = ["a"]  # two\n\nuser_id = "me"\n')
    assert shell.run("set", "tags", "b, c").returncode == 0
    assert shell.run("set", "CC_TRACE_MAX_CHARS", "5").returncode == 0
    assert shell.run("set", "enabled", "off").returncode == 0
    assert shell.run("unset", "user_id").returncode == 0
    assert shell.file.read_text() == '# mine\ntags = ["b", "c"]  # two\n\nmax_chars = 5\nenabled = false\n'
    assert shell.run("unset", "user_id").stdout == f"user_id is not set in {shell.file}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["set", "contents", "full"], "unknown setting 'contents'; did you mean content?"),
        (["set", "content", "some"], "content is 'some'; it must be one of full, no-tool-content, metadata"),
        (["set", "max_chars", "1.5"], "max_chars is 1.5; it must be a whole number"),
        (["set", "enabled", "maybe"], "enabled is 'maybe'; it must be true or false"),
        (
            ["set", "otlp_headers", SECRET],
            "otlp_headers must be key=value pairs separated by commas, such as",
        ),
        (
            ["set", "mask", "(a"],
            "mask: expression 1 is not a regular expression: missing ), unterminated subpattern at position 0",
        ),
        (
            ["set", "wait", "1"],
            "CC_TRACE_WAIT can only be set in the environment, not in config.toml",
        ),
        (["set", "otlp_endpoint", "localhost"], "otlp_endpoint must be a URL with http:// or https://, such as"),
        (
            ["set", "destinations", "moon"],
            "destinations contains 'moon'; the destinations are local, otlp, langfuse, file",
        ),
        (["unset", "nothing"], "unknown setting 'nothing'; `cc-trace config` lists all settings"),
    ],
)
def test_invalid_setting_is_refused(shell: Shell, arguments: list[str], message: str) -> None:
    done = shell.run(*arguments)
    assert done.returncode == 2
    assert done.stderr.startswith(f"cc-trace: {message}")
    assert done.stderr.count("\n") == 1
    assert not shell.file.exists()


def test_a_broken_file_is_named_and_not_touched(shell: Shell) -> None:
    shell.file.parent.mkdir(parents=True)
    shell.file.write_text("tags = [\n")
    for arguments in (["set", "user_id", "me"], ["unset", "tags"], []):
        done = shell.run(*arguments)
        assert done.returncode == 2
        assert done.stderr.startswith(f"cc-trace: {shell.file} is not valid TOML: ")
    assert shell.file.read_text() == "tags = [\n"


def test_a_setting_of_a_project_is_set_shown_and_taken_out(shell: Shell) -> None:
    """In a table of config.toml; by any way to write the folder."""
    project = shell.home / "work" / "one"
    assert shell.run("set", "tags", "all").returncode == 0
    done = shell.run("set", "--project", str(project), "tags", "a,b")
    assert (done.returncode, done.stdout) == (0, f"tags is set in {shell.file} for {project}\n")
    assert tomllib.loads(shell.file.read_text()) == {"tags": ["all"], "project": {str(project): {"tags": ["a", "b"]}}}
    assert shell.run("set", "--project", f"{project}/../one/", "user_id", "me").returncode == 0
    shown = {row["name"]: row for row in json.loads(shell.run("--project", str(project), "--json").stdout)}
    assert shown["tags"] == {"name": "tags", "value": "a,b", "origin": f'{shell.file} [project."{project}"]'}
    assert shown["user_id"]["value"] == "me"
    elsewhere = {row["name"]: row for row in json.loads(shell.run("--json").stdout)}
    assert (elsewhere["tags"]["value"], elsewhere["user_id"]["value"]) == ("all", None)
    for name in ("tags", "user_id"):
        assert shell.run("unset", "--project", str(project), name).returncode == 0
    assert tomllib.loads(shell.file.read_text()).get("project", {}) == {}
    shell.file.write_text('[project."/p"]\ntag = ["x"]\n')
    assert """'project."/p".tag', which is not a setting""" in shell.run().stderr


def test_unknown_key_in_the_file_is_reported(shell: Shell) -> None:
    """It is mistyped, and would silently do nothing."""
    shell.file.parent.mkdir(parents=True)
    shell.file.write_text('contnet = "metadata"\n')
    done = shell.run()
    assert done.returncode == 2
    assert done.stderr == f"cc-trace: {shell.file} has 'contnet', which is not a setting; did you mean content?\n"


def test_variable_with_precedence_is_mentioned(shell: Shell) -> None:
    done = shell.run("set", "content", "metadata", CC_TRACE_CONTENT="full")
    assert done.stdout.splitlines()[1] == "but CC_TRACE_CONTENT is set in this environment and takes precedence"


def test_bare_langfuse_variable_has_no_precedence(shell: Shell) -> None:
    """config.toml comes before bare LANGFUSE_*, but after variables meant for cc-trace."""
    set_here = ["set", "langfuse_secret_key", SECRET]
    said = f"langfuse_secret_key is set in {shell.file}\n"
    assert shell.run(*set_here, LANGFUSE_SECRET_KEY="sk-other").stdout == said  # noqa: S106
    ours = shell.run(*set_here, CC_LANGFUSE_SECRET_KEY="sk-mine")  # noqa: S106
    assert ours.stdout == f"{said}but CC_LANGFUSE_SECRET_KEY is set in this environment and takes precedence\n"


@pytest.mark.parametrize("stdin", ["<&-", "</dev/null", "<bytes"])
def test_a_value_that_cannot_be_read_is_refused_in_a_line(shell: Shell, stdin: str) -> None:
    """No stdin at all, an empty one, one that is no text."""
    (shell.home / "bytes").write_bytes(b"a\xff\n")
    command = f"exec {sys.executable} -m cc_trace config set user_id {stdin}"
    done = subprocess.run(
        ["/bin/sh", "-c", command], env=shell.environment, cwd=shell.home, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert done.stderr.startswith("cc-trace: ")
    assert not shell.file.exists()


def test_destinations_are_printed(shell: Shell) -> None:
    assert shell.run().stdout.splitlines()[-1] == f"traces of {shell.home} go to local"
    off = shell.run(CC_TRACE_ENABLED="false").stdout.splitlines()[-1]
    assert off == f"sessions of {shell.home} are not traced: CC_TRACE_ENABLED is false"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("otlp_endpoint", "localhost:4318"),
        ("otlp_endpoint", "ftp://x"),
        ("otlp_endpoint", "http://x:99999"),
        ("destinations", "local,foo"),
        ("traceparent", "xyz"),
        ("file", "out.jsonl"),
        ("destinations", "otlp:x"),
        ("langfuse_secret_key", ""),
        ("tags", ",,"),
        ("exclude", ","),
        ("destinations", " , "),
        ("otlp_headers", ","),
        ("user_id", "a\udcff"),
    ],
)
def test_unusable_value_is_refused_at_once(shell: Shell, name: str, value: str) -> None:
    """Not when the next session ends."""
    done = shell.run("set", name, value)
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
    assert not shell.file.exists()
    assert shell.run("set", name).returncode == 2  # nothing on stdin
