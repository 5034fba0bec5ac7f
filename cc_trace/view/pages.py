"""What each address answers. Nothing is changed by asking."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse

from cc_trace.errors import CcTraceError
from cc_trace.escapes import escaped
from cc_trace.privacy import Privacy
from cc_trace.requests import RequestLog
from cc_trace.store import insights, questions
from cc_trace.transcript import agent_paths, find_media
from cc_trace.view import charts, figures, folding, markdown
from cc_trace.view.details import detail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from starlette.requests import Request

    from cc_trace.delivery import App
    from cc_trace.store import Store
    from cc_trace.view.watch import Watch

_FIRST_ROWS: Final = 60
_POLL_SECONDS: Final = 0.2
_PING_SECONDS: Final = 15.0
_ANSWER_CHARS: Final = 3_000
# What an image is, is told by its first bytes, never by what a transcript says.
_IMAGES: Final = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF8": "image/gif",
    b"RIFF": "image/webp",
}


class Pages:
    """The pages of one index. What reads the index or a file is no coroutine: Starlette runs it in a thread."""

    def __init__(self, app: App, index: Store, watch: Watch) -> None:
        self._app = app
        self._index = index
        self._watch = watch
        self._templates = Environment(
            loader=FileSystemLoader(Path(__file__).parent / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._templates.filters.update(
            money=figures.money,
            tokens=figures.tokens,
            short=figures.short,
            duration=figures.duration,
            clock=figures.clock,
            moment=figures.day_and_time,
            iso=figures.rfc3339,
            visible=lambda text: escaped(str(text)),
            markdown=lambda text: markdown.to_html(str(text)),
            query=urlencode,
        )
        self._templates.globals.update(between=figures.between, percent=figures.percent)

    def _page(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
        watch = self._watch
        values.setdefault("live", "")
        values.setdefault("text", "")
        return HTMLResponse(
            self._templates.get_template(name).render(
                done=watch.done, total=watch.total, complete=watch.complete.is_set(), **values
            ),
            status,
        )

    def not_found(self, _request: Request, _error: Exception) -> Response:
        """Say that there is no such page."""
        return self._missing("There is no such page.")

    def _missing(self, message: str) -> HTMLResponse:
        return self._page("missing.html", 404, page="", message=message)

    def sessions(self, request: Request) -> Response:
        """All sessions, the first rows of them."""
        chosen = questions.Filter.of(request.query_params)
        rows, total = questions.sessions(self._index, chosen, 0, _FIRST_ROWS)
        return self._page(
            "sessions.html",
            page="sessions",
            live="*",
            chosen=chosen,
            asked=chosen.asked(),
            rows=rows,
            count=total,
            sums=questions.sessions_total(self._index, chosen),
            projects=questions.projects(self._index),
        )

    def session_rows(self, request: Request) -> Response:
        """Return some rows of that table."""
        chosen = questions.Filter.of(request.query_params)
        offset = _number(request.query_params.get("offset"))
        rows, total = questions.sessions(self._index, chosen, offset, _FIRST_ROWS)
        html = self._templates.get_template("session_rows.html").render(rows=rows, offset=offset)
        return JSONResponse({"total": total, "offset": offset, "html": html})

    def session(self, request: Request) -> Response:
        """One session: its turns, its context, its files."""
        session_id = request.path_params["session_id"]
        found = questions.session(self._index, session_id)
        if found is None:
            return self._missing("This session is not known here. If it is new, it will be in a moment.")
        offset = max(0, _number(request.query_params.get("from"), 1) - 1)
        turns = questions.turns(self._index, session_id, offset)
        shown = [
            {
                **dict(turn),
                "answer": str(turn["answer"] or "")[:_ANSWER_CHARS],
                "prompt": str(turn["prompt"] or "")[:_ANSWER_CHARS],
                "metadata": json.loads(turn["metadata"] or "{}"),
            }
            for turn in turns
        ]
        return self._page(
            "session.html",
            page="session",
            live=session_id,
            session=found,
            about=json.loads(found["summary"]),
            turns=shown,
            offset=offset,
            more=offset + len(turns) < found["turns"],
            page_size=questions.MAX_ROWS,
            chart=charts.context_chart(questions.requests(self._index, session_id)),
            costs=_cost_bars(questions.costs(self._index, session_id)),
            files=questions.files(self._index, session_id),
        )

    def turn(self, request: Request) -> Response:
        """One turn: tree, waterfall, details."""
        session_id, number = request.path_params["session_id"], request.path_params["number"]
        found, turn = questions.session(self._index, session_id), questions.turn(self._index, session_id, number)
        if found is None or turn is None:
            return self._missing("This turn is not known here. If it is new, it will be in a moment.")
        wanted = request.query_params.get("span", "")
        place = questions.place_of(self._index, session_id, number, wanted)
        metadata = json.loads(turn["metadata"] or "{}")
        spent = metadata.get("time_ms")
        times = [(kind, ms) for kind, ms in spent.items() if ms] if isinstance(spent, dict) else []
        return self._page(
            "turn.html",
            page="turn",
            live=session_id,
            session=found,
            turn=turn,
            times=times,
            place=-1 if place is None else place,
            wanted=wanted if place is not None else turn["span_id"],
            errors=questions.notable(self._index, session_id, number, "errors"),
            waits=_longest(questions.notable(self._index, session_id, number, "waits")),
        )

    def turn_rows(self, request: Request) -> Response:
        """Return some rows of the waterfall, as numbers."""
        asked = request.query_params
        folded = [_number(place) for place in asked.get("folded", "").split(",")[: questions.MAX_FOLDED] if place]
        found = questions.turn_rows(
            self._index,
            request.path_params["session_id"],
            request.path_params["number"],
            folded,
            _number(asked.get("offset")),
            _number(asked.get("limit"), questions.MAX_ROWS),
        )
        span_ms = (found.end_ns - found.start_ns) / 1e6
        return JSONResponse({"total": found.total, "duration": span_ms, "rows": [_visible(row) for row in found.rows]})

    def span(self, request: Request) -> Response:
        """Lead to a span in its turn."""
        row = questions.span(self._index, request.path_params["span_id"])
        if row is None:
            return self._missing("This span is not known here.")
        return RedirectResponse(f"/sessions/{row['session_id']}/turns/{row['turn']}?span={row['span_id']}", 303)

    def detail(self, request: Request) -> Response:
        """Show the details of a span."""
        row = questions.span(self._index, request.path_params["span_id"])
        if row is None:
            return self._missing("This span is not known here.")
        return self._page("detail.html", row=row, detail=detail(row))

    def request(self, request: Request) -> Response:
        """Show the request that got a response, as it was sent but for masked secrets."""
        row = questions.span(self._index, request.path_params["span_id"])
        found = questions.session(self._index, row["session_id"]) if row is not None else None
        if row is None or found is None:
            return self._missing("This span is not known here.")
        message_id = (json.loads(row["span"]).get("response") or {}).get("message_id")
        try:
            privacy = self._app.config(found["cwd"] or None).privacy
            if privacy.content != "full":
                return self._fragment("The setting `content` keeps requests from being shown.")
            body = _sent(Path(found["path"]), message_id or "")
        except (OSError, CcTraceError) as error:
            return self._fragment(f"The request cannot be read: {error}")
        if body is None:
            return self._fragment("Claude Code recorded no request for this response.")
        return HTMLResponse(folding.to_html(Privacy(privacy).redactor.value(body)))

    def _fragment(self, message: str) -> HTMLResponse:
        return HTMLResponse(Markup('<p class="quiet">{}</p>').format(escaped(message)))

    def image(self, request: Request) -> Response:
        """Return an image that a span mentions, read from its transcript."""
        row = questions.span(self._index, request.path_params["span_id"])
        digest = request.path_params["digest"]
        found = questions.session(self._index, row["session_id"]) if row is not None else None
        if row is None or found is None or f"sha256 of base64 {digest}]" not in row["span"]:
            return Response(status_code=404)
        path = Path(found["path"])
        for each in (path, *agent_paths(path)):
            try:
                data = find_media(each, digest)
            except OSError:
                continue
            if data is not None:
                kind = next((kind for start, kind in _IMAGES.items() if data.startswith(start)), None)
                return Response(status_code=404) if kind is None else Response(data, media_type=kind)
        return Response(status_code=404)

    def insights(self, request: Request) -> Response:
        """Cost, tokens and time over all sessions."""
        chosen = questions.Filter.of(request.query_params)
        found = insights.insights(self._index, chosen)
        return self._page(
            "insights.html",
            page="insights",
            live="*",
            chosen=chosen,
            asked=chosen.asked(),
            found=found,
            projects=questions.projects(self._index),
        )

    def search(self, request: Request) -> Response:
        """Where a text stands."""
        text = request.query_params.get("q", "")[:500]
        hits = [(hit, _marked(hit.snippet)) for hit in questions.search(self._index, text)]
        return self._page("search.html", page="search", text=text, hits=hits)

    async def events(self, request: Request) -> Response:
        """Tell the page when what it shows has changed: one session, or (`*`) any."""
        return StreamingResponse(
            self._changes(request, request.query_params.get("session", "*")), media_type="text/event-stream"
        )

    async def _changes(self, request: Request, session_id: str) -> AsyncIterator[str]:
        watch = self._watch
        seen, told, quiet = watch.changes, (-1, -1, False), 0.0
        yield "retry: 500\n\n"
        while not await request.is_disconnected():
            now = watch.changes if session_id == "*" else watch.changed.get(session_id, 0)
            progress = (watch.done, watch.total, watch.complete.is_set())
            if now > seen or progress != told:
                kind = "changed" if now > seen else "progress"
                seen, told, quiet = max(seen, now), progress, 0.0
                data = {"done": progress[0], "total": progress[1], "complete": progress[2]}
                yield f"event: {kind}\ndata: {json.dumps(data)}\n\n"
            elif quiet >= _PING_SECONDS:
                quiet = 0.0
                yield ": still here\n\n"
            await asyncio.sleep(_POLL_SECONDS)
            quiet += _POLL_SECONDS


def _longest(rows: list[Any]) -> list[tuple[Any, str, float]]:
    """Return what waited, for what and how many milliseconds, the longest first."""
    found = []
    for row in rows:
        waits = json.loads(row["waits"])
        kinds = ", ".join(sorted({kind for kind, _, _ in waits}))
        found.append((row, kinds, sum(end - begin for _, begin, end in waits) / 1e6))
    return sorted(found, key=lambda each: -each[2])


def _cost_bars(rows: list[Any]) -> list[dict[str, Any]]:
    highest = max((row["total_usd"] or 0.0 for row in rows), default=0.0) or 1.0
    step = charts.WIDTH / max(len(rows), 1)
    return [
        {
            "turn": row["turn"],
            "x": number * step,
            "width": max(step * 0.85, 0.5),
            "height": 60 * (row["total_usd"] or 0.0) / highest,
            "cost": row["total_usd"],
        }
        for number, row in enumerate(rows)
    ]


def _sent(path: Path, message_id: str) -> Any:  # noqa: ANN401
    """Return the body of a request, None where it was not recorded."""
    log = RequestLog()
    for each in (path, *agent_paths(path)):
        log.read(each)
        found = log.find(message_id)
        if found is not None:
            return log.request(found[1]).body
    return None


def _visible(row: dict[str, Any]) -> dict[str, Any]:
    return {**row, "name": escaped(row["name"]), "label": escaped(row["label"])}


def _marked(snippet: str) -> Markup:
    """Return what was found with its words marked."""
    safe = str(escape(escaped(snippet.replace("\x01", "\ue000").replace("\x02", "\ue001"))))
    return Markup(safe.replace("\ue000", "<mark>").replace("\ue001", "</mark>"))  # noqa: S704  (escaped above)


def _number(text: str | None, default: int = 0) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else default  # noqa: PLR2004
