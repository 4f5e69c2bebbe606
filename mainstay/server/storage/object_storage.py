"""Stored objects, put together: reads, writes and watches of every kind, and the handlers that serve them.

…/PLURAL, …/PLURAL/NAME                        all kinds that the store keeps
…/status, …/resize, …/ephemeralcontainers      as the object, but only a part of it can change
…/scale, namespaces/NAME/finalize              look otherwise: subresources.py
"""

from typing import Final

from mainstay.api import kind_names
from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.kind import Kind
from mainstay.env import Env
from mainstay.server.request.bodies import Bodies, CustomKinds
from mainstay.server.request.handlers import Handler, HandlerTable, serve
from mainstay.server.request.options import WriteParameters
from mainstay.server.request.served_kinds import Registry
from mainstay.server.request.target import Verb
from mainstay.server.storage.admission import build_admission
from mainstay.server.storage.commit_points import CommitPoints
from mainstay.server.storage.committer import Committer
from mainstay.server.storage.epochs import StoreEpochs
from mainstay.server.storage.object_changes import ObjectChange
from mainstay.server.storage.operations import Sweeper
from mainstay.server.storage.priority_classes import PriorityClasses
from mainstay.server.storage.read_handlers import GetNow, ReadHandlers, WatchHandler
from mainstay.server.storage.reads import ObjectReader
from mainstay.server.storage.subresources import FinalizeChange, ScaleChange
from mainstay.server.storage.write_handlers import DeleteHandlers, WriteHandlers
from mainstay.server.storage.writes import ObjectWriter
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.session import Watching
from mainstay.store.interface import Store

_FIRST_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")


class ObjectStorage:
    """Make one with `await ObjectStorage.open(…)`; then `start`."""

    def __init__(
        self, store: Store, env: Env, feed: Feed, epochs: StoreEpochs, points: CommitPoints, committer: Committer
    ) -> None:
        self.store = store
        self.feed = feed
        self._clock = env.clock
        self._priorities = PriorityClasses(store, feed)
        self._reads = ObjectReader(store, feed)
        self.writes = ObjectWriter(store, env, build_admission(self._priorities.known), points, committer)
        self._watching = Watching(store, feed, env.clock, env.chance.stream("watch timeout"), epochs)
        self._sweeper: Sweeper | None = None
        feed.on_internal_change(epochs.heard)

    @classmethod
    async def open(cls, store: Store, env: Env, points: CommitPoints, committer: Committer) -> "ObjectStorage":
        feed = await Feed.start(store)
        # After the feed: what our own epoch is written at must not be more than clients may resume from.
        epochs = await StoreEpochs.begin(store, env)
        return cls(store, env, feed, epochs, points, committer)

    async def start(self) -> None:
        await self._priorities.start()

    def start_sweeper(self) -> None:
        """Begin to forget old operations."""
        self._sweeper = Sweeper(self.store, self._clock)

    async def stop(self) -> None:
        if self._sweeper is not None:
            await self._sweeper.stop()
        await self._priorities.stop()
        await self._watching.stop()
        await self.feed.stop()

    def end_watches(self, kind: Kind) -> None:
        """It is no longer served."""
        self._watching.end_all(kind)

    async def make_namespaces(self, registry: Registry) -> None:
        """Those that clients expect to be there from the beginning."""
        kind = registry.require(kind_names.NAMESPACES)
        for name in _FIRST_NAMESPACES:
            new = {"kind": kind.kind, "apiVersion": kind.group_version, "metadata": {"name": name}}
            try:
                await self.writes.create(kind, "", new, WriteParameters(False, "Ignore", "mainstay"))
            except StatusError as error:
                if error.reason is not StatusReason.ALREADY_EXISTS:
                    raise

    def add_handlers(self, table: HandlerTable, bodies: Bodies, custom: CustomKinds) -> None:
        clock, memory = self._clock, self.store.memory
        reads = ReadHandlers(lambda user: self._reads, clock)
        objects = WriteHandlers(self.writes, ObjectChange(bodies, clock))
        deletes = DeleteHandlers(self.writes, self._reads, bodies, clock)
        changes = {Verb.UPDATE: Handler(objects.update), Verb.PATCH: Handler(objects.patch)}
        table.add(
            None,
            "",
            {
                Verb.GET: Handler(reads.get, None if memory is None else GetNow(memory, clock)),
                Verb.LIST: Handler(reads.list),
                Verb.WATCH: Handler(WatchHandler(self._watching).watch),
                Verb.CREATE: Handler(objects.create),
                **changes,
                Verb.DELETE: Handler(deletes.delete),
                Verb.DELETE_COLLECTION: Handler(deletes.delete_collection),
            },
        )
        table.add(None, "status", {Verb.GET: Handler(reads.get), **changes})
        for part in ("resize", "ephemeralcontainers"):
            table.add(kind_names.PODS, part, {Verb.GET: Handler(reads.get), **changes})
        change = ScaleChange(bodies, clock, self._reads, custom)
        scales = WriteHandlers(self.writes, change)
        scaled = {Verb.GET: Handler(change.get), Verb.UPDATE: Handler(scales.update), Verb.PATCH: Handler(scales.patch)}
        table.add(None, "scale", scaled)
        finalizes = WriteHandlers(self.writes, FinalizeChange(bodies, clock))
        table.add(kind_names.NAMESPACES, "finalize", serve((Verb.UPDATE,), finalizes.update))
