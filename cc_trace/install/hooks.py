"""The hooks in the text of Claude Code's settings.json. Pure.

A hook is ours if its command names `cc-trace-hook` or `cc_trace.hook`, whoever registered it. A value of an unexpected
type is an error if something would have to be added to it, and is skipped otherwise.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from cc_trace.errors import JsonTextError
from cc_trace.install.settings_text import format_like, parse_settings

if TYPE_CHECKING:
    from collections.abc import Iterator

# Known to all versions. An unknown event makes 2.0.77 ignore the whole file, without a message.
EVENTS: Final = ("Stop", "SessionEnd")

# Claude Code gives all SessionEnd hooks 1.5 s together, unless one in a settings file asks for more. In CI the hook
# works in line, and ends before this (hooks/cc-trace-hook).
SESSION_END_SECONDS: Final = 60

_OURS: Final = re.compile(r"(?<![\w-])(?:cc-trace-hook|cc_trace\.hook)(?![\w-])")
_MAY_BE_OURS: Final = re.compile(r"cc-trace-hook|cc_trace\.hook|\\u")  # in JSON, where a name can be escaped


@dataclass(frozen=True, slots=True)
class Registration:
    """One of our hooks."""

    event: str
    command: str
    timeout_is_short: bool = False  # less than it may need


def registered(text: str) -> list[Registration]:
    """Return our hooks, including those for unexpected events. Raises JsonTextError, as all functions here."""
    hooks = _hooks(parse_settings(text))
    return [
        Registration(event, hook["command"], _timeout_is_short(event, hook)) for event, hook in hooks if _is_ours(hook)
    ]


def with_hooks(text: str, command: str) -> str:
    """Return the text with our hook registered once for each event, and for no other.

    An existing hook of ours keeps its place and its other keys, and gets the timeout it needs. If nothing has to
    change, the text is returned as it is.
    """
    settings = parse_settings(text, unique=True)
    our_hooks = [(event, hook) for event, hook in _hooks(settings) if _is_ours(hook)]
    first_by_event = {event: hook for event, hook in reversed(our_hooks) if event in EVENTS}
    _remove(settings, [hook for event, hook in our_hooks if hook is not first_by_event.get(event)])
    for event in EVENTS:
        hook = first_by_event[event] if event in first_by_event else _add(settings, event)
        hook["command"] = command
        if _timeout_is_short(event, hook):
            hook["timeout"] = SESSION_END_SECONDS
    return text if settings == parse_settings(text) else format_like(text, settings)


def without_hooks(text: str) -> str:
    """Return the text without our hooks, and without lists and objects that are empty because of that.

    A text that cannot contain one need not be JSON.
    """
    if not _MAY_BE_OURS.search(text) or not registered(text):
        return text
    settings = parse_settings(text, unique=True)
    _remove(settings, [hook for _, hook in _hooks(settings) if _is_ours(hook)])
    return format_like(text, settings)


def has_other_stop_hooks(text: str) -> bool:
    """Tell whether a text registers a Stop hook that is not ours, or enables a plugin that may have one."""
    settings = parse_settings(text)
    enabled = settings.get("enabledPlugins")
    count = sum(map(bool, enabled.values())) if isinstance(enabled, dict) else 0
    return count > len(plugins(text)) or any(event == "Stop" and not _is_ours(hook) for event, hook in _hooks(settings))


def plugins(text: str) -> list[str]:
    """Return the names under which our plugin is enabled."""
    match parse_settings(text):
        case {"enabledPlugins": dict(enabled)}:
            return [name for name, on in enabled.items() if on is True and name.partition("@")[0] == "cc-trace"]
    return []


def _hooks(settings: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every hook with its event."""
    match settings:
        case {"hooks": dict(events)}:
            for event, groups in events.items():
                for hooks in map(_hooks_of_group, groups if isinstance(groups, list) else []):
                    yield from ((event, hook) for hook in hooks if isinstance(hook, dict))


def _hooks_of_group(group: object) -> list[Any]:
    match group:
        case {"hooks": list(hooks)}:
            return hooks
    return []


def _is_ours(hook: dict[str, Any]) -> bool:
    command = hook.get("command")
    return isinstance(command, str) and _OURS.search(command) is not None


def _timeout_is_short(event: str, hook: dict[str, Any]) -> bool:
    if event != "SessionEnd":
        return False
    match hook.get("timeout"):
        case int() | float() as seconds:
            return seconds < SESSION_END_SECONDS
    return True


def _remove(settings: dict[str, Any], unwanted: list[dict[str, Any]]) -> None:
    """Remove hooks, and the lists and objects that are empty without them."""
    unwanted_ids = {id(hook) for hook in unwanted}
    events = settings.get("hooks")
    if not unwanted_ids or not isinstance(events, dict):
        return
    for event, groups in list(events.items()):
        for group in list(groups) if isinstance(groups, list) else []:
            hooks = _hooks_of_group(group)
            if unwanted_ids.isdisjoint(map(id, hooks)):
                continue
            hooks[:] = [hook for hook in hooks if id(hook) not in unwanted_ids]
            if not hooks:
                groups[:] = [other for other in groups if other is not group]
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
