"""The page at each address. All of them are read-only."""

from __future__ import annotations

import asyncio
import json
import re
import time
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
from cc_trace.store import filters, insights, lists, notice, plain, questions, rewrites
from cc_trace.transcript import Hunk, agent_paths, changed_hunks, find_media, media_type
from cc_trace.view import charts, details, diff, failure, figures, markdown, sent, words

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.requests import Request

    from cc_trace.delivery import App
    from cc_trace.store import Slow, Store
    from cc_trace.view.watch import Watch

_FIRST_ROWS: Final = 60
_POLL_SECONDS: Final = 0.2
_PING_SECONDS: Final = 15.0
_RULES: Final = re.compile(r"([-=_*~#.])\1{3,}")  # rules drawn with characters
_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MANY_REQUESTS: Final = 10
_ANSWER_CHARS: Final = 3_000
_MAX_DIFFS: Final = 40  # of a list of edits
_MAX_DIFF_LINES: Final = 2_000  # of all of them
_SENDERS: Final = {"notification": "Notification", "teammate": "Another session", "injected": "Claude Code"}
_OUTCOMES: Final = {
    "error": "Failed {} calls",
    "failed": "Failed {} calls",
    "refused": "{} calls that were not allowed",
}
_TOOK: Final = {
    "permission": "waited for your permission: ",
    "retry": "waited before a retry: ",
    "hook": "waited for a hook: ",
    "answer": "waited for your answer: ",
    "model": "model, until its first token: ",
    "response": "model: ",
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
            auto_reload=False,  # an upgrade must not change the pages of a server that runs
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
            day=figures.day,
            zone=figures.zone,
            when=lambda time_ns: figures.when(time_ns, time.time_ns()),
            took=lambda length_ns: figures.duration(None if length_ns is None else length_ns / 1e6),
            iso=figures.rfc3339,
            visible=lambda text: escaped(details.IMAGE.sub("[image]", str(text))),
            chat=lambda text, span_id: details.with_images(str(text), span_id, markdown.to_html),
            query=urlencode,
            cause=charts.cause_name,
            plain=lambda text: " ".join(_RULES.sub(" ", plain(str(text))).split())[:300],
            failure=lambda row: failure.line(failure.full_text(row["error"], row["said"])),
            together=failure.together,
            slow=_slow,
            word=words.word,
            meaning=words.meaning,
            decider=words.decider,
            without=lambda asked, name: {key: value for key, value in asked.items() if key != name},
        )
        self._templates.globals.update(
            between=figures.between, percent=figures.percent, now_ns=time.time_ns, period_of=_period_of
        )
        for name in self._templates.list_templates():
            self._templates.get_template(name)

    def _page(self, name: str, status: int = 200, **values: Any) -> HTMLResponse:  # noqa: ANN401
        watch = self._watch
        values.setdefault("live", "")
        values.setdefault("seen", 0)
        values.setdefault("text", "")
        return HTMLResponse(
            self._templates.get_template(name).render(
                done=watch.done, total=watch.total, complete=watch.complete.is_set(), **values
            ),
            status,
        )

    def not_found(self, _request: Request, _error: Exception) -> Response:
        """Return the page for an unknown address."""
        return self._missing("This page does not exist.")

    def failed(self, request: Request, error: Exception) -> Response:
        """Return the page for an internal error; the log has the reason."""
        self._app.log.write(f"view: {request.url.path}: {type(error).__name__}: {error}")
        message = f"This page cannot be shown: {type(error).__name__}. Details are in cc-trace.log in the state folder."
        return self._page("missing.html", 500, page="", heading="Something went wrong", message=message)

    def _missing(self, message: str) -> HTMLResponse:
        return self._page("missing.html", 404, page="", heading="Not found", message=message)

    def sessions(self, request: Request) -> Response:
        """Return the list of sessions, with its first rows."""
        seen = self._watch.changes  # before anything is read: of what is written meanwhile the page is told
        chosen = filters.Filter.of(request.query_params, filters.OF_SESSIONS)
        rows, total = questions.sessions(self._index, chosen, 0, _FIRST_ROWS)
        return self._page(
            "sessions.html",
            page="sessions",
            live="*",
            seen=seen,
            chosen=chosen,
            asked=chosen.asked(),
            rows=rows,
            count_all=total,
            folder=self._app.config_dir / "projects",
            sums=questions.sessions_total(self._index, chosen),
            projects=questions.projects(self._index),
        )

    def session_rows(self, request: Request) -> Response:
        """Return some rows of that table."""
        chosen = filters.Filter.of(request.query_params, filters.OF_SESSIONS)
        offset = _number(request.query_params.get("offset"))
        rows, total = questions.sessions(self._index, chosen, offset, _FIRST_ROWS)
        html = self._templates.get_template("session_rows.html").render(rows=rows, offset=offset)
        return JSONResponse({"total": total, "offset": offset, "html": html})

    def session(self, request: Request) -> Response:
        """Return the page of a session: turns, context, files."""
        seen = self._watch.changes
        session_id = request.path_params["session_id"]
        found = questions.session(self._index, session_id)
        if found is None:
            return self._missing("This session does not exist. If it is new, reload the page in a moment.")
        offset = max(0, _number(request.query_params.get("from"), 1) - 1)
        turns = questions.turns(self._index, session_id, offset)
        about = json.loads(found["summary"])
        spent = lists.time_spent(self._index, session_id)
        costs = questions.costs(self._index, session_id)
        highest = max((row["total_usd"] or 0.0 for row in costs), default=0.0)
        return self._page(
            "session.html",
            page="session",
            live=session_id,
            seen=seen,
            session=found,
            can_be_resumed=_UUID.fullmatch(session_id) is not None,
            about=about,
            notable=lists.notable(self._index, session_id, None, found["errors"] or 0),
            times=_stacked(spent.by_kind | _between_turns(found, spent)),
            untimed=spent.untimed,
            undercounted=questions.undercounted(self._index, session_id),
            relatives=lists.relatives(self._index, session_id, about["predecessor"]),
            turns=[
                {
                    **_conversation(turn, highest if len(costs) > 1 else 0.0, found["cost_usd"]),
                    "timed": not turn["untimed"],
                }
                for turn in turns
            ],
            offset=offset,
            more=offset + len(turns) < found["turns"],
            page_size=questions.MAX_ROWS,
            chart=charts.context_chart(
                questions.requests(self._index, session_id),
                {span_id: each.miss for span_id, each in rewrites.of_session(self._index, session_id).items()},
            ),
            costs=charts.cost_bars(costs),
            costs_highest=highest,
            top=_most_expensive(costs, found["cost_usd"]) if highest and len(costs) > 1 else None,
            reads=_reads(lists.cache_reads(self._index, session_id), found["cost_usd"]),
            spent=charts.cost_line(lists.spending(self._index, session_id)),
            files=[(row, _below(row["path"], found["cwd"])) for row in questions.files(self._index, session_id)],
            agents=lists.agents(self._index, session_id),
            hooks=lists.hooks(self._index, session_id),
            decisions=lists.permissions(self._index, session_id),
        )

    def turn(self, request: Request) -> Response:
        """Return the page of a turn: tree, waterfall, details."""
        seen = self._watch.changes
        session_id, number = request.path_params["session_id"], request.path_params["number"]
        found, turn = questions.session(self._index, session_id), questions.turn(self._index, session_id, number)
        if found is None or turn is None:
            return self._missing("This turn does not exist. If it is new, reload the page in a moment.")
        wanted = request.query_params.get("span", "")
        place = questions.place_of(self._index, session_id, number, wanted)
        timed = not turn["untimed"]
        notable = lists.notable(self._index, session_id, number, turn["errors"] or 0)
        return self._page(
            "turn.html",
            page="turn",
            live=session_id,
            seen=seen,
            session=found,
            turn=turn,
            timed=timed,
            times=_stacked(json.loads(turn["metadata"] or "{}").get("time_ms") if timed else None),
            place=-1 if place is None else place,
            wanted=wanted if place is not None else turn["span_id"],
            notable=notable,
            ran_on_ns=questions.ran_on_ns(self._index, session_id, number) if timed and not turn["running"] else 0,
        )

    def turn_rows(self, request: Request) -> Response:
        """Return some rows of the waterfall, as numbers."""
        session_id, number, asked = (
            request.path_params["session_id"],
            request.path_params["number"],
            request.query_params,
        )
        folded = [_number(place) for place in asked.get("folded", "").split(",")[: questions.MAX_FOLDED] if place]
        found = questions.turn_rows(
            self._index,
            session_id,
            number,
            folded,
            _number(asked.get("offset")),
            _number(asked.get("limit"), questions.MAX_ROWS),
        )
        timed = not found.untimed
        session = questions.session(self._index, session_id)
        folder = session["cwd"] if session is not None else None
        end_ns = max(found.end_ns, time.time_ns()) if found.running else found.end_ns
        answer: dict[str, Any] = {
            "total": found.total,
            "running": found.running,
            "duration": (end_ns - found.start_ns) / 1e6 if timed else 0,
            "clock": figures.since_midnight(found.start_ns) if found.start_ns and timed else None,
            "rows": [_row(row, folder, timed=timed) for row in found.rows],
        }
        if "after" in asked:
            answer["error"] = lists.next_error(self._index, session_id, number, _number(asked["after"]))
        return JSONResponse(answer)

    def span(self, request: Request) -> Response:
        """Redirect to a span in its turn."""
        row = questions.span(self._index, request.path_params["span_id"])
        if row is None:
            return self._missing("This span does not exist.")
        return RedirectResponse(f"/sessions/{row['session_id']}/turns/{row['turn']}?span={row['span_id']}", 303)

    def detail(self, request: Request) -> Response:
        """Show the details of a span."""
        row = questions.span(self._index, request.path_params["span_id"])
        if row is None:
            return self._missing("This span does not exist.")
        turn = questions.turn(self._index, row["session_id"], row["turn"])
        unfinished = row["kind"] == "turn" or row["status"] == "incomplete"
        running = bool(unfinished and turn is not None and turn["running"])
        others, path, hunks = list[str](), "", list[Hunk]()
        if row["kind"] == "tool" and (path := _edited(row)):
            others = lists.edits(self._index, row["session_id"], path)
            hunks = next(iter(self._hunks(row["session_id"], [row]).values()), [])
        is_response = row["kind"] == "generation"
        rewrite = rewrites.of_request(self._index, row["row"]) if is_response else None
        known = details.Known(
            running=running,
            timed=turn is None or not turn["untimed"],
            below=lists.below(self._index, row) if row["kind"] == "subagent" else None,
            calls=questions.calls(self._index, row) if is_response else [],
            hunks=hunks,
            miss=rewrite.miss if rewrite is not None else None,
        )
        return self._page(
            "detail.html",
            row=row,
            running=running,
            errors=turn["errors"] if row["kind"] == "turn" and turn is not None else 0,
            detail=details.detail(row, known),
            edit=others.index(row["span_id"]) + 1 if row["span_id"] in others else 0,
            edits=len(others),
            file=path,
        )

    def _hunks(self, session_id: str, rows: Sequence[Any]) -> dict[str, list[Hunk]]:
        """Return where in their files edits were, by the id of the call, if the transcript is there and tells."""
        call_ids = [_call_id(row) for row in rows if row["tool"] in ("Edit", "MultiEdit")]
        session = questions.session(self._index, session_id) if call_ids else None
        return changed_hunks(Path(session["path"]), call_ids) if session is not None and session["path"] else {}

    def _diffs(self, session_id: str, edits: Sequence[Any]) -> dict[str, Markup]:
        """Return the diffs of the first of some edits, by span id: as many as a page may have."""
        rows = [row for edit in edits[:_MAX_DIFFS] if (row := questions.span(self._index, edit["span_id"])) is not None]
        hunks = self._hunks(session_id, rows)
        diffs, left = dict[str, Markup](), _MAX_DIFF_LINES
        for row in rows:
            span = json.loads(row["span"])
            lines = diff.of_call(row["tool"], span["input"], span["output"], hunks.get(_call_id(row), ()))
            if lines is None:
                continue
            if len(lines) > left:
                break
            diffs[row["span_id"]] = details.diff_html(lines)
            left -= len(lines)
        return diffs

    def request(self, request: Request) -> Response:
        """Show the request that got a response, as it was sent but for masked secrets."""
        row = questions.span(self._index, request.path_params["span_id"])
        found = questions.session(self._index, row["session_id"]) if row is not None else None
        if row is None or found is None:
            return self._missing("This span does not exist.")
        message_id = (json.loads(row["span"]).get("response") or {}).get("message_id")
        if found["path"] is None:
            return self._fragment("The transcript is gone, so the request cannot be shown.")
        path = Path(found["path"])
        try:
            privacy = self._app.local_config(*self._app.project_and_environment(path)).privacy
            if privacy.content != "full":
                return self._fragment("Requests are only shown with `content` set to `full`.")
            body = _sent(path, message_id or "")
        except (OSError, CcTraceError) as error:
            return self._fragment(f"The request cannot be read: {error}")
        if body is None:
            return self._fragment("Claude Code recorded no request for this response.")
        return HTMLResponse(sent.to_html(Privacy(privacy._replace(max_chars=0)).value(body)))

    def _fragment(self, message: str) -> HTMLResponse:
        return HTMLResponse(Markup('<p class="quiet">{}</p>').format(escaped(message)))

    def image(self, request: Request) -> Response:
        """Return an image that a span mentions, read from its transcript."""
        row = questions.span(self._index, request.path_params["span_id"])
        digest = request.path_params["digest"]
        found = questions.session(self._index, row["session_id"]) if row is not None else None
        if row is None or found is None or found["path"] is None or f"sha256 of base64 {digest}]" not in row["span"]:
            return Response(status_code=404)
        path = Path(found["path"])
        for each in (path, *agent_paths(path)):
            try:
                data = find_media(each, digest)
            except OSError:
                continue
            if data is not None:
                kind = media_type(data) or ""
                is_image = kind.startswith("image/")
                return Response(data, media_type=kind) if is_image else Response(status_code=404)
        return Response(status_code=404)

    def insights(self, request: Request) -> Response:
        """Return the Insights page: cost, tokens and time over all sessions."""
        seen = self._watch.changes
        chosen = filters.Filter.of(request.query_params, filters.PERIOD)
        found = insights.insights(self._index, chosen)
        return self._page(
            "insights.html",
            page="insights",
            live="*",
            seen=seen,
            chosen=chosen,
            asked=chosen.asked(),
            found=found,
            days=charts.day_chart(found.by["day"]),
            misses=lists.misses(self._index, chosen),
            periods=figures.periods(time.time_ns()),
            projects=questions.projects(self._index),
        )

    def spans(self, request: Request) -> Response:
        """Return the list of the spans that a chart's mark counts."""
        seen = self._watch.changes
        chosen = filters.Filter.of(request.query_params, filters.OF_SPANS)
        offset = _number(request.query_params.get("offset"))
        asked = chosen.asked()
        session = questions.session(self._index, chosen.session) if chosen.session else None
        found = lists.spans(self._index, chosen, offset)
        missed = {each.span_id: each.miss for each in rewrites.chosen(self._index, chosen)} if chosen.miss else {}
        return self._page(
            "spans.html",
            session=session,
            page="spans",
            live="*",
            seen=seen,
            chosen=chosen,
            asked=asked,
            kept=_period_of(asked),
            noun=_noun(chosen, found.total),
            heading=_heading(chosen),
            found=found,
            offset=offset,
            page_size=questions.MAX_ROWS,
            misses=lists.misses(self._index, chosen)[:1] if chosen.miss else [],
            diffs=self._diffs(chosen.session, found.rows) if chosen.file and chosen.session else {},
            missed=lambda row: charts.miss_text(json.loads(row["cache_miss"] or "null") or missed[row["span_id"]]),
        )

    def search(self, request: Request) -> Response:
        """Return the results of a search."""
        text = request.query_params.get("q", "")[:500]
        hits = questions.search(self._index, text)
        by_session: dict[str, list[tuple[questions.Hit, Markup]]] = {}
        for hit in hits:
            by_session.setdefault(hit.session_id, []).append((hit, _marked(hit.snippet)))
        return self._page("search.html", page="search", text=text, count=len(hits), by_session=by_session)

    async def events(self, request: Request) -> Response:
        """Stream an event whenever the page's content changes: one session, or (`*`) any."""
        asked = request.query_params
        changes = self._changes(request, asked.get("session", "*"), _number(asked.get("seen")))
        return StreamingResponse(changes, media_type="text/event-stream")

    async def _changes(self, request: Request, session_id: str, seen: int) -> AsyncIterator[str]:
        """Yield what changed after the first `seen` changes, with which the page was made."""
        watch = self._watch
        told, quiet = (-1, -1, False), 0.0
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


def _between_turns(session: Any, spent: lists.TimeSpent) -> dict[str, float]:  # noqa: ANN401
    """Return the time of a session that belongs to no turn, if the times of all turns are known."""
    whole = figures.between(session["first_ns"], session["last_ns"])
    if spent.untimed or whole is None or session["turns"] < 2:  # noqa: PLR2004
        return {}
    return {"between": max(0.0, whole - spent.turns_ms)}


def _stacked(spent: object) -> list[tuple[str, float, float, float]]:
    """Return each kind of time with its milliseconds, and its position in a bar of width 1000."""
    known = spent.items() if isinstance(spent, dict) else ()
    times = [(str(kind), float(ms)) for kind, ms in known if isinstance(ms, int | float) and ms > 0]
    whole, made, x = sum(ms for _, ms in times), [], 0.0
    for kind, ms in times:
        width = 1000 * ms / whole
        made.append((kind, ms, x, width))
        x += width
    return made


def _slow(found: Slow) -> str:
    """Describe what took long: how many calls if they are several, what it was waiting for, and the call."""
    named = found.what if found.why in ("hook", "model", "response") and found.what else f"{found.name} {found.what}"
    times = f"{found.calls} \N{MULTIPLICATION SIGN} " if found.calls > 1 else ""
    return f"{times}{_TOOK.get(found.why, '')}{named}".strip()


def _conversation(turn: Any, highest: float, all_usd: float | None) -> dict[str, Any]:  # noqa: ANN401
    """Return a turn for the session's page: its conversation, and its share of the cost."""
    cost = turn["total_usd"] or 0.0
    trigger = json.loads(turn["metadata"] or "{}").get("trigger")
    sent = notice(str(turn["prompt"] or ""))
    return {
        **dict(turn),
        "answer": _cut(turn["answer"]),
        "prompt": _cut(turn["prompt"] if sent is None else sent.text),
        "who": _SENDERS.get(trigger, "You") if sent is None else escaped(sent.sender),
        "most": bool(highest) and cost == highest,
        "share": figures.percent(cost, all_usd) if highest and all_usd else None,
        "width": 1000 * cost / highest if highest else 0.0,
    }


def _most_expensive(costs: Sequence[Any], all_usd: float | None) -> dict[str, Any]:
    turn = max(costs, key=lambda row: row["total_usd"] or 0.0)
    return {**dict(turn), "share": figures.percent(turn["total_usd"], all_usd or 0.0)}


def _reads(reads: lists.CacheReads, all_usd: float | None) -> dict[str, Any] | None:
    """Return what reading the cache cost, if that is most of the cost: many requests with a long context."""
    if reads.requests < _MANY_REQUESTS or reads.cost_usd < (all_usd or 0.0) / 2:
        return None
    average, share = (
        figures.short(round(reads.tokens / reads.requests)),
        figures.percent(reads.cost_usd, all_usd or 0.0),
    )
    times = "\N{MULTIPLICATION SIGN}"
    told = f"{reads.requests:,} requests {times} {average} tokens read from the cache, {share} of the cost"
    return {"cost_usd": reads.cost_usd, "told": told}


def _cut(text: object) -> str:
    told = text if isinstance(text, str) else "" if text is None else str(text)
    return told if len(told) <= _ANSWER_CHARS else told[:_ANSWER_CHARS] + " …"


def _below(path: str, folder: str | None) -> str:
    """Return a file's path relative to the session's folder."""
    return path.removeprefix(f"{folder.rstrip('/')}/") if folder else path


def _edited(row: Any) -> str:  # noqa: ANN401
    """Return the file that a call changed, empty if it changed none."""
    return (json.loads(row["span"])["tool"] or {}).get("file_path") or ""


def _call_id(row: Any) -> str:  # noqa: ANN401
    return str(json.loads(row["span"])["tool"]["id"])


def _sent(path: Path, message_id: str) -> Any:  # noqa: ANN401
    """Return the body of a request, or None if it was not recorded."""
    log = RequestLog()
    for each in (path, *agent_paths(path)):
        log.read(each)
        found = log.find(message_id)
        if found is not None:
            return log.request(found[1]).body
    return None


def _heading(chosen: filters.Filter) -> str:
    """Return the heading of a list."""
    if chosen.file:
        return f"Edits to {chosen.file.rpartition('/')[2]}"
    if chosen.status == "error" and not chosen.spans_kind:
        return "What failed"
    if chosen.time:
        return f"Turns by {words.word(chosen.time)} time"
    if chosen.miss:
        return f"Cache misses: {charts.cause_name(chosen.miss)}"
    if chosen.called:
        return f"Requests that called {chosen.called}"
    if chosen.among and not chosen.tool:
        return "Steps"
    if chosen.tool:
        return _OUTCOMES.get(chosen.status, "{} calls").format(chosen.tool)
    return {"generation": "Requests", "turn": "Turns", "tool": "Tool calls", "subagent": "Agents"}.get(
        chosen.kind, "Steps"
    )


def _noun(chosen: filters.Filter, count: int) -> str:
    """Return what a list counts."""
    nouns = {"generation": "request", "turn": "turn", "tool": "call", "subagent": "agent"}
    noun = "edit" if chosen.file else nouns.get(chosen.spans_kind, "step")
    return noun if count == 1 else f"{noun}s"


def _period_of(asked: dict[str, str]) -> dict[str, str]:
    """Return the parameters that choose a project and a period; a day is one."""
    day = asked.get("day")
    period = {"since": day, "until": day} if day else {}
    return period | {name: value for name, value in asked.items() if name in filters.PERIOD}


def _row(row: dict[str, Any], folder: str | None, *, timed: bool) -> dict[str, Any]:
    """Return a row of the waterfall; without its times if they cannot be right."""
    times: dict[str, object] = {} if timed else {"start": None, "end": None, "first": None, "lane": None, "waits": []}
    return {
        **row,
        "name": escaped(row["name"]),
        "label": escaped(details.IMAGE.sub("[image]", _below(row["label"], folder))),
        **times,
    }


def _marked(snippet: str) -> Markup:
    """Return a search snippet with the matches marked."""
    safe = str(escape(escaped(snippet.replace("\x01", "\ue000").replace("\x02", "\ue001"))))
    return Markup(safe.replace("\ue000", "<mark>").replace("\ue001", "</mark>"))  # noqa: S704  (escaped above)


def _number(text: str | None, default: int = 0) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() and len(text) < 10 else default  # noqa: PLR2004
