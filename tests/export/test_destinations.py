"""What holds for every destination: how it is chosen, what it costs, how large a span may be; files and exporters."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import stat
import subprocess
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto_json.collector.trace.v1.trace_service import ExportTraceServiceRequest as JsonRequest
from opentelemetry.proto_json.trace.v1.trace import Status as JsonStatus
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from shared import CASES, ROOT

from cc_trace.errors import ConfigError
from cc_trace.export import otel_exporter
from cc_trace.export.destination import DestinationSettings, open_destination
from cc_trace.export.outcomes import MAX_BATCH_BYTES, Accepted, Retryable, Unclear
from cc_trace.export.profiles import PROFILES, Labels, resource
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from opentelemetry.sdk.trace import ReadableSpan

    from cc_trace.export.outcomes import Destination
    from cc_trace.spans.model import Span

LABELS = Labels(user_id="someone", tags=("a", "b"), resource={"host.name": "here"})
ENV = {**os.environ, "PYTHONPATH": f"{ROOT}/tests:{ROOT}/tests/export"}


@pytest.fixture(scope="module")
def spans() -> list[Span]:
    return list(Session(next((CASES / "2.1.325--f_tool_error").glob("*.jsonl"))).spans())


def every_destination(folder: Path) -> list[Destination]:
    keys: dict[str, Any] = {"public_key": "pk-lf-1234", "secret_key": "sk-lf-5678"}
    return [
        open_destination(settings)
        for settings in (
            DestinationSettings("a", "local", path=folder / "traces.db"),
            DestinationSettings("b", "otlp", endpoint="http://127.0.0.1:9"),
            DestinationSettings("c", "otlp", endpoint="http://127.0.0.1:9", protocol="http/json"),
            DestinationSettings("d", "otlp", endpoint="http://127.0.0.1:9", protocol="grpc"),
            DestinationSettings("e", "langfuse", endpoint="http://127.0.0.1:9", **keys),
            DestinationSettings("f", "file", path=folder / "traces.jsonl"),
            DestinationSettings("g", "otel", exporter="console"),
        )
    ]


def test_capabilities_of_each_destination(tmp_path: Path) -> None:
    """Its name, whether it takes a span twice as once, and whether it can be asked."""
    opened = every_destination(tmp_path)
    assert [(each.name, each.idempotent, each.queryable) for each in opened] == [
        ("a", True, True),
        ("b", False, False),
        ("c", False, False),
        ("d", False, False),
        ("e", False, True),
        ("f", False, False),
        ("g", False, False),
    ]
    for each in opened:
        if not each.queryable:
            assert each.stored_ids([]) is None
        each.close()
    assert list(tmp_path.iterdir()) == []


def test_no_destination_takes_more_than_a_batch(tmp_path: Path, spans: list[Span]) -> None:
    """A span that is larger is cut, also where its JSON is much larger than its text; one that fits is not."""
    opened = every_destination(tmp_path)
    tool = next(span for span in spans if span.kind == "tool")
    for each in opened[:3]:  # a row, protobuf, JSON: the others send one of these
        for output in ("x" * 9_000_000, "\x01" * 3_900_000):
            encoded = each.encode(tool._replace(output=output))
            assert 1_000_000 < encoded.size < MAX_BATCH_BYTES
        whole = each.encode(tool._replace(output="x" * 3_900_000))
        assert 3_900_000 < whole.size < MAX_BATCH_BYTES
    for each in opened:
        each.close()


def test_no_key_is_shown() -> None:
    shown = repr(
        DestinationSettings(
            "x",
            "otlp",
            endpoint="https://user:secret@host",
            traces_endpoint="https://host?key=secret",
            headers=(("authorization", "secret"),),
            public_key="secret",
            secret_key="secret",  # noqa: S106
        )
    )
    assert "secret" not in shown
    assert "authorization" not in shown


@pytest.mark.parametrize("kind", ["local", "file"])
def test_a_missing_path_is_told_at_once(kind: Any) -> None:
    with pytest.raises(ConfigError, match="destination x needs a path"):
        open_destination(DestinationSettings("x", kind))


def test_an_unknown_profile_is_told_at_once() -> None:
    with pytest.raises(ConfigError, match="destination x has no profile 'other'; it must be one of otel, langfuse"):
        open_destination(DestinationSettings("x", "otlp", "other", "http://127.0.0.1"))


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT, env=ENV).stdout


def test_a_destination_imports_only_what_it_needs(tmp_path: Path) -> None:
    """Importing takes longer than sending."""
    program = (
        "import sys; from pathlib import Path\n"
        "from cc_trace.export.destination import DestinationSettings, open_destination\n"
        "slow = {'httpx', 'grpc', 'langfuse', 'opentelemetry', 'google', 'sqlite3', 'requests'}\n"
        "print(sorted(slow & set(sys.modules)))\n"
        f"open_destination(DestinationSettings('x', 'local', path=Path({str(tmp_path / 'a')!r})))\n"
        "print(sorted(slow & set(sys.modules)))\n"
        "open_destination(DestinationSettings('x', 'otlp', endpoint='http://127.0.0.1'))\n"
        "print(sorted(slow & set(sys.modules)))\n"
        "print('opentelemetry.sdk' in sys.modules)\n"
    )
    assert run(program).splitlines() == [
        "[]",
        "['sqlite3']",
        "['sqlite3']",
        "False",
    ]


@pytest.mark.parametrize(
    ("module", "settings", "package"),
    [
        ("grpc", "'otlp', protocol='grpc', endpoint='http://127.0.0.1'", "grpcio googleapis-common-protos"),
        ("opentelemetry.sdk", "'otel', exporter='console'", "opentelemetry-sdk"),
    ],
)
@pytest.mark.parametrize("pip", [True, False])
def test_a_missing_package_is_named(module: str, settings: str, package: str, pip: bool) -> None:  # noqa: FBT001
    """With a command that works here: an environment of uv's has no pip."""
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "import importlib.util\n"
        f"importlib.util.find_spec = lambda name: {pip} or None\n"
        "from cc_trace.export.destination import DestinationSettings, open_destination\n"
        "from cc_trace.errors import ConfigError\n"
        f"try: open_destination(DestinationSettings('x', {settings}))\n"
        "except ConfigError as error: print(error)\n"
    )
    told = run(program)
    assert told.startswith("destination x needs a package that is missing (")
    python = shlex.quote(sys.executable)
    command = f"{python} -m pip install" if pip else f"uv pip install --python {python}"
    assert told.endswith(f"); run: {command} {package}\n")


def lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def ids(line: Any) -> list[str]:
    return [span["spanId"] for span in line["resourceSpans"][0]["scopeSpans"][0]["spans"]]


def file(path: Path, seconds: float = 1) -> Destination:
    return open_destination(DestinationSettings("x", "file", path=path, timeout_seconds=seconds))


def test_a_file_has_one_request_per_line(tmp_path: Path, spans: list[Span]) -> None:
    """The proto's own JSON parser takes each line, and its ids are in hex, as OTLP wants them."""
    path = tmp_path / "folder" / "traces.jsonl"
    opened = file(path)
    batch = [opened.encode(span) for span in spans]
    assert opened.send(batch[:2]) == Accepted()
    assert opened.send(batch[2:]) == Accepted()
    assert path.read_bytes().endswith(b"}\n")
    assert [ids(line) for line in lines(path)] == [
        [span.span_id for span in spans[:2]],
        [span.span_id for span in spans[2:]],
    ]
    for line in path.read_text().splitlines():
        parsed = Parse(line, ExportTraceServiceRequest())
        assert [span.name for span in parsed.resource_spans[0].scope_spans[0].spans] == [
            span["name"] for span in json.loads(line)["resourceSpans"][0]["scopeSpans"][0]["spans"]
        ]


def test_file_equals_that_of_the_otlp_json_file_exporter(tmp_path: Path, spans: list[Span]) -> None:
    """To its reader, opentelemetry-exporter-otlp-json-file writes the same spans."""
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    for opened in (
        file(ours),
        open_destination(DestinationSettings("x", "otel", exporter="otlp_json_file", path=theirs)),
    ):
        assert opened.send([opened.encode(span) for span in spans]) == Accepted()
        opened.close()
    assert [request(line) for line in lines(ours)] == [request(line) for line in lines(theirs)]


def request(line: Any) -> JsonRequest:
    """A request; what says nothing and is written by one of the two only is left out."""
    parsed = JsonRequest.from_dict(line)
    for span in parsed.resource_spans[0].scope_spans[0].spans:
        span.flags = 0
        span.status = span.status or JsonStatus()
        span.parent_span_id = span.parent_span_id or b""
        for link in span.links:
            link.flags = 0
    return parsed


def test_line_after_a_torn_line_is_valid(tmp_path: Path, spans: list[Span]) -> None:
    """A killed writer left half a line."""
    path = tmp_path / "traces.jsonl"
    beginning = b'{"resourceSpans":[{"resource":{"attributes":['
    path.write_bytes(beginning)
    opened = file(path)
    for _ in range(2):
        assert opened.send([opened.encode(spans[0])]) == Accepted()
    torn, *whole = path.read_bytes().splitlines()
    assert torn == beginning
    assert [ids(json.loads(line)) for line in whole] == [[spans[0].span_id]] * 2


def test_only_its_owner_can_read_a_file(tmp_path: Path, spans: list[Span]) -> None:
    """Whatever the umask is, in a folder of its own; an existing folder stays as it is, and a link is not followed."""
    path, empty, link = tmp_path / "a" / "b" / "new", tmp_path / "old", tmp_path / "link"
    empty.touch(mode=0o600)
    link.symlink_to(tmp_path / "target")
    before = stat.S_IMODE(tmp_path.stat().st_mode)
    old = os.umask(0)
    try:
        said = [(opened := file(each)).send([opened.encode(spans[0])]) for each in (path, empty, link)]
    finally:
        os.umask(old)
    assert said == [Accepted(), Accepted(), Retryable(f"{link}: Too many levels of symbolic links")]
    found = [path.parent.parent, path.parent, path, empty, tmp_path]
    assert [stat.S_IMODE(each.stat().st_mode) for each in found] == [0o700, 0o700, 0o600, 0o600, before]
    assert not (tmp_path / "target").exists()


@pytest.mark.parametrize(
    ("content", "mode", "why"),
    [
        (b"export PATH=/bin\n", 0o644, "was not written by cc-trace"),
        (b"\n", 0o600, "was not written by cc-trace"),
        (b'{"resourceSpans":[{"resource":{},"scopeSpans":[{"scope":{"name":"x"}}]}]}\n', 0o600, "was not written by"),
        (b"", 0o644, "is empty and accessible to other users"),
    ],
)
def test_a_file_of_somebody_else_is_not_touched(
    tmp_path: Path, spans: list[Span], content: bytes, mode: int, why: str
) -> None:
    """Neither its content nor its mode."""
    path = tmp_path / ".bashrc"
    path.write_bytes(content)
    path.chmod(mode)
    opened = file(path)
    said = opened.send([opened.encode(spans[0])])
    assert isinstance(said, Retryable)
    assert said.message.startswith(f"{path} {why}")
    assert (path.read_bytes(), stat.S_IMODE(path.stat().st_mode)) == (content, mode)


def test_a_file_of_ours_keeps_the_mode_that_its_owner_gave_it(tmp_path: Path, spans: list[Span]) -> None:
    """For a collector that reads it, say."""
    path = tmp_path / "traces.jsonl"
    opened = file(path)
    assert opened.send([opened.encode(spans[0])]) == Accepted()
    path.chmod(0o640)
    assert opened.send([opened.encode(spans[1])]) == Accepted()
    assert (len(lines(path)), stat.S_IMODE(path.stat().st_mode)) == (2, 0o640)


def test_irregular_file_is_retryable(tmp_path: Path, spans: list[Span]) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path in (tmp_path, pipe, pipe / "below"):
        opened = file(path)
        assert isinstance(opened.send([opened.encode(spans[0])]), Retryable)


def test_a_file_that_is_locked_is_tried_again_later(tmp_path: Path, spans: list[Span]) -> None:
    path = tmp_path / "traces.jsonl"
    opened = file(path, seconds=0.1)
    path.touch(mode=0o600)
    with path.open("wb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        told = f"{path}: another process has held its lock for 0.1 seconds"
        assert opened.send([opened.encode(spans[0])]) == Retryable(told)
    assert opened.send([opened.encode(spans[0])]) == Accepted()


def test_a_full_disk_leaves_no_half_line(tmp_path: Path) -> None:
    """A limit on the size of files does what a full disk does: it takes a part of the line."""
    path = tmp_path / "traces.jsonl"
    program = (
        "import resource, signal, sys; from pathlib import Path\n"
        "from test_destinations import file, Session, CASES\n"
        "span = next(Session(next((CASES / '2.1.325--a_simple').glob('*.jsonl'))).spans())\n"
        "opened = file(Path(sys.argv[1]))\n"
        "print(opened.send([opened.encode(span)]))\n"
        "size = Path(sys.argv[1]).stat().st_size\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "for limit in (size + 100, size):\n"
        "    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))\n"
        "    print(opened.send([opened.encode(span)]))\n"
        "    print(Path(sys.argv[1]).stat().st_size == size)\n"
    )
    assert run(program, str(path)).splitlines() == [
        "Accepted(dropped_spans=0, message=None)",
        f"Retryable(message='{path}: not enough disk space for the whole line', after_seconds=None)",
        "True",
        f"Retryable(message='{path}: File too large', after_seconds=None)",
        "True",
    ]


def test_many_processes_append_at_once(tmp_path: Path) -> None:
    path = tmp_path / "traces.jsonl"
    program = (
        "import sys; from pathlib import Path\n"
        "from test_destinations import file, Session, CASES\n"
        "spans = list(Session(next((CASES / '2.1.325--b_tools').glob('*.jsonl'))).spans())\n"
        "opened = file(Path(sys.argv[1]), 30)\n"
        "for _ in range(20): opened.send([opened.encode(span) for span in spans])\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program, str(path)], cwd=ROOT, env=ENV) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert [len(ids(line)) for line in lines(path)] == [7] * 60


@pytest.fixture
def exporters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with exporters, installed."""
    folder = tmp_path / "exporters-1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: exporters\nVersion: 1\n")
    names = {
        "memory": "test_destinations:InMemorySpanExporter",
        "failing": "test_destinations:Failing",
        "raising": "test_destinations:Raising",
        "holding": "test_destinations:Holding",
        "choosy": "test_destinations:Choosy",
        "broken": "test_destinations:Broken",
    }
    listed = "\n".join(f"{name} = {place}" for name, place in names.items())
    (folder / "entry_points.txt").write_text(f"[opentelemetry_traces_exporter]\n{listed}\n")
    monkeypatch.syspath_prepend(str(tmp_path))


class Failing(SpanExporter):
    """Says that it failed, and not why."""

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002
        """Fail."""
        return SpanExportResult.FAILURE


class Raising(SpanExporter):
    """Raises, with the header it was given."""

    def __init__(self, headers: dict[str, str]) -> None:
        self._headers = headers

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:  # noqa: ARG002
        """Raise."""
        message = f"refused: {self._headers['x-key']}"
        raise RuntimeError(message)

    def shutdown(self) -> None:
        """Raise here as well."""
        raise RuntimeError


class Holding(InMemorySpanExporter):
    """Takes spans and does not get them out."""

    def force_flush(self, timeout_millis: int = 30000) -> bool:  # noqa: ARG002
        """Fail."""
        return False


class Choosy(SpanExporter):
    """Takes no settings."""


class Broken(SpanExporter):
    """Cannot be made."""

    def __init__(self) -> None:
        message = "no server\nset"
        raise ValueError(message)


def exporter(name: str, **more: Any) -> Destination:
    return open_destination(DestinationSettings("x", "otel", exporter=name, labels=LABELS, **more))


@pytest.mark.usefixtures("exporters")
def test_an_exporter_gets_spans_as_the_sdk_makes_them(spans: list[Span]) -> None:
    """Ids, parents, times, kind, status, typed attributes, resource: whole."""
    opened = exporter("memory")
    assert opened.send([opened.encode(span) for span in spans]) == Accepted()
    assert isinstance(opened, otel_exporter.OtelExporter)
    assert isinstance(opened._exporter, InMemorySpanExporter)
    found = [json.loads(span.to_json()) for span in opened._exporter.get_finished_spans()]
    opened.close()
    assert [
        {
            "context": {"trace_id": f"0x{span.trace_id}", "span_id": f"0x{span.span_id}", "trace_state": "[]"},
            "parent_id": f"0x{span.parent_id}" if span.parent_id else None,
            "name": PROFILES["otel"](span, LABELS)[0],
            "kind": "SpanKind.CLIENT" if span.kind == "generation" else "SpanKind.INTERNAL",
            "start_time": span.start_ns,
            "end_time": span.end_ns,
            "status": {"status_code": "UNSET"}
            if span.status == "ok"
            else {"status_code": "ERROR", "description": span.error},
            "attributes": PROFILES["otel"](span, LABELS)[1],
            "events": [],
            "links": [],
            "resource": {"attributes": resource("otel", LABELS), "schema_url": ""},
        }
        for span in spans
    ] == [span | {"start_time": _ns(span["start_time"]), "end_time": _ns(span["end_time"])} for span in found]


def _ns(text: str) -> int:
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%f%z")
    return int(moment.timestamp()) * 1_000_000_000 + moment.microsecond * 1000


@pytest.mark.usefixtures("exporters")
def test_failing_exporter_makes_the_outcome_unclear(spans: list[Span]) -> None:
    """It does not say whether something was stored."""
    said = []
    for opened in (exporter("failing"), exporter("raising", headers=(("x-key", "secret"),)), exporter("holding")):
        said.append(opened.send([opened.encode(spans[0])]))
        opened.close()
    assert said == [
        Unclear("the exporter failed without giving a reason"),
        Unclear("the exporter raised RuntimeError: refused: ***"),
        Unclear("the exporter failed without giving a reason"),
    ]


@pytest.mark.usefixtures("exporters")
@pytest.mark.parametrize(
    ("name", "more", "told"),
    [
        ("nothing", {}, "exporter 'nothing' is not installed; installed: "),
        (None, {}, "exporter None is not installed; installed: "),
        ("broken", {}, "exporter 'broken' cannot be created: no server set"),
        ("choosy", {"endpoint": "http://h"}, "exporter 'choosy' does not accept endpoint"),
    ],
)
def test_unavailable_exporter_is_reported_at_once(name: str, more: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        exporter(name, **more)
    assert str(raised.value).startswith(f"destination x: {told}")
