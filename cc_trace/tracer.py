"""`Tracer`: traces what an Agent SDK says, in the process that uses it.

Rules:
- The program that is traced comes first: nothing raises into it because of tracing. What is wrong is a warning of the
  logger `cc_trace`, which Python prints to stderr where nobody has configured it.
- Delivery happens when the block ends, in a thread, and is waited for within a bounded time. What is pending then lies
  in the state folder, and the next `cc-trace sync`, hook or run delivers it.
- Nothing of the SDK is imported; its messages are recognized by the names of their classes, or are plain dicts.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator
from typing import TYPE_CHECKING, Final, Self, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from cc_trace.transcript import Messages

T = TypeVar("T")
_LOG: Final = logging.getLogger("cc_trace")
_GRACE_SECONDS: Final = 0.5  # for what is being done when the time is over


class _WatchedAsync(AsyncIterator[T]):
    """An iterator that calls `on_item` with each item. Not a generator: its end would end what it iterates over."""

    def __init__(self, items: AsyncIterable[T], on_item: Callable[[T], None]) -> None:
        self._items, self._on_item = aiter(items), on_item

    async def __anext__(self) -> T:
        item = await anext(self._items)
        self._on_item(item)
        return item

    async def aclose(self) -> None:
        """Close what is iterated over, for `contextlib.aclosing`."""
        close = getattr(self._items, "aclose", None)
        if close is not None:
            await close()


class Tracer:
    """`with Tracer(prompt) as tracer:`, or `async with`; then iterate over `tracer.watch(messages)`.

    A tracer is for one stream of messages: a query, or the answer to one prompt of a longer session. Any number can be
    open at once, in tasks and threads. `prompt`: what was asked, which no SDK repeats in its messages. `wait_seconds`:
    how long the end of the block may wait for the delivery.
    """

    def __init__(self, prompt: str | None = None, *, wait_seconds: float = 10.0) -> None:
        self._prompt = prompt
        self._wait_seconds = wait_seconds
        self._messages: Messages | None = None
        self._warnings: set[str] = set()
        self._began_ns = time.time_ns()

    def __enter__(self) -> Self:
        """Begin."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Deliver, whether the block ended well or not."""
        self._deliver_in_time()

    async def __aenter__(self) -> Self:
        """Begin."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Deliver as `with` does, and let other tasks of asyncio go on meanwhile."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:  # another event loop
            self._deliver_in_time()
        else:
            await loop.run_in_executor(None, self._deliver_in_time)

    @overload
    def watch(self, messages: AsyncIterable[T]) -> AsyncIterator[T]: ...
    @overload
    def watch(self, messages: Iterable[T]) -> Iterator[T]: ...
    def watch(self, messages: AsyncIterable[T] | Iterable[T]) -> AsyncIterator[T] | Iterator[T]:
        """Return the same messages, in the same order; each is added as it passes.

        Leaving the loop early does to the messages what it would do without us.
        """
        if isinstance(messages, AsyncIterable):
            return _WatchedAsync(messages, self.add)
        return map(self._add_and_return, messages)

    def _add_and_return(self, message: T) -> T:
        self.add(message)
        return message

    def add(self, message: object) -> None:
        """Take one message: an object of the Python SDK, or a dict in the form of `stream-json`."""
        try:
            self._add(message)
        except Exception as error:  # noqa: BLE001  (see above)
            self._warn_once(f"a {type(message).__name__} is not traced: {type(error).__name__}: {error}")

    def _add(self, message: object) -> None:
        from cc_trace.transcript import Messages, sdk_message  # noqa: PLC0415  (whoever imports cc_trace need not pay for it)

        converted = sdk_message(message)
        if converted is None:
            self._warn_once(f"a {type(message).__name__} is not traced: it is not a Claude Code message")
            return
        if self._messages is None:
            self._messages = Messages()
        self._messages.add(converted, time.time_ns())

    def _warn_once(self, warning: str) -> None:
        if warning not in self._warnings:
            self._warnings.add(warning)
            _LOG.warning(warning)

    def _deliver_in_time(self) -> None:
        messages, self._messages = self._messages, None
        if messages is None or not messages.items:
            return
        thread = threading.Thread(target=self._deliver_safely, args=(messages,), name="cc-trace", daemon=True)
        try:
            thread.start()
            thread.join(self._wait_seconds + _GRACE_SECONDS)
        except RuntimeError as error:  # no thread can be started: the interpreter is ending
            _LOG.warning("not traced: %s", error)
            return
        if thread.is_alive():
            _LOG.warning("some spans are still pending; `cc-trace sync` delivers them")

    def _deliver_safely(self, messages: Messages) -> None:
        try:
            self._deliver(messages)
        except Exception as error:  # noqa: BLE001  (see above)
            _LOG.warning("not traced: %s: %s", type(error).__name__, error)

    def _deliver(self, messages: Messages) -> None:
        from cc_trace.delivery import App, sync_stream  # noqa: PLC0415  (as above)
        from cc_trace.paths import current_folder  # noqa: PLC0415  (as above)
        from cc_trace.transcript import convert_stream  # noqa: PLC0415  (as above)

        deadline = time.time() + self._wait_seconds
        runs = convert_stream(messages, prompt=self._prompt, began_ns=self._began_ns)
        app = App.open(os.environ)
        with app.sync() as sync:
            reports = [sync_stream(app, sync, run, current_folder(), deadline=deadline) for run in runs]
        for report in reports:
            for name, reason in report.pending.items():
                _LOG.warning("%s: pending for %s: %s", report.session_id, name, reason)
