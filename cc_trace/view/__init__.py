"""`cc-trace view`: the sessions of this machine as pages in the browser, live.

The pages read the store, and keep it up to date from the transcripts while they are open. What is in it has passed
through `privacy`. Starlette and all else that only pages need is imported here and nowhere else.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from cc_trace.view.watch import has_ended

if TYPE_CHECKING:
    from cc_trace.view.server import serve

__all__ = ["has_ended", "serve"]


def __getattr__(name: str) -> object:
    if name == "serve":  # who lists sessions does not wait for Starlette
        return import_module("cc_trace.view.server").serve
    message = f"module {__name__!r} has no attribute {name!r}"
    raise AttributeError(message)
