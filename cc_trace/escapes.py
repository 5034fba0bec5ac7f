"""Control characters, and those that change the direction of writing, made visible: no text drives a terminal."""

from __future__ import annotations

# C0 but for tab and newline, DEL, C1, and what marks or overrides the direction.
_UNSAFE = (
    *(code for code in range(0x20) if code not in b"\t\n"),
    *range(0x7F, 0xA0),
    *(0x061C, 0x200E, 0x200F),
    *range(0x202A, 0x202F),
    *range(0x2066, 0x206A),
)
_ESCAPES = {code: f"\\u{code:04x}" for code in _UNSAFE}


def escaped(text: str) -> str:
    r"""Return a text with its control characters as escapes, such as `\u001b`."""
    return text.translate(_ESCAPES)
