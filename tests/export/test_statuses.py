"""One table says what a status means, over HTTP and over gRPC."""

from __future__ import annotations

from typing import TYPE_CHECKING

import grpc
import pytest

from cc_trace.export import otlp_grpc
from cc_trace.export.outcomes import Rejected, Retryable, Unclear
from cc_trace.export.responses import STATUSES, HttpResponse, http_outcome, verdict

if TYPE_CHECKING:
    from cc_trace.export.responses import Verdict

KINDS = {"rejected": Rejected, "not stored": Retryable, "unclear": Unclear}
ROWS = [(status, meaning) for meaning, statuses in STATUSES.items() for status in sorted(statuses, key=str)]


@pytest.mark.parametrize(("status", "meaning"), ROWS)
def test_both_transports_use_the_table(status: int | str, meaning: Verdict) -> None:
    if isinstance(status, int):
        said = http_outcome(HttpResponse(status, "text/plain", b"said"), (), 0)
    else:
        said = otlp_grpc.status_outcome(grpc.StatusCode[status], "said", None)
    assert type(said) is KINDS[meaning]


# The statuses of HTTP that google.rpc.Code names for codes which are used in one sense only.
SAME = {
    "INVALID_ARGUMENT": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "RESOURCE_EXHAUSTED": 429,
    "INTERNAL": 500,
    "UNKNOWN": 500,
    "DATA_LOSS": 500,
    "UNIMPLEMENTED": 501,
    "UNAVAILABLE": 503,
    "DEADLINE_EXCEEDED": 504,
}


@pytest.mark.parametrize(("code", "status"), SAME.items())
def test_http_and_grpc_agree_on_a_failure(code: str, status: int) -> None:
    assert verdict(code) == verdict(status)


def test_table_is_unambiguous_and_has_every_grpc_code() -> None:
    assert len({status for status, _ in ROWS}) == len(ROWS)
    assert {code.name for code in grpc.StatusCode} == {status for status, _ in ROWS if isinstance(status, str)}


@pytest.mark.parametrize(("status", "meaning"), [(418, "not stored"), (499, "not stored"), (599, "unclear")])
def test_verdict_for_a_status_outside_the_table(status: int, meaning: Verdict) -> None:
    """A 4xx has stored nothing; a 5xx may have."""
    assert verdict(status) == meaning
