"""A template whose pods are slow burns the budget of an objective: its rollout pauses, and the next one does not. (F1)

The objective says how soon pods are to be ready. Rollouts go to templates whose pods are ready at once, and to some
whose pods take twice as long as they may; the controllers crash, lose their office and are late. While the status says
that the pods of the new template burn the budget, no set of the Deployment changes its size. The status never says so
of a template of which no pod was late, and never that all is within budget before enough pods were measured. In the
end a quick template is rolled out completely, whatever the ones before it did.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state, times
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, SERVICE_LEVEL_OBJECTIVES
from mainstay.api.objectives import BURNING
from mainstay.api.owners import find_controller
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.objectives.controller import ServiceLevelObjectives
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import tasks
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
REPLICAS: Final = 6
WITHIN_S: Final = 5
SLOW: Final = "slow"
SLOW_S: Final = 12
PODS_MIN: Final = 3
HEARD_WITHIN: Final = timedelta(seconds=10)
"""So long after the status, what was decided before it has been written or not."""
_SETS: Final = "apps/replicasets/"
_SLOS: Final = "mainstay.dev/servicelevelobjectives/"
_WATCHED: Final = (PODS_PREFIX, _SETS, _SLOS)


class ObjectiveBurns(RolledStage):
    name = NAME
    replicas = REPLICAS
    controllers = (Deployments(), ReplicaSets(), ServiceLevelObjectives())
    turn_every = timedelta(seconds=5)

    async def prepare(self, client: Client) -> None:
        strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": REPLICAS // 2, "maxUnavailable": 0}}
        spec = {
            "target": {"kind": "Deployment", "name": NAME},
            "objectives": [
                {"type": "TimeToReady", "withinSeconds": WITHIN_S, "percent": 80},
                {"type": "Availability", "percent": 50},
            ],
        }
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, a_workload(NAME, REPLICAS, "quick-1", strategy=strategy))
        with suppress(AlreadyExists):
            made = {"metadata": {"name": NAME, "namespace": NAMESPACE}, "spec": spec}
            await client.create(SERVICE_LEVEL_OBJECTIVES, made)

    async def go_on(self, client: Client, pod: Object) -> None:
        if pod_state.is_leaving(pod) or pod_state.is_ready(pod):
            await super().go_on(client, pod)
            return
        now = self.world.sim.env("agents").clock.wall()
        age = now - pod_state.created_at(pod)
        if read_image(pod).startswith(SLOW) and age < timedelta(seconds=SLOW_S):
            self._is_news = True  # Look again: nothing is written until then.
            return
        condition = {**READY["conditions"][0], "lastTransitionTime": times.format_time(now)}
        await told(client, pod, {**READY, "conditions": [condition]})

    async def turn(self, client: Client) -> None:
        await self.roll(client, (SLOW, "quick")[self.choose("template", 2)])
        await tasks.sleep(timedelta(seconds=(5, 25)[self.choose("for long", 2)]))

    async def check(self) -> None:
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            await self.roll(client, "quick")
        await self.world.quiet(timedelta(minutes=20), timedelta(seconds=90))
        await self.require_rolled("objective burns", "quick")


class TrueToTheTemplate:
    """What an objective says is about the present template, and rollouts go by it."""

    name = "true to the template"

    def __init__(self) -> None:
        self._late: dict[str, set[str]] = {}
        """By set, the pods that were late, as far as is known by now."""
        self._measured: dict[str, set[str]] = {}
        """By set, the pods that became ready, or were late."""
        self._made: dict[str, tuple[str, int]] = {}
        """Pods that are not ready: their set, and when they were made."""
        self._sizes: dict[str, int] = {}
        self._newest = ""
        self._revision = 0
        self._burning: tuple[str, int] | None = None
        """The set that burns, and since when."""

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or not event.key.startswith(_WATCHED):
            return
        value = decode(event.value) if event.value is not None else None
        if event.key.startswith(PODS_PREFIX):
            self._saw_pod(event, value)
        elif event.key.startswith(_SETS):
            self._saw_set(event, value)
        elif value is not None:
            self._saw_objective(event, value)

    def _saw_pod(self, event: RevisionCommitted, pod: Object | None) -> None:
        made = self._made.get(event.key)
        if made is None and event.previous is None and pod is not None:
            made = self._made[event.key] = (find_controller(pod) or {}).get("uid", ""), event.at_ns
        if made is not None and (pod is None or pod_state.is_leaving(pod) or pod_state.is_ready(pod)):
            del self._made[event.key]
            self._measured.setdefault(made[0], set()).add(event.key)
        self._find_late(event.at_ns)

    def _find_late(self, now_ns: int) -> None:
        # Times in the objects are whole seconds, so a pod may be late, by these, a second before.
        for key, (owner, since_ns) in self._made.items():
            if now_ns - since_ns >= (WITHIN_S - 1) * 10**9:
                self._late.setdefault(owner, set()).add(key)
                self._measured.setdefault(owner, set()).add(key)

    def _saw_set(self, event: RevisionCommitted, found: Object | None) -> None:
        before = self._sizes.pop(event.key, 0)
        if found is None:
            return
        size = self._sizes[event.key] = int(found["spec"]["replicas"])
        revision = int((found["metadata"].get("annotations") or {}).get("deployment.kubernetes.io/revision") or 0)
        if revision >= self._revision:
            self._revision, self._newest = revision, found["metadata"]["uid"]
        if size == before or self._burning is None or self._burning[0] != self._newest:
            return
        if event.at_ns > self._burning[1] + HEARD_WITHIN // timedelta(microseconds=1) * 1000:
            raise Violated(self.name, "a rollout went on while its new pods burnt the budget", [event])

    def _saw_objective(self, event: RevisionCommitted, slo: Object) -> None:
        self._find_late(event.at_ns)
        status, said = slo.get("status") or {}, pod_state.find_condition(slo, BURNING) or {}
        uid = str(status.get("targetUid") or "")
        if said.get("status") != "True":
            self._burning = None
        elif self._burning is None or self._burning[0] != uid:
            self._burning = uid, event.at_ns
        if said.get("status") == "True" and said.get("cause") == "TimeToReady" and not self._late.get(uid):
            raise Violated(self.name, "an objective burns by a template of which no pod was late", [event])
        if said.get("status") == "False" and len(self._measured.get(uid, ())) < PODS_MIN:
            raise Violated(self.name, "an objective is within budget before enough pods were measured", [event])

    async def at_end(self, world: World) -> None:
        """Everything was told while it happened."""


SCENARIO: Final = Scenario(
    name="objective-burns",
    about="Slow pods of a new template burn the budget of an objective: its rollout pauses, the next one does not.",
    make=ObjectiveBurns,
    checkers=lambda: [AcknowledgedWrites(), TrueToTheTemplate()],
    faults=("crash", "crash-before", "crash-after", "answer-lost", "pause"),
    lasts=timedelta(seconds=45),
    silence=SILENCE,
    ids=("F1",),
)
