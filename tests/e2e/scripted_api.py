"""The Messages API on 127.0.0.1: answers by a script, keeps what was asked, refuses everything else.

It is the proxy of Claude Code and our hook as well: what heeds it comes here, is noted in `outside`, and refused.
"""

from __future__ import annotations

import json
import select
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Self

from api_calls import ApiCall, Request, read_request
from script import Failure, Message, Reply, Script, events, message

if TYPE_CHECKING:
    import socket

_POLL_SECONDS: Final = 0.1
_NAME: Final = Reply('{"name": "scripted-session"}')
_SUMMARY: Final = Reply("<analysis>short</analysis>\n<summary>Scripted messages were exchanged.</summary>")
_NOTHING: Final = Reply("none")


class ScriptedApi(ThreadingHTTPServer):
    """`with ScriptedApi() as api:` then fill `api.script` and start Claude Code with `api.url`."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.script: Script = {}
        self.judgements: list[tuple[str, Reply]] = []  # of a prompt hook or a goal: what its question holds -> answer
        self.calls: list[ApiCall] = []
        self.outside: list[str] = []  # hosts that were asked for, and refused
        self.unscripted: list[str] = []  # what no rule and no script has an answer for
        self.stopping = threading.Event()
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self._lock = threading.Lock()
        self._attempts: dict[tuple[str, str, int], int] = {}
        self._messages = 0

    def __enter__(self) -> Self:
        """Listen."""
        threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        """End what hangs, and listen no longer."""
        self.stopping.set()
        self.shutdown()
        self.server_close()

    def handle_error(self, request: socket.socket | tuple[bytes, socket.socket], client_address: Any) -> None:
        """Say nothing of a client that went away."""

    def asked(self, tag: str, step: int = 0) -> bool:
        """Tell whether the answer of this number after a prompt has been asked for."""
        return any(_is(each, tag, step) for each in [*self.calls])

    def answered(self, tag: str, step: int = 0) -> bool:
        """Tell whether it has been served."""
        return any(_is(each, tag, step) and each.outcome == "whole" for each in [*self.calls])

    def begin(self, request: Request) -> tuple[ApiCall, Reply, Failure | None]:
        """Note a request and choose its answer, or the failure to serve this time."""
        answer, prompt = self._chosen(request), request.prompt
        place = (request.session_id, prompt[0], prompt[2]) if prompt else ("", "", 0)
        with self._lock:
            api_call = ApiCall(request)
            self.calls.append(api_call)
            attempt = self._attempts[place] = self._attempts.get(place, -1) + 1
            failing = answer.always or (answer.failures[attempt] if attempt < len(answer.failures) else None)
            if failing is None:
                self._messages += 1
                api_call.message = message(answer, self._messages, request.model, json.dumps(request.messages))
        return api_call, answer, failing

    def _chosen(self, request: Request) -> Reply:
        match request.internal_purpose:
            case "summary":
                return _SUMMARY
            case "question" if judged := [answer for text, answer in self.judgements if text in request.last_text]:
                return judged[0]
            case str():
                return _NAME if request.structured else _NOTHING
        prompt = request.prompt
        if prompt is None or prompt[0] not in self.script:
            self.unscripted.append(f"{prompt}: {request.messages[-1:]}")
            return _NOTHING
        tag, _, step = prompt
        answers = self.script[tag]
        if step >= len(answers):
            self.unscripted.append(f"{tag}: a response after the last")
            return _NOTHING
        return answers[step]


def _is(api_call: ApiCall, tag: str, step: int) -> bool:
    prompt = api_call.request.prompt
    return api_call.request.internal_purpose is None and prompt is not None and (prompt[0], prompt[2]) == (tag, step)


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ScriptedApi

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Print nothing."""

    def parse_request(self) -> bool:
        """Note whatever is asked of a proxy, by whatever method: it names a host, or the whole address."""
        parsed = super().parse_request()
        if parsed and not self.path.startswith("/"):
            self.server.outside.append(self.path)
        return parsed

    def do_CONNECT(self) -> None:
        self.close_connection = True
        self._answer(403, {"error": "nothing leaves this machine"})

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        self._answer(404, _error("not_found_error"))

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        match self.path.split("?")[0]:
            case "/v1/messages":
                self._message(read_request(body))
            case "/v1/messages/count_tokens":
                self._answer(200, {"input_tokens": max(1, len(body) // 4)})
            case _:
                self._answer(404, _error("not_found_error"))

    def _message(self, request: Request) -> None:
        api_call, answer, failing = self.server.begin(request)
        self.server.stopping.wait(answer.delay_seconds)
        if failing is not None:
            api_call.outcome = "failed"
            self._answer(failing.status, _error(failing.kind))
        elif (said := api_call.message) is not None:
            try:
                if request.streamed:
                    self._stream(said, hangs=answer.hangs)
                else:
                    self._answer(200, said.as_json)
                api_call.outcome = "whole"
            except OSError:
                api_call.outcome = "cut"

    def _stream(self, said: Message, *, hangs: bool) -> None:
        self.close_connection = True
        self.send_response(200)
        for name, value in (
            ("content-type", "text/event-stream"),
            ("request-id", f"req_{said.id}"),
            ("connection", "close"),
        ):
            self.send_header(name, value)
        self.end_headers()
        for event in events(said):
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
            self.wfile.flush()
            if hangs and event.get("delta", {}).get("type") == "text_delta":
                self._wait_until_left()
                raise BrokenPipeError

    def _wait_until_left(self) -> None:
        while not self.server.stopping.is_set():
            if select.select([self.connection], [], [], _POLL_SECONDS)[0]:
                return  # it sends nothing more, so there is its end to be read

    def _answer(self, status: int, said: dict[str, Any]) -> None:
        data = json.dumps(said).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _error(kind: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": kind, "message": "scripted failure"}}
