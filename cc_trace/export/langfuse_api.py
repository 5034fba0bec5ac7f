"""Langfuse's API, through its own package: what it has, whose project it is, removing a trace, prices, scores, media.

Rules:
- Imported only when one of these is wanted: the package takes as long to import as all the rest of a sync.
- Only `langfuse.api` is used. The package's tracing is not: it needs newer servers, and cannot say how sending ended.
- Every request goes over our own `HttpClient`, so proxies, certificates and the time limit are those of the spans.
- Nothing is sent again from here, and nothing raises for what a server or the network does: that is a `Failure`.
"""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, TypeVar

import httpx
from langfuse.api import LangfuseAPI
from langfuse.api.core.api_error import ApiError

from cc_trace.export.http import HttpClient
from cc_trace.export.responses import HttpResponse, cleaned, phrase

if TYPE_CHECKING:
    from collections.abc import Callable

    from langfuse.api.core.request_options import RequestOptions

    from cc_trace.export.destination import DestinationSettings

_T = TypeVar("_T")
_PAGE: Final = 1000  # observations; the most it gives at once
_MAX_PAGES: Final = 1000
_ONCE: Final[RequestOptions] = {"max_retries": 0}
# Headers that our client makes itself.
_OWN: Final = frozenset({"host", "connection", "content-length", "accept-encoding", "user-agent"})
_NOT_OFFERED: Final = (
    HTTPStatus.FORBIDDEN,
    HTTPStatus.NOT_FOUND,
    HTTPStatus.METHOD_NOT_ALLOWED,
    HTTPStatus.NOT_IMPLEMENTED,
)


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a question has no answer, in a line that repeats no key and no web page."""

    message: str
    status: int | None = None

    @property
    def is_final(self) -> bool:
        """Tell whether this server never answers that: asking again is no use."""
        return self.status in _NOT_OFFERED


class LangfuseApi:
    """The API of one project. It keeps one connection."""

    def __init__(self, settings: DestinationSettings, base: str, secret_values: frozenset[str]) -> None:
        self._secret_values = secret_values
        self._http = HttpClient(settings, base, secret_values)
        self._api = LangfuseAPI(
            base_url=base,
            username=settings.public_key,
            password=settings.secret_key,
            headers=dict(settings.headers),
            httpx_client=httpx.Client(transport=_Transport(self._http), trust_env=False),
        )

    def observation_ids(self, trace_id: str) -> set[str] | Failure:
        """Return the ids of a trace's observations; a Failure if any page of them does not come."""
        found: set[str] = set()
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = self._asked(
                lambda cursor=cursor: self._api.observations.get_many(  # type: ignore[misc]
                    trace_id=trace_id, fields="core", limit=_PAGE, cursor=cursor, request_options=_ONCE
                )
            )
            if isinstance(page, Failure):
                return page
            found |= {row.id for row in page.data}
            cursor = page.meta.cursor
            if not cursor:
                return found
        return Failure("it has more pages than can be read")

    def project(self) -> str | Failure:
        """Return the name of the project that the keys belong to."""
        found = self._asked(lambda: self._api.projects.get(request_options=_ONCE))
        if isinstance(found, Failure):
            return found
        return cleaned(found.data[0].name, self._secret_values) if found.data else Failure("it names no project")

    def remove_trace(self, trace_id: str) -> Failure | None:
        """Ask for a trace to be removed, which takes some seconds; return why it was not taken up."""
        found = self._asked(lambda: self._api.trace.delete(trace_id, request_options=_ONCE))
        return found if isinstance(found, Failure) else None

    def close(self) -> None:
        """Let go of the connection."""
        self._http.close()

    def _asked(self, question: Callable[[], _T]) -> _T | Failure:
        """Return an answer, or why there is none. Answers that are not of the API's form are ValueErrors."""
        try:
            return question()
        except ApiError as error:
            status = error.status_code or 0
            said = error.body.get("message") if isinstance(error.body, dict) else None
            text = cleaned(said, self._secret_values) if isinstance(said, str) else ""
            return Failure(f"{status} {phrase(status)}" + (f": {text}" if text else ""), status)
        except httpx.HTTPError as error:
            return Failure(str(error))
        except (ValueError, TypeError, RecursionError):
            return Failure("an answer that Langfuse is not known to give")


class _Transport(httpx.BaseTransport):
    """Lets httpx send over our own client."""

    def __init__(self, client: HttpClient) -> None:
        self._client = client

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; without a response it is a TransportError with our own words."""
        headers = [(name, value) for name, value in request.headers.items() if name.lower() not in _OWN]
        response = self._client.request(request.method, str(request.url), headers, request.read() or None)
        if not isinstance(response, HttpResponse):
            raise httpx.TransportError(response.message)
        if not response.complete:
            message = "the answer broke off"
            raise httpx.TransportError(message)
        return httpx.Response(response.status, headers={"content-type": response.content_type}, content=response.body)
