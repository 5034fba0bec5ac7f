"""What is known of all sessions of this machine, in one SQLite file that answers questions.

It is made from the transcripts and brought up to date by whoever asks. What is in it has passed through `privacy`;
sessions that are off, excluded or suppressed are not in it.
"""

from __future__ import annotations

from cc_trace.store import insights, lists, questions
from cc_trace.store.store import Store, store_path
from cc_trace.store.terminal import SEQUENCE, overwritten, plain

__all__ = ["SEQUENCE", "Store", "insights", "lists", "overwritten", "plain", "questions", "store_path"]
