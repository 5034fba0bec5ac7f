"""Synthetic transcripts of a given size, the same bytes every time.

Two mixes. `current` is what 2.1.325 writes: with every request its body and a snapshot of the prompt, 250 KB for an
answer of one word. `older` is what 2.1.39 wrote: no bodies, 3 KB a line, a quarter of the lines progress.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import orjson

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

Json: TypeAlias = dict[str, Any]
Mix: TypeAlias = Literal["current", "older"]

SESSION: Final = "0b5e55ed-0000-4000-8000-00000000be4c"
MIXES: Final[tuple[Mix, ...]] = ("current", "older")
_VERSIONS: Final = {"current": "2.1.325", "older": "2.1.39"}
_RESPONSE_BYTES: Final = {"current": 260_000, "older": 7_000}  # with its request and its tools
_MODEL: Final = "claude-sonnet-4-5-20250929"
_START_MS: Final = 9 * 3_600_000
_WORDS: Final = (
    *("the", "value", "returns", "index", "of", "a", "line", "when", "it", "is", "not", "there", "for", "each", "path"),
    *(
        "def",
        "self",
        "import",
        "None",
        "True",
        "if",
        "else",
        "return",
        "assert",
        "config",
        "request",
        "state",
        "{",
        "}",
    ),
    *("(name)", "[0]", "->", "==", '"quoted"', "'text'", "0x1f", "42", "3.14", "#", "src/module.py", "test_case"),
)


def write(path: Path, mix: Mix, size: int) -> None:
    """Write whole turns, the last one shorter, until the file has `size` bytes, give or take one response."""
    transcript = _Transcript(mix)
    with path.open("wb") as file:

        def enough() -> bool:
            return file.tell() >= size - _RESPONSE_BYTES[mix]

        while not enough():
            for line in transcript.turn(enough):
                file.write(orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE))


class _Transcript:
    """What the lines of one transcript share: the chain of uuids, the clock, and a stock of text to cut from."""

    def __init__(self, mix: Mix) -> None:
        self._rng = random.Random(mix)
        self._mix = mix
        self._last: str | None = None
        self._now_ms = _START_MS
        self._prose = self._text(400_000, per_line=14, numbered=False)
        self._code = self._text(400_000, per_line=9, numbered=True)
        self._system = [self._cut(self._prose, size) for size in (900, 1600, 3300, 3600, 9000, 9000)]
        self._tools = [self._tool_schema(number) for number in range(22)]
        self._responses = 0

    def turn(self, enough: Callable[[], bool]) -> Iterator[Json]:
        """Yield a turn's lines: a prompt, 15 to 40 responses with their tools, and what is written at the end.

        Once there is enough, the next response is the last.
        """
        prompt = self._cut(self._prose, self._rng.randrange(20, 600))
        if self._mix == "older":
            yield {"type": "file-history-snapshot", "messageId": self._uuid(), "snapshot": {"trackedFileBackups": {}}}
        yield self._line({"type": "user", "message": {"role": "user", "content": prompt}}, permissionMode="default")
        responses = self._rng.randint(15, 40)
        for number in range(responses):
            last = number == responses - 1 or enough()
            if self._mix == "current":
                yield from self._request()
            yield from self._response(last=last)
            if last:
                break
        summary = {"type": "system", "subtype": "stop_hook_summary", "hookCount": 1, "hookInfos": [], "hookErrors": []}
        yield self._line(summary, preventedContinuation=False, hasOutput=False, level="suggestion")
        yield self._line({"type": "system", "subtype": "turn_duration", "durationMs": 90_000}, isMeta=False)

    def _response(self, *, last: bool) -> Iterator[Json]:
        """Yield one response, a line per block; half of them have several. Results can come between the blocks."""
        rng, self._responses = self._rng, self._responses + 1
        usage = self._usage()
        blocks: list[Json] = []
        if rng.random() < 0.15:
            signature = f"{rng.getrandbits(8000):x}"
            blocks.append({"type": "thinking", "thinking": self._cut(self._prose, 300), "signature": signature})
        if last or rng.random() < 0.35:
            blocks.append({"type": "text", "text": self._cut(self._prose, rng.randrange(40, 800))})
        calls = [] if last else [self._call(at) for at in range(2 if rng.random() < 0.12 else 1)]
        for block in (*blocks, *calls):
            yield self._assistant(block, usage)
            if block["type"] == "tool_use":
                yield from self._tool_run(block)

    def _assistant(self, block: Json, usage: Json) -> Json:
        message = {
            "model": _MODEL,
            "id": f"msg_{self._responses:024d}",
            "type": "message",
            "role": "assistant",
            "content": [block],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return self._line({"message": message, "requestId": f"req_{self._responses:024d}", "type": "assistant"})

    def _tool_run(self, call: Json) -> Iterator[Json]:
        """Yield a call's progress (older versions write it) and its result, whose content stands in the line twice."""
        rng = self._rng
        if self._mix == "older":
            for _ in range(rng.choice((0, 0, 1, 1, 2))):
                yield self._progress(call)
        size = int(rng.paretovariate(1.3) * 970)
        output = self._cut(self._code if call["name"] == "Read" else self._prose, min(size, 60_000))
        if call["name"] == "Read":
            file = {"filePath": call["input"]["file_path"], "content": output, "numLines": 80, "startLine": 1}
            tool_use_result: Json = {"type": "text", "file": file}
        elif call["name"] == "Edit":
            tool_use_result = {
                "filePath": call["input"]["file_path"],
                "oldString": output,
                "newString": "x",
                "userModified": False,
            }
        else:
            tool_use_result = {"stdout": output, "stderr": "", "interrupted": False, "isImage": False}
        result = {"tool_use_id": call["id"], "type": "tool_result", "content": output, "is_error": False}
        message = {"role": "user", "content": [result]}
        yield self._line(
            {"type": "user", "message": message}, toolUseResult=tool_use_result, sourceToolAssistantUUID=self._last
        )

    def _progress(self, call: Json) -> Json:
        if self._rng.random() < 0.5:
            data: Json = {"type": "bash_progress", "output": self._cut(self._prose, 200), "elapsedTimeSeconds": 3}
        else:
            data = {"type": "hook_progress", "hookEvent": "PreToolUse", "command": "/home/dev/.claude/hooks/check.sh"}
        return self._line({"type": "progress", "data": data, "toolUseID": call["id"], "parentToolUseID": call["id"]})

    def _call(self, number: int) -> Json:
        name = self._rng.choice(("Bash", "Read", "Read", "Edit", "Grep"))
        match name:
            case "Bash":
                given: Json = {"command": self._cut(self._prose, 80), "description": "Run it"}
            case "Read":
                given = {"file_path": f"/home/dev/project/src/module_{self._rng.randrange(500)}.py"}
            case "Edit":
                old, new = self._cut(self._code, 600), self._cut(self._code, 700)
                given = {"file_path": "/home/dev/project/src/module_1.py", "old_string": old, "new_string": new}
            case _:
                given = {"pattern": "def [a-z]+", "path": "/home/dev/project", "output_mode": "content"}
        return {"type": "tool_use", "id": f"toolu_{self._responses:020d}{number:04d}", "name": name, "input": given}

    def _request(self) -> Iterator[Json]:
        """Yield what 2.1.325 writes of a request: its shape, its newest messages, its parameters, the prompt."""
        shape = {"system": [{"type": "text", "text": text} for text in self._system], "tools": self._tools}
        named = {"sessionId": SESSION, "timestamp": self._time(), "version": "2.1.325"}
        yield {"type": "api-request-shape", **named, "shapeHash": self._uuid(), "shape": shape}
        words = [{"type": "text", "text": self._cut(self._prose, 1500)} for _ in range(8)]
        message = {"role": "user", "content": words}
        yield {"type": "api-request-blob", "sessionId": SESSION, "hash": self._uuid(), "message": message}
        yield {
            "type": "api-request",
            **named,
            "params": {"model": _MODEL, "max_tokens": 32_000},
            "tail": [self._uuid()],
        }
        snapshot = {"type": "prompt_snapshot", "systemPrompt": self._system, "tools": self._tools}
        yield self._line({"attachment": snapshot, "type": "attachment"})
        reminder = {"type": "total_tokens_reminder", "text": "<total_tokens>14999259 tokens left</total_tokens>"}
        yield self._line({"attachment": reminder, "type": "attachment"}, renderedRole="system")

    def _line(self, own: Json, **more: Any) -> Json:  # noqa: ANN401  (raw JSON has no type)
        """Return a whole line: what every one of them carries around what is its own."""
        before = {"parentUuid": self._last, "isSidechain": False}
        where = {"cwd": "/home/dev/project", "sessionId": SESSION, "version": _VERSIONS[self._mix], "gitBranch": "main"}
        self._last = self._uuid()
        after = {"uuid": self._last, "timestamp": self._time(), **more}
        if self._mix == "older":
            return {**before, "userType": "external", **where, **own, **after}
        return {**before, **own, **after, "userType": "external", "entrypoint": "cli", **where}

    def _usage(self) -> Json:
        rng = self._rng
        return {
            "input_tokens": rng.randrange(1, 40),
            "cache_creation_input_tokens": (written := rng.randrange(100, 9000)),
            "cache_read_input_tokens": rng.randrange(10_000, 150_000),
            "output_tokens": rng.randrange(5, 2000),
            "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": written},
            "service_tier": "standard",
            "inference_geo": "not_available",
        }

    def _tool_schema(self, number: int) -> Json:
        properties = {f"option_{at}": {"type": "string", "description": self._cut(self._prose, 150)} for at in range(5)}
        schema = {"type": "object", "properties": properties, "required": ["option_0"], "additionalProperties": False}
        return {"name": f"Tool{number}", "description": self._cut(self._prose, 3000), "input_schema": schema}

    def _text(self, size: int, *, per_line: int, numbered: bool) -> str:
        """Return text in lines; `numbered` as the Read tool shows a file, with an arrow that is not ASCII."""
        lines: list[str] = []
        while size > 0:
            words = " ".join(self._rng.choices(_WORDS, k=self._rng.randint(1, per_line)))
            lines.append(f"{len(lines) % 2000:>6}→{words}" if numbered else words)
            size -= len(lines[-1]) + 1
        return "\n".join(lines)

    def _cut(self, stock: str, size: int) -> str:
        at = self._rng.randrange(len(stock) - size)
        return stock[at : at + size]

    def _uuid(self) -> str:
        digits = f"{self._rng.getrandbits(128):032x}"
        return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"

    def _time(self) -> str:
        self._now_ms += self._rng.randrange(5, 3000)
        days, rest = divmod(self._now_ms, 86_400_000)
        minutes, rest = divmod(rest, 60_000)
        day = f"2026-{1 + days // 28 % 12:02d}-{1 + days % 28:02d}"
        return f"{day}T{minutes // 60:02d}:{minutes % 60:02d}:{rest // 1000:02d}.{rest % 1000:03d}Z"
