"""Langfuse, over its OTLP endpoint.

Langfuse counts a span that it gets twice as two, so after an unclear outcome it is asked what it has. It takes spans
into a queue first: what it accepted can be read after some seconds. An answer that a span is not there is therefore
only worth something a while after it was sent; an answer that it is there is always true.
"""

from __future__ import annotations

import base64
import json
import time
from dataclasses import replace
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode, urlunsplit

from cc_trace.errors import ConfigError
from cc_trace.export.destination import LANGFUSE_CLOUD
from cc_trace.export.endpoint import headers, url
from cc_trace.export.otlp_http import OtlpHttp
from cc_trace.export.responses import HttpResponse, langfuse_success

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.outcomes import EncodedSpan

_PAGE: Final = 1000  # the most it gives at once
_MAX_PAGES: Final = 1000
_NOT_OFFERED: Final = (
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)


class Langfuse(OtlpHttp):
    """Sends with the langfuse profile, and can be asked what it has."""

    queryable = True

    def __init__(self, settings: DestinationSettings) -> None:
        base, basic = _base(settings), _basic(settings)
        settings = replace(
            settings,
            profile="langfuse",
            protocol="http/protobuf",
            traces_endpoint=f"{base}/api/public/otel/v1/traces",
            headers=(
                *settings.headers,
                ("authorization", basic),
                ("x-langfuse-ingestion-version", "4"),  # without it what was sent shows after minutes
            ),
        )
        super().__init__(settings, success=langfuse_success)
        self._observations = f"{base}/api/public/v2/observations"
        self._query_headers = list(headers(settings))

    def stored_ids(
        self, batch: Sequence[EncodedSpan], attempts: int = 1, pause_seconds: float = 2.0
    ) -> frozenset[str] | None:
        """Return which of these Langfuse has, asked until it has all or as often as allowed."""
        wanted = {encoded.span_id for encoded in batch}
        found: set[str] = set()
        for attempt in range(attempts):
            if attempt:
                time.sleep(pause_seconds)
            for trace_id in sorted({encoded.trace_id for encoded in batch if encoded.span_id not in found}):
                if (ids := self._of_trace(trace_id)) is None:
                    return None
                found |= ids & wanted
            if found == wanted:
                break
        return frozenset(found)

    def _of_trace(self, trace_id: str) -> set[str] | None:
        """Return the ids of a trace's observations, None if any page of them does not come."""
        found: set[str] = set()
        query = {"traceId": trace_id, "fields": "core", "limit": str(_PAGE)}
        for _ in range(_MAX_PAGES):
            answer = self._client.get(f"{self._observations}?{urlencode(query)}", self._query_headers)
            if isinstance(answer, HttpResponse) and answer.status in _NOT_OFFERED:
                self.queryable = False  # this server never tells, so waiting for it would hold up everything
            if not isinstance(answer, HttpResponse) or answer.status != HTTPStatus.OK:
                return None
            try:
                page: Any = json.loads(answer.body)
            except ValueError:
                return None
            match page:
                case {"data": list(rows), **more}:
                    found |= {row["id"] for row in rows if isinstance(row, dict) and isinstance(row.get("id"), str)}
                case _:
                    return None
            match more.get("meta"):
                case {"cursor": str(cursor)} if cursor:
                    query["cursor"] = cursor
                case _:
                    return found
        return None


def _base(settings: DestinationSettings) -> str:
    """Return the server's URL, also where its OTLP endpoint was given for it."""
    parts = url(settings, settings.endpoint or LANGFUSE_CLOUD)
    path = parts.path.rstrip("/").removesuffix("/v1/traces").removesuffix("/api/public/otel")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def _basic(settings: DestinationSettings) -> str:
    for name, key in (("LANGFUSE_PUBLIC_KEY", settings.public_key), ("LANGFUSE_SECRET_KEY", settings.secret_key)):
        if not key:
            message = f"{name} is not set, and destination {settings.name} needs it"
            raise ConfigError(message)
    return "Basic " + base64.b64encode(f"{settings.public_key}:{settings.secret_key}".encode()).decode()
