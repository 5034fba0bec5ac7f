"""Images and documents in Langfuse: uploaded before the span that shows them, and never in its way."""

from __future__ import annotations

import base64
import json
import os
from typing import TYPE_CHECKING, Any

import pytest
from backend import HANG, Behaviour, status
from langfuse.media import LangfuseMedia
from langfuse_server import PUBLIC, SECRET, LangfuseServer
from lines import prompt, reply, result, tool_use

from cc_trace.export.destination import DestinationSettings
from cc_trace.export.langfuse import Langfuse
from cc_trace.export.outcomes import Accepted
from cc_trace.privacy import Privacy, PrivacySettings
from cc_trace.spans.session import Session
from cc_trace.transcript.lines import BEGINNING
from cc_trace.transcript.media import MediaFinder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from cc_trace.export.outcomes import EncodedSpan
    from cc_trace.privacy import Content

PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))
PDF = b"%PDF-1.7\n" + b"x" * 100


@pytest.fixture
def server() -> Iterator[LangfuseServer]:
    with LangfuseServer() as running:
        yield running


def opened(server: LangfuseServer, **more: Any) -> Langfuse:
    given: dict[str, Any] = {"timeout_seconds": 5.0, "media": True, **more}
    return Langfuse(
        DestinationSettings("langfuse", "langfuse", endpoint=server.url, public_key=PUBLIC, secret_key=SECRET, **given)
    )


def block(kind: str, media_type: str, content: bytes) -> dict[str, Any]:
    data = base64.b64encode(content).decode()
    return {"type": kind, "source": {"type": "base64", "media_type": media_type, "data": data}}


@pytest.fixture
def transcript(tmp_path: Path) -> Path:
    """A prompt with an image, and a tool that gives back a text, a document and the same image."""
    given = [{"type": "text", "text": "What is this?"}, block("image", "image/png", PNG)]
    came = [
        {"type": "text", "text": "# two"},
        block("document", "application/pdf", PDF),
        block("image", "image/png", PNG),
    ]
    lines = [
        prompt(given, 0),
        reply("m1", tool_use("t1"), at=1),
        result("t1", came, at=2),
        reply("m2", "A square.", at=3),
    ]
    path = tmp_path / "77777777-0000-4000-8000-000000000001.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def encoded(langfuse: Langfuse, path: Path, content: Content = "full") -> dict[str, EncodedSpan]:
    """All spans by their kinds and names."""
    finder, privacy = MediaFinder(lambda: [(path, BEGINNING)]), Privacy(PrivacySettings(content))
    found = {}
    for trace in Session(path, ending="over").traces():
        for span in trace.spans:
            made = langfuse.encode_with_turn(privacy(span, trace.spans), trace.spans, finder.find, may_query=True)
            found[f"{span.kind} {span.response.message_id if span.response else ''}".strip()] = made
    return found


def sent(server: LangfuseServer) -> dict[str, dict[str, Any]]:
    """What the server has of each span, by id."""
    return {
        span.span_id.hex(): {
            pair.key.removeprefix("langfuse.observation."): pair.value.string_value for pair in span.attributes
        }
        for span in server.spans
    }


def token(content: bytes, kind: str) -> dict[str, Any]:
    """The part that shows a content, as Langfuse's own package names it."""
    media = LangfuseMedia(content_bytes=content, content_type=kind)  # type: ignore[arg-type]
    reference = f"@@@langfuseMedia:type={kind}|id={media._media_id}|source=base64_data_uri@@@"
    return {"type": "image_url", "image_url": {"url": reference}}


def test_image_reference_is_in_the_image_place(server: LangfuseServer, transcript: Path) -> None:
    """In prompts and in what tools gave back; the text around it as ever, and nothing is uploaded twice."""
    langfuse = opened(server)
    spans = encoded(langfuse, transcript)
    assert langfuse.send(list(spans.values())) == Accepted()
    found, image, document = sent(server), token(PNG, "image/png"), token(PDF, "application/pdf")
    asked = [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}]
    assert json.loads(found[spans["turn"].span_id]["input"]) == asked
    assert json.loads(found[spans["generation m1"].span_id]["input"]) == asked
    shown = [{"type": "text", "text": "```\n# two\n```"}, document, image]
    assert json.loads(found[spans["tool"].span_id]["output"]) == [{"role": "tool", "name": "Bash", "content": shown}]
    (answered,) = json.loads(found[spans["generation m2"].span_id]["input"])
    assert (answered["role"], answered["content"]) == ("tool", shown)
    assert sorted((each.content, each.uploaded) for each in server.media.values()) == [(PDF, True), (PNG, True)]
    assert server.puts == 2
    fields = {(observation, field) for _, observation, field in server.shown_media}
    assert fields == {
        (spans[name].span_id, field)
        for name, field in [
            ("turn", "input"),
            ("generation m1", "input"),
            ("tool", "output"),
            ("generation m2", "input"),
        ]
    }
    langfuse.close()


def test_image_is_uploaded_before_its_span(server: LangfuseServer, transcript: Path) -> None:
    langfuse = opened(server)
    langfuse.send([encoded(langfuse, transcript)["turn"]])
    assert [(each.method, each.path.partition("?")[0].rpartition("/")[0]) for each in server.requests] == [
        ("POST", "/api/public"),
        ("PUT", "/bucket"),
        ("PATCH", "/api/public/media"),
        ("POST", "/api/public/otel/v1"),
    ]
    langfuse.close()


def test_stored_image_is_not_uploaded_again(server: LangfuseServer, transcript: Path) -> None:
    """By another process, say."""
    for _ in range(2):
        langfuse = opened(server)
        langfuse.send([encoded(langfuse, transcript)["turn"]])
        langfuse.close()
    assert (len(server.asked("POST", "/media")), server.puts, len(server.spans)) == (2, 1, 2)


@pytest.mark.parametrize(
    ("path", "behaviour"),
    [
        ("/api/public/media", status(500)),
        ("/api/public/media", status(404, "<html>no such page</html>")),
        ("/api/public/media", Behaviour(said='{"mediaId": "another", "uploadUrl": null}')),
        ("/api/public/media", Behaviour(said='{"mediaId": "x"')),
        ("/api/public/media", HANG),
        ("/api/public/media/", status(500)),
        ("/bucket", status(503)),
        ("/bucket", HANG),
        ("/bucket", Behaviour("close")),
    ],
)
def test_failed_upload_keeps_the_text_and_delays_nothing(
    server: LangfuseServer, transcript: Path, path: str, behaviour: Behaviour
) -> None:
    """The span says what it says without uploads, and nothing further is tried."""
    server.asking[path] = behaviour
    langfuse = opened(server, timeout_seconds=0.5 if behaviour == HANG else 20.0)
    spans = encoded(langfuse, transcript)
    while langfuse.send([spans["turn"]]) != Accepted():  # a slow machine may need more than half a second
        pass
    langfuse.send([spans["tool"]])
    assert len(server.asked("POST", "/api/public/media")) == 1
    text = json.loads(sent(server)[spans["turn"].span_id]["input"])[0]["content"]
    assert text.startswith("What is this?\n[image image/png, 264 bytes, sha256 of base64 ")
    assert "[document application/pdf, " in sent(server)[spans["tool"].span_id]["output"]
    langfuse.close()


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "http://[",
        "http://a:b/",
        "http://a:99999/",
        "https://",
        "http://\u0130\u2024/",
        "http://x/\n",
        "x",
    ],
)
def test_invalid_upload_url_is_not_followed(server: LangfuseServer, transcript: Path, address: str) -> None:
    langfuse = opened(server)
    span = encoded(langfuse, transcript)["turn"]
    id_ = token(PNG, "image/png")["image_url"]["url"].partition("id=")[2].partition("|")[0]
    server.asking["/api/public/media"] = Behaviour(said=json.dumps({"mediaId": id_, "uploadUrl": address}))
    assert langfuse.send([span]) == Accepted()
    assert "@@@" not in sent(server)[span.span_id]["input"]
    langfuse.close()


@pytest.mark.parametrize("content", ["no-tool-content", "metadata"])
def test_only_images_that_may_leave_are_uploaded(server: LangfuseServer, transcript: Path, content: Content) -> None:
    """At less than full content the settings turn uploads off altogether; this is a second barrier."""
    langfuse = opened(server)
    langfuse.send([*encoded(langfuse, transcript, content).values()])
    names = {field for _, _, field in server.shown_media}
    assert names == ({"input"} if content == "no-tool-content" else set())
    langfuse.close()


def test_only_data_that_begins_as_an_image_is_uploaded(server: LangfuseServer, tmp_path: Path) -> None:
    """Other base64 text would bypass the masks; the type that the transcript gives does not count."""
    path = tmp_path / "77777777-0000-4000-8000-000000000002.jsonl"
    lines = [prompt([block("image", "image/png", b"AKIA" + b"secret" * 9)], 0), reply("m1", "No.", at=1)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    langfuse = opened(server)
    langfuse.send([*encoded(langfuse, path).values()])
    assert (server.media, len(server.spans)) == ({}, 2)
    langfuse.close()


def test_typed_image_mark_uploads_nothing(server: LangfuseServer, transcript: Path) -> None:
    typed = "[image image/png, 264 bytes, sha256 of base64 0123456789abcdef]"
    transcript.write_text("".join(json.dumps(line) + "\n" for line in [prompt(typed, 0), reply("m1", "Hm.", at=1)]))
    langfuse = opened(server)
    spans = encoded(langfuse, transcript)
    langfuse.send([*spans.values()])
    assert json.loads(sent(server)[spans["turn"].span_id]["input"]) == [{"role": "user", "content": typed}]
    assert server.media == {}
    langfuse.close()


def test_missing_image_keeps_its_text(server: LangfuseServer, transcript: Path) -> None:
    langfuse = opened(server)
    span = encoded(langfuse, transcript)["turn"]
    os.truncate(transcript, 10)
    assert langfuse.send([span]) == Accepted()
    assert "sha256 of base64" in sent(server)[span.span_id]["input"]
    assert server.puts == 0
    langfuse.close()


def test_other_destinations_get_no_image(server: LangfuseServer, transcript: Path) -> None:
    """Nor does Langfuse where it is turned off: the text says type, size and digest."""
    langfuse = opened(server, media=False)
    assert langfuse.send([*encoded(langfuse, transcript).values()]) == Accepted()
    assert server.media == {}
    data = base64.b64encode(PNG).decode()
    assert all(data[:40] not in json.dumps(each) for each in sent(server).values())
    langfuse.close()
