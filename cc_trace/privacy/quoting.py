"""Quotes a wrong value safely in an error message."""

from __future__ import annotations

from typing import Final

from cc_trace.privacy.redactor import Redactor

_LONGEST: Final = 60  # characters


def quoted(text: str) -> str:
    """Return a value in quotes, without secrets and shortened: it may be a misplaced key."""
    masked = Redactor().text(text)
    return repr(masked if len(masked) <= _LONGEST else f"{masked[:_LONGEST]}…")
