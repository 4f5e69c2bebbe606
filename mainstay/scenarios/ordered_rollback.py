"""Ordered sets are rolled to an image that cannot work, and back: they recover without a hand. (kubernetes #67250)

An ordered set changes one pod at a time, the last first, and waits for each until it is ready. Rolled to a broken
image it stops with the first pod, as it should: the others serve on. But then it must not go on waiting for that pod
when something else is wanted: it will never be ready. So a pod that is not ready and is not what is wanted is replaced
at once, whichever pod is next. (Catalogue 20, of StatefulSets; bad-rollout has Deployments.)

The controller is a small one, of the scenario's own, on the production runtime: there is none of StatefulSets yet.
"""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, STATEFUL_SETS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.indexes import OWNER
from mainstay.controllers.deployment.revisions import compute_hash
from mainstay.env import tasks
from mainstay.loop.controller import Controller, Reads, owner, reference_to
from mainstay.loop.decision import Action, Create, Decision, Delete
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scenarios._workloads import PODS_PREFIX, WorkloadStage, a_workload, decode, read_image, with_image
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

REVISION: Final = "controller-revision-hash"
BROKEN: Final = "broken"
OLD: Final = "db"
"""Was well before it was rolled."""
NEW: Final = "queue"
"""Is broken from its first pod on."""
REPLICAS: Final[Mapping[str, int]] = {OLD: 4, NEW: 2}
LATE: Final = timedelta(seconds=6)
Pods = Mapping[int, Object]


class OrderedSets(Controller):
    """One thing at a time: what it does next is worked out from the pods that are there."""

    name = "ordered-set"
    kind = STATEFUL_SETS
    reads = (Reads(PODS, wakes=owner(STATEFUL_SETS), indexes=(OWNER,)),)
    writes = (PODS,)

    def decide(self, view: View, key: ObjectKey, memory: Any) -> Decision:
        found = view.get(STATEFUL_SETS, key)
        if found is None or pod_state.is_leaving(found):
            return Decision()
        wanted, revision = int(found["spec"]["replicas"]), compute_hash(found["spec"]["template"], 0)
        pods = {_ordinal(pod): pod for pod in view.owned_by(PODS, found["metadata"]["uid"])}
        step = next_step(found, pods, wanted, revision)
        ready = sum(pod_state.is_ready(pod) for pod in pods.values())
        updated = sum(_revision(pod) == revision for pod in pods.values())
        status = {
            "replicas": len(pods),
            "readyReplicas": ready or None,
            "updatedReplicas": updated or None,
            "updateRevision": revision,
            "observedGeneration": found["metadata"]["generation"],
        }
        return Decision(() if step is None else (step,), status=status)


def next_step(found: Object, pods: Pods, wanted: int, revision: str) -> Action | None:
    """What to do about a set, if anything. Each change of a pod leads to the next."""
    if any(pod_state.is_leaving(pod) for pod in pods.values()):
        return None  # Its name is taken until it is gone.
    for ordinal in sorted(pods, reverse=True):
        if ordinal >= wanted or is_hopeless(pods[ordinal], revision):
            return _removed(pods[ordinal])
    for ordinal in range(wanted):
        if ordinal not in pods:
            return Create(PODS, _a_pod(found, ordinal, revision))
        if not is_settled(pods[ordinal]):
            return None
    for ordinal in sorted(pods, reverse=True):
        if _revision(pods[ordinal]) != revision:
            return _removed(pods[ordinal])
    return None


def is_hopeless(pod: Object, revision: str) -> bool:
    """Not ready, and nothing is lost if it never is: something else is wanted in its place."""
    return not pod_state.is_ready(pod) and _revision(pod) != revision


def is_settled(pod: Object) -> bool:
    """The next one may be changed."""
    return pod_state.is_ready(pod)


def _ordinal(pod: Object) -> int:
    return int(pod["metadata"]["name"].rpartition("-")[2])


def _revision(pod: Object) -> str:
    return str(pod["metadata"]["labels"][REVISION])


def _removed(pod: Object) -> Delete:
    metadata = pod["metadata"]
    return Delete(
        PODS, ObjectKey(metadata["namespace"], metadata["name"]), metadata["uid"], freshness=Freshness.MAY_BE_STALE
    )


def _a_pod(found: Object, ordinal: int, revision: str) -> Object:
    metadata, template = found["metadata"], found["spec"]["template"]
    return {
        "metadata": {
            "name": f"{metadata['name']}-{ordinal}",
            "namespace": metadata["namespace"],
            "labels": {**template["metadata"]["labels"], REVISION: revision},
            "ownerReferences": [reference_to(found, STATEFUL_SETS)],
        },
        "spec": template["spec"],
    }


class OrderedRollback(WorkloadStage):
    controllers = (OrderedSets(),)
    user = None  # Mainstay has no controller for StatefulSets, so none of its users has rights for one.
    turn_every = timedelta(seconds=7)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._number = 1
        self._is_next_late = False
        world.history.subscribe(self._saw_a_removal)

    async def prepare(self, client: Client) -> None:
        await client.create(STATEFUL_SETS, a_workload(OLD, REPLICAS[OLD], "good-1", serviceName=OLD))

    async def ready(self) -> None:
        await super().ready()
        while sum(pod_state.is_ready(pod) for pod in await self.objects(PODS_PREFIX)) < REPLICAS[OLD]:
            await tasks.sleep(timedelta(milliseconds=100))

    async def go_on(self, client: Client, pod: Object) -> None:
        if pod_state.is_leaving(pod) or not read_image(pod).startswith(BROKEN):
            await super().go_on(client, pod)

    async def turn(self, client: Client) -> None:
        self._number += 1
        if self._number == 2:
            await client.create(STATEFUL_SETS, a_workload(NEW, REPLICAS[NEW], f"{BROKEN}-1", serviceName=NEW))
        match self.choose("what", 4):
            case 1:  # That its second pod is gone is not heard of when the next image comes.
                self._is_next_late = True
                await client.patch(STATEFUL_SETS, OLD, NAMESPACE, with_image(f"good-{self._number}"))
                await tasks.sleep(timedelta(seconds=2))
                await client.patch(STATEFUL_SETS, OLD, NAMESPACE, with_image(f"good-again-{self._number}"))
            case 0:  # Rolled back before it has got far, or when it has long stood still.
                await tasks.sleep(timedelta(seconds=(1, 8)[self.choose("for long", 2)]))
                await client.patch(STATEFUL_SETS, OLD, NAMESPACE, with_image(f"good-{self._number}"))
            case _:
                await client.patch(STATEFUL_SETS, OLD, NAMESPACE, with_image(f"{BROKEN}-{self._number}"))

    def _saw_a_removal(self, event: Event) -> None:
        if not self._is_next_late or not isinstance(event, RequestReceived) or event.method != "DELETE":
            return
        if event.who in self.programs and event.path.endswith(f"/{OLD}-{REPLICAS[OLD] - 2}"):
            self._is_next_late = False
            self.world.after(timedelta(0), self._fall_behind)

    def _fall_behind(self) -> None:
        for gate in self.world.gates.values():
            for tap in gate.taps.values():
                if tap.who in self.programs and tap.prefix == PODS_PREFIX:
                    tap.hold()
                    self.world.after(LATE, tap.release)

    async def check(self) -> None:
        """All has come to rest with what is broken. The good image is one that was there before, or a new one."""
        good = f"good-{1 + self.choose('good', 2) * self._number}"
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            sets = (await client.list(STATEFUL_SETS, NAMESPACE)).items
            for each in sets:
                await client.patch(STATEFUL_SETS, each["metadata"]["name"], NAMESPACE, with_image(good))
        await self.world.quiet(timedelta(minutes=10), timedelta(seconds=30))
        pods = await self.objects(PODS_PREFIX)
        for name in sorted(each["metadata"]["name"] for each in sets):
            own = [pod for pod in pods if pod["metadata"]["labels"]["app"] == name]
            said = [(pod["metadata"]["name"], read_image(pod), pod_state.is_ready(pod)) for pod in own]
            if said != [(f"{name}-{ordinal}", good, True) for ordinal in range(REPLICAS[name])]:
                text = f"{REPLICAS[name]} of {good} are wanted of {name} at the end, but there are {said}"
                raise Violated("ordered rollback", text)


class AllButOne:
    """Of a set that was well, at most one pod is not ready at any time."""

    name = "all but one"

    def __init__(self) -> None:
        self._ready: dict[str, RevisionCommitted] = {}
        self._has_been_well = False

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(f"{PODS_PREFIX}{NAMESPACE}/{OLD}-"):
            return
        pod = decode(event.value) if event.value is not None else None
        if pod is not None and pod_state.is_active(pod) and pod_state.is_ready(pod):
            self._ready[event.key] = event
        else:
            self._ready.pop(event.key, None)
        least = REPLICAS[OLD] - 1
        if len(self._ready) > least:
            self._has_been_well = True
        elif self._has_been_well and len(self._ready) < least:
            text = f"{len(self._ready)} pods of {OLD} are ready, but {least} are required"
            raise Violated(self.name, text, [event, *self._ready.values()])

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


SCENARIO: Final = Scenario(
    name="ordered-rollback",
    about="Ordered sets roll out a broken template and roll back: they recover by themselves, one pod at a time.",
    make=OrderedRollback,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), AllButOne()],
    faults=("watch-delay", "watch-disconnect", "answer-lost", "crash", "crash-before", "crash-after", "pause"),
    lasts=timedelta(seconds=40),
    silence=SILENCE,
    ids=("20",),
)
