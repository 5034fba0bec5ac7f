"""A request as it was sent: system prompt, tools and messages, each folded under a summary line."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from markupsafe import Markup

from cc_trace.escapes import escaped
from cc_trace.view import folding

if TYPE_CHECKING:
    from collections.abc import Iterator

_MAX_CHARS: Final = 1_500_000  # of all texts
_MAX_ITEMS: Final = 2_000  # of messages, tools and blocks each
_EXCERPT: Final = 90


class _Texts:
    """Renders texts, up to a total limit."""

    def __init__(self) -> None:
        self._left = _MAX_CHARS

    def pre(self, text: str) -> Markup:
        shown = text[: self._left]
        self._left -= len(shown)
        cut = len(text) - len(shown)
        more = Markup('<p class="more">{:,} more characters</p>').format(cut) if cut else Markup()
        return Markup("<pre>{}</pre>{}").format(escaped(shown), more)


def to_html(body: Any) -> Markup:  # noqa: ANN401
    """Return the body of a request as HTML."""
    if not isinstance(body, dict):
        return folding.to_html(body)
    texts = _Texts()
    system, tools, messages = body.get("system"), body.get("tools"), body.get("messages")
    others = {key: value for key, value in body.items() if key not in ("system", "tools", "messages")}
    parts = [_folded("Parameters", ", ".join(others), folding.to_html(others))]
    if system:
        parts.append(_folded("System prompt", _counted(system, "block"), Markup().join(_blocks(system, texts))))
    if isinstance(tools, list):
        parts.append(_folded("Tools", _counted(tools, "tool"), Markup().join(_tools(tools, texts))))
    if isinstance(messages, list):
        shown = Markup().join(_message(number, each, texts) for number, each in enumerate(messages[:_MAX_ITEMS]))
        parts.append(_folded("Messages", _counted(messages, "message"), shown, opened=True))
    return Markup('<div class="sent">{}</div>').format(Markup().join(parts))


def _folded(title: str, told: str, inner: Markup, *, opened: bool = False) -> Markup:
    return Markup('<details{}><summary><b>{}</b> <span class="quiet">{}</span></summary>{}</details>').format(
        Markup(" open") if opened else Markup(), escaped(title), escaped(told), inner
    )


def _counted(value: object, word: str) -> str:
    count = len(value) if isinstance(value, list) else 1
    return f"{count:,} {word}{'' if count == 1 else 's'}"


def _tools(tools: list[Any], texts: _Texts) -> Iterator[Markup]:
    for tool in tools[:_MAX_ITEMS]:
        if isinstance(tool, dict):
            told = str(tool.get("description") or "")
            inner = texts.pre(told) + folding.to_html(tool.get("input_schema") or tool)
            yield _folded(str(tool.get("name") or "unnamed"), _excerpt(told), inner)


def _message(number: int, message: Any, texts: _Texts) -> Markup:  # noqa: ANN401
    if not isinstance(message, dict):
        return folding.to_html(message)
    content = message.get("content")
    title = f"{number} {message.get('role') or 'message'}"
    return _folded(title, _told(content), Markup().join(_blocks(content, texts)))


def _told(content: Any) -> str:  # noqa: ANN401
    """Summarize a message in one line."""
    match content:
        case str():
            return _excerpt(content)
        case [{"type": "text", "text": str(text)}, *rest]:
            return _excerpt(text) + (f" and {_counted(rest, 'more block')}" if rest else "")
        case list():
            kinds = dict.fromkeys(str(block.get("type")) for block in content if isinstance(block, dict))
            return ", ".join(kinds).replace("_", " ")
        case _:
            return ""


def _excerpt(text: str) -> str:
    line = " ".join(text[: _EXCERPT * 4].split())
    return line if len(line) <= _EXCERPT else line[:_EXCERPT] + "…"


def _blocks(content: Any, texts: _Texts) -> Iterator[Markup]:  # noqa: ANN401
    for block in content[:_MAX_ITEMS] if isinstance(content, list) else [content]:
        match block:
            case str(text) | {"type": "text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
                yield texts.pre(text)
            case {"type": "tool_result", "content": (str() | list()) as inner}:
                yield _folded("tool result", str(block.get("tool_use_id") or ""), Markup().join(_blocks(inner, texts)))
            case {"type": "tool_use", "name": str(name)}:
                yield _folded("tool use", name, folding.to_html(block.get("input")), opened=True)
            case _:
                yield folding.to_html(block)
