"""`cc-trace view`: the sessions of this machine as pages in the browser, live.

The pages read an index, a private SQLite file that is made from the transcripts and can be deleted at any time. What is
in it has passed through `privacy`. Starlette and all else that only pages need is imported here and nowhere else.
"""

from __future__ import annotations

from cc_trace.view.server import serve

__all__ = ["serve"]
