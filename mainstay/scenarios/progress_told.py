"""Two controllers write the status of one workload, each its own fields; the record tells the truth and comes to rest.

Deployments are changed, scaled, paused and given what no node has, while agents, servers and controllers fail. No write
to a workload changes both the record and something else. In the end the record of each says what there is, counted
again from the pods, and nothing is written any more. (SPEC F4, F5)
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any, Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS
from mainstay.api.progress import ProgressVerdict, read_progress
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists
from mainstay.controllers.component import Controllers
from mainstay.controllers.deployment.controller import Deployments
from mainstay.controllers.progress.controller import DEPLOYMENT_PROGRESS, REPLICASET_PROGRESS
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.env import Env
from mainstay.loop.component import ComponentSettings
from mainstay.loop.controller import Controller
from mainstay.scenarios._agents import CALM, SILENCE, AgentStage
from mainstay.scenarios._stages import LEASE, NAMESPACE
from mainstay.server.auth import identities
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAMES: Final = ("web", "api")
PROGRAMS: Final = ("controllers-1", "controllers-2")
_PODS: Final = "core/pods/"
_SETS: Final = "apps/replicasets/"
_DEPLOYMENTS: Final = "apps/deployments/"
_decode = msgspec.json.Decoder(Object).decode


class ProgressTold(AgentStage):
    turn_every = timedelta(seconds=3)

    def __init__(self, world: World) -> None:
        super().__init__(world)
        controllers = (Deployments(), ReplicaSets(), DEPLOYMENT_PROGRESS, REPLICASET_PROGRESS)
        for program in PROGRAMS:
            world.add_program(program, partial(self._run, controllers, program), user=identities.CONTROLLERS)
            self._expected += 1

    async def _run(self, controllers: Sequence[Controller], program: str, env: Env) -> None:
        async with self.world.client_for(program, env) as client:
            settings = ComponentSettings(lease=LEASE)
            component = self.components[program] = Controllers(
                client,
                env,
                name="controllers",
                instance=program,
                controllers=controllers,
                loops=(),
                settings=settings,
                recorder=self.world.recorder,
            )
            await component.run()

    async def turn(self, client: Client) -> None:
        name = NAMES[self.choose("which", len(NAMES))]
        with suppress(AlreadyExists):
            await client.create(DEPLOYMENTS, a_deployment(name, self.nodes[self.choose("where", len(self.nodes))]))
            return
        match self.choose("what", 4):
            case 0:
                spec: Object = {"template": {"metadata": {"annotations": {"version": str(self.choose("version", 4))}}}}
            case 1:
                spec = {"paused": bool(self.choose("paused", 2))}
            case _:
                spec = {"replicas": self.choose("replicas", 5)}
        await client.patch(DEPLOYMENTS, name, NAMESPACE, {"spec": spec})

    async def check(self) -> None:
        await super().check()
        store = self.world.store
        pods = [_decode(entry.value) for entry in (await store.range(_PODS)).entries]
        for prefix in (_SETS, _DEPLOYMENTS):
            for entry in (await store.range(prefix)).entries:
                workload = _decode(entry.value)
                template = workload["spec"]["selector"]["matchLabels"]
                mine = [pod for pod in pods if template.items() <= pod["metadata"]["labels"].items()]
                self._judge(workload, mine)

    def _judge(self, workload: Object, pods: list[Object]) -> None:
        """Not by the code under test: in the end all pods there are run and are ready."""
        said, name = read_progress(workload), workload["metadata"]["name"]
        if said is None:
            raise Violated("progress", f"{name} has no progress record at the end")
        desired = workload["spec"]["replicas"]
        wanted = (workload["metadata"]["generation"], desired, len(pods), len(pods), 0, 0)
        told = (said.observed_generation, said.desired, said.admitted, said.ready, said.pending, said.starting)
        if told != wanted:
            raise Violated("progress", f"{name} reports {told} at the end, but it is {wanted}")
        is_complete = said.verdict is ProgressVerdict.COMPLETE
        if is_complete != (said.limited_by is None) or (is_complete and len(pods) != desired):
            raise Violated("progress", f"{name} is {said.verdict} at the end with {len(pods)} of {desired} pods")


def a_deployment(name: str, node: str) -> Object:
    """Its pods are put on a node by the template: there is no scheduler here."""
    labels = {"app": name}
    spec: dict[str, Any] = {
        "nodeName": node,
        "containers": [{"name": "main", "image": "x:1"}],
        "terminationGracePeriodSeconds": 2,
    }
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template},
    }


class OwnFieldsOnly:
    """No write to a workload changes both its record and something else."""

    name = "own fields only"

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted) or event.value is None or event.previous is None:
            return
        if event.key.startswith((_SETS, _DEPLOYMENTS)):
            before, after = _parts(event.previous), _parts(event.value)
            if before[0] != after[0] and before[1] != after[1]:
                raise Violated(self.name, f"a write to {event.key} changes more than the progress record", [event])

    async def at_end(self, world: World) -> None:
        """What is there in the end is the stage's to judge."""


def _parts(raw: bytes) -> tuple[Mapping[str, Any], Any]:
    found = _decode(raw)
    record = (found.get("status") or {}).pop("progress", None)
    metadata = {name: each for name, each in found["metadata"].items() if name not in _OF_THE_SERVER}
    return {**found, "metadata": metadata, "status": found.get("status") or None}, record


_OF_THE_SERVER: Final = ("managedFields", "resourceVersion")

SCENARIO: Final = Scenario(
    name="progress-told",
    about="Two controllers write one status: each writes only its own fields, correctly, and then stops.",
    make=ProgressTold,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), OwnFieldsOnly()],
    calm=CALM,
    silence=SILENCE,
    ids=("F8", "R6"),
)
