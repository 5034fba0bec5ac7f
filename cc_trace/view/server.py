"""The server: one process, on 127.0.0.1, until it is interrupted."""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import sqlite3
import tempfile
import threading
import webbrowser
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import uvicorn
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from cc_trace.errors import CcTraceError
from cc_trace.store import Store, store_path
from cc_trace.view.guard import Guard
from cc_trace.view.pages import Pages
from cc_trace.view.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from starlette.types import ASGIApp

    from cc_trace.delivery import App

HOST: Final = "127.0.0.1"
STATIC: Final = Path(__file__).parent / "static"


def serve(app: App, port: int, first: str, *, browser: bool) -> None:
    """Print the address of the pages, open it, and serve until an interrupt. Port 0: any that is free."""
    try:
        listener = socket.create_server((HOST, port))
    except OSError as error:
        message = f"cannot listen on port {port}: {os.strerror(error.errno or 0)}; choose another with --port"
        raise CcTraceError(message) from error
    with listener, contextlib.closing(Store(store_path(app.states.folder))) as index:
        number, token = listener.getsockname()[1], secrets.token_urlsafe(32)
        watch = Watch(app, index)
        url = f"http://{HOST}:{number}{first}?token={token}"
        print(url, flush=True)
        config = uvicorn.Config(
            site(app, index, watch, number, token),
            log_level="error",
            access_log=False,  # a URL may have the token in it
            server_header=False,
            timeout_graceful_shutdown=1,  # pages that follow a session stay connected
        )
        watch.start()
        try:
            with _opened(url) if browser else contextlib.nullcontext():
                uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:
            pass
        finally:
            watch.stop()


def site(app: App, index: Store, watch: Watch, port: int, token: str) -> ASGIApp:
    """Return all pages, guarded."""
    pages = Pages(app, index, watch)
    routes = [
        Route("/", pages.sessions),
        Route("/sessions/rows", pages.session_rows),
        Route("/sessions/{session_id}", pages.session),
        Route("/sessions/{session_id}/turns/{number:int}", pages.turn),
        Route("/sessions/{session_id}/turns/{number:int}/rows", pages.turn_rows),
        Route("/spans", pages.spans),
        Route("/spans/{span_id}", pages.span),
        Route("/spans/{span_id}/detail", pages.detail),
        Route("/spans/{span_id}/request", pages.request),
        Route("/spans/{span_id}/images/{digest}", pages.image),
        Route("/insights", pages.insights),
        Route("/search", pages.search),
        Route("/events", pages.events),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    inner = Starlette(
        routes=routes,
        middleware=[Middleware(GZipMiddleware, minimum_size=1000)],
        exception_handlers={404: pages.not_found, sqlite3.Error: pages.failed, OSError: pages.failed},
    )
    return Guard(inner, port, token)


@contextlib.contextmanager
def _opened(url: str) -> Iterator[None]:
    """Open the browser with a private file that leads to the page.

    Every user of the machine sees the arguments of a browser, and the token is none of their business.
    """
    with tempfile.TemporaryDirectory(prefix="cc-trace-view-") as folder:
        page = Path(folder) / "open.html"
        page.touch(0o600)
        quoted = escape(url)
        page.write_text(
            f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={quoted}">'
            f'<a href="{quoted}">Open cc-trace</a>'
        )
        threading.Thread(target=webbrowser.open, args=(page.as_uri(),), daemon=True).start()
        yield
