"""Two builds of the same controller run side by side, as in an upgrade that is rolled back: neither undoes the other.

Three processes elect one of them. Each may be restarted as the build before, which names pods otherwise, says nothing
of slots, holds its lease for longer and works on one thing at a time; and as what it was again. The user asks for more
and more pods. Of each set there are never more than it wants, regardless of which build created them.
"""

import itertools
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, Final

from mainstay.api.annotations import REPLACES, SLOT
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS, REPLICASETS
from mainstay.api.object_key import ObjectKey
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.loop.component import ComponentSettings
from mainstay.loop.controller_loop import LoopSettings
from mainstay.loop.decision import Action, Create, Decision
from mainstay.loop.fencing import LeaseTimes
from mainstay.loop.lease import LeaseSettings
from mainstay.loop.view import View
from mainstay.scenarios._stages import NAMESPACE, SILENCE
from mainstay.scenarios._workloads import WorkloadStage, a_workload
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.count import Count
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.run.scenario import Scenario

NAMES: Final = ("web", "api", "db")
REPLICAS_MAX: Final = 6


class OlderReplicaSets(ReplicaSets):
    """The build before: pods are numbered, and carry no slot."""

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        decision = super().decide(view, key, memory)
        made: list[str] = []
        actions: list[Action] = []
        for action in decision.actions:
            if isinstance(action, Create):
                numbered = _numbered(view, action.object, made)
                made.append(numbered["metadata"]["name"])
                actions.append(Create(PODS, numbered))
            else:
                actions.append(action)
        return Decision(tuple(actions), decision.result, decision.status, reasons=decision.reasons)


def _numbered(view: View, pod: Object, made: list[str]) -> Object:
    metadata: dict[str, Any] = dict(pod["metadata"])
    owner = metadata["ownerReferences"][0]
    names = (f"{owner['name']}-{owner['uid'][:6]}-{number}" for number in itertools.count())
    name = next(
        each for each in names if each not in made and view.get(PODS, ObjectKey(metadata["namespace"], each)) is None
    )
    annotations = {each: text for each, text in metadata["annotations"].items() if each not in (SLOT, REPLACES)}
    return {**pod, "metadata": {**metadata, "name": name, "annotations": annotations}}


class TwoBuilds(WorkloadStage):
    controllers = (ReplicaSets(),)
    older_controllers = (OlderReplicaSets(),)
    older_settings = ComponentSettings(
        lease=LeaseSettings(
            times=LeaseTimes(duration=timedelta(seconds=8), renew_every=timedelta(seconds=2)),
            retry_every=timedelta(seconds=2),
        ),
        loop=LoopSettings(workers=1),
    )
    programs = ("controllers-1", "controllers-2", "controllers-3")
    turn_every = timedelta(seconds=1)

    async def turn(self, client: Client) -> None:
        name = NAMES[self.choose("which", len(NAMES))]
        try:
            await client.create(REPLICASETS, a_workload(name, 1 + self.choose("replicas", 3)))
        except AlreadyExists:
            found = await client.get(REPLICASETS, name, NAMESPACE)
            replicas = min(found["spec"]["replicas"] + self.choose("more", 2), REPLICAS_MAX)
            await client.patch(REPLICASETS, name, NAMESPACE, {"spec": {"replicas": replicas}})


def _wants(replica_set: Object) -> Mapping[str, int]:
    return {replica_set["metadata"]["uid"]: replica_set["spec"]["replicas"]}


def _owners(pod: Object) -> Iterable[str]:
    return [reference["uid"] for reference in pod["metadata"].get("ownerReferences") or ()]


SCENARIO: Final = Scenario(
    name="two-builds",
    about="Processes restart as an older build and back: no set ever has more pods than it wants.",
    make=TwoBuilds,
    checkers=lambda: [
        WatchContract(),
        AcknowledgedWrites(),
        Count("apps/replicasets/", "core/pods/", _wants, _owners),
    ],
    faults=(
        "version-skew",
        "restart",
        "crash",
        "crash-after",
        "pause",
        "leader-loss",
        "answer-lost",
        "watch-delay",
        "conflict-storm",
        "clock-skew",
    ),
    lasts=timedelta(minutes=2),
    silence=SILENCE,
    ids=("F8",),
)
