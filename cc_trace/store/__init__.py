"""All sessions of this machine in one SQLite file that can be queried.

The `local` destination delivers to it, and readers first update it from the transcripts. Everything in it has
passed through `privacy`; sessions that are off, excluded or suppressed are not in it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cc_trace.store import filters, insights, lists, questions, rewrites, usage
    from cc_trace.store.delivered import (
        StoredSession,
        find_stored,
        read_from,
        read_session,
        read_titles,
        remove_traces,
        row_of,
        write_spans,
    )
    from cc_trace.store.layout import label, waits
    from cc_trace.store.notices import notice
    from cc_trace.store.schema import VERSION, connect
    from cc_trace.store.slowest import Slow, program
    from cc_trace.store.span_rows import to_json
    from cc_trace.store.store import Store, store_path
    from cc_trace.store.terminal import SEQUENCE, overwritten, plain

__all__ = [
    "SEQUENCE",
    "VERSION",
    "Slow",
    "Store",
    "StoredSession",
    "connect",
    "filters",
    "find_stored",
    "insights",
    "label",
    "lists",
    "notice",
    "overwritten",
    "plain",
    "program",
    "questions",
    "read_from",
    "read_session",
    "read_titles",
    "remove_traces",
    "rewrites",
    "row_of",
    "store_path",
    "to_json",
    "usage",
    "waits",
    "write_spans",
]

# Loaded on first use: a delivery does not wait for imports that only queries need.
_MODULES: Final = {
    "SEQUENCE": "terminal",
    "VERSION": "schema",
    "Slow": "slowest",
    "Store": "store",
    "StoredSession": "delivered",
    "connect": "schema",
    "find_stored": "delivered",
    "label": "layout",
    "notice": "notices",
    "overwritten": "terminal",
    "plain": "terminal",
    "program": "slowest",
    "read_from": "delivered",
    "read_session": "delivered",
    "read_titles": "delivered",
    "remove_traces": "delivered",
    "row_of": "delivered",
    "store_path": "store",
    "to_json": "span_rows",
    "waits": "layout",
    "write_spans": "delivered",
}


def __getattr__(name: str) -> object:
    if name in ("filters", "insights", "lists", "questions", "rewrites", "usage"):
        return import_module(f"{__name__}.{name}")
    if name not in _MODULES:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
