"""Jobs whose pods succeed, fail and are deleted, while their controller crashes at any moment. (Job counting, exact.)

The user also suspends jobs, changes how many pods may run at once, and deletes jobs and makes them again under the same
name (kubernetes #131917). Nothing is placed on nodes here: a program beside the cluster says how pods end. That a pod
is counted exactly once is judged from what was stored: how it stood when it was let go.
"""

from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_names import JOBS, PODS
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError
from mainstay.controllers.job.controller import Jobs
from mainstay.env import Env, tasks
from mainstay.scenarios._stages import NAMESPACE, SILENCE, UserStage
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.job_counts import JobCounts
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

NAMES: Final = ("job-1", "job-2", "job-3")
NODES: Final = "nodes"
SHAPES: Final[tuple[dict[str, Any], ...]] = (
    {"completions": 3, "parallelism": 2, "backoffLimit": 3},
    {"completions": 3, "parallelism": 2, "backoffLimit": 3, "completionMode": "Indexed"},
    {"completions": 2, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1},
    {"completions": 2, "parallelism": 1, "backoffLimit": 1, "podReplacementPolicy": "Failed"},
    {"parallelism": 2, "backoffLimit": 2},
)
POD_SPEC: Final = {"containers": [{"name": "main", "image": "work:1"}], "restartPolicy": "Never"}
_EVERY: Final = timedelta(milliseconds=700)


class EachPodCountedOnce(UserStage):
    turn_every = timedelta(milliseconds=500)
    programs: tuple[str, ...] = ("controller-1", "controller-2")

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._turns = 0
        self.add_controller(Jobs(), *self.programs)
        world.add_program(NODES, self._end_pods, is_spared=True)

    async def turn(self, client: Client) -> None:
        self._turns += 1
        name = NAMES[self.choose("which", len(NAMES))]
        match self.choose("what", 9):
            case 0 | 1 | 2:
                with suppress(AlreadyExists):
                    await client.create(JOBS, a_job(name, SHAPES[self.choose("shape", len(SHAPES))]))
            case 3:
                # A reason to look again before pods are in the cache. (kubernetes #130683)
                await client.patch(JOBS, name, NAMESPACE, {"metadata": {"annotations": {"at": str(self._turns)}}})
            case 4:
                pods = (await client.list(PODS, NAMESPACE)).items
                if pods:
                    pod = pods[self.choose("pod", len(pods))]["metadata"]
                    await client.delete(PODS, pod["name"], NAMESPACE, uid=pod["uid"])
            case 5:
                await client.patch(JOBS, name, NAMESPACE, {"spec": {"parallelism": self.choose("parallelism", 4)}})
            case 6:
                await client.patch(JOBS, name, NAMESPACE, {"spec": {"suspend": True}})
            case 7:
                await client.patch(JOBS, name, NAMESPACE, {"spec": {"suspend": False}})
            case _:
                await client.delete(JOBS, name, NAMESPACE, propagation=Propagation.BACKGROUND)

    async def check(self) -> None:
        """Whatever was suspended goes on, and all of them come to their end."""
        async with self.world.client_for("user", self.world.sim.env("check")) as client:
            for job in (await client.list(JOBS, NAMESPACE)).items:
                going_on = {"spec": {"suspend": False, "parallelism": 2}}
                await client.patch(JOBS, job["metadata"]["name"], NAMESPACE, going_on)
        await self.world.quiet(timedelta(minutes=30), SILENCE)

    async def _end_pods(self, env: Env) -> None:
        """In place of nodes: pods run, and end one way or the other."""
        async with self.world.client_for(NODES, env) as client:
            while True:
                await tasks.sleep(_EVERY)
                with suppress(ApiError):
                    for pod in (await client.list(PODS, NAMESPACE)).items:
                        await self._go_on(client, pod)

    async def _go_on(self, client: Client, pod: Object) -> None:
        if not pod_state.is_active(pod):
            return
        phase = ("Running", "Succeeded", "Succeeded", "Failed")[self.choose("outcome", 4)]
        metadata = {name: pod["metadata"][name] for name in ("uid", "resourceVersion")}
        body = {"metadata": metadata, "status": {"phase": phase}}
        with suppress(ApiError):  # It has changed meanwhile.
            await client.patch(PODS, pod["metadata"]["name"], NAMESPACE, body, subresource="status")


class OneJob(EachPodCountedOnce):
    """Small enough to try a fault at each write. What becomes of each pod is drawn, and the same in every run."""

    turn_every = timedelta(seconds=3)
    programs = ("controller-1",)

    async def turn(self, client: Client) -> None:
        self._turns += 1
        match self._turns:
            case 1:
                await client.create(JOBS, a_job("job-1", {**SHAPES[0], "completions": 2}))
            case 2:
                await client.patch(JOBS, "job-1", NAMESPACE, {"spec": {"suspend": True}})
            case 3:
                await client.patch(JOBS, "job-1", NAMESPACE, {"spec": {"suspend": False}})


def a_job(name: str, shape: Object) -> Object:
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": {**shape, "template": {"spec": POD_SPEC}}}


SCENARIO: Final = Scenario(
    name="each-pod-counted-once",
    about="Jobs whose pods succeed, fail and disappear, and controllers that crash: each pod is counted once.",
    make=EachPodCountedOnce,
    checkers=lambda: [WatchContract(), AcknowledgedWrites(), JobCounts()],
    lasts=timedelta(seconds=40),
    calm=timedelta(minutes=30),
    silence=SILENCE,
    ids=("10", "R2", "R6"),
)

SHORT_SCENARIO: Final = Scenario(
    name="one-job",
    about="One job, suspended and resumed: each pod is counted once.",
    make=OneJob,
    checkers=lambda: [AcknowledgedWrites(), JobCounts()],
    lasts=timedelta(seconds=15),
    calm=timedelta(minutes=30),
    silence=SILENCE,
)
