"""JSON that folds: objects and lists as `<details>`, opened down to a depth. Bounded in depth and number."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from markupsafe import Markup, escape

from cc_trace.escapes import escaped

if TYPE_CHECKING:
    from cc_trace.transcript import JsonValue

_OPEN_DEPTH: Final = 2
_MAX_DEPTH: Final = 40
_MAX_NODES: Final = 3_000
_MAX_TEXT: Final = 20_000


class _Budget:
    def __init__(self) -> None:
        self.left = _MAX_NODES

    def take(self) -> bool:
        self.left -= 1
        return self.left >= 0


def to_html(value: JsonValue) -> Markup:
    """Return a value as HTML."""
    return Markup('<div class="json">{}</div>').format(_node(value, 0, _Budget()))


def _node(value: JsonValue, depth: int, budget: _Budget) -> Markup:
    if not budget.take() or depth > _MAX_DEPTH:
        return Markup('<span class="j-more">…</span>')
    match value:
        case dict() if value:
            rows = [
                Markup('<div class="j-row"><span class="j-key">{}</span>{}</div>').format(
                    escaped(str(key)), _node(item, depth + 1, budget)
                )
                for key, item in value.items()
                if budget.left > 0
            ]
            return _folded(f"{{{len(value)}}}", rows, depth)
        case list() if value:
            rows = [
                Markup('<div class="j-row"><span class="j-key">{}</span>{}</div>').format(
                    number, _node(item, depth + 1, budget)
                )
                for number, item in enumerate(value)
                if budget.left > 0
            ]
            return _folded(f"[{len(value)}]", rows, depth)
        case str():
            return _text(value)
        case _:
            return Markup('<span class="j-value">{}</span>').format(json.dumps(value))


def _folded(label: str, rows: list[Markup], depth: int) -> Markup:
    opened = Markup(" open") if depth < _OPEN_DEPTH else Markup()
    return Markup("<details{}><summary>{}</summary>{}</details>").format(opened, label, Markup().join(rows))


def _text(value: str) -> Markup:
    left_out = len(value) - _MAX_TEXT
    shown = escape(escaped(value[:_MAX_TEXT]))
    more = Markup('<span class="j-more">… {:,} more characters</span>').format(left_out) if left_out > 0 else Markup()
    return Markup('<span class="j-text">{}{}</span>').format(shown, more)
