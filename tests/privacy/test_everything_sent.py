"""What leaves of the recorded sessions, looked for in all that is sent, written and printed.

Every text of a transcript is given a mark that says which field it stands in; so is a field that no version has, in
every object, and a line of a type that no version has. What identifies a line or says what it is, is left as it was:
ids, types, names of tools.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from typing import TYPE_CHECKING, Any, Final

import pytest
from backend import HttpBackend
from langfuse_server import PUBLIC, SECRET, LangfuseServer
from shared import case_transcripts, main_files

from cc_trace.privacy.content import Privacy, PrivacySettings
from cc_trace.spans.model import Origins
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.privacy.content import Content

# Fields that keep their values.
_STRUCTURE: Final = frozenset(
    (
        *("type", "subtype", "role", "kind", "operation", "op", "hookEvent", "hook_event_name", "commandMode"),
        *("id", "uuid", "parentUuid", "logicalParentUuid", "leafUuid", "messageId", "promptId", "agentId"),
        *("sessionId", "session_id", "tool_use_id", "toolUseID", "toolUseId", "parentToolUseID", "parent_tool_use_id"),
        *("sourceToolAssistantUUID", "sourceToolUseID", "requestId", "requestRef", "taskId", "task_id"),
        *("base", "shape", "hash", "message_hash", "shapeHash", "media_type", "data", "version", "timestamp", "name"),
    )
)
_MARK: Final = re.compile("qz[0-9]{5}zq")
_UNKNOWN: Final = "neverSeenBefore"

# The fields whose texts leave as metadata: places, kinds and names.
METADATA: Final = frozenset(
    (
        *("cwd", "gitBranch", "entrypoint", "permissionMode", "agentType", "toolUseResult.agentType"),
        *("message.model", "message.stop_reason", "message.usage.service_tier", "message.usage.speed"),
        *("message.usage.iterations[].model", "toolUseResult.resolvedModel", "toolUseResult.status"),
        *("params.model", "params.betas[]", "params.output_config.effort", "querySource"),
        *("apiErrorType", "source", "toolDenialKind", "compactMetadata.trigger"),
        *(f"permissionDecision.{name}" for name in ("decision", "source", "reasonCode", "reasonType")),
    )
)
# And those that leave with prompts and answers.
CONVERSATION: Final = METADATA | {
    *("message.content", "message.content[].text", "message.content[].thinking", "slug", "content"),
    *("attachment.prompt", "error.message", f"attachment.data.{_UNKNOWN}"),
}
# The store's title of a session: Claude Code's own, else the first prompt.
TITLES: Final = frozenset(("aiTitle", "customTitle", "summary"))


class Marks:
    """The marks given so far, by the field they stand in."""

    def __init__(self) -> None:
        self._marks: dict[str, str] = {}

    def marked(self, value: Any, field: str) -> Any:
        match value:
            case dict():
                made = {name: self.marked(item, f"{field}.{name}".lstrip(".")) for name, item in value.items()}
                return made | {_UNKNOWN: self._mark(f"{field}.{_UNKNOWN}".lstrip("."))}
            case list():
                return [self.marked(item, f"{field}[]") for item in value]
            case str() if field.rpartition(".")[2].removesuffix("[]") not in _STRUCTURE:
                # Without a space: what leaves as metadata are single words, and a mark must not be a second one.
                return f"{value}_{self._mark(field)}"
            case _:
                return value

    def _mark(self, field: str) -> str:
        return self._marks.setdefault(field, f"qz{len(self._marks):05}zq")

    def fields(self, text: str) -> set[str]:
        """The fields whose marks stand in a text."""
        fields = {mark: field for field, mark in self._marks.items()}
        return {fields[mark] for mark in _MARK.findall(text)}

    def copy_folder(self, source: Path, target: Path) -> None:
        """Copy a session and its agents' files."""
        for file in source.rglob("*"):
            if file.is_file() and ".spans" not in str(file):
                (target / file.relative_to(source)).parent.mkdir(parents=True, exist_ok=True)
                self._copy(file, target / file.relative_to(source))

    def _copy(self, source: Path, target: Path) -> None:
        """Copy a file with all its texts marked, and a line of an unknown type at its end."""
        if source.suffix not in (".jsonl", ".json"):
            shutil.copy(source, target)
            return
        lines = [self._line(line) for line in source.read_bytes().splitlines()]
        if source.suffix == ".jsonl":
            lines.append(json.dumps(self.marked({"type": "never-seen-before", "text": "a text"}, "")))
        target.write_text("\n".join(lines) + "\n")

    def _line(self, line: bytes) -> str:
        try:
            return json.dumps(self.marked(json.loads(line), ""), ensure_ascii=False)
        except ValueError:
            return line.decode("utf-8", "replace")


class Machine:
    """A home with the marked sessions, which sends them everywhere."""

    def __init__(self, home: Path, content: Content, collector: HttpBackend, server: LangfuseServer) -> None:
        self.home, self.marks = home, Marks()
        self.projects = home / ".claude" / "projects"
        self.environment = {
            "HOME": str(home),
            "PATH": os.environ["PATH"],
            "CC_TRACE_CONTENT": content,
            "CC_TRACE_DESTINATIONS": "local,otlp,langfuse,file",
            "CC_TRACE_OTLP_ENDPOINT": collector.url,
            "CC_LANGFUSE_BASE_URL": server.url,
            "CC_LANGFUSE_PUBLIC_KEY": PUBLIC,
            "LANGFUSE_SECRET_KEY": SECRET,
            "CC_TRACE_FILE": str(home / "spans.jsonl"),
            "CC_TRACE_REQUEST_CONTENT": "full",
            "CC_TRACE_LANGFUSE_SCORES": "true",
            "CC_TRACE_METRICS": "on",
            "CC_TRACE_DEBUG": "true",
            "CC_TRACE_REST_SECONDS": "0",
            "CC_TRACE_TIMEOUT_SECONDS": "60",
        }

    def run(self, *arguments: str) -> str:
        """What a command prints."""
        done = subprocess.run(
            [sys.executable, "-m", "cc_trace", *arguments],
            env=self.environment,
            cwd=self.home,
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout + done.stderr

    def written(self) -> Iterator[str]:
        """All that is in files, but for the transcripts."""
        for path in self.home.rglob("*"):
            if path.is_file() and not path.is_relative_to(self.projects):
                yield path.read_bytes().decode("latin-1")
                if path.name == "traces.db":
                    yield from rows(path)


def rows(path: Path) -> Iterator[str]:
    """All rows of a database, and the words of its full-text index."""
    with closing(sqlite3.connect(path)) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            yield repr(database.execute(f"SELECT * FROM {name}").fetchall())  # noqa: S608
        database.execute("CREATE VIRTUAL TABLE temp.words USING fts5vocab(main, texts, row)")
        yield repr(database.execute("SELECT term FROM words").fetchall())


def newest_cases() -> list[Path]:
    """The folders of the cases, of those with the same session the newest."""
    cases = {path.stem: path.parent for path in case_transcripts()}
    return sorted(set(cases.values()))


@pytest.mark.parametrize(("content", "sent"), [("metadata", METADATA), ("no-tool-content", CONVERSATION)])
def test_only_the_fields_that_may_leave_are_in_spans(tmp_path: Path, content: Content, sent: frozenset[str]) -> None:
    """Of all cases, of earlier versions and written by hand, too."""
    marks, privacy = Marks(), Privacy(PrivacySettings(content))
    found: set[str] = set()
    for case in sorted({path.parent for path in case_transcripts()}):
        marks.copy_folder(case, tmp_path / case.name)
    for path in main_files(tmp_path):
        for trace in Session(path, ending="over", requests=True, request_content="full").traces():
            left = repr([privacy(span, trace.spans)._replace(origins=Origins()) for span in trace.spans])
            found |= marks.fields(left)
    assert found <= sent
    assert found >= {"cwd", "message.model", "permissionMode"}


@pytest.mark.parametrize(
    ("content", "sent", "stored"),
    [("metadata", METADATA, METADATA), ("no-tool-content", CONVERSATION, CONVERSATION | TITLES)],
)
def test_only_the_fields_that_may_leave_do(
    tmp_path: Path, content: Content, sent: frozenset[str], stored: frozenset[str]
) -> None:
    """In requests, files, the store, the log, the state, and what the commands that read the store print."""
    with HttpBackend() as collector, LangfuseServer() as server:
        machine = Machine(tmp_path, content, collector, server)
        for case in newest_cases():
            machine.marks.copy_folder(case, machine.projects / f"-{case.name}")
        machine.run("backfill")
        requests = [request.path + request.body.decode("latin-1") for request in collector.requests + server.requests]
    assert len(collector.counts) > 100
    assert collector.counts == server.counts
    assert machine.marks.fields("\n".join(requests)) <= sent
    path = next((machine.projects / "-2.1.325--shop").glob("*.jsonl"))
    link = {"type": "pr-link", "sessionId": path.stem, "prNumber": 1, "prUrl": "https://example.com/1"}
    with path.open("a") as file:
        file.write(json.dumps(machine.marks.marked(link, "")) + "\n")
    printed = [machine.run("preview", path.stem, "--to", to) for to in ("otlp", "langfuse", "file")]
    assert machine.marks.fields("\n".join(printed)) <= sent
    for name in ("a.html", "a.json", "a.perfetto.json"):
        machine.run("export", path.stem, "-o", name)
    questions = (["sessions"], ["usage"], ["report", path.stem], ["status"])
    printed = [machine.run(*question) for question in questions]
    assert machine.marks.fields("\n".join([*printed, *machine.written()])) <= stored
