"""What goes over the wire to Langfuse for each kind of span, whole, compared with what was looked at once by eye.

The files are in tests/export/langfuse_requests. UPDATE_REQUESTS=1 writes them anew: look at the difference.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
from typing import TYPE_CHECKING, Any, Final

import pytest
from google.protobuf.json_format import MessageToDict
from langfuse_server import PUBLIC, SECRET, LangfuseServer
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from profiles_spans import ABOUT, LABELS, SPANS, made
from shared import ROOT

import cc_trace
from cc_trace.export.destination import DestinationSettings
from cc_trace.export.langfuse import Langfuse
from cc_trace.export.outcomes import Accepted
from cc_trace.spans.model import Tool
from cc_trace.transcript.lines import BEGINNING
from cc_trace.transcript.media import Media

if TYPE_CHECKING:
    from pathlib import Path

    from backend import Request

FOLDER: Final = ROOT / "tests" / "export" / "langfuse_requests"
HEADERS: Final = ("content-type", "x-langfuse-ingestion-version", "x-amz-checksum-sha256")
_IDS: Final = ("traceId", "spanId", "parentSpanId")
PNG: Final = b"\x89PNG\r\n\x1a\n" + bytes(16)
ENCODED: Final = base64.b64encode(PNG).decode()
DIGEST: Final = hashlib.sha256(ENCODED.encode()).hexdigest()[:16]
MARK: Final = f"[image image/png, {len(PNG)} bytes, sha256 of base64 {DIGEST}]"
TURN: Final = SPANS["turn"]
KINDS: Final = {
    "chat": SPANS["first generation"],
    "chat-unpriced": SPANS["first generation"]._replace(
        response=SPANS["first generation"].response._replace(model="claude-haiku-5-5")  # type: ignore[union-attr]
    ),
    "fenced-output": SPANS["tool"]._replace(about=ABOUT, output="# not a heading\n\tindented\n```\nends\n"),
    "results": made(
        "generation",
        "claude-sonnet-4-5-20250929",
        input=[
            {"role": "tool", "tool_call_id": "toolu_1", "name": "Bash", "content": "# exit 1"},
            {"role": "tool", "tool_call_id": "toolu_2", "name": "Agent", "content": "## Found it"},
        ],
        output={"role": "assistant", "content": "Done."},
    ),
    "image": TURN._replace(input=f"What is this?\n{MARK}"),
    "image-from-tool": made(
        "tool",
        "Read",
        input={"file_path": "/x/a.png"},
        output=f"a.png\n{MARK}",
        tool=Tool("toolu_4", "Read", None),
    ),
    "subagent": SPANS["subagent"],
    "error": SPANS["failed tool"],
    "compaction": SPANS["compaction"],
    "score": TURN,
}


def media(folder: Path) -> Media:
    """An image in a line of a transcript."""
    path = folder / "transcript.jsonl"
    path.write_text(json.dumps({"source": {"type": "base64", "data": ENCODED}}) + "\n")
    return Media(DIGEST, "image/png", len(PNG), hashlib.sha256(PNG).digest(), path, BEGINNING)


def shown(request: Request) -> dict[str, Any]:
    """A request as a person reads it: JSON within JSON unfolded, what differs from run to run left out."""
    headers = {name: request.headers[name] for name in HEADERS if name in request.headers}
    body: Any = request.body.decode("latin-1")
    if "protobuf" in headers["content-type"]:
        body = ExportTraceServiceRequest()
        body.ParseFromString(request.body)
        body = _readable(MessageToDict(body))
    elif "json" in headers["content-type"]:
        body = json.loads(request.body)
        for name in {"uploadedAt", "uploadTimeMs"} & set(body if isinstance(body, dict) else ()):
            body[name] = "…"
    return {"request": f"{request.method} {request.path}", "headers": headers, "body": body}


def _readable(value: Any) -> Any:
    """OTLP's attributes as an object, ids as hexadecimal, JSON texts as what they hold."""
    match value:
        case dict():
            made: dict[str, Any] = {}
            for key, each in value.items():
                if key == "attributes":
                    made[key] = {pair["key"]: _value(pair["value"]) for pair in each}
                else:
                    made[key] = base64.b64decode(each).hex() if key in _IDS else _readable(each)
            return made
        case list():
            return [_readable(each) for each in value]
        case _:
            return value


def _value(value: dict[str, Any]) -> Any:
    if "arrayValue" in value:
        return [_value(each) for each in value["arrayValue"]["values"]]
    (given,) = value.values()
    if isinstance(given, str) and given[:1] in ("{", "["):
        return {"as JSON": json.loads(given)}
    return given


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_sent(tmp_path: Path, kind: str) -> None:
    span, image = KINDS[kind], media(tmp_path)
    turn = [TURN, SPANS["first generation"], SPANS["tool"], SPANS["failed tool"], SPANS["api_retry"]]
    with LangfuseServer() as server:
        langfuse = Langfuse(
            DestinationSettings(
                "langfuse",
                "langfuse",
                endpoint=server.url,
                public_key=PUBLIC,
                secret_key=SECRET,
                timeout_seconds=20.0,
                labels=LABELS,
                cost="missing",
                media=True,
                scores=kind == "score",
            )
        )
        find = {DIGEST: image}.get
        assert langfuse.send([langfuse.encode_with_turn(span, turn, find, may_query=True)]) == Accepted()
        langfuse.close()
        sent = [shown(request) for request in server.requests if "/models" not in request.path]
    found = json.dumps(sent, indent=2, ensure_ascii=False).replace(cc_trace.__version__, "VERSION") + "\n"
    path = FOLDER / f"{kind}.json"
    if os.environ.get("UPDATE_REQUESTS"):
        path.write_text(found)
    assert found == path.read_text()


def test_every_request_file_is_used() -> None:
    assert {path.stem for path in FOLDER.iterdir()} == set(KINDS)
