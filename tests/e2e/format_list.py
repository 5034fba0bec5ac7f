"""Which lines and fields Claude Code writes, and which of them cc_trace reads: compared with `format.json`.

A line's kind is its type, with its subtype where it has one. A field is named by its path; `[x]` stands for the items
of a list whose type is x, `<x>` for what tool x returned. A field is used if it is looked at when a line is read, or if
the line is read as something else without it. Of skipped lines only the outermost fields are listed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import orjson
from versions import CURRENT

from cc_trace.transcript.agent_files import agent_meta
from cc_trace.transcript.entries import Skipped
from cc_trace.transcript.lines import Line
from cc_trace.transcript.parse import entry, parse

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from transcript_files import Transcripts

    from cc_trace.transcript.entries import Entry

LIST: Final = Path(__file__).with_name("format.json")
_META: Final = "agent meta file"
_SUBTYPES: Final = {
    "system": lambda line: line.get("subtype"),
    "attachment": lambda line: line["attachment"].get("type"),
    "progress": lambda line: line["data"].get("type"),
    "queue-operation": lambda line: line.get("operation"),
}
# Their keys are data: what a tool was given, names of models, of files.
_OPAQUE: Final = frozenset({"input", "modelUsage", "trackedFileBackups"})


@dataclass(frozen=True, slots=True)
class Kind:
    """What is known of the lines of one kind."""

    used: set[str] = field(default_factory=set)
    ignored: set[str] = field(default_factory=set)
    skipped: bool = False


Format = dict[str, Kind]


def from_files(transcripts: Transcripts) -> Format:
    """Return what a session's files hold."""
    found: Format = {}
    for path in transcripts.files:
        tools: dict[str, str] = {}  # the calls so far: id -> name
        for line in transcripts.lines(path):
            tools |= {block["id"]: block["name"] for block in _blocks(line) if block.get("type") == "tool_use"}
            results = [tools.get(block["tool_use_id"], "") for block in _blocks(line) if "tool_use_id" in block]
            join(found, {_kind(line): _read(line, "".join(results[:1]))})
        if (meta := path.with_suffix(".meta.json")).is_file():
            join(found, {_META: _meta(json.loads(meta.read_bytes()))})
    return found


def join(known: Format, more: Format) -> None:
    """Add what was seen elsewhere; what is used once is used."""
    for name, kind in more.items():
        used = known.get(name, kind).used | kind.used
        ignored = (known.get(name, kind).ignored | kind.ignored) - used
        known[name] = Kind(used, ignored, known.get(name, kind).skipped and kind.skipped)


def listed() -> Format:
    """Return the list."""
    if not LIST.is_file() or (raw := json.loads(LIST.read_text()))["version"] != CURRENT:
        return {}
    return {
        name: Kind(set(kind.get("used", ())), set(kind.get("ignored", ())), kind.get("skipped", False))
        for name, kind in raw["lines"].items()
    }


def write(known: Format) -> None:
    """Write the list anew."""
    lines = {name: _as_json(kind) for name, kind in sorted(known.items())}
    LIST.write_text(json.dumps({"version": CURRENT, "lines": lines}, indent=1) + "\n")


def _as_json(kind: Kind) -> dict[str, Any]:
    ignored = sorted(kind.ignored)
    return {"skipped": True, "ignored": ignored} if kind.skipped else {"used": sorted(kind.used), "ignored": ignored}


def news(known: Format, seen: Format) -> list[str]:
    """Say what was seen and is not listed, a line each."""
    found = []
    for name, kind in sorted(seen.items()):
        if name not in known:
            found.append(f"{name}: a kind of line that is not listed")
            continue
        found += [
            f"{name}: {path} is not listed" for path in sorted(kind.ignored - known[name].ignored - known[name].used)
        ]
        found += [f"{name}: {path} is not listed as used" for path in sorted(kind.used - known[name].used)]
    return found


def _kind(line: dict[str, Any]) -> str:
    kind = line.get("type", "no type")
    subtype = _SUBTYPES[kind](line) if kind in _SUBTYPES else None
    return f"{kind}/{subtype}" if subtype else str(kind)


def _read(line: dict[str, Any], tool: str) -> Kind:
    entries = _entries(line)
    if all(isinstance(read, Skipped) for read in entries):
        return Kind(ignored=set(line), skipped=True)
    paths = set(_paths(line, "", tool))
    looked_at: set[str] = set()
    entry(_watched(line, "", tool, looked_at), 0, 0)
    used = {path for path in paths if path in looked_at or _entries(_without(line, "", path, tool)) != entries}
    return Kind(used, paths - used)


def _meta(meta: dict[str, Any]) -> Kind:
    read = agent_meta(orjson.dumps(meta))
    used = {key for key in meta if agent_meta(orjson.dumps(_without(meta, "", key, ""))) != read}
    return Kind(used, meta.keys() - used)


def _entries(line: dict[str, Any]) -> Sequence[Entry]:
    return parse(Line(0, 0, orjson.dumps(line)))


def _paths(value: Any, above: str, tool: str) -> Iterator[str]:
    match value:
        case dict():
            for key, item in value.items():
                path = _path(above, key, tool)
                yield path
                if key not in _OPAQUE:
                    yield from _paths(item, path, tool)
        case list():
            for item in value:
                yield from _paths(item, _item(above, item), tool)


def _without(value: Any, above: str, where: str, tool: str) -> Any:
    match value:
        case dict():
            named = {key: _path(above, key, tool) for key in value}
            return {key: _without(item, named[key], where, tool) for key, item in value.items() if named[key] != where}
        case list():
            return [_without(item, _item(above, item), where, tool) for item in value]
        case _:
            return value


class _Watched(dict[str, Any]):
    """An object that notes which of its fields are looked at."""

    def __init__(self, fields: dict[str, Any], paths: dict[str, str], looked_at: set[str]) -> None:
        super().__init__(fields)
        self._paths, self._looked_at = paths, looked_at

    def get(self, key: str, default: Any = None) -> Any:
        self._looked_at.add(self._paths.get(key, ""))
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self._looked_at.add(self._paths.get(key, ""))
        return super().__getitem__(key)


def _watched(value: Any, above: str, tool: str, looked_at: set[str]) -> Any:
    match value:
        case dict():
            named = {key: _path(above, key, tool) for key in value}
            fields = {key: _watched(item, named[key], tool, looked_at) for key, item in value.items()}
            return _Watched(fields, named, looked_at)
        case list():
            return [_watched(item, _item(above, item), tool, looked_at) for item in value]
        case _:
            return value


def _path(above: str, key: str, tool: str) -> str:
    named = f"{key}<{tool}>" if key == "toolUseResult" else key
    return f"{above}.{named}" if above else named


def _item(above: str, item: Any) -> str:
    kind = item.get("type", "") if isinstance(item, dict) else ""
    return f"{above}[{kind}]"


def _blocks(line: dict[str, Any]) -> list[dict[str, Any]]:
    message = line.get("message")
    content = message.get("content") if isinstance(message, dict) else None
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
