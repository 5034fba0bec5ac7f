"""What a program printed to a terminal, as HTML: colours become classes, every other escape sequence is dropped.

Rule: the result has text and `<span class="…">` with class names of this module, nothing else.
"""

from __future__ import annotations

import re
from typing import Final

from markupsafe import Markup, escape

from cc_trace.escapes import escaped
from cc_trace.store import SEQUENCE, overwritten, plain

__all__ = ["plain", "to_html"]

_NAMES: Final = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
_STYLES: Final = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}
_ENDS: Final = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("inverse",), 29: ("strike",)}
_EXTENDED: Final = (38, 48)
_CUBE_START: Final = 16
_GREY_START: Final = 232


def to_html(text: str) -> Markup:
    """Return a terminal's output as HTML. An overwritten line has its final text."""
    made: list[str] = []
    state: dict[str, str] = {}  # "fg", "bg" and the styles -> class
    place = 0
    text = overwritten(text)
    for found in SEQUENCE.finditer(text):
        _append(made, text[place : found.start()], state)
        place = found.end()
        if found[1] is not None:
            _apply(found[1], state)
    _append(made, text[place:], state)
    return Markup("".join(made))  # noqa: S704  (each text is escaped, each class is ours)


def _append(made: list[str], text: str, state: dict[str, str]) -> None:
    if not text:
        return
    safe = str(escape(escaped(text)))
    classes = " ".join(state.values())
    made.append(f'<span class="{classes}">{safe}</span>' if classes else safe)


def _apply(codes: str, state: dict[str, str]) -> None:
    """Apply one sequence of colours and styles. Unknown codes are ignored."""
    numbers = [int(code) if code and len(code) < 4 else 0 for code in re.split("[;:]", codes)]  # noqa: PLR2004
    while numbers:
        code = numbers.pop(0)
        if code == 0:
            state.clear()
        elif code in _STYLES:
            state[_STYLES[code]] = f"ansi-{_STYLES[code]}"
        elif code in _ENDS:
            for style in _ENDS[code]:
                state.pop(style, None)
        elif code in _EXTENDED:
            name = _extended(numbers)
            if name is not None:
                _set(state, "fg" if code == _EXTENDED[0] else "bg", name)
        else:
            _colour(code, state)


def _colour(code: int, state: dict[str, str]) -> None:
    tens, unit = divmod(code, 10)
    layer = {3: "fg", 9: "fg", 4: "bg", 10: "bg"}.get(tens)
    if layer is None:
        return
    if unit < len(_NAMES):
        _set(state, layer, ("bright-" if tens in (9, 10) else "") + _NAMES[unit])
    elif unit == 9:  # noqa: PLR2004  (39 and 49: the default)
        state.pop(layer, None)


def _set(state: dict[str, str], layer: str, name: str) -> None:
    state[layer] = f"ansi-{layer}-{name}"


def _extended(numbers: list[int]) -> str | None:
    """Return the nearest of the sixteen colours to one of 256 or 16 million, taking its numbers."""
    if numbers[:1] == [5] and len(numbers) > 1:
        _, number = numbers.pop(0), numbers.pop(0)
        if number < len(_NAMES):
            return _NAMES[number]
        if number < _CUBE_START:
            return f"bright-{_NAMES[number - len(_NAMES)]}"
        if number >= _GREY_START:
            level = (number - _GREY_START) * 10 + 8
            return _nearest(level, level, level)
        red, rest = divmod(number - _CUBE_START, 36)
        green, blue = divmod(rest, 6)
        return _nearest(red * 51, green * 51, blue * 51)
    if numbers[:1] == [2] and len(numbers) > 3:  # noqa: PLR2004  (2;R;G;B)
        _, red, green, blue = (numbers.pop(0) for _ in range(4))
        return _nearest(red, green, blue)
    return None


def _nearest(red: int, green: int, blue: int) -> str:
    strongest = max(red, green, blue)
    if strongest < 48:  # noqa: PLR2004
        return "black"
    bits = sum(1 << place for place, part in enumerate((red, green, blue)) if part * 2 > strongest)
    return ("bright-" if strongest > 200 else "") + _NAMES[bits]  # noqa: PLR2004
