"""Delivery of every change of a collection, in order, with a cache that has just applied it.

An informer is a reflector with its pump and a cache. Those who subscribe are called in the same step in which the cache
has reached a revision: a subscriber that reads the cache sees the change and nothing later. They must be quick, must
not await, and put a key on a queue rather than do the work. After a reconnect or a relist they receive what is
different, including deletes that were not observed; what came and went meanwhile is not reported. So a change says
*look at this key*.

`Informers` has one informer for each collection in a process, however many parts of it ask for it. There may be more of
them than one needs at once, but each costs the server a watch and this process the memory of its objects.

A subscriber that raises is a bug and stops the informer, which is reported to the loop (`SubscriberFailed`); tasks
that wait for a revision get `CacheStopped` instead of waiting for ever.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta

from mainstay.api.kind_name import KindName
from mainstay.client.cache import Cache
from mainstay.client.entry import Change, ChangeType
from mainstay.client.indexes import Index
from mainstay.client.pump import SILENCE_MAX, Collection, Pump, PumpSource
from mainstay.client.reflector import PAGE_LIMIT, Reflector, ReflectorCounters
from mainstay.env import Env, tasks
from mainstay.env.invariants import BrokenInvariant

Subscriber = Callable[[Change], None]


class SubscriberFailed(Exception):
    """A subscriber has raised. Others may not have received the change."""


class Informer:
    """Follows one collection between `start` and `stop`."""

    def __init__(
        self,
        source: PumpSource,
        env: Env,
        collection: Collection,
        indexes: Sequence[Index] = (),
        *,
        streams_state: bool = True,
        page_limit: int | None = PAGE_LIMIT,
        silence_max: timedelta = SILENCE_MAX,
    ) -> None:
        """`streams_state`: ask for the state as the beginning of a watch, and for lists only from those that cannot."""
        self.collection = collection
        self.cache = Cache(collection.kind, indexes)
        self._clock = env.clock
        self._reflector = Reflector(self.cache.known_at, streams_state=streams_state, page_limit=page_limit)
        self._pump = Pump(source, collection, self._reflector, self.cache, env, self._deliver, silence_max=silence_max)
        self._subscribers: tuple[Subscriber, ...] = ()
        self._latest_seen = 0
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow. Once only."""
        if self._running is not None:
            raise RuntimeError(f"the informer of {self.collection} is already started")
        self._running = tasks.spawn(self._run(), name=f"informer of {self.collection}")

    async def stop(self) -> None:
        """Follow no longer. The cache stays as it is."""
        if self._running is not None:
            await tasks.stop(self._running)
        self.cache.close()

    async def synced(self) -> None:
        """Wait until the cache has been filled. Raises `CacheStopped` (cache.py) if that will not happen any more."""
        await self.cache.wait_until(0)

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call a subscriber for each change from now on, and first for each object in the cache, as if just added.

        Subscribers are called in the order in which they came.
        """
        for entry in self.cache.entries():
            subscriber(Change(self.cache.kind, entry.key, ChangeType.ADDED, None, entry, self.cache.revision))
        self._subscribers += (subscriber,)

    def unsubscribe(self, subscriber: Subscriber) -> None:
        """Do not call them again. They must have subscribed."""
        remaining = list(self._subscribers)
        remaining.remove(subscriber)
        self._subscribers = tuple(remaining)

    # How it is doing.

    @property
    def counters(self) -> ReflectorCounters:
        return self._reflector.counters

    @property
    def last_error(self) -> str:
        """Why it is not being told anything; empty if all is well."""
        return self._pump.last_error

    @property
    def silent_for(self) -> timedelta | None:
        """How long ago the server last said anything; None if it never did."""
        heard_at_ns = self._pump.heard_at_ns
        if heard_at_ns is None:
            return None
        return timedelta(microseconds=(self._clock.monotonic_ns() - heard_at_ns) // 1000)

    def saw(self, revision: int) -> None:
        """Note that this collection is known to have changed at a revision, from an answer to a write for instance."""
        self._latest_seen = max(self._latest_seen, revision)

    @property
    def lag(self) -> int:
        """How far the cache is behind the latest revision that this process knows of, in revisions."""
        return max(0, self._latest_seen - self.cache.revision)

    def _deliver(self, changes: Sequence[Change]) -> None:
        for change in changes:
            for subscriber in self._subscribers:
                try:
                    subscriber(change)
                except BrokenInvariant:
                    raise
                except Exception as error:
                    what = f"{change.key} of {self.collection} was {change.type} at {change.revision}"
                    raise SubscriberFailed(f"subscriber failed on: {what}: {error!r}") from error

    async def _run(self) -> None:
        try:
            await self._pump.run()
        finally:
            self.cache.close()


class Informers:
    """The informers of one process: one for each collection."""

    def __init__(self, source: PumpSource, env: Env) -> None:
        self._source = source
        self._env = env
        self._informers: dict[Collection, Informer] = {}

    def get(
        self,
        kind: KindName,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
        indexes: Iterable[Index] = (),
    ) -> Informer:
        """The informer of a collection, started on first use. It will have these indexes too."""
        collection = Collection(kind, namespace, labels, fields)
        informer = self._informers.get(collection)
        if informer is None:
            informer = self._informers[collection] = Informer(self._source, self._env, collection)
            informer.start()
        informer.cache.add_indexes(indexes)
        return informer

    def all(self) -> list[Informer]:
        """In the order in which they were first asked for."""
        return list(self._informers.values())

    async def synced(self) -> None:
        """Wait until all of them have been filled."""
        for informer in self.all():
            await informer.synced()

    async def stop(self) -> None:
        """Stop all of them, and forget them."""
        for informer in self.all():
            await informer.stop()
        self._informers.clear()
