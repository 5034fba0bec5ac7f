"""`cc-trace view`: the sessions of this machine as pages in the browser, live.

The pages read the store, and keep it up to date from the transcripts while they are open. What is in it has passed
through `privacy`. Starlette, and everything else that only the pages need, is imported in this room alone.
"""

from __future__ import annotations

from cc_trace.view.server import serve

__all__ = ["serve"]
