"""The loop of node health: observes heartbeats all the time, and decides about all nodes every second.

A decision goes by a `NodeSnapshot` (decide.py), which is taken without awaiting. Nothing is decided while the caches do
not show the loop's own last writes. Signs that this process itself is isolated are collected here, too: watches that
have failed, servers that do not answer, own writes that do not come back, and a pause that took much longer.
"""

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from msgspec import structs

from mainstay.api.holds import ParsedHold, freezing
from mainstay.api.kind import Object
from mainstay.api.kind_names import COMPONENT_STATES, HOLDS, NODES, PODS
from mainstay.api.node_health import HealthState
from mainstay.api.object_key import ObjectKey
from mainstay.client.breaker import BreakerState
from mainstay.client.errors import ApiError, Throttled, Unavailable
from mainstay.client.indexes import NODE
from mainstay.controllers.node_health.actions import Actions
from mainstay.controllers.node_health.decide import doubtful
from mainstay.controllers.node_health.heartbeats import (
    LEASE_DURATION,
)
from mainstay.controllers.node_health.observer import HeartbeatObserver
from mainstay.controllers.node_health.plan import (
    Evict,
    MarkPod,
    NodeHealthMemory,
    NodeSnapshot,
    RemoveDeadPod,
    ReplacePods,
    Say,
    Step,
    WriteNode,
)
from mainstay.controllers.node_health.snapshot import DECIDER, NAME, decide_steps, frozen_by, memory_from, record_from
from mainstay.loop.act import OwnWrite
from mainstay.loop.events import InvolvedObject
from mainstay.loop.evidence import Evidence, Scope, Signal, Strength
from mainstay.loop.freshness import Freshness
from mainstay.loop.kernel import LoopContext, LoopSpec
from mainstay.loop.periodic import PeriodicLoop, Writes
from mainstay.loop.record import Decided

LOOK_EVERY: Final = timedelta(seconds=1)
STOOD_STILL: Final = timedelta(seconds=3)
"""A second that took so much longer was one in which we were not there."""
OWN_WRITES_WITHIN: Final = timedelta(seconds=5)
ACT_WITHIN: Final = timedelta(seconds=4)
"""What was decided longer ago is not carried out any more: by now the node may have been heard."""
STREAM_SILENT_MIN: Final = timedelta(seconds=5)
FAILURES_MAX: Final = 3
"""Writes in a row without an answer, from which on the way to the server is in doubt."""

_logger = logging.getLogger(__name__)


_FRESHNESS: Final = MappingProxyType(
    {
        WriteNode: Freshness.SEEN_VERSION,
        MarkPod: Freshness.MAY_BE_STALE,
        Evict: Freshness.MAY_BE_STALE,  # By its uid, and its time has run out by our own clock.
        RemoveDeadPod: Freshness.MAY_BE_STALE,
        ReplacePods: Freshness.FRESH_READ,  # The Lease of the node: it may have been renewed.
        Say: Freshness.MAY_BE_STALE,
    }
)


class NodeHealth(PeriodicLoop[Step]):
    """`run` until cancelled."""

    name = NAME
    every = LOOK_EVERY
    first_after = LOOK_EVERY
    pass_within = ACT_WITHIN
    freshness = _FRESHNESS

    def __init__(self, context: LoopContext) -> None:
        self.memory = NodeHealthMemory()
        self._client = context.client
        self._clock = context.env.clock
        self._pods = context.informers.get(PODS, indexes=(NODE,))
        self._holds = context.informers.get(HOLDS)
        self._observer = HeartbeatObserver(context)
        self._actions = Actions(context.client, context.env.clock)
        self._failures = 0
        super().__init__(context, [*self._observer.informers, self._pods, self._holds])

    def begin(self) -> None:
        self._observer.open()

    def end(self) -> None:
        self._observer.close()

    def paused(self, took: timedelta) -> None:
        if took > LOOK_EVERY + STOOD_STILL:
            # What was said meanwhile may not have reached us yet.
            self.memory = structs.replace(self.memory, listening=None)

    async def look(self) -> None:
        own = self._doubts()
        if not own and not self.sees_own_writes():
            return
        now, before = self._clock.wall(), self.memory
        snapshot = self._snapshot(own, now)
        steps, self.memory = decide_steps(snapshot, before)
        if steps:
            await self.carry_out(self.begin_pass(memory_from(snapshot, before), now), steps)

    # Looking.

    def _snapshot(self, own: tuple[Evidence, ...], now: datetime) -> NodeSnapshot:
        now_ns = self._clock.monotonic_ns()
        nodes = {name: self._observer.facts[name] for name in sorted(self._observer.facts)}
        heard = {name: self._observer.get(name) for name in nodes}
        pods = {name: self._pods_on(name) for name in doubtful(nodes, heard, self.memory, now_ns)}
        return NodeSnapshot(now_ns, nodes, heard, pods, own, self._frozen(now))

    def _frozen(self, now: datetime) -> tuple[ParsedHold, ...]:
        return frozen_by([entry.object() for entry in self._holds.cache.entries()], now)

    def _pods_on(self, node: str) -> tuple[Object, ...]:
        cache = self._pods.cache
        found = [cache.get(key) for key in cache.by(NODE.name, node)]
        return tuple(pod for pod in found if pod is not None)

    def _doubts(self) -> tuple[Evidence, ...]:
        """What speaks for our not hearing."""
        found = []
        if any(informer.last_error for informer in self._observer.informers) or self._is_stream_silent():
            found.append(Evidence(Signal.WATCH_DISCONNECTS, Strength.HINT, Scope.OURSELVES))
        is_late = self._clock.monotonic_ns() - self.wrote_ns > OWN_WRITES_WITHIN // timedelta(microseconds=1) * 1000
        if is_late and not self.sees_own_writes() and not found:
            found.append(Evidence(Signal.WATCH_DISCONNECTS, Strength.REPEATED, Scope.OURSELVES))
        servers = self._client.servers()
        if self._failures >= FAILURES_MAX or all(server.condition is not BreakerState.CLOSED for server in servers):
            found.append(Evidence(Signal.API_TIMEOUTS, Strength.REPEATED, Scope.OURSELVES))
            self._failures = 0
        return tuple(found)

    def _is_stream_silent(self) -> bool:
        """Whether no lease at all is heard of, not even that there is nothing new: a connection that was cut says
        nothing either, and it takes long until that is found out."""
        silent = self._observer.informers[0].silent_for
        shortest = min(
            (heard.duration for heard in self._observer.heard.values() if heard.has_lease), default=LEASE_DURATION
        )
        return silent is None or silent >= max(STREAM_SILENT_MIN, shortest / 2)

    # Acting.

    def may_act(self, step: Step) -> bool:
        """Not if a Hold holds evictions since this was decided."""
        match step:
            case Evict(key=key) | RemoveDeadPod(key=key):
                keys = [key]
            case ReplacePods(pods=pods):
                keys = [pod.key for pod in pods]
            case _:
                return True
        frozen = self._frozen(self._clock.wall())
        return not any(freezing(frozen, key.namespace) is not None for key in keys)

    def ends_pass(self, error: ApiError, is_late: bool) -> bool:
        """If the server does not answer: the next pass begins with whether we hear anything at all."""
        if not isinstance(error, (Unavailable, Throttled)):
            return False
        self._failures += 1
        return True

    async def act(self, step: Step, write: Writes) -> Sequence[OwnWrite]:
        was = self._state_before(step)
        wrote = await self._carry_out(step, write)
        self._failures = 0
        self._tell(step, was, write().decision)
        return wrote

    def describe(self, step: Step) -> Decided:
        return record_from(step)

    async def _carry_out(self, step: Step, write: Writes) -> list[OwnWrite]:
        match step:
            case WriteNode():
                node = self._observer.nodes.cache.get(ObjectKey("", step.name))
                if node is None or node["metadata"]["resourceVersion"] != step.version:
                    return []
                return await self._actions.write_node(step, node, write)
            case MarkPod():
                return await self._actions.mark_pod(step, write)
            case Evict():
                return await self._actions.evict(step, write)
            case RemoveDeadPod():
                await self._actions.remove(step, write)
            case ReplacePods():
                await self._actions.replace(step, write)
            case Say():
                _logger.warning("%s: %s", NAME, step.message)
                about = {"metadata": {"name": NAME}}
                await self.kernel.warn(COMPONENT_STATES, about, step.reason, step.message, write())
        return []

    def _state_before(self, step: Step) -> str:
        facts = self._observer.facts.get(step.name) if isinstance(step, WriteNode) else None
        return "" if facts is None else facts.record.state

    def _tell(self, step: Step, was: str, decision: str) -> None:
        """Of what was done. The words are upstream's, where it has any."""
        events = self.kernel.events
        if events is None:
            return
        match step:
            case WriteNode(name=node, uid=uid, state=state) if state != was:
                reason, message = _NEWS[state]
                about, is_bad = InvolvedObject(NODES, node, uid=uid), state is not HealthState.HEALTHY
                events.tell(about, reason, f"Node {node}: {message}", is_warning=is_bad, decision=decision)
            case MarkPod(key=key, uid=uid):
                about = InvolvedObject(PODS, key.name, key.namespace, uid)
                events.tell(about, "NodeNotReady", "Node is not ready", is_warning=True, decision=decision)
            case Evict(key=key, uid=uid):
                message = f"Marking for deletion Pod {key}: it {step.message}"
                about = InvolvedObject(PODS, key.name, key.namespace, uid)
                events.tell(about, "TaintManagerEviction", message, decision=decision)
            case _:
                pass


_NEWS: Final = {
    HealthState.HEALTHY: ("NodeReady", "heartbeats resumed"),
    HealthState.SUSPECT: ("NodeSuspect", "heartbeat is late; no new pods are placed on it"),
    HealthState.UNKNOWN: ("NodeNotReady", "no heartbeat for the duration of its lease; its pods get no traffic"),
    HealthState.RELEASED: ("NodeReleased", "still no heartbeat; its pods will be evicted"),
}


LOOP: Final = LoopSpec(NAME, NodeHealth, DECIDER)
