"""`cc-trace view`: the sessions of this machine as pages in the browser, live.

The pages read the store, and keep it up to date from the transcripts while they are open. What is in it has passed
through `privacy`. Starlette and all else that only pages need is imported here and nowhere else.
"""

from __future__ import annotations

from cc_trace.view.server import serve

__all__ = ["serve"]
