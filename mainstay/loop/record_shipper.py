"""Where the decisions of a component go: to the API server, which keeps the journal of the whole cluster.

    async with Shipper(client, env, source=instance, local=DecisionRecorder(env.disk, env.clock)) as shipper:
        Scheduler(..., recorder=shipper.record)

`record` only encodes and puts down, and never makes the component wait; a task sends what has come together a few times
a second. What waits is bounded, and what there was no room for is counted and told (journal/outbox.py): a server that
is away for longer than the room lasts costs detail first, then records, never the component.

Everything is sent until an answer says that it arrived, so it may arrive twice; decisions are known by their ids. A
crash of the component loses what was recorded in the last moments. The writes themselves carry the decision's id, so
the history still tells that there was one.

A server that keeps no journal (a Kubernetes one, or ours without) says so. Then decisions go to a `DecisionRecorder` in
this component's own directory, if one was given, and the server is asked again now and then.
"""

import asyncio
import contextlib
import logging
from datetime import timedelta
from types import TracebackType
from typing import Final, Self

from mainstay.api.retry_shape import NO_BOUND, RetryShape
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, BadRequest, Forbidden, Invalid, NotFound, Throttled
from mainstay.env import Env, tasks, vital
from mainstay.env.disk import DiskFull
from mainstay.journal.decisions import DecisionRecorder
from mainstay.journal.errors import JournalInUse
from mainstay.journal.outbox import WAITING_BYTES_MAX, WaitingRecords
from mainstay.journal.record import DecisionRecord, RecordedMemory, joined, micros
from mainstay.journal.sampling import Sampler
from mainstay.journal.watermark import Watermark

_log = logging.getLogger(__name__)

PATH: Final = "/journal/decisions"
CONTENT_TYPE: Final = "application/vnd.mainstay.records"

SHIP_EVERY: Final = timedelta(milliseconds=200)
RETRY: Final = RetryShape(  # What cannot be sent is kept, up to a bound, for as long as it takes.
    attempts_max=NO_BOUND, first_delay=timedelta(seconds=1), delay_max=timedelta(seconds=15)
)
ASK_AGAIN_AFTER: Final = timedelta(minutes=5)  # A server that keeps no journal may be replaced by one that does.
CLOSING: Final = timedelta(seconds=5)
_METHOD_NOT_ALLOWED: Final = 405


class Shipper:
    """Takes the decisions of one process. Use it as an async context manager, or call `close` in the end."""

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        source: str,
        local: DecisionRecorder | None = None,
        waiting_bytes_max: int = WAITING_BYTES_MAX,
    ) -> None:
        """`source` is the component's instance. `local` is not started: it may never be needed."""
        self._client = client
        self._clock = env.clock
        self._jitter = env.chance.stream("shipping")
        self._waiting = WaitingRecords(env.clock, waiting_bytes_max, source)
        self._sampler = Sampler()
        """Of the default rules. What they keep in full, the server then takes as it is, unless it has others."""
        self._sent = Watermark()
        """How many of those that were put down are somewhere else now."""
        self._local = local
        self._is_local_open = False
        self._local_until_ns = 0
        """Until then everything goes to the local recorder."""
        self._sending: asyncio.Task[None] | None = None
        self.failures = 0
        self.last_failure = ""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def recorded(self) -> int:
        """How many decisions were put down."""
        return self._waiting.recorded

    @property
    def dropped(self) -> int:
        return self._waiting.dropped

    @property
    def details_dropped(self) -> int:
        return self._waiting.details_dropped

    @property
    def waiting_bytes(self) -> int:
        """What is not sent yet."""
        return self._waiting.size

    @property
    def is_local(self) -> bool:
        """Whether decisions go to this component's own directory, because the server keeps no journal."""
        return self._clock.monotonic_ns() < self._local_until_ns

    def record(self, decision: DecisionRecord) -> None:
        """Put a decision down. Does not wait and does not fail; what there is no room for is counted."""
        self._waiting.record(self._sampler.marked(decision))
        self._send_soon()

    def remember(self, component: str, content: bytes) -> RecordedMemory:
        """What a record says of this memory: see `WaitingRecords.remember`."""
        memory = self._waiting.remember(component, content)
        self._send_soon()
        return memory

    async def flush(self) -> None:
        """Wait until what was recorded so far, and not dropped, is where it is kept."""
        await self._sent.reach(self._waiting.put_count)
        if self._is_local_open and self._local is not None:
            await self._local.flush()

    async def close(self) -> None:
        """Send what is waiting, as far as that is possible within a few seconds, and let go."""
        with contextlib.suppress(TimeoutError):
            async with tasks.timeout(CLOSING):
                await self.flush()
        if self._sending is not None:
            await tasks.stop(self._sending)
        if self._waiting:
            _log.warning("%d bytes of decisions could not be sent, and are lost", self._waiting.size)
        self._waiting.is_open = False
        if self._is_local_open and self._local is not None:
            await self._local.close()

    def _send_soon(self) -> None:
        if self._sending is None and self._waiting:
            self._sending = vital.spawn(self._send(), name="decision-shipper", may_end=True)

    async def _send(self) -> None:
        """Send what is waiting, a few times a second, until nothing is."""
        failed_count = 0
        while self._waiting:
            await tasks.sleep(SHIP_EVERY)
            while self._waiting:
                try:
                    await self._send_batch()
                    failed_count = 0
                except ApiError as error:
                    failed_count += 1
                    await self._failed(error, failed_count)
        self._sending = None

    async def _send_batch(self) -> None:
        """Take one batch away. Raises `ApiError`: it is still there, and is to be sent again."""
        batch = self._waiting.batch()
        if self.is_local and self._local is not None:
            self._local.take(batch.records, micros(self._clock.wall()))
        else:
            await self._client.request("POST", PATH, body=joined(batch.records), headers={"Content-Type": CONTENT_TYPE})
        self._waiting.done()
        self._sent.advance(self._sent.value + batch.count)

    async def _failed(self, error: ApiError, failed_count: int) -> None:
        if _has_no_journal(error):
            if await self._stay_local(error):
                return
        elif isinstance(error, BadRequest | Invalid):
            if not self._waiting.halve():
                _log.error("the server does not take the record of a decision, and it is dropped: %s", error)
                self._waiting.drop()
                self._sent.advance(self._sent.value + 1)
            return
        self.failures += 1
        self.last_failure = str(error)
        if failed_count == 1:
            _log.warning("cannot send decisions to the server, retrying: %s", error)
        await tasks.sleep(self._pause(error, failed_count))

    def _pause(self, error: ApiError, failed_count: int) -> timedelta:
        # Not all at once: thousands of agents may wait for the same server.
        jitter = self._jitter.random()
        if _has_no_journal(error):
            return ASK_AGAIN_AFTER * (1 - jitter / 2)
        pause = RETRY.delay(failed_count, jitter)
        return max(pause, error.retry_after) if isinstance(error, Throttled) else pause

    async def _stay_local(self, error: ApiError) -> bool:
        """Let decisions go to the local recorder for a while. False: there is none, or it cannot be used."""
        if self._local is None:
            return False
        if not self._is_local_open:
            try:
                await self._local.start()
            except (JournalInUse, DiskFull, OSError) as problem:
                _log.error(
                    "the server keeps no journal (%s), and decisions cannot be recorded here: %s", error, problem
                )
                self._local = None
                return False
            self._is_local_open = True
            _log.warning("the server keeps no journal (%s): decisions are recorded in the data directory", error)
        pause_ns = ASK_AGAIN_AFTER // timedelta(microseconds=1) * 1000
        self._local_until_ns = self._clock.monotonic_ns() + pause_ns
        return True


def _has_no_journal(error: ApiError) -> bool:
    # A Kubernetes server forbids what it does not have to users that are not administrators.
    return isinstance(error, NotFound | Forbidden) or error.status == _METHOD_NOT_ALLOWED
