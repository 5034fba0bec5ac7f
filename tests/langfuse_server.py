"""A double of Langfuse: what it is asked and told besides spans, and the ways in which it is late.

It behaves as servers of version 4 were seen to:
- a span that comes twice is there twice;
- what was accepted is stored `stores_after` seconds later, and shown `shown_after` seconds after that, by its clock;
- a media's id follows from its content's SHA-256; the upload goes to an address that is signed, and refuses a login;
- a cost is fixed when a span is taken: the total from the span if it says one, else tokens by the server's prices;
- a score replaces the one with its id.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from backend import OK, Behaviour, HttpBackend, Request, _response

if TYPE_CHECKING:
    from collections.abc import Callable

    from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
    from opentelemetry.proto.trace.v1.trace_pb2 import Span as Message

PUBLIC, SECRET = "pk-lf-1234", "sk-lf-5678"
BASIC: Final = "Basic " + base64.b64encode(f"{PUBLIC}:{SECRET}".encode()).decode()
SONNET: Final = {
    "input": 3e-06,
    "output": 1.5e-05,
    "cache_read_input_tokens": 3e-07,
    "input_cache_creation": 3.75e-06,
    "input_cache_creation_5m": 3.75e-06,
    "input_cache_creation_1h": 6e-06,
}


def model(pattern: str, prices: dict[str, float], *, managed: bool = True, tiers: int = 1) -> dict[str, Any]:
    """A row of /api/public/models."""
    tier = {"id": "t", "name": "Standard", "isDefault": True, "priority": 0, "conditions": [], "prices": prices}
    more = {**tier, "name": "Long", "isDefault": False, "priority": 1}
    return {
        "id": pattern,
        "modelName": pattern,
        "matchPattern": pattern,
        "startDate": None,
        "unit": "TOKENS",
        "tokenizerConfig": None,
        "isLangfuseManaged": managed,
        "createdAt": "2026-01-01T00:00:00Z",
        "prices": {name: {"price": price} for name, price in prices.items()},
        "pricingTiers": [tier, *[more] * (tiers - 1)],
    }


@dataclass(slots=True)
class StoredMedia:
    """What the server knows of an upload."""

    content_type: str
    size: int
    sha256: str
    content: bytes | None = None
    uploaded: bool = False  # and somebody has said so


class LangfuseServer(HttpBackend):
    """Spans, media, scores and prices of one project."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.stores_after = self.shown_after = 0.0
        self.taken_at: list[float] = []  # of each of `spans`
        self.asking: dict[str, Behaviour] = {}  # beginning of a path -> how it behaves there
        self.models: list[dict[str, Any]] = [model("(?i)^(claude-sonnet-4-5(-20250929)?)$", SONNET)]
        self.takes_lists = True  # of scores; servers from before September 2026 take one at a time
        self.media: dict[str, StoredMedia] = {}
        self.shown_media: set[tuple[str, str, str]] = set()  # media, observation, field
        self.scores: dict[str, dict[str, Any]] = {}
        self.puts = 0
        super().__init__()
        self.authorization = None

    def asked(self, method: str, path: str) -> list[Request]:
        """The requests of this kind, in the order they came."""
        return [request for request in self.requests if request.method == method and path in request.path]

    @property
    def costs(self) -> dict[str, float]:
        """What the server says that each generation cost: once for each time it was taken."""
        return {id_: details["total"] for id_, details in self.cost_details.items()}

    @property
    def cost_details(self) -> dict[str, dict[str, float]]:
        """The same by bucket of tokens, where the server did the pricing, and in total."""
        found: dict[str, Counter[str]] = {}
        for span in self.spans:
            given = {pair.key: pair.value.string_value for pair in span.attributes}
            details = json.loads(given.get("langfuse.observation.cost_details", "{}"))
            usage = json.loads(given.get("langfuse.observation.usage_details", "{}"))
            name = given.get("langfuse.observation.model.name", "")
            price: dict[str, Any] = next((m["prices"] for m in self.models if re.search(m["matchPattern"], name)), {})
            if usage and not details:
                details = {bucket: count * price[bucket]["price"] for bucket, count in usage.items() if bucket in price}
                details["total"] = sum(details.values())
            if usage:
                found.setdefault(span.span_id.hex(), Counter()).update(details)
        return {id_: dict(costs) for id_, costs in found.items()}

    def _store(self, message: ExportTraceServiceRequest) -> None:
        super()._store(message)
        with self._lock:
            self.taken_at += [self.clock()] * (len(self.spans) - len(self.taken_at))

    def _shown(self) -> list[Message]:
        late = self.stores_after + self.shown_after
        return [span for span, at in zip(self.spans, self.taken_at, strict=True) if self.clock() - at >= late]

    def _asked(self, request: Request) -> dict[str, Any] | None:
        answer = super()._asked(request)
        if request.method == "DELETE":
            with self._lock:
                self.taken_at = self.taken_at[: len(self.spans)]
        return answer

    def _observations(self, path: str) -> dict[str, Any]:
        found, costs = super()._observations(path), self.cost_details
        rows = [
            {**row, "totalCost": costs.get(row["id"], {}).get("total"), "costDetails": costs.get(row["id"], {})}
            for row in found["data"]
        ]
        return {**found, "data": rows}

    def _doing(self, request: Request) -> Behaviour:
        for path, behaviour in self.asking.items():
            if request.path.startswith(path):
                return behaviour
        return super()._doing(request) if "/otel/" in request.path or request.method in ("GET", "DELETE") else OK

    def _answer(self, request: Request, doing: Behaviour) -> bytes:
        path = urlsplit(request.path).path
        if doing != OK and doing.kind == "answer" and not path.endswith("/v1/traces"):
            return _response(doing.status, doing.said.encode(), "application/json")
        if request.method == "PUT":
            return self._put(request, path)
        if request.headers.get("authorization") != BASIC:
            return _response(401, b'{"message":"Invalid credentials"}', "application/json")
        match request.method, path.removeprefix("/api/public/").split("/"):
            case "POST", ["media"]:
                return self._media(json.loads(request.body))
            case "PATCH", ["media", id_]:
                return self._uploaded(id_, json.loads(request.body))
            case "GET", ["media", id_]:
                return self._readable(id_)
            case "POST", ["scores"]:
                return self._scored(json.loads(request.body))
            case "GET", ["v2", "scores"]:
                (trace_id,) = parse_qs(urlsplit(request.path).query)["traceId"]
                return _json(200, {"data": [each for each in self.scores.values() if each["traceId"] == trace_id]})
            case "GET", ["models"]:
                return _json(200, self._page(parse_qs(urlsplit(request.path).query)))
            case _:
                return super()._answer(request, doing)

    def _media(self, asked: dict[str, Any]) -> bytes:
        id_ = base64.urlsafe_b64encode(base64.b64decode(asked["sha256Hash"])).decode()[:22]
        found = self.media.setdefault(
            id_, StoredMedia(asked["contentType"], asked["contentLength"], asked["sha256Hash"])
        )
        self.shown_media.add((id_, asked["observationId"], asked["field"]))
        url = None if found.uploaded else f"{self.url}/bucket/{id_}?X-Amz-Signature=signed"
        return _json(201, {"mediaId": id_, "uploadUrl": url})

    def _put(self, request: Request, path: str) -> bytes:
        """The object store: it takes what was announced, from whoever has the signed address and no login."""
        self.puts += 1
        found = self.media.get(path.rpartition("/")[2])
        digest = base64.b64encode(hashlib.sha256(request.body).digest()).decode()
        right = found is not None and found.sha256 == digest == request.headers.get("x-amz-checksum-sha256")
        if found is None or not right or "authorization" in request.headers or "X-Amz-Signature" not in request.path:
            return _response(403, b"<Error>AccessDenied</Error>", "application/xml")
        if (found.content_type, found.size) != (request.headers.get("content-type"), len(request.body)):
            return _response(400, b"<Error>BadDigest</Error>", "application/xml")
        found.content = request.body
        return _response(200, b"", "application/xml")

    def _uploaded(self, id_: str, said: dict[str, Any]) -> bytes:
        self.media[id_].uploaded = said["uploadHttpStatus"] in (200, 201) and self.media[id_].content is not None
        return _json(200, {})

    def _readable(self, id_: str) -> bytes:
        found = self.media.get(id_)
        if found is None or not found.uploaded:
            return _json(404, {"message": "Media asset not found"})
        times = {"uploadedAt": "2026-01-01T00:00:00Z", "urlExpiry": "2027-01-01T00:00:00Z"}
        about = {"mediaId": id_, "contentType": found.content_type, "contentLength": found.size}
        return _json(200, {**about, **times, "url": f"{self.url}/bucket/{id_}"})

    def _scored(self, told: dict[str, Any] | list[dict[str, Any]]) -> bytes:
        if isinstance(told, list) and not self.takes_lists:
            return _json(400, {"message": "Invalid request data"})
        for score in told if isinstance(told, list) else [told]:
            self.scores[score["id"]] = score
        return _json(202, {"message": "Accepted"}) if isinstance(told, list) else _json(200, {"id": told["id"]})

    def _page(self, query: dict[str, list[str]]) -> dict[str, Any]:
        page, limit = int(query.get("page", ["1"])[0]), int(query.get("limit", ["50"])[0])
        rows = self.models[(page - 1) * limit : page * limit]
        pages = -(-len(self.models) // limit)
        return {
            "data": rows,
            "meta": {"page": page, "limit": limit, "totalItems": len(self.models), "totalPages": pages},
        }


def _json(code: int, value: object) -> bytes:
    return _response(code, json.dumps(value).encode(), "application/json")
