"""Whether spans arrive: a test span is sent to every destination, and read back where that is possible."""

from __future__ import annotations

import contextlib
import io
import re
import secrets
import shlex
import threading
import time
from concurrent.futures import Future
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from cc_trace.delivery import ERROR_NOTE
from cc_trace.doctor.check import failed, ok, warning
from cc_trace.doctor.databases import check_store, remove_span
from cc_trace.errors import CcTraceError, ConfigError
from cc_trace.export import Accepted, Rejected, Retryable, Unclear, open_destination
from cc_trace.files import read_regular
from cc_trace.settings import why_off
from cc_trace.spans import Span
from cc_trace.store import store_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cc_trace.doctor.check import Check
    from cc_trace.doctor.subject import Subject
    from cc_trace.export import Destination, DestinationSettings, EncodedSpan

# Langfuse takes spans into a queue and shows them after some seconds.
_PAUSES: Final = (0.3, 0.7, 1.0, 2.0, 3.0, 4.0, 4.0)
# The oldest server that it was tried on.
_OLD_LANGFUSE: Final = (
    "update Langfuse to 4.16 or newer: older servers cannot be asked what they have,"
    " so a lost response may lead to a duplicate span"
)
_ENVIRONMENT: Final = "cc-trace-doctor"  # of the test span in Langfuse, where it can be filtered out should it stay
# Third-party exporters do not respect our timeout.
_MAX_SECONDS: Final = 90.0


class _Fix(NamedTuple):
    """What to do about a message of a destination: an HTTP status, a gRPC status, or a connection error."""

    pattern: re.Pattern[str]
    fix: str
    langfuse: str | None = None  # where that differs


_FIXES: Final = (
    _Fix(
        re.compile(r"^3\d\d |header with status: 3"), "use the address it redirects to: `cc-trace config set {url} URL`"
    ),
    _Fix(
        re.compile(r"^40[13] |^UNAUTHENTICATED|^PERMISSION_DENIED"),
        "`cc-trace config set otlp_headers` with the header that the backend requires, such as authorization=...",
        "`cc-trace config set langfuse_public_key` and `cc-trace config set langfuse_secret_key`"
        " with the keys of this project on this server ({address})",
    ),
    _Fix(
        re.compile(r"^(?:404|405|410|501) |^UNIMPLEMENTED|^NOT_FOUND|a web page"),
        "correct the address: `cc-trace config set {url} URL`",
    ),
    _Fix(re.compile(r"WRONG_VERSION_NUMBER"), "the server speaks plain HTTP: `cc-trace config set {url} http://...`"),
    _Fix(
        re.compile(r"certificate|handshake|\bSSL\b|\bTLS\b", re.IGNORECASE),
        "`cc-trace config set otlp_ca_file FILE` with the certificate to trust",
        "set SSL_CERT_FILE to a file with the certificate to trust, also in the env of settings.json",
    ),
    _Fix(
        re.compile(r"^cannot connect|^no response|no response within|^UNAVAILABLE|DEADLINE_EXCEEDED"),
        "start the server, or correct the address: `cc-trace config set {url} URL`; nothing is lost",
    ),
)
_WAIT: Final = "wait until the backend has recovered; nothing is lost, the next turn or `cc-trace sync` sends it"
_REJECTED: Final = _Fix(
    re.compile(""),
    "set the headers it requires, `cc-trace config set otlp_headers`,"
    " or try another protocol: `cc-trace config set otlp_protocol http/protobuf|http/json|grpc`",
    "update the server, or correct the address: `cc-trace config set langfuse_base_url URL`",
)


def trial_span(now: float) -> Span:
    """Return a span that cannot be mistaken for a session's: it has a trace and session of its own, and a mark."""
    at = int(now * 1e9)
    return Span(
        trace_id=secrets.token_hex(16),
        span_id=secrets.token_hex(8),
        parent_id=None,
        kind="event",
        name="cc-trace doctor",
        start_ns=at,
        end_ns=at,
        session_id="cc-trace-doctor",
        turn=0,
        agent_id=None,
        final=True,
        status="ok",
        error=None,
        input=None,
        output=None,
        metadata={"cc_trace_test": True},
    )


def destinations(subject: Subject) -> Iterator[Check]:
    """Check the local store, and every destination of this project by sending a test span."""
    folder = subject.states.folder
    damaged = check_store(store_path(folder))
    if damaged is not None:
        yield damaged
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        reason = read_regular(folder / ERROR_NOTE).decode("utf-8", "replace")[:500]
        fix = "make it writable or free some disk space, then run `cc-trace usage`; deliveries are not affected"
        yield warning("local store", f"it could not be brought up to date: {reason}", fix)
    try:
        config = subject.config()
    except ConfigError:
        return  # which has its own check
    if why_off(config, str(subject.project)) is not None:
        return
    for settings in config.destinations:
        # The folder is made by the hook or `install`, not by us.
        if settings.store is None or (folder.is_dir() and damaged is None):
            yield _prove_in_time(settings, subject.now)


def _prove_in_time(settings: DestinationSettings, now: float) -> Check:
    """Prove a destination; a failure if that does not finish in time."""
    outcome: Future[Check] = Future()

    def work() -> None:
        try:
            outcome.set_result(prove(settings, now))
        except Exception as error:  # noqa: BLE001  (raised again by `result`)
            outcome.set_exception(error)

    with contextlib.redirect_stdout(io.StringIO()):  # some exporters print what they get
        threading.Thread(target=work, daemon=True).start()
        try:
            return outcome.result(_MAX_SECONDS)
        except TimeoutError:
            finding = f"sending a test span did not finish within {_MAX_SECONDS:g} seconds"
            return failed(_name(settings), finding, "set a shorter timeout: `cc-trace config set timeout_seconds 10`")


def prove(settings: DestinationSettings, now: float, pauses: Sequence[float] = _PAUSES) -> Check:
    """Send a test span and, if possible, read it back and remove it again."""
    name, address = _name(settings), _address(settings)
    if settings.kind == "langfuse":
        settings = replace(settings, labels=replace(settings.labels, environment=_ENVIRONMENT))
    try:
        destination = open_destination(settings)
    except CcTraceError as error:
        return failed(name, str(error), "correct that, or choose other settings; `cc-trace config` shows all of them")
    except ImportError as error:
        return failed(name, f"a package is missing: {error}", "install cc-trace again")
    with contextlib.closing(destination):
        encoded = destination.encode(trial_span(now))
        match destination.send([encoded]):
            case Accepted(dropped_spans=0):
                return _read_back(settings, destination, encoded, pauses)
            case Accepted(message=message):
                finding = f"{address} accepted the test span but discarded it: {message or 'no reason given'}"
                return failed(name, finding, "check the server's log for more")
            case Rejected(status=status, message=message):
                return failed(
                    name, f"{address} refused the test span: {status} {message}", fix(settings, message, (_REJECTED,))
                )
            case Retryable(message=message) | Unclear(message=message):
                return failed(name, message if address in message else f"{address}: {message}", fix(settings, message))


def _read_back(
    settings: DestinationSettings, destination: Destination, encoded: EncodedSpan, pauses: Sequence[float]
) -> Check:
    name, address = _name(settings), _address(settings)
    if settings.kind == "file":  # it is on the disk, or was not accepted
        return ok(name, f"a test span was written to {address}")
    stored = _is_stored(destination, encoded, pauses)
    if stored is None and settings.kind == "langfuse":
        finding = f"{address} accepted a test span, but this server does not allow reading it back"
        return warning(name, finding, _OLD_LANGFUSE)
    if stored is None:
        return ok(name, f"{address} accepted a test span; it cannot be read back from there")
    if not stored:
        finding = f"{address} accepted a test span, but it could not be read back within {sum(pauses):.0f} seconds"
        fix = f"look there for trace {encoded.trace_id}; if it never shows up, check the server's log"
        return warning(name, finding, fix)
    if settings.kind == "langfuse":
        return ok(name, _remove_from_langfuse(address, destination, encoded, pauses))
    if settings.store is not None:
        remove_span(settings.store, encoded.span_id)
    return ok(name, f"a test span was sent to {address} and read back")


def _is_stored(destination: Destination, encoded: EncodedSpan, pauses: Sequence[float]) -> bool | None:
    """Ask the backend repeatedly for a span; None if it cannot be queried, which some only reveal when asked."""
    for pause in (*pauses, 0.0):
        if destination.stored_ids([encoded]):
            return True
        if not destination.queryable:
            return None
        time.sleep(pause)
    return False


def _remove_from_langfuse(address: str, destination: Any, encoded: EncodedSpan, pauses: Sequence[float]) -> str:  # noqa: ANN401
    """Remove the test span; return the finding, which names the project."""
    project = destination.api.project()
    location = f"{address}, project {project}" if isinstance(project, str) else address
    if destination.api.remove_trace(encoded.trace_id) is None:
        for pause in (*pauses, 0.0):
            if destination.stored_ids([encoded]) == frozenset():
                return f"a test span was sent to {location}, read back and removed"
            time.sleep(pause)
    return f"a test span was sent to {location} and read back; it is in environment {_ENVIRONMENT}"


def fix(settings: DestinationSettings, message: str, rows: Sequence[_Fix] = _FIXES) -> str:
    """Return what to do about the message of a destination that stored nothing."""
    if settings.path is not None:
        return f"make {shlex.quote(str(settings.path))} writable, and make sure the disk is not full"
    if settings.kind == "otel":
        return (
            "check the exporter's own settings, such as OTEL_EXPORTER_*,"
            " or use OTLP: `cc-trace config set otlp_endpoint URL`"
        )
    row = next((row for row in rows if row.pattern.search(message)), None)
    if row is None:
        return _WAIT
    is_langfuse = settings.kind == "langfuse"
    text = row.langfuse if is_langfuse and row.langfuse is not None else row.fix
    return text.format(url="langfuse_base_url" if is_langfuse else "otlp_endpoint", address=_address(settings))


def _name(settings: DestinationSettings) -> str:
    return f"destination {settings.name}"


def _address(settings: DestinationSettings) -> str:
    """Return the address of a destination, without parts that could contain a key."""
    if settings.path is not None:
        return str(settings.path)
    if settings.exporter is not None:
        return f"exporter {settings.exporter}"
    text = settings.traces_endpoint or settings.endpoint or ""
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        host, port = parts.hostname or settings.name, parts.port
    except ValueError:
        return settings.name
    return f"{host}:{port}" if port else host
