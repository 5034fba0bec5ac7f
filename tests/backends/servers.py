"""Real backends for tests: each from PyPI, in an environment of its own below .backends, on 127.0.0.1.

`make test-backends` installs them. Where one is not installed, its tests are skipped and say so.
"""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from shared import CASES, case_transcripts

from cc_trace.export.destination import open_destination
from cc_trace.export.outcomes import Accepted
from cc_trace.spans.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from cc_trace.export.destination import DestinationSettings
    from cc_trace.spans.model import Span

_FOLDER: Final = Path(__file__).parents[2] / ".backends"
_UP_SECONDS: Final = 180.0  # the first start of one compiles hundreds of modules
_STORED_SECONDS: Final = 60.0
_BATCH: Final = 200
_SECONDS: Final = 60.0  # of sending one: the first may find a backend still busy with its start


@contextmanager
def running(
    name: str, folder: Path, command: Sequence[str], variables: Mapping[str, str], up: Callable[[], object]
) -> Iterator[None]:
    """Run a backend's program until the block is left; `up` raises OSError until it answers."""
    program, log = _FOLDER / name / "bin" / command[0], folder / f"{name}.log"
    if not program.is_file():
        pytest.skip(f"{name} is not installed; `make test-backends` installs it")
    environment = {"PATH": f"{program.parent}:/usr/bin:/bin", "HOME": str(folder), **variables}
    with log.open("wb") as out:
        process = subprocess.Popen([program, *command[1:]], cwd=folder, env=environment, stdout=out, stderr=out)
    try:
        deadline = time.monotonic() + _UP_SECONDS
        while True:
            try:
                up()
                break
            except OSError:
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.fail(f"{name} is not up: {log.read_text()[-4000:]}")
                time.sleep(0.2)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def ask(url: str, body: object = None, *, text: bool = False) -> Any:
    """What a backend answers, as JSON or as text. OSError where it does not answer."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data, {"content-type": "application/json"})  # noqa: S310  (our own server)
    try:
        with urlopen(request, timeout=30) as response:  # noqa: S310
            return response.read().decode() if text else json.load(response)
    except URLError as error:
        message = f"{url}: {error}"
        raise OSError(message) from error


def recorded_spans() -> list[Span]:
    """Every span of every session of the real Claude Code that has times. A fork repeats spans: those are there once.

    The cases that are written by hand are left out: several have the same ids.
    """
    recorded = [path for path in case_transcripts() if not path.relative_to(CASES).parts[0].startswith("read--")]
    found = {span.span_id: span for path in recorded for span in Session(path).spans()}
    return [span for span in found.values() if span.start_ns and span.end_ns]


def send(settings: DestinationSettings, spans: Sequence[Span]) -> None:
    """Send them all."""
    destination = open_destination(replace(settings, timeout_seconds=_SECONDS))
    for start in range(0, len(spans), _BATCH):
        outcome = destination.send([destination.encode(span) for span in spans[start : start + _BATCH]])
        assert outcome == Accepted()
    destination.close()


def stored(read: Callable[[], dict[str, Any]], count: int) -> dict[str, Any]:
    """What a backend has, as soon as it has so many: it stores after it has answered."""
    deadline = time.monotonic() + _STORED_SECONDS
    while len(found := read()) < count and time.monotonic() < deadline:
        time.sleep(0.2)
    return found
