"""Every span exactly once: state per session, a ledger over all sessions, the sync, the sweep and the worker."""

from __future__ import annotations

from cc_trace.delivery.agent_deliveries import AgentDeliveries, AgentListing
from cc_trace.delivery.app import Workplace
from cc_trace.delivery.cursor import Progress, SessionState
from cc_trace.delivery.deliver import Advance
from cc_trace.delivery.forks import left_out_for
from cc_trace.delivery.history import Past, a_session, oldest_taken, past_sessions, since_seconds, waiting
from cc_trace.delivery.index import IndexRow
from cc_trace.delivery.ledger import Ledger, open_ledger
from cc_trace.delivery.liveness import seen_in
from cc_trace.delivery.payload import Payload, parse_payload
from cc_trace.delivery.requests import SyncRequest
from cc_trace.delivery.state import States
from cc_trace.delivery.sweep import MAX_SESSIONS, MAX_UNKNOWN, is_behind, left_behind, main_transcripts, newest
from cc_trace.delivery.sync import WRITTEN_WHILE_OFF, Caller, Report, Sync
from cc_trace.delivery.worker import run_worker, take_spool

__all__ = [
    "MAX_SESSIONS",
    "MAX_UNKNOWN",
    "WRITTEN_WHILE_OFF",
    "Advance",
    "AgentDeliveries",
    "AgentListing",
    "Caller",
    "IndexRow",
    "Ledger",
    "Past",
    "Payload",
    "Progress",
    "Report",
    "SessionState",
    "States",
    "Sync",
    "SyncRequest",
    "Workplace",
    "a_session",
    "is_behind",
    "left_behind",
    "left_out_for",
    "main_transcripts",
    "newest",
    "oldest_taken",
    "open_ledger",
    "parse_payload",
    "past_sessions",
    "run_worker",
    "seen_in",
    "since_seconds",
    "take_spool",
    "waiting",
]
