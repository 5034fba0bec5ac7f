"""The hooks in Claude Code's settings.json, as a text that is edited: every byte that is not ours stays. Pure.

Ours is a hook whose command names `cc-trace-hook` or `cc_trace.hook`, wherever and by whom it was registered. What has
not the shape that Claude Code gives it is refused where something would have to be put in, and else stepped over.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cc_trace.installation.json_parts import Part, cut, inserted, member, parts, read_object, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Known to all versions. One event that is not known makes 2.0.77 ignore the whole file, without a word.
EVENTS: Final = ("Stop", "SessionEnd")

_OURS: Final = re.compile(r"(?<![\w-])(?:cc-trace-hook|cc_trace\.hook)(?![\w-])")
_BOM: Final = "\ufeff"
_EMPTY: Final = "{}\n"


@dataclass(frozen=True, slots=True)
class Registration:
    """One of our hooks."""

    event: str
    command: str


@dataclass(frozen=True, slots=True)
class _Hook:
    """One of our hooks. `levels`: what it stands in, from its list outwards, each with the part that leads to it."""

    event: str
    command: Part
    levels: tuple[tuple[int, Part], ...]


def registered(text: str) -> list[Registration]:
    """Return our hooks, those of unexpected events too. Raises JsonTextError, as all functions here."""
    body = _body(text)
    return [Registration(hook.event, _string(body, hook.command)) for hook in _hooks(body)]


def with_hooks(text: str, command: str, events: Sequence[str] = EVENTS) -> str:
    """Return the text with our hook registered once for each event, and for no other.

    A hook of ours that is there keeps its place and its other keys. What is right already is not touched.
    """
    body = _body(text)
    for event in events:
        while len(own := [hook for hook in _hooks(body) if hook.event == event]) > 1:
            body = _without(body, own[-1])
        body = _with_command(body, own[0].command, command) if own else _added(body, event, command)
    while others := [hook for hook in _hooks(body) if hook.event not in events]:
        body = _without(body, others[-1])
    return _with_mark(text, body)


def without_hooks(text: str) -> str:
    """Return the text without our hooks, and without the lists and objects that held nothing else."""
    body = _body(text)
    if not _hooks(body):
        return text
    while own := _hooks(body):
        body = _without(body, own[-1])
    return _with_mark(text, body)


def meaning(text: str) -> dict[str, Any]:
    """Return what a text says; an event without hooks says nothing."""
    value = read_object(_body(text))
    match value.get("hooks"):
        case dict(events):
            kept = {event: groups for event, groups in events.items() if groups != []}
            value = {**value, "hooks": kept}
            if not kept:
                del value["hooks"]
    return value


def plugins(text: str) -> list[str]:
    """Return the names under which our plugin is enabled."""
    match read_object(_body(text)):
        case {"enabledPlugins": dict(enabled)}:
            return [name for name, on in enabled.items() if on is True and name.partition("@")[0] == "cc-trace"]
    return []


def _body(text: str) -> str:
    """Return a valid text without its byte order mark; one that is empty counts as an empty object."""
    body = text.removeprefix(_BOM)
    if not body.strip():
        return _EMPTY
    read_object(body)
    return body


def _with_mark(original: str, body: str) -> str:
    return _BOM + body if original.startswith(_BOM) else body


def _string(text: str, part: Part) -> str:
    value = json.loads(text[part.value : part.end])
    return value if isinstance(value, str) else ""


def _hooks(text: str) -> list[_Hook]:
    root = text.index("{")
    hooks = member(text, root, "hooks")
    return [] if hooks is None or text[hooks.value] != "{" else list(_hooks_below(text, root, hooks))


def _hooks_below(text: str, root: int, hooks: Part) -> Iterator[_Hook]:
    """Yield our hooks in the order of the text."""
    for event in parts(text, hooks.value)[0]:
        for group in _items(text, event):
            listed = _member_of(text, group, "hooks")
            if listed is None:
                continue
            for hook in _items(text, listed):
                command = _member_of(text, hook, "command")
                if command is not None and text[command.value] == '"' and _OURS.search(_string(text, command)):
                    levels = ((listed.value, hook), (event.value, group), (hooks.value, event), (root, hooks))
                    yield _Hook(event.key or "", command, levels)


def _items(text: str, part: Part) -> list[Part]:
    return parts(text, part.value)[0] if text[part.value] == "[" else []


def _member_of(text: str, part: Part, key: str) -> Part | None:
    return member(text, part.value, key) if text[part.value] == "{" else None


def _without(text: str, hook: _Hook) -> str:
    """Cut a hook out, with all that holds nothing else."""
    for opening, part in hook.levels:
        if len(parts(text, opening)[0]) > 1:
            return cut(text, opening, part)
    return cut(text, *hook.levels[-1])


def _with_command(text: str, part: Part, command: str) -> str:
    if _string(text, part) == command:
        return text
    return text[: part.value] + json.dumps(command, ensure_ascii=False) + text[part.end :]


def _added(text: str, event: str, command: str) -> str:
    group = {"hooks": [{"type": "command", "command": command}]}
    root = text.index("{")
    hooks = member(text, root, "hooks")
    if hooks is None:
        return inserted(text, root, "hooks", {event: [group]})
    if text[hooks.value] != "{":
        refuse(text, hooks.value, "hooks is not an object")
    listed = member(text, hooks.value, event)
    if listed is None:
        return inserted(text, hooks.value, event, [group])
    if text[listed.value] != "[":
        refuse(text, listed.value, f"hooks.{event} is not a list")
    return inserted(text, listed.value, None, group)
