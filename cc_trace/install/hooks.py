"""The hooks in the text of Claude Code's settings.json. Pure.

A hook is ours if its command names `cc-trace-hook` or `cc_trace.hook`, whoever registered it. A value of an unexpected
type is an error if something would have to be added to it, and is skipped otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cc_trace.errors import JsonTextError
from cc_trace.install.settings_text import Number, format_like, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

# Known to all versions. An unknown event makes 2.0.77 ignore the whole file, without a message.
EVENTS: Final = ("Stop", "SessionEnd")

# Claude Code gives all SessionEnd hooks 1.5 s together, unless one in a settings file asks for more. In CI the hook
# works in line, and ends before this (hooks/cc-trace-hook).
SESSION_END_SECONDS: Final = 60

_OURS: Final = re.compile(r"(?<![\w-])(?:cc-trace-hook|cc_trace\.hook)(?![\w-])")


@dataclass(frozen=True, slots=True)
class Registration:
    """One of our hooks."""

    event: str
    command: str
    hurried: bool = False  # it has less time than it may need


def registered(text: str) -> list[Registration]:
    """Return our hooks, including those for unexpected events. Raises JsonTextError, as all functions here."""
    found = _hooks(parse(text))
    return [Registration(event, hook["command"], _is_hurried(event, hook)) for event, hook in found if _is_ours(hook)]


def with_hooks(text: str, command: str, events: Sequence[str] = EVENTS) -> str:
    """Return the text with our hook registered once for each event, and for no other.

    An existing hook of ours keeps its place and its other keys, and gets the timeout it needs. If nothing has to
    change, the text is returned as it is.
    """
    settings = parse(text, unique=True)
    before = format_like(text, settings)
    ours = [(event, hook) for event, hook in _hooks(settings) if _is_ours(hook)]
    first = {event: hook for event, hook in reversed(ours) if event in events}
    _remove(settings, [hook for event, hook in ours if hook is not first.get(event)])
    for event in events:
        hook = first[event] if event in first else _add(settings, event)
        hook["command"] = command
        if _is_hurried(event, hook):
            hook["timeout"] = SESSION_END_SECONDS
    after = format_like(text, settings)
    return text if after == before else after


def without_hooks(text: str) -> str:
    """Return the text without our hooks, and without lists and objects that are empty because of that."""
    if not registered(text):
        return text
    settings = parse(text, unique=True)
    _remove(settings, [hook for _, hook in _hooks(settings) if _is_ours(hook)])
    return format_like(text, settings)


def meaning(text: str) -> dict[str, Any]:
    """Return the settings in a text, for comparing: without events that have no hooks, and with numbers as written."""
    settings = parse(text)
    match settings.get("hooks"):
        case dict(events):
            settings["hooks"] = {event: groups for event, groups in events.items() if groups != []}
            if not settings["hooks"]:
                del settings["hooks"]
    return settings


def has_other_stop_hooks(text: str) -> bool:
    """Tell whether a text registers a Stop hook that is not ours, or enables a plugin that may have one."""
    settings = parse(text)
    enabled = settings.get("enabledPlugins")
    on = sum(bool(each) for each in enabled.values()) if isinstance(enabled, dict) else 0
    return on > len(plugins(text)) or any(event == "Stop" and not _is_ours(hook) for event, hook in _hooks(settings))


def plugins(text: str) -> list[str]:
    """Return the names under which our plugin is enabled."""
    match parse(text):
        case {"enabledPlugins": dict(enabled)}:
            return [name for name, on in enabled.items() if on is True and name.partition("@")[0] == "cc-trace"]
    return []


def _hooks(settings: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every hook with its event."""
    match settings:
        case {"hooks": dict(events)}:
            for event, groups in events.items():
                for hooks in map(_listed, groups if isinstance(groups, list) else []):
                    yield from ((event, hook) for hook in hooks if isinstance(hook, dict))


def _listed(group: object) -> list[Any]:
    match group:
        case {"hooks": list(hooks)}:
            return hooks
    return []


def _is_ours(hook: dict[str, Any]) -> bool:
    command = hook.get("command")
    return isinstance(command, str) and _OURS.search(command) is not None


def _is_hurried(event: str, hook: dict[str, Any]) -> bool:
    if event != "SessionEnd":
        return False
    seconds = hook.get("timeout")
    return not isinstance(seconds, Number) or float(seconds) < SESSION_END_SECONDS


def _remove(settings: dict[str, Any], unwanted: list[dict[str, Any]]) -> None:
    """Remove hooks, and the lists and objects that are empty without them."""
    gone = {id(hook) for hook in unwanted}
    events = settings.get("hooks")
    if not gone or not isinstance(events, dict):
        return
    for event, groups in list(events.items()):
        for group in list(groups) if isinstance(groups, list) else []:
            hooks = _listed(group)
            if gone.isdisjoint(map(id, hooks)):
                continue
            hooks[:] = [hook for hook in hooks if id(hook) not in gone]
            if not hooks:
                groups[:] = [each for each in groups if each is not group]
            if not groups:
                del events[event]
    if not events:
        del settings["hooks"]


def _add(settings: dict[str, Any], event: str) -> dict[str, Any]:
    """Add a hook to an event, after the existing ones."""
    events = settings.setdefault("hooks", {})
    if not isinstance(events, dict):
        message = "hooks is not an object"
        raise JsonTextError(message)
    groups = events.setdefault(event, [])
    if not isinstance(groups, list):
        message = f"hooks.{event} is not a list"
        raise JsonTextError(message)
    hook: dict[str, Any] = {"type": "command"}
    groups.append({"hooks": [hook]})
    return hook
