"""Langfuse's API, through its own package: stored spans, project, removing a trace, prices, scores, media.

Rules:
- Imported only when needed: importing the package takes as long as all the rest of a sync.
- Only `langfuse.api` is used. The package's tracing is not: it needs newer servers, and does not report how sending
  ended.
- Every request uses our own `HttpClient`, so proxies, certificates and the time limit are the same as for spans.
- There are no retries here, and nothing raises for what a server or the network does: that is a `Failure`.
"""

from __future__ import annotations

import base64
import contextlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Literal, TypeVar
from urllib.parse import urlsplit

import httpx
from langfuse.api import LangfuseAPI
from langfuse.api.commons.types.score_data_type import ScoreDataType
from langfuse.api.core.api_error import ApiError
from langfuse.api.media.types.media_content_type import MediaContentType
from langfuse.api.scores.types.create_score_batch_results import CreateScoreBatchResults
from langfuse.api.scores.types.create_score_request import CreateScoreRequest

from cc_trace.errors import ConfigError
from cc_trace.export.http import HttpClient
from cc_trace.export.langfuse_prices import ModelPrice
from cc_trace.export.profiles.langfuse import media_id
from cc_trace.export.responses import HttpResponse, cleaned, phrase

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from langfuse.api.commons.types.model import Model
    from langfuse.api.core.request_options import RequestOptions

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.export.langfuse_scores import Score
    from cc_trace.transcript import Media

_T = TypeVar("_T")
_PAGE: Final = 1000  # observations; the most it gives at once
_MAX_PAGES: Final = 1000
_MODELS_PAGE: Final = 100  # the most it gives at once
_MAX_MODELS_PAGES: Final = 50
_SUCCESS: Final = range(200, 300)
_NOT_AN_OBJECT: Final = "the object store's address is not one of http:// or https://"
_ONCE: Final[RequestOptions] = {"max_retries": 0}
# Headers that our client sets itself.
_OWN: Final = frozenset({"host", "connection", "content-length", "accept-encoding", "user-agent"})
_NOT_OFFERED: Final = (
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a request failed, in one line without keys and without quoting a web page."""

    message: str
    status: int | None = None

    @property
    def is_final(self) -> bool:
        """Return whether this server does not support the request, so that retrying is pointless."""
        return self.status in _NOT_OFFERED


class LangfuseApi:
    """The API of one project, over one connection."""

    def __init__(self, settings: DestinationSettings, base: str, secret_values: frozenset[str]) -> None:
        self._settings, self._secret_values = settings, secret_values
        self._http = HttpClient(settings, base, secret_values)
        self._api = LangfuseAPI(
            base_url=base,
            username=settings.public_key,
            password=settings.secret_key,
            headers=dict(settings.headers),
            httpx_client=httpx.Client(transport=_Transport(self._http), trust_env=False),
        )

    def observation_ids(self, trace_id: str) -> set[str] | Failure:
        """Return the ids of a trace's observations, or a Failure if any page of them fails."""
        ids: set[str] = set()
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = self._call(
                lambda cursor=cursor: self._api.observations.get_many(  # type: ignore[misc]
                    trace_id=trace_id, fields="core", limit=_PAGE, cursor=cursor, request_options=_ONCE
                )
            )
            if isinstance(page, Failure):
                return page
            ids |= {row.id for row in page.data}
            cursor = page.meta.cursor
            if not cursor:
                return ids
        return Failure("it has more pages than can be read")

    def project(self) -> str | Failure:
        """Return the name of the project that the keys belong to."""
        projects = self._call(lambda: self._api.projects.get(request_options=_ONCE))
        if isinstance(projects, Failure):
            return projects
        return cleaned(projects.data[0].name, self._secret_values) if projects.data else Failure("it names no project")

    def remove_trace(self, trace_id: str) -> Failure | None:
        """Request the removal of a trace, which takes some seconds; return a Failure if it was not accepted."""
        result = self._call(lambda: self._api.trace.delete(trace_id, request_options=_ONCE))
        return result if isinstance(result, Failure) else None

    def prices(self) -> list[ModelPrice] | Failure:
        """Return the server's prices, the newest first."""
        models: list[Model] = []
        for page in range(1, _MAX_MODELS_PAGES + 1):
            response = self._call(
                lambda page=page: self._api.models.list(  # type: ignore[misc]
                    page=page, limit=_MODELS_PAGE, request_options=_ONCE
                )
            )
            if isinstance(response, Failure):
                return response
            models += response.data
            if page >= response.meta.total_pages:
                break
        models.sort(key=_effective_from, reverse=True)
        return [_price(model) for model in models]

    def add_scores(self, scores: Sequence[Score], environment: str | None) -> Failure | None:
        """Write scores, replacing those with the same ids; return a Failure if any was not accepted."""
        rows = [_row(score, environment) for score in scores]
        result = self._call(lambda: self._api.scores.create(request=rows, request_options=_ONCE))
        if isinstance(result, Failure):
            # Older servers have no batches of scores: send them one at a time.
            return self._add_one_by_one(rows) if result.status == HTTPStatus.BAD_REQUEST else result
        if isinstance(result, CreateScoreBatchResults) and result.rejected:
            reason = (
                cleaned(result.errors[0].message, self._secret_values) if result.errors else "without giving a reason"
            )
            return Failure(f"{result.rejected} of {len(rows)} scores were rejected: {reason}")
        return None

    def _add_one_by_one(self, rows: Sequence[CreateScoreRequest]) -> Failure | None:
        for row in rows:
            result = self._call(
                lambda row=row: self._api.scores.create(request=row, request_options=_ONCE)  # type: ignore[misc]
            )
            if isinstance(result, Failure):
                return result
        return None

    def upload(self, media: Media, trace_id: str, span_id: str, field: Literal["input", "output"]) -> Failure | None:
        """Upload an image or document, unless the server has it; return a Failure if that failed."""
        hashed = base64.b64encode(media.sha256).decode()
        response = self._call(
            lambda: self._api.media.get_upload_url(
                content_type=MediaContentType(media.content_type),
                content_length=media.size,
                sha256hash=hashed,
                field=field,
                trace_id=trace_id,
                observation_id=span_id,
                request_options=_ONCE,
            )
        )
        if isinstance(response, Failure):
            return response
        if response.media_id != media_id(media):
            return Failure("the server uses unexpected ids for media")
        if not response.upload_url:
            return None
        if (content := media.read()) is None:
            return Failure("it is no longer in the transcript")
        start = time.monotonic()
        result = self._put(response.upload_url, content, media.content_type, hashed)
        if isinstance(result, Failure) and result.status is None:
            return result
        status = result.status if isinstance(result, Failure) else result
        reported = self._call(
            lambda: self._api.media.patch(
                response.media_id,
                uploaded_at=datetime.now(UTC),
                upload_http_status=status or 0,
                upload_http_error=result.message if isinstance(result, Failure) else None,
                upload_time_ms=int((time.monotonic() - start) * 1000),
                request_options=_ONCE,
            )
        )
        return result if isinstance(result, Failure) else reported

    def _put(self, url: str, content: bytes, kind: str, hashed: str) -> int | Failure:
        """Upload content to the server's URL, which may carry a signature; return the status, or a Failure."""
        headers = [("content-type", kind)]
        if "storage.googleapis.com" not in url:  # it rejects unknown headers
            headers += [("x-ms-blob-type", "BlockBlob"), ("x-amz-checksum-sha256", hashed)]
        try:
            if urlsplit(url).scheme not in ("http", "https"):
                return Failure(_NOT_AN_OBJECT)
            store = HttpClient(self._settings, url, self._secret_values)
            with contextlib.closing(store):
                response = store.request("PUT", url, headers, content)
        except (ConfigError, ValueError):
            return Failure(_NOT_AN_OBJECT)
        if not isinstance(response, HttpResponse):
            return Failure(response.message)
        if response.status not in _SUCCESS:
            return Failure(f"the object store answered {response.status} {phrase(response.status)}", response.status)
        return response.status

    def close(self) -> None:
        """Close the connection."""
        self._http.close()

    def _call(self, call: Callable[[], _T]) -> _T | Failure:
        """Return the result of an API call, or a Failure. Malformed responses are ValueErrors."""
        try:
            return call()
        except ApiError as error:
            status = error.status_code or 0
            message = error.body.get("message") if isinstance(error.body, dict) else None
            text = cleaned(message, self._secret_values) if isinstance(message, str) else ""
            return Failure(f"{status} {phrase(status)}" + (f": {text}" if text else ""), status)
        except httpx.HTTPError as error:
            return Failure(str(error))
        except (ValueError, TypeError, RecursionError):
            return Failure("an unexpected answer")


def _row(score: Score, environment: str | None) -> CreateScoreRequest:
    time_ns = score.time_ns
    optional = {
        "observation_id": score.span_id,
        "environment": environment,
        "timestamp": None if time_ns is None else datetime.fromtimestamp(time_ns // 10**6 / 1000, UTC),
    }
    return CreateScoreRequest(
        id=score.id,
        trace_id=score.trace_id,
        name=score.name,
        value=score.value,
        data_type=ScoreDataType(score.kind),
        **{name: value for name, value in optional.items() if value is not None},  # type: ignore[arg-type]
    )


def _effective_from(model: Model) -> float:
    """Return when a model's price takes effect. A date without a zone is UTC."""
    date = model.start_date
    return 0.0 if date is None else (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _price(model: Model) -> ModelPrice:
    tiers = model.pricing_tiers
    default = next((tier.prices for tier in tiers if tier.is_default), {})
    return ModelPrice(
        model.match_pattern, tuple(sorted({*model.prices, *default})), len(tiers) > 1, not model.is_langfuse_managed
    )


class _Transport(httpx.BaseTransport):
    """Makes httpx send through our own client."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Without a response it raises a TransportError with our own message."""
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _OWN]
        response = self._client.request(request.method, str(request.url), headers, request.read() or None)
        if not isinstance(response, HttpResponse):
            raise httpx.TransportError(response.message)
        if not response.complete:
            message = "the response was cut off"
            raise httpx.TransportError(message)
        return httpx.Response(response.status, headers={"content-type": response.content_type}, content=response.body)
