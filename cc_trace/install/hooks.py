"""The hooks in Claude Code's settings.json, as a text that is edited: every byte that is not ours stays. Pure.

Ours is a hook whose command names `cc-trace-hook` or `cc_trace.hook`, wherever and by whom it was registered. What has
not the shape that Claude Code gives it is refused where something would have to be put in, and else stepped over.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cc_trace.install.json_parts import Member, cut, inserted, member, members, read_object, refuse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Known to all versions. One event that is not known makes 2.0.77 ignore the whole file, without a word.
EVENTS: Final = ("Stop", "SessionEnd")

# Claude Code gives all SessionEnd hooks 1.5 s together, unless one in a settings file asks for more. In CI the hook
# works in line, and ends before this (hooks/cc-trace-hook).
SESSION_END_SECONDS: Final = 60

_OURS: Final = re.compile(r"(?<![\w-])(?:cc-trace-hook|cc_trace\.hook)(?![\w-])")
_BOM: Final = "\ufeff"
_EMPTY: Final = "{}\n"


@dataclass(frozen=True, slots=True)
class Registration:
    """One of our hooks."""

    event: str
    command: str
    hurried: bool = False  # it has less time than it may need


@dataclass(frozen=True, slots=True)
class _Hook:
    """One of our hooks. `levels`: what it stands in, from its list outwards, each with the part that leads to it."""

    event: str
    command: Member
    timeout: Member | None
    levels: tuple[tuple[int, Member], ...]


def registered(text: str) -> list[Registration]:
    """Return our hooks, those of unexpected events too. Raises JsonTextError, as all functions here."""
    body = _body(text)
    return [Registration(hook.event, _string(body, hook.command), _hurried(body, hook)) for hook in _hooks(body)]


def with_hooks(text: str, command: str, events: Sequence[str] = EVENTS) -> str:
    """Return the text with our hook registered once for each event, and for no other.

    A hook of ours that is there keeps its place and its other keys, and gets the time it may need. What is right
    already is not touched.
    """
    body = _body(text)
    for event in events:
        while len(own := [hook for hook in _hooks(body) if hook.event == event]) > 1:
            body = _without(body, own[-1])
        if own:
            body = _with_timeout(_with_command(body, own[0].command, command), event)
        else:
            body = _added(body, event, command)
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


def has_other_stop_hooks(text: str) -> bool:
    """Tell whether a text registers a Stop hook that is not ours, or enables a plugin that may have one."""
    value = read_object(_body(text))
    hooks, enabled = value.get("hooks"), value.get("enabledPlugins")
    groups = hooks.get("Stop", []) if isinstance(hooks, dict) else []
    listed = [each.get("hooks", []) for each in groups if isinstance(each, dict)] if isinstance(groups, list) else []
    found = [hook for hooks in listed if isinstance(hooks, list) for hook in hooks if isinstance(hook, dict)]
    ours = len(plugins(text))
    on = sum(bool(each) for each in enabled.values()) if isinstance(enabled, dict) else 0
    return on > ours or any(not _OURS.search(str(hook.get("command", ""))) for hook in found)


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


def _string(text: str, part: Member) -> str:
    value = json.loads(text[part.value : part.end])
    return value if isinstance(value, str) else ""


def _hooks(text: str) -> list[_Hook]:
    root = text.index("{")
    hooks = member(text, root, "hooks")
    return [] if hooks is None or text[hooks.value] != "{" else list(_hooks_below(text, root, hooks))


def _hooks_below(text: str, root: int, hooks: Member) -> Iterator[_Hook]:
    """Yield our hooks in the order of the text."""
    for event in members(text, hooks.value)[0]:
        for group in _items(text, event):
            listed = _member_of(text, group, "hooks")
            if listed is None:
                continue
            for hook in _items(text, listed):
                command = _member_of(text, hook, "command")
                if command is not None and text[command.value] == '"' and _OURS.search(_string(text, command)):
                    levels = ((listed.value, hook), (event.value, group), (hooks.value, event), (root, hooks))
                    yield _Hook(event.key or "", command, _member_of(text, hook, "timeout"), levels)


def _items(text: str, part: Member) -> list[Member]:
    return members(text, part.value)[0] if text[part.value] == "[" else []


def _member_of(text: str, part: Member, key: str) -> Member | None:
    return member(text, part.value, key) if text[part.value] == "{" else None


def _without(text: str, hook: _Hook) -> str:
    """Cut a hook out, with all that holds nothing else."""
    for opening, part in hook.levels:
        if len(members(text, opening)[0]) > 1:
            return cut(text, opening, part)
    return cut(text, *hook.levels[-1])


def _with_command(text: str, part: Member, command: str) -> str:
    if _string(text, part) == command:
        return text
    return text[: part.value] + json.dumps(command, ensure_ascii=False) + text[part.end :]


def _hurried(text: str, hook: _Hook) -> bool:
    if hook.event != "SessionEnd":
        return False
    seconds = json.loads(text[hook.timeout.value : hook.timeout.end]) if hook.timeout is not None else None
    return not isinstance(seconds, int | float) or seconds < SESSION_END_SECONDS


def _with_timeout(text: str, event: str) -> str:
    """Give our one hook of an event the time it may need."""
    [hook] = [each for each in _hooks(text) if each.event == event]
    if not _hurried(text, hook):
        return text
    if hook.timeout is not None:
        return text[: hook.timeout.value] + str(SESSION_END_SECONDS) + text[hook.timeout.end :]
    _, own = hook.levels[0]
    return inserted(text, own.value, "timeout", SESSION_END_SECONDS)


def _added(text: str, event: str, command: str) -> str:
    hook: dict[str, object] = {"type": "command", "command": command}
    if event == "SessionEnd":
        hook["timeout"] = SESSION_END_SECONDS
    group = {"hooks": [hook]}
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
