"""The scheduler as a program's component: its caches, leader election or sharing, and what it says about itself.

Led: of several processes with the same lease one decides, and the others have everything ready. Every write carries
its term, so that the server refuses what a deposed leader still sends. Shared: all of them decide at once, each for all
pods. Two that choose the same pod, or the same room, meet at the commit: one is refused, and takes a fresh candidate.
They break ties by different seeds, so they rarely do. Sharing needs the ledger of our server; beside Kubernetes use a
lease.

A pod is for the scheduler that it names. By default this one answers to `default-scheduler` and to `mainstay`.

Caches are kept filled also by those who only stand by; what a leader knows (columns, queue) is made again from them at
the beginning of its term, which takes about a second for 50,000 pods.
"""

import logging
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Final

from mainstay.api.holds import SCHEDULER
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import HOLDS, NODES, PLACEMENT_POLICIES, PODS, RESERVATIONS, ZONE_QUOTAS
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.client.informer import Informer, Informers, Subscriber
from mainstay.env import Env, tasks
from mainstay.journal.record import ViewPart
from mainstay.loop.component import LEASE_NAMESPACE, SCHEDULER_LEASE
from mainstay.loop.component_state import ComponentState, PublishSettings, start_publishing
from mainstay.loop.events import EventRecorder
from mainstay.loop.holds import Holding
from mainstay.loop.kernel import Kernel, Loop, LoopContext
from mainstay.loop.lease import Leader, LeaseSettings
from mainstay.loop.record import Recorder
from mainstay.loop.term import Term
from mainstay.scheduler.active_policies import ActivePolicies, ChosenPolicy, build_policies
from mainstay.scheduler.bind import Binder
from mainstay.scheduler.bindings import ClusterWriters
from mainstay.scheduler.cache.feed import DEFAULT_NAME
from mainstay.scheduler.cluster_state import ClusterView
from mainstay.scheduler.counts import SchedulerCounts
from mainstay.scheduler.cycle import Cycle
from mainstay.scheduler.policy import DEFAULT, Policy
from mainstay.scheduler.record_writer import Author, RecordWriter
from mainstay.scheduler.report import Reporter, ReportSettings
from mainstay.scheduler.settings import CycleSettings
from mainstay.scheduler.what_if import Objects

OWN_NAME: Final = "mainstay"

_ASK_AGAIN: Final = timedelta(seconds=1)
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerSettings:
    lease_name: str = SCHEDULER_LEASE
    """Empty: decide without being elected, together with others."""
    names: tuple[str, ...] = (DEFAULT_NAME, OWN_NAME)
    """Pods with one of these as their `schedulerName` are ours."""
    policy: Policy = DEFAULT
    policy_name: str = ""
    """A PlacementPolicy without a scope, for pods that no scope of an active one selects. While there is none of that
    name, or it is not active, it is `policy`."""
    cycle: CycleSettings = field(default_factory=CycleSettings)
    report: ReportSettings = field(default_factory=ReportSettings)
    lease: LeaseSettings = field(default_factory=LeaseSettings)
    publish: PublishSettings = field(default_factory=PublishSettings)
    build: str = ""


class Scheduler:
    """`run` until cancelled."""

    name: Final = "scheduler"

    def __init__(
        self,
        client: Client,
        env: Env,
        *,
        instance: str = "scheduler",
        settings: SchedulerSettings | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        """`instance` tells several schedulers apart. It stays the same when a process restarts."""
        self.instance = instance
        self.client = client
        self.settings = settings or SchedulerSettings()
        self.identity = f"{instance}_{env.chance.uid('identity', 0)}"
        self.informers = Informers(client, env)
        self._events = EventRecorder(client, env.clock, self.name, instance)
        """About Holds. What is told about pods goes with their status (report.py)."""
        self.holding = Holding(
            client, self.informers, env, recorder=recorder, build=self.settings.build, events=self._events
        )
        self.counts = SchedulerCounts()
        self.term: Term | None = None
        self.loops: list[Loop] = []
        """None: it has a cycle of its own. Here for those who measure components."""
        self.cycle: Cycle | None = None
        self.is_deciding = False
        self._env = env
        self._recorder = recorder
        self._cycles = 0
        self._policies: Informer | None = None
        self._policies_seen: tuple[list[tuple[str, int]], ActivePolicies] | None = None
        """What they were built from, by uid and revision."""
        self._subscribed: list[tuple[Informer, Subscriber]] = []

    async def run(self) -> None:
        """Raises what the work raises: a cache that cannot be fed any more, a bug."""
        publishing = start_publishing(self.instance, self.state, self.client, self._env, self.settings.publish)
        telling = self._events.start()
        try:
            await self._follow()
            if not self.settings.lease_name:
                await self._lead(None)
                return
            leader = Leader(
                self.client,
                self._env,
                LEASE_NAMESPACE,
                self.settings.lease_name,
                self.identity,
                self.settings.lease,
            )
            await leader.run(self._lead)
        finally:
            await tasks.stop(publishing)
            await tasks.stop(telling)
            self.holding.close()
            await self.informers.stop()

    def state(self) -> ComponentState:
        revisions = {informer.cache.kind.text: informer.cache.revision for informer in self.informers.all()}
        policies = {named.name: named.revision for named in self.current_policies().named}
        term = self.term.text if self.term is not None else ""
        figures = tuple([each.describe() for each in self.counts.policies.all()])
        return ComponentState(
            revisions,
            self.settings.build,
            self.settings.cycle.gates.all,
            policies=policies,
            term=term,
            controllers=self.holding.gates,
            policy_figures=figures,
            role=self.name,  # As ComponentRole has it.
        )

    def current_policies(self) -> ActivePolicies:
        """What decisions go by at this moment."""
        if self._policies is None:
            return ActivePolicies(ChosenPolicy(self.settings.policy))
        entries = list(self._policies.cache.entries())
        versions = [(entry.uid, entry.revision) for entry in entries]
        if self._policies_seen is None or self._policies_seen[0] != versions:
            settings = self.settings
            found = build_policies([each.object() for each in entries], settings.policy_name, settings.policy)
            if not settings.cycle.has_shadows:
                found = replace(found, shadowed=())
            self._policies_seen = versions, found
            self.counts.policies.learn((*found.named, *found.named_in_shadow), self._env.clock.wall())
        return self._policies_seen[1]

    # Knowing.

    async def _follow(self) -> None:
        """Begin to follow all that decisions are made from, and wait until the caches are filled."""
        self.informers.get(PODS)
        self.informers.get(NODES)
        if await self._has_own_kinds():
            self.informers.get(RESERVATIONS)
            self.informers.get(ZONE_QUOTAS)
            self._policies = self.informers.get(PLACEMENT_POLICIES)
        await self.informers.synced()

    async def _has_own_kinds(self) -> bool:
        """Whether the server is one of ours. A Kubernetes one has no reservations, and a cache of them would never be
        filled."""
        while True:
            try:
                await self.client.request("GET", "/apis/mainstay.dev/v1")
                return True
            except NotFound:
                return False
            except ApiError as error:
                _logger.warning("%s cannot discover the API groups of the server: %s", self.instance, error)
                await tasks.sleep(_ASK_AGAIN)

    def _seen(self) -> tuple[ViewPart, ...]:
        """The name of the view. Who is held is not part of it: while we are, nothing is decided."""
        seen = [each.cache for each in self.informers.all() if each.cache.kind != HOLDS]
        return tuple([ViewPart(cache.kind.text, cache.revision) for cache in seen])

    def _objects(self, count_max: int) -> Objects | None:
        """All that decisions are made from, unless it is more than so much."""
        caches = {informer.cache.kind: informer.cache for informer in self.informers.all()}
        if sum(len(cache) for cache in caches.values()) > count_max:
            return None

        def of(kind: KindName) -> tuple[Object, ...]:
            return tuple([entry.object() for entry in caches[kind].entries()]) if kind in caches else ()

        return Objects(of(NODES), of(PODS), of(RESERVATIONS), of(ZONE_QUOTAS))

    # Working.

    async def _lead(self, term: Term | None) -> None:
        self.term = term
        self._cycles += 1
        pods = self.informers.get(PODS)
        build, events = self.settings.build, self._events
        context = LoopContext(
            self.client,
            self.informers,
            self._env,
            term,
            self._recorder,
            build,
            events,
            self.holding,
            gates=self.settings.cycle.gates,
        )
        kernel = Kernel(SCHEDULER, context, resumed=self._look_again, component=self.instance)
        text = kernel.term_text
        author = Author(kernel.origin, self._env.chance.uid("cycle", self._cycles))
        reporter = Reporter(self.client, pods.cache, self._env, self.instance, self.settings.report, term=text)
        cycle = self.cycle = Cycle(
            self._env,
            ClusterView(pods, self.settings.names, self._seen, self.current_policies, self._objects),
            ClusterWriters(self.client, Binder(self.client, term=text, scheduler=author.cycle), reporter),
            RecordWriter(self._env, author, self._recorder),
            SCHEDULER if term is not None else self.instance,
            self.settings.cycle,
            self.counts,
            kernel.gate,
        )
        try:
            await kernel.ready(self.informers.all())
            self._subscribe(cycle)
            self.is_deciding = True
            with kernel.gate, kernel.fencing():
                await tasks.together(
                    [cycle.run(), *[reporter.run() for _ in range(self.settings.report.writers)]],
                    name=f"{self.instance} works",
                )
        finally:
            self.is_deciding = False
            self._unsubscribe()
            self.term = None

    def _look_again(self) -> None:
        if self.cycle is not None:
            self.cycle.look_again()

    def _subscribe(self, cycle: Cycle) -> None:
        """Nodes first: what is placed on them then has its row."""
        feed = cycle.state.feed
        told: dict[KindName, Subscriber] = {
            NODES: feed.node_changed,
            RESERVATIONS: feed.reservation_changed,
            ZONE_QUOTAS: feed.zone_quota_changed,
            PLACEMENT_POLICIES: feed.policy_changed,
            PODS: feed.pod_changed,
        }
        by_kind = {informer.cache.kind: informer for informer in self.informers.all()}
        for kind, subscriber in told.items():
            if kind in by_kind:
                by_kind[kind].subscribe(subscriber)
                self._subscribed.append((by_kind[kind], subscriber))

    def _unsubscribe(self) -> None:
        for informer, subscriber in self._subscribed:
            informer.unsubscribe(subscriber)
        self._subscribed.clear()
