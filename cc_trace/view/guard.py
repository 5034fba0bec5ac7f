"""Restricts the pages to the holder of the token, in a browser on this machine.

Rules:
- Every request passes through here, including those for static files. A refused one gets a 4xx and no content.
- Everything is read-only: every method but GET and HEAD is refused.
- The token is in the URL that the user opens. It becomes a cookie that no script can read and no other site can send.
- A page of another site, or of another server on this machine, neither reads nor embeds a response.
"""

from __future__ import annotations

import html
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import HTMLResponse, PlainTextResponse

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

# Only our own scripts and styles, and nothing from another host.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}
_FROM_HERE: Final = (None, "none", "same-origin")
_HOW_TO_ENTER: Final = "Open the address that `cc-trace view` printed: it has the token that this page needs.\n"


class Guard:
    """Lets requests with the token through, if they are for this host and from this origin."""

    def __init__(self, app: ASGIApp, port: int, token: str) -> None:
        self._app = app
        self._hosts = {f"127.0.0.1:{port}", f"localhost:{port}"}
        self._token = token
        self._cookie = f"cc_trace_{port}"
        self._secret = secrets.token_urlsafe(32)  # the cookie's value: the token itself is only in the URL

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or pass the request on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        refused = self._refused(scope)

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers[name] = value
            await send(message)

        await (refused or self._app)(scope, receive, send_guarded)

    def _refused(self, scope: Scope) -> Response | None:
        """Return the response to a request that may not reach the pages, or None if it may."""
        headers = Headers(scope=scope)
        if headers.getlist("host") not in [[host] for host in self._hosts]:
            return PlainTextResponse("Unknown host name.\n", 400)
        origin = headers.get("origin")
        if origin is not None and origin.removeprefix("http://") not in self._hosts:
            return PlainTextResponse("Requests from other sites are refused.\n", 403)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("The viewer is read-only.\n", 405, {"allow": "GET, HEAD"})
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(name == "token" and _same(value, self._token) for name, value in query):
            return self._welcome(scope, [(name, value) for name, value in query if name != "token"])
        if not self._has_cookie(headers) or headers.get("sec-fetch-site") not in _FROM_HERE:
            return PlainTextResponse(_HOW_TO_ENTER, 403)
        return None

    def _has_cookie(self, headers: Headers) -> bool:
        jar: SimpleCookie = SimpleCookie()
        try:
            jar.load(headers.get("cookie") or "")
        except CookieError:
            return False
        return self._cookie in jar and _same(jar[self._cookie].value, self._secret)

    def _welcome(self, scope: Scope, query: list[tuple[str, str]]) -> Response:
        """Set the cookie, and continue to the page without the token.

        By a page of our own and not by a redirect: the browser counts what a redirect leads to as asked for by
        whoever opened the first address, and withholds a strict cookie if that was another program's file.
        """
        target = f"/{scope['path'].lstrip('/')}" + (f"?{urlencode(query)}" if query else "")
        quoted = html.escape(target)
        page = (
            '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>cc-trace</title>'
            '<link rel="icon" href="/static/icon.svg">'
            f'<meta http-equiv="refresh" content="0;url={quoted}"></head>'
            f'<body><p><a href="{quoted}">Go to cc-trace</a></p></body></html>'
        )
        cookie = f"{self._cookie}={self._secret}; Path=/; HttpOnly; SameSite=Strict"
        return HTMLResponse(page, headers={"set-cookie": cookie})


def _same(given: str, known: str) -> bool:
    return secrets.compare_digest(given.encode("utf-8", "replace"), known.encode())
