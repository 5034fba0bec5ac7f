"""Langfuse, over its OTLP endpoint.

Langfuse stores a span twice if it is sent twice, so after an unclear outcome it is queried for the spans it has. It
queues spans first, so an accepted span can be read only some seconds later: until then, a missing span proves nothing.

Images and scores are sent before their spans: if the process dies in between, both are sent again, with the same ids.
They never block a delivery. In place of an image that cannot be uploaded, its description is sent. After one failure
this process uploads nothing more.
"""

from __future__ import annotations

import base64
import time
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, TypeAlias
from urllib.parse import urlunsplit

from cc_trace.errors import ConfigError
from cc_trace.export.destination import LANGFUSE_CLOUD
from cc_trace.export.endpoint import url
from cc_trace.export.otlp_http import OtlpHttp
from cc_trace.export.outcomes import EncodedSpan
from cc_trace.export.profiles.langfuse import Additions, attributes, environment, model_name
from cc_trace.export.responses import langfuse_success
from cc_trace.transcript import media_digests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.langfuse_api import Failure, LangfuseApi
    from cc_trace.export.langfuse_prices import ModelPrice, Prices
    from cc_trace.export.langfuse_scores import Score
    from cc_trace.export.outcomes import Outcome
    from cc_trace.spans import Response, Span
    from cc_trace.transcript import JsonValue, Media

_MAX_BYTES: Final = 32_000_000  # Claude accepts no larger ones
_Field: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, slots=True)
class _SpanWithUploads(EncodedSpan):
    """A span with the uploads and scores that precede it."""

    uploads: tuple[tuple[_Field, Media], ...]
    data_without_uploads: bytes  # the span with descriptions in place of uploads
    scores: tuple[Score, ...]


class Langfuse(OtlpHttp):
    """Sends with the langfuse profile. Queryable."""

    queryable = True

    def __init__(self, settings: DestinationSettings) -> None:
        self._base, basic = server_url(settings), _basic(settings)
        self._settings = settings
        self._api: LangfuseApi | None = None
        self._prices: Prices | None = None
        self._extras_disabled = False  # no more uploads and scores, since one failed
        self._uploaded: set[tuple[bytes, str]] = set()  # content and span
        self._scored: set[str] = set()
        settings = replace(
            settings,
            profile="langfuse",
            protocol="http/protobuf",
            traces_endpoint=f"{self._base}/api/public/otel/v1/traces",
            headers=(
                *settings.headers,
                ("authorization", basic),
                ("x-langfuse-ingestion-version", "4"),  # without it, spans show up only after minutes
            ),
        )
        super().__init__(settings, success=langfuse_success)

    @property
    def api(self) -> LangfuseApi:
        """Return the API of the same project. The first use imports Langfuse's package."""
        if self._api is None:
            from cc_trace.export.langfuse_api import LangfuseApi  # noqa: PLC0415  (150 ms, and few syncs ask)

            self._api = LangfuseApi(self._settings, self._base, self._secret_values)
        return self._api

    def encode_with_turn(
        self, span: Span, turn: Sequence[Span], find: Callable[[str], Media | None], *, may_query: bool
    ) -> EncodedSpan:
        """Return a span with our cost if the server has no price, its images, and a turn's scores."""
        cost_usd = self._cost(span.response, may_query=may_query) if span.response is not None else None
        uploads = tuple(_mentioned_media(span, find)) if self._settings.media else ()
        without_uploads = self._encoder.encode(span, partial(attributes, additions=Additions(cost_usd)))
        scores = self._scores(span, turn)
        if not uploads and not scores:
            return without_uploads
        encoded = without_uploads
        if uploads:
            additions = Additions(cost_usd, {media.digest: media for _, media in uploads})
            encoded = self._encoder.encode(span, partial(attributes, additions=additions))
        size = max(without_uploads.size, encoded.size)
        return _SpanWithUploads(span.span_id, span.trace_id, size, encoded.data, uploads, without_uploads.data, scores)

    def send(self, batch: Sequence[EncodedSpan]) -> Outcome:
        """Send the uploads and scores of these spans, then post them."""
        self._add_scores(batch)
        deadline = time.monotonic() + self._settings.timeout_seconds
        return super().send([self._with_uploads(encoded, deadline) for encoded in batch])

    def _with_uploads(self, encoded: EncodedSpan, deadline: float) -> EncodedSpan:
        """Upload a span's images and documents; return it, without them if that fails or takes too long."""
        if not isinstance(encoded, _SpanWithUploads) or not encoded.uploads:
            return encoded
        for field, media in encoded.uploads:
            key = (media.sha256, encoded.span_id)
            if key in self._uploaded:
                continue
            if self._extras_disabled or time.monotonic() > deadline:
                return replace(encoded, data=encoded.data_without_uploads)
            failure = self.api.upload(media, encoded.trace_id, encoded.span_id, field)
            if failure is not None:
                self._extras_disabled = True
                return replace(encoded, data=encoded.data_without_uploads)
            self._uploaded.add(key)
        return encoded

    def _scores(self, span: Span, turn: Sequence[Span]) -> tuple[Score, ...]:
        if not self._settings.scores or span.kind != "turn":
            return ()
        from cc_trace.export.langfuse_scores import scores  # noqa: PLC0415  (few want them)

        return scores(span, turn)

    def _add_scores(self, batch: Sequence[EncodedSpan]) -> None:
        with_scores = [encoded for encoded in batch if isinstance(encoded, _SpanWithUploads) and encoded.scores]
        new = [encoded for encoded in with_scores if encoded.span_id not in self._scored]
        scores = [score for encoded in new for score in encoded.scores]
        if scores and not self._extras_disabled:
            self._extras_disabled = self.api.add_scores(scores, environment(self._settings.labels)) is not None
            self._scored.update(encoded.span_id for encoded in new)

    def _cost(self, response: Response, *, may_query: bool) -> float | None:
        """Return the cost to send for a response, or None if the server prices it or the price is unknown."""
        usage, model, cost_usd = response.usage, response.model, response.cost_usd
        if cost_usd is None or usage is None or model is None or self._settings.cost == "server":
            return None
        if self._settings.cost == "local":
            return cost_usd
        if self._prices is None:
            from cc_trace.export.langfuse_prices import Prices  # noqa: PLC0415  (only for costs that are missing)

            project = f"{self._base} {self._settings.public_key}"
            self._prices = Prices(self._settings.cache, project, self._query_prices, time.time)
        is_missing = self._prices.is_missing(model_name(model), usage, response.first_token_ns, may_query=may_query)
        return cost_usd if is_missing else None

    def _query_prices(self) -> list[ModelPrice] | Failure:
        return self.api.prices()

    def stored_ids(
        self, batch: Sequence[EncodedSpan], attempts: int = 1, pause_seconds: float = 2.0
    ) -> frozenset[str] | None:
        """Return which of these Langfuse has. It is queried until it has all, at most `attempts` times."""
        batch_ids = {encoded.span_id for encoded in batch}
        stored: set[str] = set()
        for attempt in range(attempts):
            if attempt:
                time.sleep(pause_seconds)
            for trace_id in sorted({encoded.trace_id for encoded in batch if encoded.span_id not in stored}):
                ids = self.api.observation_ids(trace_id)
                if not isinstance(ids, set):
                    if ids.is_final:
                        self.queryable = False  # this server never answers: waiting for it would block everything
                    return None
                stored |= ids & batch_ids
            if stored == batch_ids:
                break
        return frozenset(stored)

    def close(self) -> None:
        """Close the connections."""
        super().close()
        if self._api is not None:
            self._api.close()


def server_url(settings: DestinationSettings) -> str:
    """Return the server's URL, even if its OTLP endpoint was configured instead."""
    parts = url(settings, settings.endpoint or LANGFUSE_CLOUD)
    path = parts.path.rstrip("/").removesuffix("/v1/traces").removesuffix("/api/public/otel")
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, "", ""))


def _basic(settings: DestinationSettings) -> str:
    for name, key in (("LANGFUSE_PUBLIC_KEY", settings.public_key), ("LANGFUSE_SECRET_KEY", settings.secret_key)):
        if not key:
            message = f"{name} is not set, and destination {settings.name} needs it"
            raise ConfigError(message)
    return "Basic " + base64.b64encode(f"{settings.public_key}:{settings.secret_key}".encode()).decode()


def _mentioned_media(span: Span, find: Callable[[str], Media | None]) -> Iterator[tuple[_Field, Media]]:
    """Yield the images and documents that a span shows, each once per field."""
    # A tool's input is shown as JSON, and any other output is a model's text.
    field: _Field = "output" if span.kind == "tool" else "input"
    texts = _texts(span.output if span.kind == "tool" else span.input)
    for digest in dict.fromkeys(digest for text in texts for digest in media_digests(text)):
        if (media := find(digest)) is not None and media.size <= _MAX_BYTES:
            yield field, media


def _texts(value: JsonValue) -> list[str]:
    """Return a text, or the texts of messages, as a list."""
    if isinstance(value, str):
        return [value]
    messages = value if isinstance(value, list) else []
    contents = [message.get("content") for message in messages if isinstance(message, dict)]
    return [text for text in contents if isinstance(text, str)]
