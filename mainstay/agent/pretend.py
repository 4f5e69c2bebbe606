"""An agent that only pretends to run pods: for simulations, and to fill a cluster with thousands of nodes.

To the control plane it looks like a node. It registers the Node, renews its Lease, and reports its pods: starting at
once, then running and ready with an address, after a delay. A pod that is to be deleted stops being ready first, so
that nobody sends it anything any more; then, when it has had time to end, it is deleted for good, and only that very
pod (by its uid). What to do next about a pod is decided in pod_steps.py; here is what takes time and can fail.

One process may pretend to be many nodes: they share a client and one watch on pods. What it does not do: run anything,
probes, init containers, restarts, volumes, images. A node has the resources that one says it has. A node that somebody
deletes stays away until its agent is started again.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from ipaddress import IPv4Network
from typing import Final, TypeVar, assert_never

from mainstay.agent.pod_steps import Delays, Done, Known, Remove, Report, Wait, decide
from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.retry_shape import RetryShape
from mainstay.client.cache import Stopped
from mainstay.client.call import PatchType
from mainstay.client.client import Client
from mainstay.client.entry import Change, Entry
from mainstay.client.errors import AlreadyExists, ApiError, Conflict, NotFound, Throttled
from mainstay.client.indexes import NODE
from mainstay.client.informer import Informer, Informers
from mainstay.env import Env, tasks

NODES: Final = KindName("", "v1", "Node", "nodes", False)
PODS: Final = KindName("", "v1", "Pod", "pods", True)
LEASES: Final = KindName("coordination.k8s.io", "v1", "Lease", "leases", True)
LEASE_NAMESPACE: Final = "kube-node-lease"

SUBNETS: Final = IPv4Network("10.128.0.0/9")
"""Where pods have their addresses: 256 of them for each node."""
SUBNET_ADDRESSES: Final = 256
STATUS_EVERY: Final = timedelta(minutes=5)

RETRY: Final = RetryShape(
    attempts_max=1_000_000_000,  # An agent never gives up, as long as the node or the pod is there.
    first_delay=timedelta(milliseconds=200),
    delay_max=timedelta(seconds=10),
)

T = TypeVar("T")

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSettings:
    """What a pretend node is like."""

    capacity: dict[str, str] = field(default_factory=lambda: {"cpu": "8", "memory": "32Gi", "pods": "110"})
    labels: dict[str, str] = field(default_factory=dict)
    delays: Delays = field(default_factory=Delays)
    lease_duration: timedelta = timedelta(seconds=40)
    renew_every: timedelta = timedelta(seconds=10)


async def run_nodes(
    names: Sequence[str], client: Client, env: Env, settings: NodeSettings, *, first_subnet: int = 0
) -> None:
    """Be these nodes until cancelled. Each node has a subnet of its own, of which the first is given."""
    informers = Informers(client, env)
    # One node asks for its own pods only; many ask for all of them once.
    only = f"spec.nodeName={names[0]}" if len(names) == 1 else ""
    pods = informers.get(PODS, fields=only, indexes=[NODE])
    nodes = {name: _Node(name, client, env, settings, pods, first_subnet + number) for number, name in enumerate(names)}
    by_name = nodes.get

    def changed(change: Change) -> None:
        entry = change.new
        if entry is None:
            return
        for name in entry.values[0] if entry.values else ():
            if (node := by_name(name)) is not None:
                node.pod_changed(entry)

    alive: list[asyncio.Task[None]] = []
    try:
        await pods.synced()
        pods.subscribe(changed)
        alive = [tasks.spawn(node.keep_alive(), name=f"node {node.name}") for node in nodes.values()]
        await asyncio.gather(*alive)
    finally:
        for task in alive:
            task.cancel()
        for node in nodes.values():
            node.close()
        await informers.stop()


class _Node:
    """One node. Its pods have a task each while there is something to do about them."""

    def __init__(
        self, name: str, client: Client, env: Env, settings: NodeSettings, pods: Informer, subnet: int
    ) -> None:
        self.name = name
        self._client = client
        self._clock = env.clock
        self._settings = settings
        self._pods = pods
        self._jitter = env.chance.stream("node", name)
        base = SUBNETS.network_address + (subnet * SUBNET_ADDRESSES) % SUBNETS.num_addresses
        self._addresses = [str(base + number) for number in range(SUBNET_ADDRESSES)]
        self._next_address = 1
        self._working: dict[str, tuple[asyncio.Task[None], asyncio.Event]] = {}
        """By uid: who works on a pod, and how to tell them that it has changed."""

    def close(self) -> None:
        for task, _ in list(self._working.values()):
            task.cancel()

    # The node itself.

    async def keep_alive(self) -> None:
        """Register the node, then renew its lease, and its status now and then, for ever."""
        node = await self._insisting("register", self._register)
        lease: Object | None = None
        status_at_ns = self._clock.monotonic_ns()
        while True:
            lease = await self._insisting("renew the lease", partial(self._renew, node, lease))
            if self._clock.monotonic_ns() - status_at_ns >= _nanoseconds(STATUS_EVERY):
                status_at_ns = self._clock.monotonic_ns()
                await self._insisting("report", self._report_node)
            # Not all nodes of a fleet at the same moment.
            await tasks.sleep(self._settings.renew_every * (1 - 0.1 * self._jitter.random()))

    async def _register(self) -> Object:
        labels = {"kubernetes.io/hostname": self.name, "kubernetes.io/os": "linux", **self._settings.labels}
        wanted = {"metadata": {"name": self.name, "labels": labels}, "spec": {}, "status": self._status()}
        try:
            return await self._client.create(NODES, wanted)
        except AlreadyExists:
            return await self._report_node()

    async def _report_node(self) -> Object:
        body = {"status": self._status()}
        return await self._client.patch(NODES, self.name, "", body, type=PatchType.STRATEGIC, subresource="status")

    def _status(self) -> Object:
        now = times.format_time(self._clock.wall())
        ready = {
            "type": "Ready",
            "status": "True",
            "reason": "PretendReady",
            "message": "this node pretends to run pods",
            "lastHeartbeatTime": now,
            "lastTransitionTime": now,
        }
        return {
            "capacity": self._settings.capacity,
            "allocatable": self._settings.capacity,
            "conditions": [ready],
            "addresses": [
                {"type": "InternalIP", "address": self._addresses[0]},
                {"type": "Hostname", "address": self.name},
            ],
        }

    async def _renew(self, node: Object, lease: Object | None) -> Object | None:
        """The lease as it is now. None: look again next time."""
        now = times.format_micro_time(self._clock.wall())
        try:
            if lease is None:
                lease = await self._client.get(LEASES, self.name, LEASE_NAMESPACE)
            spec = {**(lease.get("spec") or {}), **self._lease_spec(), "renewTime": now}
            return await self._client.replace(LEASES, {**lease, "spec": spec})
        except Conflict:
            return None
        except NotFound:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": node["metadata"]["uid"]}
            metadata = {"name": self.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            return await self._client.create(
                LEASES, {"metadata": metadata, "spec": {**self._lease_spec(), "renewTime": now}}
            )

    def _lease_spec(self) -> Object:
        seconds = int(self._settings.lease_duration.total_seconds())
        return {"holderIdentity": self.name, "leaseDurationSeconds": seconds}

    # Its pods.

    def pod_changed(self, entry: Entry) -> None:
        working = self._working.get(entry.uid)
        if working is not None:
            working[1].set()
            return
        changed = asyncio.Event()
        task = tasks.spawn(self._work_on(entry, changed), name=f"{self.name}: pod {entry.key}")
        self._working[entry.uid] = task, changed
        task.add_done_callback(lambda _: self._working.pop(entry.uid, None))

    async def _work_on(self, first: Entry, changed: asyncio.Event) -> None:
        """Do what there is to do about one pod, until there is nothing left."""
        known = Known(self._take_address(first), self._addresses[0], self._clock.monotonic_ns(), None)
        attempt = 0
        while (pod := self._latest(first)) is not None:
            changed.clear()
            now_ns = self._clock.monotonic_ns()
            if known.ending_ns is None and pod["metadata"].get("deletionTimestamp"):
                known = Known(known.address, known.host_address, known.seen_ns, now_ns)
            now = times.format_time(self._clock.wall())
            step = decide(pod, known, self._settings.delays, now_ns, now)
            try:
                match step:
                    case Done():
                        return
                    case Wait(until_ns):
                        await _happens_within(changed, timedelta(microseconds=(until_ns - now_ns) // 1000 + 1))
                    case Report():
                        await self._report(first, step)
                    case Remove():
                        key = first.key
                        await self._client.delete(PODS, key.name, key.namespace, uid=first.uid, grace_s=0)
                        return
                    case _:
                        assert_never(step)
                attempt = 0
            except (NotFound, Stopped):
                return  # It is gone, or we are.
            except ApiError as error:
                attempt += 1
                _logger.debug("%s cannot write about pod %s yet: %s", self.name, first.key, error)
                await _happens_within(changed, self._delay(attempt, error))

    def _latest(self, first: Entry) -> Object | None:
        """The pod as the cache has it; None if it is not there, or another one of its name is."""
        entry = self._pods.cache.entry(first.key)
        return entry.object() if entry is not None and entry.uid == first.uid else None

    def _take_address(self, entry: Entry) -> str:
        """What the pod has already, or the next one in turn."""
        held = (entry.object().get("status") or {}).get("podIP")
        if held:
            return str(held)
        address = self._addresses[self._next_address]
        self._next_address = self._next_address % (SUBNET_ADDRESSES - 2) + 1
        return address

    async def _report(self, pod: Entry, report: Report) -> None:
        # With the uid, another pod of this name is not taken for this one.
        body = {"metadata": {"uid": pod.uid}, "status": report.status}
        written = await self._client.patch(
            PODS, pod.key.name, pod.key.namespace, body, type=PatchType.STRATEGIC, subresource="status"
        )
        await self._see(written)

    async def _see(self, written: Object) -> None:
        """Wait until the cache shows what was written: deciding again on what was before would do it again."""
        await self._pods.cache.wait_until(int(written["metadata"]["resourceVersion"]))

    # Trying again.

    async def _insisting(self, what: str, do: Callable[[], Awaitable[T]]) -> T:
        """Do something about the node, again and again until it succeeds."""
        attempt = 0
        while True:
            try:
                return await do()
            except ApiError as error:
                attempt += 1
                _logger.debug("%s cannot %s yet: %s", self.name, what, error)
                await tasks.sleep(self._delay(attempt, error))

    def _delay(self, attempt: int, error: ApiError) -> timedelta:
        delay = RETRY.delay(attempt, self._jitter.random())
        return max(delay, error.retry_after) if isinstance(error, Throttled) else delay


async def _happens_within(event: asyncio.Event, limit: timedelta) -> bool:
    try:
        async with tasks.timeout(limit):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _nanoseconds(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
