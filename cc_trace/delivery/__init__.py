"""Every span exactly once: state per session, a ledger over all sessions, the sync, the sweep and the worker.

How a Stop gets to its destinations:

- `worker.run_worker` opens an `app.App` and posts the hook's payload as a request (`spool`).
- `sync.Sync.handle_requests` locks the session and takes its request; it waits for the last reply (`quiet`), asks
  `liveness` whether the turn is over, and may wait for the Stop hooks of others (`other_hooks`).
- `Sync._sync_transcript` loads the session's state (`state`, `cursor`) and reads on for each destination.
- `destination_delivery.Delivery.run` claims the spans in the `ledger`, sends them, and records the outcome.
- The worker then looks for more requests, and sometimes for pending sessions (`sweep`); it updates the store
  (`store_updates`) and removes what has expired (`retention`).

Commands open an `App` too, and call `Sync.sync_session` for the sessions that they are asked for.
"""

from __future__ import annotations

from cc_trace.delivery.agent_deliveries import AgentDeliveries, AgentListing
from cc_trace.delivery.app import App
from cc_trace.delivery.cursor import Cursor, SessionState
from cc_trace.delivery.forks import suppressed_by
from cc_trace.delivery.history import (
    TranscriptFile,
    count_unsent,
    main_transcript,
    past_sessions,
    since_seconds,
)
from cc_trace.delivery.index import IndexRow
from cc_trace.delivery.ledger import Ledger, open_ledger
from cc_trace.delivery.liveness import ending_from_process, has_ended
from cc_trace.delivery.report import WRITTEN_WHILE_OFF, Report
from cc_trace.delivery.runtime import DeliveredBatch
from cc_trace.delivery.state import StateFolder
from cc_trace.delivery.store_updates import ERROR_NOTE, StoreUpdates
from cc_trace.delivery.streams import sync_stream, sync_written_since
from cc_trace.delivery.sweep import main_transcripts, pending_sessions, state_is_pending, transcripts_by_session
from cc_trace.delivery.sync import Sync
from cc_trace.delivery.worker import run_worker, take_spool

__all__ = [
    "ERROR_NOTE",
    "WRITTEN_WHILE_OFF",
    "AgentDeliveries",
    "AgentListing",
    "App",
    "Cursor",
    "DeliveredBatch",
    "IndexRow",
    "Ledger",
    "Report",
    "SessionState",
    "StateFolder",
    "StoreUpdates",
    "Sync",
    "TranscriptFile",
    "count_unsent",
    "ending_from_process",
    "has_ended",
    "main_transcript",
    "main_transcripts",
    "open_ledger",
    "past_sessions",
    "pending_sessions",
    "run_worker",
    "since_seconds",
    "state_is_pending",
    "suppressed_by",
    "sync_stream",
    "sync_written_since",
    "take_spool",
    "transcripts_by_session",
]
