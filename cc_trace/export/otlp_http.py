"""Any OTLP endpoint over HTTP, with protobuf or JSON; compressed with gzip, unless it is on this machine."""

from __future__ import annotations

import time
import zlib
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from cc_trace.export.encoding import OtlpDestination
from cc_trace.export.endpoint import headers, is_loopback, metrics_url, secrets, traces_url
from cc_trace.export.http import HttpClient
from cc_trace.export.responses import HttpResponse, http_outcome, otlp_success

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.outcomes import EncodedSpan, Outcome
    from cc_trace.export.responses import Success

_OWN: Final = frozenset({"content-type", "content-encoding", "content-length", "transfer-encoding"})
_GZIP: Final = 31  # zlib's window bits for the format of gzip, without a time: the same spans give the same bytes
_LEVEL: Final = 2  # two thirds of the time of level 4, for a tenth more bytes


class OtlpHttp(OtlpDestination):
    """Posts batches of spans. Backends may store a span twice if it is sent twice, and cannot be queried."""

    def __init__(
        self, settings: DestinationSettings, client: HttpClient | None = None, success: Success = otlp_success
    ) -> None:
        json = settings.protocol == "http/json"
        super().__init__(settings, "json" if json else "protobuf")
        self._success = success
        self._url = traces_url(settings)
        self._headers = [
            *((name, value) for name, value in headers(settings) if name.lower() not in _OWN),
            ("content-type", "application/json" if json else "application/x-protobuf"),
        ]
        self._compressed = not is_loopback(urlsplit(self._url).hostname or "")
        if self._compressed:
            self._headers.append(("content-encoding", "gzip"))
        self.metrics = settings.metrics
        self._metrics_url = metrics_url(settings) if self.metrics is not None else ""
        self._secret_values = secrets(settings)
        self._client = client or HttpClient(settings, self._url, self._secret_values)

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        """Post one batch."""
        return self._post(self._url, self._encoder.body(batch), self._success)

    def send_metrics(self, counts: Mapping[str, list[float]], start_ns: int, end_ns: int, session_id: str) -> Outcome:
        """Post a session's counts."""
        body = self._encoder.metrics_body(counts, self.metrics or "delta", start_ns, end_ns, session_id)
        return self._post(self._metrics_url, body, otlp_success)

    def _post(self, url: str, data: bytes, success: Success) -> Outcome:
        body = zlib.compress(data, _LEVEL, _GZIP) if self._compressed else data
        response = self._client.post(url, self._headers, body)
        if not isinstance(response, HttpResponse):
            return response
        return http_outcome(response, self._secret_values, time.time(), success)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()
