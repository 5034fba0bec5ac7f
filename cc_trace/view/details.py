"""Shows one span in a readable form: chat, diff, terminal, file, search results, or JSON that folds."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from markupsafe import Markup, escape

from cc_trace.escapes import escaped
from cc_trace.store import notice, questions
from cc_trace.view import ansi, charts, code, diff, failure, figures, folding, markdown, words

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from cc_trace.transcript import Hunk

_MAX_CHARS: Final = 50_000  # of one text; all of it is in the raw JSON
IMAGE: Final = re.compile(r"\[image (image/(?:png|jpeg|gif|webp)), (\d+) bytes, sha256 of base64 ([0-9a-f]{16})\]")
_COMPACT: Final = ("Read", "Grep", "Glob", "LS", "WebSearch", "WebFetch")
# The metadata that is shown beside a span's cost.
_TOLD: Final = {
    "effort": "Effort",
    "stop_reason": "Stop reason",
    "thinking_budget": "Thinking budget",
    "exitCode": "Exit code",
    "exit_code": "Exit code",
    "hook_event": "Hook event",
    "lines_added": "Lines added",
    "lines_removed": "Lines removed",
    "trigger": "Started by",
    "preTokens": "Conversation before, in tokens",
    "postTokens": "Conversation after, in tokens",
    "tokensSaved": "Tokens removed",
}
_SENT: Final = {"tool": "tool result", "user": "user message", "assistant": "answer before", "system": "system message"}
_MARKS: Final = {"completed": "done", "in_progress": "doing", "pending": "open"}
_NUMBERED: Final = re.compile(r"^ *\d{1,9}[→\t]", re.MULTILINE)


@dataclass(slots=True)
class Section:
    """A part of the detail pane. `kind` is its class."""

    title: str
    kind: str
    html: Markup
    open: bool = True


@dataclass(slots=True)
class Detail:
    """The contents of the detail pane."""

    facts: list[tuple[str, str]] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    notes: list[tuple[str, str]] = field(default_factory=list)  # class, text: what stands out
    ids: list[tuple[str, str]] = field(default_factory=list)
    last: list[Section] = field(default_factory=list)  # folded, at the end


class Known(NamedTuple):
    """What else is known of a span, besides its own row."""

    running: bool = False  # it goes on, so what it lacks is no error
    timed: bool = True  # its times can be right
    below: sqlite3.Row | None = None  # an agent's work in sum
    calls: Sequence[sqlite3.Row] = ()  # that a response made
    hunks: Sequence[Hunk] = ()  # where in its file an edit was
    miss: dict[str, Any] | None = None  # a cache miss that is not recorded


def detail(row: sqlite3.Row, known: Known) -> Detail:
    """Return what there is to say about a span."""
    span = json.loads(row["span"])
    made = Detail()
    _facts(made, row, span, timed=known.timed)
    if known.below is not None:
        _agent_facts(made, known.below, span)
    _notes(made, span if not known.running else {**span, "error": None})
    _permission(made, row, span)
    _miss(made, (span["metadata"] or {}).get("cache_miss") or known.miss)
    match row["kind"]:
        case "turn" | "subagent":
            _message(made, "Prompt", span["input"], row["span_id"])
            _chat(made, "Answer", span["output"], row["span_id"])
        case "generation":
            _generation(made, span, row["span_id"], known.calls)
        case "tool":
            _tool(made, row["name"], span, row["span_id"], known.hunks)
            _fold_repeated(made, span)
        case "event" if row["name"] == "compaction":
            _chat(made, "Summary", span["output"], row["span_id"])
        case _:
            command = (span["metadata"] or {}).get("command")
            if isinstance(command, str) and command:
                made.sections.append(Section("Command", "command", _command(command)))
            if row["name"] == "notification":
                _message(made, "Input", span["input"], row["span_id"])
            else:
                _value(made, "Input", span["input"], row["span_id"])
            _value(made, "Output", span["output"], row["span_id"])
            _fold_repeated(made, span)
    if span["metadata"]:
        made.last.append(Section("Metadata", "metadata", folding.to_html(span["metadata"]), open=False))
    made.last.append(Section("Raw JSON", "raw", folding.to_html(span), open=False))
    return made


def _facts(made: Detail, row: sqlite3.Row, span: dict[str, Any], *, timed: bool) -> None:
    add = made.facts.append
    took_ms = figures.between(row["start_ns"], row["end_ns"]) if timed else None
    if row["name"] == "compaction":  # its times are those of its line
        told_ms = (span["metadata"] or {}).get("durationMs")
        took_ms = float(told_ms) if isinstance(told_ms, int | float) else None
    add(("Duration", figures.duration(took_ms)))
    first_ns = questions.first_token_ns(row)
    if timed and first_ns is not None:
        add(("First token after", figures.duration(figures.between(row["start_ns"], first_ns))))
    has_more = row["total_usd"] is not None and row["total_usd"] != row["cost_usd"]
    if row["cost_usd"] is not None:
        add(("Own cost" if has_more else "Cost", figures.money(row["cost_usd"])))
    if has_more:
        add(("Cost with agents", figures.money(row["total_usd"])))
    if row["input_tokens"] is not None:
        read = row["cache_read_tokens"] or 0
        share = figures.percent(read, row["input_tokens"] + read + (row["cache_write_tokens"] or 0))
        add(("Uncached input", figures.tokens(row["input_tokens"])))
        add(("Cache read", f"{figures.tokens(read)} ({share})"))
        add(("Cache write", figures.tokens(row["cache_write_tokens"])))
        at_least = "" if (span.get("response") or {}).get("usage_complete", True) else "at least "
        add(("Output", f"{at_least}{figures.tokens(row['output_tokens'])}"))
    if row["agent"]:
        add(("Agent", row["agent"]))
    for name, value in (span["metadata"] or {}).items():
        if name in _TOLD and not isinstance(value, dict | list):
            add((_TOLD[name], _fact(name, value)))
    response, tool = span.get("response") or {}, span.get("tool") or {}
    made.ids = [
        (name, str(value))
        for name, value in (
            ("Started", figures.exactly(row["start_ns"])),
            ("Ended", figures.exactly(row["end_ns"])),
            ("Span ID", row["span_id"]),
            ("Trace id", span.get("trace_id")),
            ("Message id", response.get("message_id")),
            ("Request id", response.get("request_id")),
            ("Tool use id", tool.get("id")),
            ("Agent id", span.get("agent_id")),
        )
        if value
    ]


def _fact(name: str, value: object) -> str:
    if name == "trigger":
        return words.trigger(str(value))
    return f"{value:,}" if type(value) is int else str(value)


def _agent_facts(made: Detail, below: sqlite3.Row, span: dict[str, Any]) -> None:
    """Say what an agent did, with those that it started."""
    add = made.facts.append
    if below["models"]:
        add(("Model", below["models"].replace(",", ", ")))
    add(("Requests", figures.tokens(below["requests"])))
    add(("Tokens", figures.tokens(below["tokens"] or 0)))
    add(("Tool calls", figures.tokens(below["tools"])))
    add(("Errors", figures.tokens(below["errors"])))
    add(("Files changed", figures.tokens(below["files"])))
    if (span["metadata"] or {}).get("background") is True:
        add(("Ran", "in the background"))


def _fold_repeated(made: Detail, span: dict[str, Any]) -> None:
    """Fold an output that is the error above it, or leave it out if all of it stands there."""
    output = span["output"]
    if not span["error"] or not isinstance(output, str) or failure.full_text(span["error"], output) != output:
        return
    for section in [each for each in made.sections if each.title == "Output"]:
        if failure.excerpt(output)[1] and "\x1b" not in output:
            made.sections.remove(section)
        else:
            section.title, section.open = f"All of the output, {output.strip().count(chr(10)) + 1:,} lines", False


def _notes(made: Detail, span: dict[str, Any]) -> None:
    metadata = span["metadata"] or {}
    if span["error"]:
        whole = failure.full_text(span["error"], span["output"])
        made.notes.append(("error", escaped(failure.excerpt(whole)[0])))
    attempts = metadata.get("attempts")
    if isinstance(attempts, int) and attempts > 1:
        made.notes.append(("retry", f"This request took {attempts} attempts."))
    if span["name"] == "api_retry":
        status, wait = metadata.get("status"), metadata.get("wait_ms", metadata.get("retryInMs"))
        told = f" with status {status}" if status is not None else ""
        waited = f"; waited {figures.duration(wait)}" if isinstance(wait, int | float) else ""
        made.notes.append(("retry", f"An attempt failed{told} and was retried{waited}."))


def _permission(made: Detail, row: sqlite3.Row, span: dict[str, Any]) -> None:
    """Say whether a call was allowed to run, and for how long somebody was asked."""
    permission = (span["metadata"] or {}).get("permission")
    waits = [end - begin for kind, begin, end in json.loads(row["waits"] or "[]") if kind == "permission"]
    waited = f" after {figures.duration(sum(waits) / 1e6)}" if waits else ""
    if isinstance(permission, dict):
        told = "allowed" if permission.get("decision") == "accept" else "denied"
        source = permission.get("source")
        by = f", by {words.decider(str(source))}" if source else "; by whom is not recorded"
        made.notes.append(("permission", f"Permission: {told}{waited}{by}."))
    elif row["refused"]:
        by = ", by you" if row["refused"] == "user" else "; nobody was asked"
        made.notes.append(("permission", f"Permission: denied{waited}{by}."))


def _miss(made: Detail, miss: Any) -> None:  # noqa: ANN401
    if not isinstance(miss, dict):
        return
    text = charts.miss_text(miss)
    made.notes.append(("miss" if charts.stands_out(miss) else "small-miss", f"{text[:1].upper()}{text[1:]}."))


def _generation(made: Detail, span: dict[str, Any], span_id: str, made_calls: Sequence[sqlite3.Row]) -> None:
    output = span["output"] if isinstance(span["output"], dict) else {"content": span["output"]}
    thinking = output.get("thinking")
    for text in thinking if isinstance(thinking, list) else []:
        if isinstance(text, str) and text.strip():
            made.sections.append(Section("Thinking", "thinking", markdown.to_html(text[:_MAX_CHARS]), open=False))
    _chat(made, "Answer", output.get("content"), span_id)
    calls = output.get("tool_calls")
    if made_calls:
        made.sections.append(Section("Tool calls", "calls", _links(made_calls)))
    elif isinstance(calls, list) and calls:
        made.sections.append(Section("Tool calls", "calls", folding.to_html(calls)))
    sent = [each for each in span["input"] if isinstance(each, dict)] if isinstance(span["input"], list) else []
    for number, message in enumerate(sent, 1):
        what = _SENT.get(str(message.get("role")), str(message.get("role") or "message"))
        title = f"Sent with this request: {what}" + (f" ({number} of {len(sent)})" if len(sent) > 1 else "")
        _chat(made, title, message.get("content"), span_id, opened=False)


def _links(calls: Sequence[sqlite3.Row]) -> Markup:
    """Return calls as links to their steps."""
    rows = [
        Markup('<li><a href="?span={}" data-place="{}"><b{}>{}</b> <span>{}</span></a></li>').format(
            call["span_id"],
            call["place"],
            Markup(' class="bad"') if call["status"] == "error" else Markup(),
            escaped(call["name"]),
            escaped(call["label"]),
        )
        for call in calls
    ]
    return Markup('<ul class="links">{}</ul>').format(Markup().join(rows))


def _chat(made: Detail, title: str, value: Any, span_id: str, *, opened: bool = True) -> None:  # noqa: ANN401
    if isinstance(value, str) and value.strip():
        html = with_images(value[:_MAX_CHARS], span_id, markdown.to_html)
        made.sections.append(Section(title, "chat", html, opened))
    elif value and not isinstance(value, str):
        made.sections.append(Section(title, "input", folding.to_html(value), opened))


def _message(made: Detail, title: str, value: Any, span_id: str) -> None:  # noqa: ANN401
    """Show a message; one that nobody typed below the name of its sender."""
    sent = notice(value) if isinstance(value, str) else None
    if sent is None:
        _chat(made, title, value, span_id)
    else:
        _chat(made, escaped(sent.sender), sent.text, span_id)


def _command(command: str) -> Markup:
    return Markup('<pre class="code command">{}</pre>').format(code.coloured(command[:_MAX_CHARS], language="bash"))


def _tool(made: Detail, tool: str, span: dict[str, Any], span_id: str, hunks: Sequence[Hunk]) -> None:
    given, output = span["input"], span["output"]
    changed = diff.of_call(tool, given, output, hunks)
    if changed is not None and isinstance(given, dict):
        name = str(given.get("file_path") or given.get("notebook_path") or "")
        made.sections.append(Section(escaped(name) or "Changes", "diff", diff_html(changed)))
        _value(made, "Output", output, span_id, opened=span["status"] != "ok")
    elif tool in ("Bash", "BashOutput") and isinstance(given, dict):
        command = given.get("command")
        if isinstance(command, str):
            title = escaped(str(given.get("description") or "Command"))
            made.sections.append(Section(title, "command", _command(command)))
        _value(made, "Output", output, span_id)
    elif tool == "TodoWrite" and isinstance(given, dict) and isinstance(given.get("todos"), list):
        made.sections.append(Section("To do", "todos", _todos(given["todos"])))
        _value(made, "Output", output, span_id, opened=span["status"] != "ok")
    elif tool in ("Task", "Agent") and isinstance(given, dict) and isinstance(given.get("prompt"), str):
        _chat(made, escaped(str(given.get("description") or "Prompt")), given["prompt"], span_id)
        _chat(made, "Answer", output, span_id)
    elif tool == "ExitPlanMode" and isinstance(given, dict) and isinstance(given.get("plan"), str):
        _chat(made, "Plan", given["plan"], span_id)
        _value(made, "Output", output, span_id)
    elif tool in _COMPACT and isinstance(given, dict):
        told = " · ".join(f"{name} {value}" for name, value in given.items() if isinstance(value, str | int | float))
        made.sections.append(Section(tool, "asked", Markup('<p class="asked">{}</p>').format(escaped(told[:2000]))))
        if tool == "Read" and isinstance(output, str) and not IMAGE.search(output):
            name = str(given.get("file_path") or "")
            made.sections.append(Section("Output", "file", _file(output[:_MAX_CHARS], name)))
        else:
            _value(made, "Output", output, span_id)
    else:
        made.sections.append(Section("Input", "input", folding.to_html(given)))
        _value(made, "Output", output, span_id)


def _todos(todos: list[Any]) -> Markup:
    rows = [
        Markup('<li class="{}">{}</li>').format(
            _MARKS.get(str(todo.get("status")), "open"), escaped(str(todo.get("content") or ""))
        )
        for todo in todos[:500]
        if isinstance(todo, dict)
    ]
    return Markup('<ul class="todo">{}</ul>').format(Markup().join(rows))


def _value(made: Detail, title: str, value: Any, span_id: str, *, opened: bool = True) -> None:  # noqa: ANN401
    if value is None or value == "":
        return
    if not isinstance(value, str):
        made.sections.append(Section(title, "json-value", folding.to_html(value), opened))
        return
    parsed = _as_json(value)
    if parsed is not None:
        made.sections.append(Section(title, "json-value", folding.to_html(parsed), opened))
        return
    made.sections.append(Section(title, "terminal", with_images(value, span_id, _terminal), opened))


def with_images(text: str, span_id: str, to_html: Callable[[str], Markup]) -> Markup:
    """Return a text as HTML, with the images that it mentions."""
    html, place = Markup(), 0
    for found in list(IMAGE.finditer(text))[:20]:
        html += to_html(text[place : found.start()])
        html += Markup('<img class="shown" loading="lazy" alt="{} of {:,} bytes" src="/spans/{}/images/{}">').format(
            found[1], int(found[2][:12]), span_id, found[3]
        )
        place = found.end()
    return html + to_html(text[place:])


def _terminal(text: str) -> Markup:
    if not text.strip():
        return Markup()
    left_out = len(text) - _MAX_CHARS
    more = (
        Markup('<p class="more">{:,} more characters: see Raw JSON</p>').format(left_out) if left_out > 0 else Markup()
    )
    return Markup('<pre class="terminal">{}</pre>').format(ansi.to_html(text[:_MAX_CHARS])) + more


def _as_json(text: str) -> Any:  # noqa: ANN401
    if text[:1] not in ("{", "["):
        return None
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict | list) else None


def _file(text: str, name: str) -> Markup:
    """Show a file that was read, its line numbers beside it."""
    rows = []
    numbers = [match.strip("→\t ") for match in _NUMBERED.findall(text)]
    for place, line in enumerate(code.code_lines(_NUMBERED.sub("", text), name)):
        number = numbers[place] if place < len(numbers) else ""
        rows.append(Markup('<tr><td class="n">{}</td><td class="l">{}</td></tr>').format(number, line))
    return Markup('<table class="lines">{}</table>').format(Markup().join(rows))


def diff_html(lines: Sequence[diff.DiffLine]) -> Markup:
    """Return changed lines as a table."""
    rows = []
    for line in lines:
        sign = {"added": "+", "removed": "-"}.get(line.kind, "")
        rows.append(
            Markup(
                '<tr class="{}"><td class="n">{}</td><td class="n">{}</td>'
                '<td class="s">{}</td><td class="l">{}</td></tr>'
            ).format(line.kind, line.old or "", line.new or "", sign, line.html or escape(""))
        )
    return Markup('<table class="lines diff">{}</table>').format(Markup().join(rows))
