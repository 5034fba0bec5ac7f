"""Decides what may leave this machine. Every span passes through here after being built and before being encoded.

`Privacy` is called with a span and all spans of its turn. It removes content that may not leave, then masks secrets,
then cuts long texts.
"""

from __future__ import annotations

from cc_trace.privacy.content import Content, Privacy, PrivacySettings, without_text
from cc_trace.privacy.project_masks import check_masks
from cc_trace.privacy.quoting import quoted
from cc_trace.privacy.redactor import Redactor

__all__ = [
    "Content",
    "Privacy",
    "PrivacySettings",
    "Redactor",
    "check_masks",
    "quoted",
    "without_text",
]
