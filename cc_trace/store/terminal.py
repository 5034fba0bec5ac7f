"""What a program printed to a terminal, as plain text."""

from __future__ import annotations

import re
from typing import Final

from cc_trace.escapes import escaped

# SGR; other CSI; OSC, DCS, SOS, PM and APC with all they carry, also unfinished; any other escape of two characters.
SEQUENCE: Final = re.compile(
    r"\x1b\[([0-9;:]{0,64})m"
    r"|\x1b\[[0-?]{0,64}[ -/]{0,8}[@-~]?"
    r"|\x1b[\]PX^_][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)?"
    r"|\x1b[ -/]{0,4}[0-~]?"
)

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tabs and line feeds


def plain(text: str) -> str:
    """Return a terminal's output without its escape sequences."""
    return escaped(SEQUENCE.sub("", overwritten(text)))


def searchable(text: str) -> str:
    """Return a terminal's output as words to search for, also those that were overwritten."""
    return _CONTROL.sub(" ", SEQUENCE.sub("", text) if "\x1b" in text else text)


def overwritten(text: str) -> str:
    """Return a terminal's output with the final text of each overwritten line."""
    if "\r" not in text:
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] if "\r" in line else line for line in lines)
