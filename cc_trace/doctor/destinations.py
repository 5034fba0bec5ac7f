"""Whether spans arrive: a test span is sent to every destination, and read back where that is possible."""

from __future__ import annotations

import contextlib
import io
import queue
import re
import secrets
import shlex
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from cc_trace.doctor.check import failed, ok, warning
from cc_trace.doctor.local_store import check_store, remove_span
from cc_trace.errors import CcTraceError, ConfigError
from cc_trace.export import Accepted, Rejected, Retryable, Unclear, open_destination
from cc_trace.settings import why_off
from cc_trace.spans import Span

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from cc_trace.doctor.check import Check, Subject
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
# The kind of a refusal, by its message: an HTTP status, a gRPC status, or a connection error.
_KINDS: Final = (
    ("redirect", re.compile(r"^3\d\d |header with status: 3")),
    ("key", re.compile(r"^40[13] |^UNAUTHENTICATED|^PERMISSION_DENIED")),
    ("url", re.compile(r"^(?:404|405|410|501) |^UNIMPLEMENTED|^NOT_FOUND|a web page")),
    ("plain", re.compile(r"WRONG_VERSION_NUMBER")),
    ("certificate", re.compile(r"certificate|handshake|\bSSL\b|\bTLS\b", re.IGNORECASE)),
    ("network", re.compile(r"^cannot connect|^no response|no response within|^UNAVAILABLE|DEADLINE_EXCEEDED")),
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
    """Check every destination of this project by sending a test span."""
    try:
        config = subject.config()
    except ConfigError:
        return  # which has its own check
    if why_off(config, str(subject.project)) is not None:
        return
    for settings in config.destinations:
        if settings.store is not None:
            if not subject.states.folder.is_dir():
                continue  # to be made by the hook or `install`, not by us; the state folder has its own check
            if settings.store.exists():
                store = check_store(settings.store)
                yield store
                if store.verdict == "failed":
                    continue
        yield _prove_in_time(settings, subject.now)


def _prove_in_time(settings: DestinationSettings, now: float) -> Check:
    """Prove a destination; a failure if that does not finish in time."""
    results: queue.Queue[Check | Exception] = queue.Queue()

    def work() -> None:
        try:
            results.put(prove(settings, now))
        except Exception as error:  # noqa: BLE001  (raised below)
            results.put(error)

    with contextlib.redirect_stdout(io.StringIO()):  # some exporters print what they get
        threading.Thread(target=work, daemon=True).start()
        try:
            result = results.get(timeout=_MAX_SECONDS)
        except queue.Empty:
            found = f"sending a test span did not finish within {_MAX_SECONDS:g} seconds"
            return failed(_name(settings), found, f"set a shorter timeout: {_set('timeout_seconds', '10')}")
    if isinstance(result, Exception):
        raise result
    return result


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
                found = f"{address} accepted the test span but discarded it: {message or 'no reason given'}"
                return failed(name, found, "check the server's log for more")
            case Rejected(status=status, message=message):
                return failed(name, f"{address} refused the test span: {status} {message}", _fix_rejected(settings))
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
        found = f"{address} accepted a test span, but this server does not allow reading it back"
        return warning(name, found, _OLD_LANGFUSE)
    if stored is None:
        return ok(name, f"{address} accepted a test span; it cannot be read back from there")
    if not stored:
        found = f"{address} accepted a test span, but it could not be read back within {sum(pauses):.0f} seconds"
        fix = f"look there for trace {encoded.trace_id}; if it never shows up, check the server's log"
        return warning(name, found, fix)
    if settings.kind == "langfuse":
        return ok(name, _remove_from_langfuse(address, destination, encoded, pauses))
    if settings.store is not None:
        remove_span(settings.store, encoded.span_id)
    return ok(name, f"a test span was sent to {address} and read back")


def _is_stored(destination: Destination, encoded: EncodedSpan, pauses: Sequence[float]) -> bool | None:
    """Ask the backend repeatedly for a span; None if it cannot be queried, which some say only when they are asked."""
    for pause in (*pauses, 0.0):
        if destination.stored_ids([encoded]):
            return True
        if not destination.queryable:
            return None
        time.sleep(pause)
    return False


def _remove_from_langfuse(address: str, destination: Any, encoded: EncodedSpan, pauses: Sequence[float]) -> str:  # noqa: ANN401
    """Remove the test span; return what is known of the project and of the span."""
    project = destination.api.project()
    where = f"{address}, project {project}" if isinstance(project, str) else address
    if destination.api.remove_trace(encoded.trace_id) is None:
        for pause in (*pauses, 0.0):
            if destination.stored_ids([encoded]) == frozenset():
                return f"a test span was sent to {where}, read back and removed"
            time.sleep(pause)
    return f"a test span was sent to {where} and read back; it is in environment {_ENVIRONMENT}"


def fix(settings: DestinationSettings, message: str) -> str:
    """Return what to do about the message of a destination that stored nothing."""
    url = "langfuse_base_url" if settings.kind == "langfuse" else "otlp_endpoint"
    kind = next((kind for kind, words in _KINDS if words.search(message)), None)
    if settings.path is not None:
        return f"make {shlex.quote(str(settings.path))} writable, and make sure the disk is not full"
    match kind, settings.kind:
        case _, "otel":
            return f"check the exporter's own settings, such as OTEL_EXPORTER_*, or use OTLP: {_set(url, 'URL')}"
        case "redirect", _:
            return f"use the address it redirects to: {_set(url, 'URL')}"
        case "key", "langfuse":
            keys = f"{_set('langfuse_public_key')} and {_set('langfuse_secret_key')}"
            return f"{keys} with the keys of this project on this server ({_address(settings)})"
        case "key", _:
            return f"{_set('otlp_headers')} with the header that the backend requires, such as authorization=..."
        case "url", _:
            return f"correct the address: {_set(url, 'URL')}"
        case "plain", _:
            return f"the server speaks plain HTTP: {_set(url, 'http://...')}"
        case "certificate", "langfuse":
            return "set SSL_CERT_FILE to a file with the certificate to trust, also in the env of settings.json"
        case "certificate", _:
            return f"{_set('otlp_ca_file', 'FILE')} with the certificate to trust"
        case "network", _:
            return f"start the server, or correct the address: {_set(url, 'URL')}; nothing is lost"
        case _:
            return "wait until the backend has recovered; nothing is lost, the next turn or `cc-trace sync` sends it"


def _fix_rejected(settings: DestinationSettings) -> str:
    if settings.kind == "langfuse":
        return f"update the server, or correct the address: {_set('langfuse_base_url', 'URL')}"
    protocol = _set("otlp_protocol", "http/protobuf|http/json|grpc")
    return f"set the headers it requires, {_set('otlp_headers')}, or try another protocol: {protocol}"


def _set(name: str, value: str | None = None) -> str:
    """Return the command that sets a setting; without a value it prompts for it, as for keys."""
    return f"`cc-trace config set {name}{'' if value is None else f' {value}'}`"


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


CHECKS: Final = (destinations,)
