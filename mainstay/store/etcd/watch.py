"""One watch over etcd: a stream that is opened again when it breaks, and that never leaves a gap unnoticed.

A task of its own reads the stream, a few responses ahead of its reader and no further; then gRPC's flow control
holds etcd back. So an iteration may be cancelled and taken up again without anything being lost. When the stream
breaks, is refused, or is not even confirmed in time, a new one is opened after the last revision received, with
growing pauses. After `FAILURES_MAX` failures in a row the watch ends with `StoreUnavailable`.

etcd 3.4 leaves events out in four cases. Each of them comes with compaction, and each must end the watch with
`Compacted` instead:

- It leaves out `prev_kv` when that is compacted just before it is sent. A change whose previous entry is missing
  shows it.
- A watch that begins exactly at the compacted revision is accepted, although deletions of that revision are gone
  (etcd issue 18089). So we begin one revision earlier than we need, at the last one received, and drop what we know:
  etcd then refuses precisely when something after it may be missing.
- A reader that is catching up can meet the same in the middle. Such a response holds several revisions, or is behind
  its header; before it is passed on, we make sure that the history before it is still there.
- If the reader is so slow that etcd's queue of 128 responses for it is full at the wrong moment, etcd forgets to tell
  it of the compaction and goes on with the newest events (issue 17529, fixed in 3.4.31). By then at least 128
  responses that were queued before the gap are yet to be read; so we make sure once every `CONFIRM_EVERY` < 128
  responses.

Not used: etcd's progress notifications. In 3.4 they may overtake events.
"""

import asyncio
from datetime import timedelta
from random import Random
from types import TracebackType
from typing import Final, NoReturn, Self

from mainstay.env import tasks
from mainstay.store.errors import FutureRevision, StoreError, StoreUnavailable
from mainstay.store.etcd.backoff import delay_after
from mainstay.store.etcd.keyspace import Keyspace
from mainstay.store.etcd.kv import EtcdError, EtcdEvent, EtcdKv, NoAnswer, WatchResponse, WatchStream
from mainstay.store.etcd.reads import EtcdReader
from mainstay.store.interface import KeyChange, WatchBatch

AHEAD_MAX: Final = 8  # Batches that wait for the iteration. Each is one response of etcd: up to 1000 revisions.
CONFIRM_EVERY: Final = 64
CREATE_LIMIT: Final = timedelta(seconds=5)
FAILURES_MAX: Final = 30


class EtcdWatch:
    """Implements `StoreWatch` (interface.py)."""

    def __init__(
        self, kv: EtcdKv, reads: EtcdReader, keyspace: Keyspace, prefix: str, after: int, jitter: Random
    ) -> None:
        self._kv = kv
        self._reads = reads
        self._keyspace = keyspace
        self._prefix = prefix
        self._received = after
        """Everything up to this revision has been received, and is delivered or waits in the queue."""
        self._jitter = jitter
        self._failures = 0
        self._queue: asyncio.Queue[WatchBatch | Exception] = asyncio.Queue(AHEAD_MAX)
        self._end: Exception | None = None
        """What every further call is answered with."""
        self._following: asyncio.Task[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> WatchBatch:
        if self._end is None:
            if self._following is None:
                self._following = tasks.spawn(self._follow(), name=f"watch {self._prefix}")
            item = await self._queue.get()
            if isinstance(item, WatchBatch):
                return item
            self._end = item
        raise self._end

    def close(self) -> None:
        self.end(StopAsyncIteration())

    def end(self, reason: Exception) -> None:
        """Deliver nothing more; a reader that waits or comes later gets the reason. Only the first reason counts."""
        if self._end is not None:
            return
        self._end = reason
        if self._following is not None:
            self._following.cancel()
        while not self._queue.empty():
            self._queue.get_nowait()
        self._queue.put_nowait(reason)

    @property
    def has_ended(self) -> bool:
        """Whether nothing more will come. Then it also holds nothing of etcd any more, or is about to let go."""
        return self._end is not None

    async def ended(self) -> None:
        """Wait until it has let go of everything."""
        if self._following is not None:
            await asyncio.wait([self._following])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def _follow(self) -> None:
        """Read stream after stream, until something says that it is over."""
        try:
            while True:
                # From the last revision received, which we drop: see above. 0 would mean "from now on".
                stream = self._kv.watch(*self._keyspace.span(self._prefix), start_revision=max(self._received, 1))
                try:
                    failure = await self._read_until_broken(stream)
                finally:
                    stream.cancel()
                await self._pause(failure)
        except StoreError as error:
            await self._queue.put(error)
        except Exception as error:  # A bug. Also then no reader must wait for ever.
            await self._queue.put(error)
            raise

    async def _read_until_broken(self, stream: WatchStream) -> Exception:
        """Deliver what a stream brings. Returns why it brings no more, if another one may."""
        try:
            await self._read(stream)
        except (EtcdError, TimeoutError, StoreUnavailable) as error:
            return error

    async def _read(self, stream: WatchStream) -> NoReturn:
        async with tasks.timeout(CREATE_LIMIT):
            response = await stream.next()
        await self._require_running(response)
        if response.revision < self._received:
            await self._require_happened()
        self._failures = 0

        unconfirmed = 0
        was_catching_up = False
        while True:
            response = await stream.next()
            await self._require_running(response)
            unconfirmed += 1
            is_catching_up = _is_catching_up(response)
            # The last part of catching up may look like something that has just happened.
            if unconfirmed >= CONFIRM_EVERY or is_catching_up or was_catching_up:
                await self._reads.require_kept(self._received)
                unconfirmed = 0
            was_catching_up = is_catching_up
            events = [event for event in response.events if event.kv.mod_revision > self._received]
            if events:
                changes = [await self._change(event) for event in events]
                self._received = changes[-1].revision
                await self._queue.put(WatchBatch(self._received, changes))

    async def _require_running(self, response: WatchResponse) -> None:
        if response.compact_revision:
            self._reads.compacted = max(self._reads.compacted, response.compact_revision)
            raise await self._reads.compacted_error(self._received)
        if response.canceled:
            raise NoAnswer("etcd cancelled the watch")

    async def _require_happened(self) -> None:
        # The member that serves the watch may just be behind. The others know.
        latest = await self._reads.revision()
        if latest < self._received:
            raise FutureRevision(self._received, latest)

    async def _change(self, event: EtcdEvent) -> KeyChange:
        kv = event.kv
        if event.previous is None and (event.is_delete or kv.version != 1):
            raise await self._reads.compacted_error(kv.mod_revision - 1)
        previous = None if event.previous is None else self._keyspace.entry(event.previous)
        if event.is_delete:
            return KeyChange(kv.mod_revision, self._keyspace.decode(kv.key), None, previous)
        entry = self._keyspace.entry(kv)
        return KeyChange(kv.mod_revision, entry.key, entry, previous)

    async def _pause(self, error: Exception) -> None:
        self._failures += 1
        if self._failures > FAILURES_MAX:
            raise StoreUnavailable(f"the watch could not be opened again {FAILURES_MAX} times in a row: {error}")
        await tasks.sleep(delay_after(self._failures, self._jitter))


def _is_catching_up(response: WatchResponse) -> bool:
    """Whether etcd took this from its history. What has just happened is told one revision at a time."""
    return not response.events or response.events[0].kv.mod_revision != response.revision
