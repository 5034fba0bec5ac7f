"""A wrong value as an error may repeat it."""

from __future__ import annotations

from typing import Final

from cc_trace.privacy.redactor import Redactor

_LONGEST: Final = 60  # characters


def quoted(text: str) -> str:
    """Return a value in quotes, without secrets, and not whole if it is long: a key may have been put there."""
    masked = Redactor().text(text)
    return repr(masked if len(masked) <= _LONGEST else f"{masked[:_LONGEST]}…")
