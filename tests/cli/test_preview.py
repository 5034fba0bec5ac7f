"""`cc-trace preview` prints exactly what would be sent, and sends nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from backend import HttpBackend
from google.protobuf.json_format import MessageToDict
from lines import prompt, reply, write
from shared import CASES
from test_command_line import in_terminal

from cc_trace.cli.preview_text import readable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CASE = "2.1.325--c6_sync_subagent"
SESSION = "cccccccc-0000-4000-8000-000000000006"
KEY = "ghp_" + "a1B2" * 9


@pytest.fixture
def backend() -> Iterator[HttpBackend]:
    with HttpBackend() as running:
        yield running


class Shell:
    """A user's shell, with one recorded session."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / ".claude" / "projects" / "-p"
        self.folder.mkdir(parents=True)
        shutil.copytree(CASES / CASE, self.folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.spans"))

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "cc_trace", *arguments],
            env={"HOME": str(self.home), "PATH": os.environ["PATH"], "CC_TRACE_REST_SECONDS": "0"} | environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    return Shell(tmp_path)


def spans(printed: str) -> list[dict[str, Any]]:
    """The spans of OTLP/JSON lines, with ids and kinds as protobuf's own JSON has them."""
    rows = [json.loads(line) for line in printed.splitlines()]
    return [span for row in rows for span in row["resourceSpans"][0]["scopeSpans"][0]["spans"]]


def plain(span: dict[str, Any]) -> object:
    keys = ("name", "startTimeUnixNano", "endTimeUnixNano", "attributes")
    return [span["spanId"], *(span.get(key) for key in keys)]


@pytest.mark.parametrize("content", ["full", "no-tool-content", "metadata"])
def test_preview_equals_what_is_sent(shell: Shell, backend: HttpBackend, content: str) -> None:
    """Span by span, in the order in which it is sent, in each way of privacy."""
    environment = {"CC_TRACE_OTLP_ENDPOINT": backend.url, "CC_TRACE_CONTENT": content}
    environment["CC_TRACE_REQUEST_CONTENT"] = "full"
    shown = shell.run("preview", SESSION, "--to", "otlp", **environment)
    assert shown.returncode == 0
    assert backend.spans == []
    assert shell.run("sync", "--session", SESSION, **environment).returncode == 0
    arrived = [
        [message.span_id.hex(), *plain(MessageToDict(message) | {"spanId": ""})[1:]]  # type: ignore[index]
        for message in backend.spans
    ]
    assert [plain(span) for span in spans(shown.stdout)] == arrived
    assert ("gen_ai.system_instructions" in shown.stdout) == (content == "full")


def test_what_was_masked_is_counted(shell: Shell) -> None:
    """On stderr, so that the lines can be read by a program."""
    path = shell.folder / "11111111-0000-4000-8000-000000000001.jsonl"
    write(path, [prompt(f"try {KEY}", 0), reply("m1", f"{KEY} works", at=1)])
    shown = shell.run("preview", str(path))
    assert KEY not in shown.stdout
    assert shown.stderr == "cc-trace: 2 spans to local, content full, masked: 4 github token\n"


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)
    elif isinstance(value, str) and value[:1] not in ("{", "["):
        yield from value.splitlines()


@pytest.mark.parametrize("destination", ["local", "file"])
def test_terminal_shows_all_that_would_be_sent(shell: Shell, destination: str) -> None:
    """Each text of the JSON stands there, whatever form a destination gives it."""
    rows = shell.run("preview", SESSION, "--to", destination).stdout.splitlines()
    for row in rows:
        shown = "\n".join(readable(row.encode()))
        assert [text for text in leaves(json.loads(row)) if text not in shown] == []
        assert '"stringValue"' not in shown
        assert "stringValue:" not in shown


def test_terminal_shows_names_and_values_unless_json_is_asked_for(shell: Shell) -> None:
    shown = in_terminal(shell.home, 400, "preview", SESSION, "--to", "file", "--turn", "1")
    assert f"    session.id: {SESSION}\n" in shown
    assert shown.count("Turn 1 · generation ") == 5
    as_json = in_terminal(shell.home, 400, "preview", SESSION, "--to", "file", "--turn", "1", "--json")
    assert as_json.count('{"resourceSpans":') == 11


@pytest.mark.parametrize(
    ("row", "shown"),
    [
        (b'{"a":[{"key":"b","value":{"stringValue":"c"}}],"d":null,"e":""}', "a:\n  b: c"),
        (b'{"a":{"arrayValue":{"values":[{"intValue":"1"},{"boolValue":false}]}}}', "a:\n  - 1\n  - false"),
        (b'{"a":"{\\"b\\":[]}","c":"[not JSON"}', "a:\nc: [not JSON"),
        (b'{"a":"1\\n2","b":[{"c":1,"d":2},[],"x"]}', "a:\n  1\n  2\nb:\n  - c: 1\n    d: 2\n  -\n  - x"),
        (b"not JSON", "not JSON"),
        (b"[" * 900 + b"]" * 900, None),
    ],
)
def test_json_is_shown_as_names_and_values(row: bytes, shown: str | None) -> None:
    lines = [line.rstrip() for line in readable(row)]
    assert shown is None or "\n".join(lines) == shown


def test_one_turn_of_a_session(shell: Shell) -> None:
    assert len(shell.run("preview", SESSION, "--turn", "1").stdout.splitlines()) == 11
    none = shell.run("preview", SESSION, "--turn", "9")
    assert (none.returncode, none.stdout) == (2, "")
    assert none.stderr == f"cc-trace: session {SESSION} has no turn 9; it has 1 turn\n"


def test_destination_must_be_chosen_and_known(shell: Shell) -> None:
    several = shell.run("preview", SESSION, CC_TRACE_DESTINATIONS="local,file")
    assert several.stderr == "cc-trace: several destinations are configured; choose one with --to: local, file\n"
    unknown = shell.run("preview", SESSION, "--to", "nowhere")
    assert unknown.returncode == 2
    assert "--to is 'nowhere'; the destinations are local, otlp, langfuse, file, otel:NAME" in unknown.stderr
    missing = shell.run("preview", SESSION, "--to", "otlp")
    assert missing.stderr == (
        "cc-trace: destination otlp needs an address; "
        "`cc-trace config set otlp_endpoint http://localhost:4318` sets it\n"
    )


def test_excluded_session_has_no_preview(shell: Shell) -> None:
    shown = shell.run("preview", SESSION, CC_TRACE_EXCLUDE="/home/dev")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert shown.stderr == "cc-trace: this session is not sent: CC_TRACE_EXCLUDE contains /home/dev\n"
