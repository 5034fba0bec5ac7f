"""Whether everything works: one check after another, each with a verdict and, unless all is well, a fix.

Rules: a check changes nothing but the spans it sends to prove a destination; it runs nothing that only a project's own
files name; it never raises. Only what a user can act on or wants to know is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from cc_trace.doctor import (
    configuration,
    deliveries,
    destinations,
    hook_run,
    registration,
    state_folder,
    transcripts,
)
from cc_trace.doctor.check import Check, failed, run_check
from cc_trace.doctor.configuration import secret_values
from cc_trace.doctor.subject import Subject

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Check", "Subject", "check_all", "failed", "secret_values"]

# The state folder comes before the destinations, which send a test span into it.
_CHECKS: Final = (
    registration.settings_json,
    registration.hook,
    registration.hook_events,
    registration.hooks_enabled,
    hook_run.hook_run,
    hook_run.python,
    configuration.configuration,
    configuration.config_file,
    configuration.keys,
    state_folder.state_folder,
    state_folder.hooks_state_folder,
    state_folder.spool,
    state_folder.log,
    state_folder.put_aside,
    state_folder.ledger,
    destinations.destinations,
    deliveries.deliveries,
    deliveries.locks,
    transcripts.transcripts,
    transcripts.last_run,
    transcripts.line_types,
    transcripts.clock,
)


def check_all(subject: Subject) -> Iterator[Check]:
    """Make every check."""
    for check in _CHECKS:
        yield from run_check(check, subject)
