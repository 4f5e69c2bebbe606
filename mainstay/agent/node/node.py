"""The node itself: the Node object that stands for it, and the Lease by which others see that it lives.

Registering makes the Node, or takes over the one that is there. Then two things go on beside each other, because
neither may hold up the other: its status is written every few minutes, and at once when a condition changes; its Lease
is renewed every few seconds.

The Lease is also what at-most-one pods hang on (loop/fencing.py). The runner gets each renewal that was acknowledged,
counted from when it was *sent*: the runner ends these pods by itself when no later one comes. A writer that wants to
replace them takes the Lease first, by a write that is refused if it was renewed meanwhile: it writes its own name into
`holderIdentity`. As long as another name is there, the node does not hold its Lease, and does not touch it. When the
other has put its own affairs in order (deleted the pods that it replaces) it gives the Lease back, by an empty
`holderIdentity`; then the node takes it again, and confirms each at-most-one pod again before it starts it (`epoch`).

A deleted Node stays away until its agent is restarted.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, TypeVar

from mainstay.agent.runner import CannotRun, Runner
from mainstay.agent.settings import AgentSettings
from mainstay.api import times
from mainstay.api.annotations import AGENT_CERTIFICATE, LEAVE
from mainstay.api.kind import Object
from mainstay.api.kind_names import LEASES, NODES
from mainstay.api.retry_shape import NO_BOUND, RetryShape
from mainstay.api.well_known_labels import ARCHITECTURE, HOSTNAME, NOT_READY_TAINT, OS, REGION_LABEL, ZONE_LABEL
from mainstay.client.call import PatchType
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, Conflict, NotFound, Throttled
from mainstay.env import Env, tasks
from mainstay.env.machine import Machine, MachineFacts
from mainstay.loop.fencing import holder_times

LEASE_NAMESPACE: Final = "kube-node-lease"
ISOLATION: Final = "mainstay.dev/isolation"
LIMITS_NOTE: Final = "mainstay.dev/limits"

LOOK_EVERY: Final = timedelta(seconds=10)
"""How often the machine is looked at."""
RETRY: Final = RetryShape(
    attempts_max=NO_BOUND,  # An agent never gives up on its node.
    first_delay=timedelta(milliseconds=200),
    delay_max=timedelta(seconds=10),
)
MEMORY_FREE_BYTES_MIN: Final = 100 * 1024 * 1024
DISK_FREE_SHARE_MIN: Final = 0.05
PROCESSES_FREE_SHARE_MIN: Final = 0.05

_NOT_READY: Final = (NOT_READY_TAINT, "NoSchedule")
_RENEWAL_RETRY_MAX: Final = timedelta(seconds=2)

NodeCondition = tuple[str, bool, str, str]

T = TypeVar("T")

_logger = logging.getLogger(__name__)


class NodeAgent:
    """One node. `run` until it is cancelled."""

    def __init__(
        self, client: Client, env: Env, runner: Runner, settings: AgentSettings, machine: Machine | None
    ) -> None:
        """Without a machine, it has what the settings say."""
        self.name = settings.name
        self.object: Object | None = None
        """As the server last showed it; None before it is registered."""
        self.is_registered = asyncio.Event()
        self.epoch = 0
        """How often the Lease was got, at first or after it was lost."""
        self.is_leaving = asyncio.Event()
        """Set when the administrator has told the node to leave the cluster."""
        self.lease_came: Callable[[], None] = lambda: None
        """Called when it was."""
        self.more_conditions: Callable[[], Sequence[NodeCondition]] = tuple
        """What else there is to say of the node: each as its type, whether it holds, the reason and a message."""
        self._client = client
        self._clock = env.clock
        self._runner = runner
        self._settings = settings
        self._machine = machine
        self._jitter = env.chance.stream("node", settings.name)
        self._begin_stopping_ns = 0

    async def run(self) -> None:
        """Be this node, until cancelled."""
        await self._insisting("register", self._register)
        self.is_registered.set()
        await tasks.together([self._keep_lease(), self._keep_status()], name=f"node {self.name}")

    @property
    def is_lease_held(self) -> bool:
        """Whether an at-most-one container may be begun now."""
        return self._clock.monotonic_ns() < self._begin_stopping_ns

    @property
    def allocatable(self) -> Mapping[str, str]:
        return ((self.object or {}).get("status") or {}).get("allocatable") or {}

    async def look_again(self) -> None:
        """Read the Node again: its labels may have changed. Raises `ApiError`."""
        self.object = await self._client.get(NODES, self.name)

    # The Node.

    async def _register(self) -> None:
        facts = self._facts()
        metadata: Object = {"name": self.name, "labels": self._labels(facts)}
        if annotations := self._annotations():
            metadata["annotations"] = annotations
        subnet = str(self._settings.pod_cidr)
        spec: Object = {"podCIDR": subnet, "podCIDRs": [subnet]}
        if self._settings.taints:
            spec["taints"] = [
                {"key": each.key, "effect": each.effect, **({"value": each.value} if each.value else {})}
                for each in self._settings.taints
            ]
        try:
            self.object = await self._client.create(
                NODES, {"metadata": metadata, "spec": spec, "status": self._status(facts, {})}
            )
        except AlreadyExists:
            await self._adopt(metadata, facts)
        await self._untaint()

    async def _adopt(self, metadata: Object, facts: MachineFacts | None) -> None:
        """There is a Node of this name, from an earlier start most likely."""
        there = await self._client.get(NODES, self.name)
        was = there["metadata"]
        is_same = all(
            (was.get(part) or {}).get(key) == value
            for part in ("labels", "annotations")
            for key, value in (metadata.get(part) or {}).items()
        )
        if not is_same:
            body = {"metadata": {key: value for key, value in metadata.items() if key != "name"}}
            await self._client.patch(NODES, self.name, "", body)
        had, subnet = (there.get("spec") or {}).get("podCIDR"), str(self._settings.pod_cidr)
        if had and had != subnet:
            text = "%s: the Node has podCIDR %s and this agent %s, so the server refuses the addresses of its pods:"
            _logger.error(
                f"{text} start the agent with --pod-cidr %s, or delete the Node first", *(self.name, had, subnet, had)
            )
        self.object = there
        await self._report(facts)

    async def _untaint(self) -> None:
        """A new node is tainted until it is known to be ready. Its agent removes the taint."""
        while self.object is not None:
            spec = self.object.get("spec") or {}
            taints = spec.get("taints") or []
            left = [each for each in taints if (each.get("key"), each.get("effect")) != _NOT_READY]
            if len(left) == len(taints):
                return
            try:
                self.object = await self._client.replace(NODES, {**self.object, "spec": {**spec, "taints": left}})
            except Conflict:
                await self.look_again()

    async def _keep_status(self) -> None:
        said = _verdicts(self._status(self._facts(), {}))
        every = self._settings.status_every
        while True:
            # Not all nodes of a fleet at the same moment.
            left = every * (1 - 0.1 * self._jitter.random())
            while self._machine is not None and left > LOOK_EVERY:
                await tasks.sleep(LOOK_EVERY)
                left -= LOOK_EVERY
                if _verdicts(self._status(self._facts(), {})) != said:
                    left = timedelta()
            await tasks.sleep(left)
            facts = self._facts()
            if not await self._insisting("report", partial(self._report, facts)):
                _logger.warning("%s: the Node was deleted; restart this agent to register it again", self.name)
                return
            said = _verdicts(self._status(facts, {}))

    async def _report(self, facts: MachineFacts | None) -> bool:
        """Write the status. False: there is no such Node."""
        before = (self.object or {}).get("status") or {}
        body = {"status": self._status(facts, before)}
        try:
            self.object = await self._client.patch(
                NODES, self.name, "", body, type=PatchType.STRATEGIC, subresource="status"
            )
        except NotFound:
            return False
        return True

    def _facts(self) -> MachineFacts | None:
        return None if self._machine is None else self._machine.facts()

    def _labels(self, facts: MachineFacts | None) -> dict[str, str]:
        settings = self._settings
        labels = {
            HOSTNAME: self.name,
            OS: "linux" if facts is None else facts.system,
            ARCHITECTURE: "amd64" if facts is None else facts.architecture,
        }
        if settings.zone:
            labels[ZONE_LABEL] = settings.zone
        if settings.region:
            labels[REGION_LABEL] = settings.region
        return {**labels, **settings.labels}

    def _annotations(self) -> dict[str, str]:
        annotations: dict[str, str] = {}
        if self._settings.certificate_digest:
            annotations[AGENT_CERTIFICATE] = f"sha256:{self._settings.certificate_digest}"
        if self._settings.isolation:
            annotations[ISOLATION] = self._settings.isolation
        if self._settings.limits_note:
            annotations[LIMITS_NOTE] = self._settings.limits_note
        return annotations

    def _status(self, facts: MachineFacts | None, before: Mapping[str, Any]) -> Object:
        settings = self._settings
        capacity = {"pods": str(settings.pods_max)}
        if facts is not None:
            capacity["cpu"] = str(facts.cpus)
            capacity["memory"] = f"{facts.memory_bytes // 1024}Ki"
            if facts.disk_bytes:
                capacity["ephemeral-storage"] = f"{facts.disk_bytes // 1024}Ki"
        capacity.update(settings.capacity)
        status: Object = {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "conditions": self._conditions(facts, before.get("conditions") or ()),
            "addresses": [
                {"type": "InternalIP", "address": settings.host_address},
                {"type": "Hostname", "address": self.name},
            ],
            "nodeInfo": _node_info(facts, settings),
        }
        if settings.serving_port:
            status["daemonEndpoints"] = {"kubeletEndpoint": {"Port": settings.serving_port}}
        return status

    def _conditions(self, facts: MachineFacts | None, before: Any) -> list[Object]:
        now = times.format_time(self._clock.wall())
        was = {each.get("type"): each for each in before}
        pretends = self._settings.is_pretend
        found = [
            ("Ready", True, "AgentReady", "this node pretends to run pods" if pretends else "the agent runs pods"),
            *([] if facts is None else _pressures(facts)),
            *self.more_conditions(),
        ]
        conditions = []
        for kind, holds, reason, message in found:
            status, old = "True" if holds else "False", was.get(kind) or {}
            since = old.get("lastTransitionTime") if old.get("status") == status else None
            conditions.append(
                {
                    "type": kind,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": since or now,
                }
            )
        return conditions

    # The Lease.

    async def _keep_lease(self) -> None:
        lease: Object | None = None
        failures = 0
        every = self._settings.lease.renew_every
        while True:
            # Counted from here: the acknowledgement may come late, and the observers' time begins before it.
            sent_ns = self._clock.monotonic_ns()
            try:
                async with tasks.timeout(every):
                    lease = await self._renew(lease)
            except (ApiError, TimeoutError) as error:
                lease = None
                failures += 1
                _logger.debug("%s: failed to renew its lease: %s", self.name, error)
                delay = self._delay(failures, error)
                await tasks.sleep(min(delay, _RENEWAL_RETRY_MAX, every) if failures < 10 else min(delay, every))
                continue
            failures = 0
            if lease is not None:
                await self._renewed(sent_ns)
            # Not all nodes of a fleet at the same moment.
            await tasks.sleep(every * (1 - 0.1 * self._jitter.random()))

    async def _renewed(self, sent_ns: int) -> None:
        held = holder_times(sent_ns, self._settings.lease)
        was_held = self.is_lease_held
        try:
            await self._runner.hold_until(held.stopped_at_ns, self._settings.lease.stopping)
        except CannotRun as error:
            # A full disk, say. The node goes on; only its at-most-one pods end in time, as they would without a lease.
            _logger.warning("%s: at-most-one pods will be terminated: %s", self.name, error)
            return
        self._begin_stopping_ns = held.begin_stopping_at_ns
        if not was_held:
            self.epoch += 1
            self.lease_came()

    async def _renew(self, lease: Object | None) -> Object | None:
        """The lease as it is now. None: another holder has it, or has written it; look again next time."""
        now = times.format_micro_time(self._clock.wall())
        if lease is None:
            try:
                lease = await self._client.get(LEASES, self.name, LEASE_NAMESPACE)
            except NotFound:
                return await self._client.create(LEASES, self._new_lease(now))
        if (lease["metadata"].get("annotations") or {}).get(LEAVE):
            self.is_leaving.set()  # Go on renewing until the pods are told to end.
        spec = lease.get("spec") or {}
        holder = spec.get("holderIdentity") or self.name
        if holder != self.name:
            _logger.warning("%s: lease of this node taken over by %s", self.name, holder)
            return None
        return await self._client.replace(LEASES, {**lease, "spec": {**spec, **self._lease_spec(), "renewTime": now}})

    def _new_lease(self, now: str) -> Object:
        metadata: Object = {"name": self.name, "namespace": LEASE_NAMESPACE}
        if self.object is not None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": self.name, "uid": self.object["metadata"]["uid"]}
            metadata["ownerReferences"] = [owner]
        return {"metadata": metadata, "spec": {**self._lease_spec(), "renewTime": now}}

    def _lease_spec(self) -> Object:
        seconds = max(int(self._settings.lease.duration.total_seconds()), 1)
        return {"holderIdentity": self.name, "leaseDurationSeconds": seconds}

    # Trying again.

    async def _insisting(self, what: str, do: Callable[[], Awaitable[T]]) -> T:
        """Do something about the node, again and again until it succeeds."""
        attempt = 0
        while True:
            try:
                return await do()
            except ApiError as error:
                attempt += 1
                # A refusal does not pass by itself: labels, for instance, that only an administrator may set on a Node.
                level = logging.WARNING if error.status == 403 and attempt == 1 else logging.DEBUG
                _logger.log(level, "%s: failed to %s: %s", self.name, what, error)
                await tasks.sleep(self._delay(attempt, error))

    def _delay(self, attempt: int, error: Exception) -> timedelta:
        delay = RETRY.delay(attempt, self._jitter.random())
        return max(delay, error.retry_after) if isinstance(error, Throttled) else delay


def _pressures(facts: MachineFacts) -> list[NodeCondition]:
    is_low = bool(facts.memory_bytes) and facts.memory_free_bytes < MEMORY_FREE_BYTES_MIN
    is_full = bool(facts.disk_bytes) and facts.disk_free_bytes < facts.disk_bytes * DISK_FREE_SHARE_MIN
    left = facts.processes_max - facts.processes
    is_crowded = bool(facts.processes_max) and left < facts.processes_max * PROCESSES_FREE_SHARE_MIN
    return [
        _pressure("MemoryPressure", is_low, "Memory", "memory"),
        _pressure("DiskPressure", is_full, "Disk", "disk space"),
        _pressure("PIDPressure", is_crowded, "PID", "process ids"),
    ]


def _pressure(kind: str, holds: bool, word: str, what: str) -> NodeCondition:
    reason = f"AgentHas{'Insufficient' if holds else 'Sufficient'}{word}"
    return kind, holds, reason, f"agent has {'insufficient' if holds else 'sufficient'} {what} available"


def _verdicts(status: Object) -> list[tuple[str, str]]:
    return [(each["type"], each["status"]) for each in status["conditions"]]


def _node_info(facts: MachineFacts | None, settings: AgentSettings) -> Object:
    runtime = "pretend" if settings.is_pretend else "process"
    info = {
        "kubeletVersion": "v1.36.0-mainstay",
        "containerRuntimeVersion": f"mainstay-{runtime}://1.0",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }
    if facts is not None:
        info |= {
            "operatingSystem": facts.system,
            "architecture": facts.architecture,
            "machineID": facts.machine_id,
            "systemUUID": facts.machine_id,
            "bootID": facts.boot_id,
            "kernelVersion": facts.kernel,
            "osImage": facts.system_image,
        }
    return info
