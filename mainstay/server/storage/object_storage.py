"""Stored objects, put together: reads, writes and watches of every kind, and the handlers that serve them.

…/PLURAL, …/PLURAL/NAME                        all kinds that the store keeps
…/status, …/resize, …/ephemeralcontainers      as the object, but only a part of it can change
…/scale, namespaces/NAME/finalize              look otherwise: subresources.py
"""

from collections.abc import Iterable

from mainstay.api import kind_names
from mainstay.api.kind import Kind
from mainstay.api.pod_security_checks import SecurityLevel
from mainstay.env import Env
from mainstay.server.auth.authorization import Authorizers
from mainstay.server.policies.admission_policies import AdmissionPolicies
from mainstay.server.request.bodies import Bodies, CustomKinds
from mainstay.server.request.handlers import Handler, HandlerTable, serve
from mainstay.server.request.target import Verb
from mainstay.server.storage.account_admission import PodAccounts
from mainstay.server.storage.admission import build_admission
from mainstay.server.storage.commit_points import CommitPoints
from mainstay.server.storage.committer import Committer
from mainstay.server.storage.epochs import StoreEpochs
from mainstay.server.storage.mutation import WriteMutation
from mainstay.server.storage.object_changes import ObjectChange
from mainstay.server.storage.operations import Sweeper
from mainstay.server.storage.pod_security import PodSecurity
from mainstay.server.storage.priority_classes import PriorityClasses
from mainstay.server.storage.read_handlers import GetNow, ReadHandlers, WatchHandler
from mainstay.server.storage.reads import ObjectReader
from mainstay.server.storage.repair import repair_metadata
from mainstay.server.storage.review import WriteReview
from mainstay.server.storage.subresources import FinalizeChange, ScaleChange
from mainstay.server.storage.write_handlers import DeleteHandlers, WriteHandlers
from mainstay.server.storage.writes import ObjectWriter
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.session import Watching
from mainstay.store.interface import Store


class ObjectStorage:
    """Make one with `await ObjectStorage.open(…)`; then `start`."""

    def __init__(
        self,
        store: Store,
        env: Env,
        feed: Feed,
        epochs: StoreEpochs,
        points: CommitPoints,
        committer: Committer,
        security: SecurityLevel,
        accounts: PodAccounts,
    ) -> None:
        self.store = store
        self.feed = feed
        self._clock = env.clock
        self._priorities = PriorityClasses(store, feed)
        self._reads = ObjectReader(store, feed)
        admission = build_admission(self._priorities.known, accounts)
        self.policies = AdmissionPolicies(store, feed)
        review = WriteReview(PodSecurity(store, env.clock, security), self.policies)
        mutations = WriteMutation(self.policies.mutating)
        self.writes = ObjectWriter(store, env, admission, review, mutations, points, committer, accounts)
        self._watching = Watching(store, feed, env.clock, env.chance.stream("watch timeout"), epochs)
        self._sweeper: Sweeper | None = None
        feed.on_internal_change(epochs.heard)

    @classmethod
    async def open(
        cls,
        store: Store,
        env: Env,
        points: CommitPoints,
        committer: Committer,
        security: SecurityLevel,
        accounts: PodAccounts,
    ) -> "ObjectStorage":
        """`security` is what namespaces enforce that do not say."""
        feed = await Feed.start(store)
        # After the feed: what our own epoch is written at must not be more than clients may resume from.
        epochs = await StoreEpochs.begin(store, env)
        return cls(store, env, feed, epochs, points, committer, security, accounts)

    async def start(self) -> None:
        await self._priorities.start()
        await self.policies.start()

    def start_sweeper(self) -> None:
        """Begin to forget old operations."""
        self._sweeper = Sweeper(self.store, self._clock)

    async def stop(self) -> None:
        if self._sweeper is not None:
            await self._sweeper.stop()
        await self.policies.stop()
        await self._priorities.stop()
        await self._watching.stop()
        await self.feed.stop()

    def end_watches(self, kind: Kind) -> None:
        """It is no longer served."""
        self._watching.end_all(kind)

    async def repair(self, kinds: Iterable[Kind]) -> None:
        """Repair what an older version has stored of these kinds, before anything is served."""
        await repair_metadata(self.store, kinds)

    def add_handlers(self, table: HandlerTable, bodies: Bodies, custom: CustomKinds, authorizers: Authorizers) -> None:
        clock, memory = self._clock, self.store.memory
        self.policies.mutating.conform = bodies.conform
        reads = ReadHandlers(lambda user: self._reads, clock)
        objects = WriteHandlers(self.writes, ObjectChange(bodies, clock), authorizers)
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
                Verb.DELETE: Handler(deletes.delete, has_small_body=True),
                Verb.DELETE_COLLECTION: Handler(deletes.delete_collection, has_small_body=True),
            },
        )
        table.add(None, "status", {Verb.GET: Handler(reads.get), **changes})
        for part in ("resize", "ephemeralcontainers"):
            table.add(kind_names.PODS, part, {Verb.GET: Handler(reads.get), **changes})
        table.add(kind_names.SIGNING_REQUESTS, "approval", {Verb.GET: Handler(reads.get), **changes})
        change = ScaleChange(bodies, clock, self._reads, custom)
        scales = WriteHandlers(self.writes, change, authorizers)
        scaled = Handler(scales.update, has_small_body=True)
        verbs = {Verb.GET: Handler(change.get), Verb.UPDATE: scaled, Verb.PATCH: Handler(scales.patch)}
        table.add(None, "scale", verbs)
        finalizes = WriteHandlers(self.writes, FinalizeChange(bodies, clock), authorizers)
        table.add(kind_names.NAMESPACES, "finalize", serve((Verb.UPDATE,), finalizes.update))
