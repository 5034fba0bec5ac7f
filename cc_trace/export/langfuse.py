"""Langfuse, over its OTLP endpoint.

Langfuse counts a span that it gets twice as two, so after an unclear outcome it is asked what it has. It takes spans
into a queue first: what it accepted can be read after some seconds. An answer that a span is not there is therefore
only worth something a while after it was sent; an answer that it is there is always true.
"""

from __future__ import annotations

import base64
import time
from dataclasses import replace
from typing import TYPE_CHECKING
from urllib.parse import urlunsplit

from cc_trace.errors import ConfigError
from cc_trace.export.destination import LANGFUSE_CLOUD
from cc_trace.export.endpoint import url
from cc_trace.export.otlp_http import OtlpHttp
from cc_trace.export.responses import langfuse_success

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.langfuse_api import LangfuseApi
    from cc_trace.export.outcomes import EncodedSpan


class Langfuse(OtlpHttp):
    """Sends with the langfuse profile, and can be asked what it has."""

    queryable = True

    def __init__(self, settings: DestinationSettings) -> None:
        self._base, basic = _base(settings), _basic(settings)
        self._settings = settings
        self._opened: LangfuseApi | None = None
        settings = replace(
            settings,
            profile="langfuse",
            protocol="http/protobuf",
            traces_endpoint=f"{self._base}/api/public/otel/v1/traces",
            headers=(
                *settings.headers,
                ("authorization", basic),
                ("x-langfuse-ingestion-version", "4"),  # without it what was sent shows after minutes
            ),
        )
        super().__init__(settings, success=langfuse_success)

    @property
    def api(self) -> LangfuseApi:
        """Return the API of the same project. Its first use imports Langfuse's package."""
        if self._opened is None:
            from cc_trace.export.langfuse_api import LangfuseApi  # noqa: PLC0415  (150 ms, and few syncs ask)

            self._opened = LangfuseApi(self._settings, self._base, self._secret_values)
        return self._opened

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
                ids = self.api.observation_ids(trace_id)
                if not isinstance(ids, set):
                    if ids.is_final:
                        self.queryable = False  # waiting for what this server never tells would hold up everything
                    return None
                found |= ids & wanted
            if found == wanted:
                break
        return frozenset(found)

    def close(self) -> None:
        """Let go of the connections."""
        super().close()
        if self._opened is not None:
            self._opened.close()


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
