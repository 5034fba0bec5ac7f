"""Claude Code's settings.json: what we put in can be found and taken out again, and nothing else changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from cc_trace.errors import CcTraceError, JsonTextError
from cc_trace.install.hooks import EVENTS, plugins, registered, with_hooks, without_hooks
from cc_trace.install.settings_file import plan, register, unregister
from cc_trace.install.settings_text import parse_settings
from fuzz.mutations import VALUES, change, change_bytes, parsed, written
from fuzz.target import BrokenError, Target

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator
    from pathlib import Path

_COMMAND: Final = "'/home/dev/a \"b\" é/cc-trace-hook'"
_OURS: Final = {"type": "command", "command": "/opt/cc-trace/hooks/cc-trace-hook", "timeout": 5}
_OTHER: Final = {"type": "command", "command": "notify-send done"}
_VALUES: Final[tuple[Any, ...]] = (
    *VALUES,
    *("hooks", "Stop", "SessionEnd", "command", _COMMAND, _OURS, _OTHER, [_OURS], [{"hooks": [_OURS, _OTHER]}]),
    *({"Stop": [{"hooks": [_OURS]}]}, {"hooks": {"Stop": []}}, "python -m cc_trace.hook", "my-cc-trace-hook-2"),
)


def _seeds() -> Iterator[bytes]:
    ours, other = {"hooks": [_OURS]}, {"matcher": "*", "hooks": [_OTHER, _OURS]}
    whole = {
        "$schema": "https://example.org/settings.json",
        "env": {"CC_TRACE_TAGS": "a"},
        "hooks": {"Stop": [other, ours], "PreToolUse": [{"matcher": "Bash", "hooks": [_OTHER]}], "SessionEnd": []},
        "enabledPlugins": {"cc-trace@cc-trace": True, "other@x": False},
        "permissions": {"allow": ["Bash(ls:*)"]},
    }
    yield from (written(whole), written(whole, indent=2), written(whole, indent=4).replace(b"\n", b"\r\n"))
    yield from (written(whole, indent=2).replace(b"  ", b"\t"), b"\xef\xbb\xbf" + written(whole, spaced=True))
    yield from (b"", b"{}", b"{\n}\n", b'{"hooks":{}}', b'{ "hooks" : [ ] }', b"[]", b'{"a":1,}', b'{// no\n"a":1}')
    yield written({"hooks": {"Stop": [ours], "Added": [ours]}, "n": 1.0})


def _mutate(rng: random.Random, data: bytes) -> bytes:
    """As any file of JSON; now and then laid out otherwise, because the layout is to be kept."""
    if rng.random() < 0.15 and (places := parsed(data)):
        laid_out = written(places[0][0], indent=rng.choice((1, 2, 4)))
        return laid_out.replace(b"\n", b"\r\n") if rng.random() < 0.2 else laid_out
    return change_bytes(rng, data) if rng.random() < 0.2 else change(rng, data, _VALUES)


class _Checker:
    """A settings file in a folder of its own, besides its text."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._path = folder / "settings.json"
        self._backups = folder / "backups"

    def __call__(self, data: bytes) -> None:
        """First the text, then the file."""
        try:
            ours = _check_text(data.decode())
        except (UnicodeDecodeError, JsonTextError):
            ours = None
        self._path.write_bytes(data)
        try:
            register(self._path, _COMMAND, self._backups)
        except CcTraceError:
            self._require_file(data, "a file was refused and changed")
            return
        _require(ours is not None, "a file was taken whose text is refused")
        _require(not plan(self._path, _COMMAND, self._backups).needed, "installing twice is not the same as once")
        unregister(self._path, self._backups)
        if ours == 0:
            self._require_file(data, "a file is not what it was before")

    def _require_file(self, data: bytes, what: str) -> None:
        there = {path.name: path.read_bytes() for path in self._folder.iterdir()}
        _require(there == {self._path.name: data}, f"{what}: {there}")


def _check_text(text: str) -> int:
    """Return how many hooks of ours there were; the text is refused with a JsonTextError."""
    before, names, bare = registered(text), plugins(text), without_hooks(text)
    _require(registered(bare) == [], "a hook of ours was not taken out")
    _require(names == plugins(bare), "a plugin went with the hooks")
    _require(_others(text) == _others(bare), "taking out changed something else")
    _require(bool(before) or bare == text, "a text without our hooks was changed")
    after = with_hooks(text, _COMMAND)
    found = sorted((each.event, each.command) for each in registered(after))
    _require(found == sorted((event, _COMMAND) for event in EVENTS), f"not registered once for each event: {found}")
    _require(with_hooks(after, _COMMAND) == after, "registering twice is not the same as once")
    _require(_others(text) == _others(after), "putting in changed something else")
    _require(_meaning(without_hooks(after)) == _meaning(bare), "putting in and taking out changed what it says")
    return len(before)


def _others(text: str) -> dict[str, Any]:
    """What stands beside `hooks`."""
    return {key: value for key, value in parse_settings(text).items() if key != "hooks"}


def _meaning(text: str) -> dict[str, Any]:
    """What a text says; events without hooks say nothing."""
    hooks = parse_settings(text).get("hooks", {})
    events = {event: groups for event, groups in hooks.items() if groups != []} if isinstance(hooks, dict) else hooks
    return _others(text) | ({"hooks": events} if events else {})


def _require(holds: bool, what: str) -> None:  # noqa: FBT001  (what holds)
    if not holds:
        raise BrokenError(what)


TARGET: Final = Target(tuple(_seeds()), _mutate, _Checker)
