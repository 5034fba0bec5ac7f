"""The result of syncing one session, for the command that asked for it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Final

WRITTEN_WHILE_OFF: Final = "it was written to while tracing was off"  # so the session stays suppressed
SENT_BY_ANOTHER: Final = "another session is sending the same spans"  # a fork of it, or its origin


@dataclass(slots=True)
class Report:
    """The result of syncing one session."""

    session_id: str
    sent: dict[str, int] = field(default_factory=dict)
    pending: dict[str, str] = field(default_factory=dict)  # destination -> why
    locked: bool = False  # another process is syncing it
    why_off: str | None = None  # why it is not traced
    turns: dict[str, int] = field(default_factory=dict)  # destination -> turns whose root was sent
    refused: Counter[str] = field(default_factory=Counter)  # why -> spans that a backend will never take

    def after(self, before: Report) -> Report:
        """Return this report added to that of an earlier sync of the same session."""
        sent, turns = Counter(before.sent), Counter(before.turns)
        sent.update(self.sent)
        turns.update(self.turns)
        return replace(self, sent=sent, turns=turns, refused=before.refused + self.refused)

    @property
    def waits_for_other_session(self) -> bool:
        """Return whether everything pending is currently being sent by another session."""
        return bool(self.pending) and set(self.pending.values()) == {SENT_BY_ANOTHER}

    @property
    def complete(self) -> bool:
        """Return whether nothing is pending."""
        return not self.pending and not self.locked
