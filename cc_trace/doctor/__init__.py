"""Whether everything works: one check after another, each with a verdict and what to do about it."""

from __future__ import annotations

from cc_trace.doctor.check import Check, Subject, failed, run_check
from cc_trace.doctor.configuration import secret_values

__all__ = [
    "Check",
    "Subject",
    "failed",
    "run_check",
    "secret_values",
]
