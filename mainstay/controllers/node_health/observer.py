"""Observes the heartbeats of nodes for node health and for repair: what changes of Leases and Nodes tell, and when."""

from mainstay.api.kind_names import LEASES, NODES
from mainstay.api.node_health import LEASE_NAMESPACE
from mainstay.client.entry import Change
from mainstay.client.informer import Informer
from mainstay.controllers.node_health.evidence import NodeHealthFacts, read_facts
from mainstay.controllers.node_health.heartbeats import Heard, first_heard, with_lease, with_status, without_node
from mainstay.loop.kernel import LoopContext


class HeartbeatObserver:
    """The heartbeats of all nodes. Fed by informers, so that each is noted in the moment in which it comes."""

    def __init__(self, context: LoopContext) -> None:
        self.heard: dict[str, Heard] = {}
        self.facts: dict[str, NodeHealthFacts] = {}
        self._clock = context.env.clock
        self._leases = context.informers.get(LEASES, LEASE_NAMESPACE)
        self.nodes = context.informers.get(NODES)

    @property
    def informers(self) -> tuple[Informer, ...]:
        return (self._leases, self.nodes)

    def open(self) -> None:
        self._leases.subscribe(self._lease_changed)
        self.nodes.subscribe(self._node_changed)

    def close(self) -> None:
        self._leases.unsubscribe(self._lease_changed)
        self.nodes.unsubscribe(self._node_changed)

    def get(self, name: str) -> Heard:
        found = self.heard.get(name)
        if found is None:
            found = self.heard[name] = first_heard(self._clock.monotonic_ns())
        return found

    def _lease_changed(self, change: Change) -> None:
        name = change.key.name
        lease = None if change.new is None else change.new.object()
        self.heard[name] = with_lease(self.get(name), name, lease, self._clock.monotonic_ns())

    def _node_changed(self, change: Change) -> None:
        name = change.key.name
        if change.new is None:
            self.facts.pop(name, None)
            self.heard[name] = without_node(self.get(name), self._clock.monotonic_ns())
            return
        facts = self.facts[name] = read_facts(change.new.object())
        heard = self.get(name)
        if facts.status_marker:
            heard = with_status(heard, facts.status_marker, self._clock.monotonic_ns())
        self.heard[name] = heard
