"""Signals come while a Deployment rolls out, and each leads to no more than the table of evidence allows. (SPEC F1)

Readiness probes of good pods fail for a while; templates do not work until their deadline has passed; a report says
that the ReplicaSet controller has keys in its queue for a minute; and the controllers crash and lose their office. A
pod that its set wants is never removed, a passed deadline removes nothing, no set changes its size while the report
says so, and no old set shrinks before the new one has observed its size. In the end all pods are of the last template.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api import pod_state, times
from mainstay.api.kind import Object
from mainstay.api.kind_names import COMPONENT_STATES, DEPLOYMENTS
from mainstay.api.owners import find_controller
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, NotFound
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
from mainstay.loop.signals import DEADLINE_REASON
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scenarios._workloads import (
    PODS_PREFIX,
    READY,
    RolledStage,
    a_workload,
    decode,
    read_image,
    told,
)
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAME: Final = "web"
REPLICAS: Final = 4
DEADLINE_S: Final = 6
BROKEN: Final = "broken"
REPORT: Final = "reporter"
PROBE_FAILED: Final = "ProbeFailed"
HEARD_WITHIN: Final = timedelta(seconds=10)
"""So long after a report, what was decided before it has been written or not."""
LAGS_FOR: Final = timedelta(seconds=20)
_SETS: Final = "apps/replicasets/"
_DEPLOYMENTS: Final = "apps/deployments/"
_STATES: Final = "mainstay.dev/componentstates/"
_WATCHED: Final = (PODS_PREFIX, _SETS, _DEPLOYMENTS, _STATES)
_NOT_READY: Final[Object] = {"conditions": [{"type": "Ready", "status": "False", "reason": PROBE_FAILED}]}


class RolloutAndEvidence(RolledStage):
    name = NAME
    replicas = REPLICAS
    controllers = (Deployments(), ReplicaSets())
    turn_every = timedelta(seconds=4)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._unwell: dict[str, None] = {}

    async def prepare(self, client: Client) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        wanted = a_workload(NAME, REPLICAS, "good-1", strategy=strategy, progressDeadlineSeconds=DEADLINE_S)
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, wanted)
        await self._report(client, 0)

    async def go_on(self, client: Client, pod: Object) -> None:
        is_fit = pod["metadata"]["uid"] not in self._unwell and not read_image(pod).startswith(BROKEN)
        if pod_state.is_leaving(pod) or is_fit:
            await super().go_on(client, pod)

    async def turn(self, client: Client) -> None:
        match self.choose("what", 3):
            case 0:
                await self._fail_probes(client)
            case 1:
                await self.roll(client, BROKEN)
                await tasks.sleep(timedelta(seconds=(2, DEADLINE_S + 4)[self.choose("for long", 2)]))
                # So that it is decided about again, and knows by then that it is late.
                await client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"metadata": {"annotations": {"seen": "yes"}}})
                await tasks.sleep(timedelta(seconds=2))
                await client.patch(DEPLOYMENTS, NAME, NAMESPACE, {"metadata": {"annotations": {"seen": None}}})
                await self.roll(client, "good")
            case _:
                await self._report(client, 90)
                await tasks.sleep(HEARD_WITHIN)
                await self.roll(client, "good")
                await tasks.sleep(LAGS_FOR)
                await self._report(client, 0)

    async def _fail_probes(self, client: Client) -> None:
        """Of half of the pods, for a few seconds."""
        pods = [pod for pod in await self.objects(PODS_PREFIX) if pod_state.is_ready(pod)][:2]
        self._unwell = dict.fromkeys(pod["metadata"]["uid"] for pod in pods)
        for pod, status in [(pod, _NOT_READY) for pod in pods] + [(pod, READY) for pod in pods]:
            if status is READY:
                self._unwell.pop(pod["metadata"]["uid"], None)
            with suppress(NotFound):
                await told(client, pod, status)
            await tasks.sleep(timedelta(seconds=2))

    async def _report(self, client: Client, oldest_s: int) -> None:
        """What a leader that runs the ReplicaSet controller would publish."""
        at = times.format_time(self.world.sim.env(REPORT).clock.wall())
        status = {"observedAt": at, "queues": [{"name": ReplicaSets.name, "oldestSeconds": oldest_s}]}
        with suppress(AlreadyExists):
            await client.create(COMPONENT_STATES, {"metadata": {"name": REPORT}, "spec": {"component": REPORT}})
        await client.patch(COMPONENT_STATES, REPORT, "", {"status": status}, subresource="status")

    async def check(self) -> None:
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            await self._report(client, 0)
            await self.roll(client, "good")
        await self.world.quiet(timedelta(minutes=10), timedelta(seconds=30))
        await self.require_rolled("rollout and evidence", "good")


class NoMoreThanAllowed:
    """What the signals of this scenario must not lead to."""

    name = "no more than allowed"

    def __init__(self) -> None:
        self._pods: dict[str, str] = {}
        """Those that are wanted, by key: the uid of their set."""
        self._sets: dict[str, Object] = {}
        self._deployment: Object = {}
        self._lags_since_ns: int | None = None

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(_WATCHED):
            return
        value = decode(event.value) if event.value is not None else None
        if event.key.startswith(PODS_PREFIX):
            self._saw_pod(event, value)
        elif event.key.startswith(_SETS):
            self._saw_set(event, value)
        elif event.key.startswith(_DEPLOYMENTS) and value is not None:
            self._deployment = value
        elif event.key == _STATES + REPORT and value is not None:
            queues = (value.get("status") or {}).get("queues") or [{}]
            self._lags_since_ns = event.at_ns if queues[0].get("oldestSeconds") else None

    def _saw_pod(self, event: RevisionCommitted, pod: Object | None) -> None:
        if pod is not None and pod_state.is_active(pod):
            self._pods[event.key] = (find_controller(pod) or {}).get("uid", "")
            return
        owner = self._pods.pop(event.key, None)
        found = [each for each in self._sets.values() if each["metadata"]["uid"] == owner]
        if owner is None or not found or pod_state.is_leaving(found[0]):
            return
        left, wanted = sum(each == owner for each in self._pods.values()), int(found[0]["spec"]["replicas"])
        if left < wanted:
            text = f"a pod was removed that its set wants: {left} are left of {wanted}"
            raise Violated(self.name, text, [event])

    def _saw_set(self, event: RevisionCommitted, new: Object | None) -> None:
        old = self._sets.pop(event.key, None)
        if new is None:
            return
        before, after = _size(old), _size(new)
        if before != after:
            self._resized(event, new, is_smaller=after < before)
        self._sets[event.key] = new

    def _resized(self, event: RevisionCommitted, changed: Object, *, is_smaller: bool) -> None:
        grace_ns = HEARD_WITHIN // timedelta(microseconds=1) * 1000
        if self._lags_since_ns is not None and event.at_ns > self._lags_since_ns + grace_ns:
            raise Violated(self.name, "a rollout went on while the ReplicaSet controller was reported to lag", [event])
        if not is_smaller:
            return
        said = pod_state.find_condition(self._deployment, "Progressing") or {}
        metadata, status = self._deployment["metadata"], self._deployment.get("status") or {}
        is_current = status.get("observedGeneration") == metadata["generation"]
        is_broken = read_image(self._deployment["spec"]["template"]).startswith(BROKEN)
        if said.get("reason") == DEADLINE_REASON and is_current and is_broken:
            raise Violated(self.name, "replicas were removed after the deadline of a rollout", [event])
        newest = max([*self._sets.values(), changed], key=_revision)
        if _revision(newest) > _revision(changed) and _size(newest) and not _is_observed(newest):
            name = newest["metadata"]["name"]
            raise Violated(self.name, f"an old set shrinks, and {name} has not observed its size", [event])

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


def _size(replica_set: Object | None) -> int:
    return 0 if replica_set is None else int(replica_set["spec"]["replicas"])


def _revision(replica_set: Object) -> int:
    annotations: dict[str, Any] = replica_set["metadata"].get("annotations") or {}
    return int(annotations.get("deployment.kubernetes.io/revision") or 0)


def _is_observed(replica_set: Object) -> bool:
    observed = int((replica_set.get("status") or {}).get("observedGeneration") or 0)
    return observed >= int(replica_set["metadata"].get("generation") or 0)


SCENARIO: Final = Scenario(
    name="rollout-and-evidence",
    about="Signals of failure during rollouts lead to no more than the table of evidence allows.",
    make=RolloutAndEvidence,
    checkers=lambda: [AcknowledgedWrites(), NoMoreThanAllowed()],
    faults=("crash", "crash-before", "crash-after", "answer-lost", "pause"),
    lasts=timedelta(seconds=60),
    silence=SILENCE,
    ids=("F1",),
)
