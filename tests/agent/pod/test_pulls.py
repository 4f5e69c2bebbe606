"""Images on their way: what a container waits with, when a pull is tried again, and what is said about it."""

from datetime import timedelta
from typing import Any

import pytest

from mainstay.agent.runner import CannotPull
from mainstay.agent.runners.pretend_images import PretendImages, PullOutcome
from mainstay.api.kind_names import EVENTS, PODS
from mainstay.controllers.progress.holdups import count_replicas, find_limit
from mainstay.env import tasks
from tests.agent.cluster import a_cluster, a_container, a_pod, an_agent, begun, seconds, state_of

PROBLEM = "manifest unknown"


class Registry:
    """Counts what is asked of it."""

    def __init__(self, sim, *outcomes: PullOutcome) -> None:
        self._clock = sim.get_clock("node-0")
        self._outcomes = list(outcomes)
        self.asked: list[float] = []
        self._began_ns = 0

    def __call__(self, image: str) -> PullOutcome:
        now_ns = self._clock.monotonic_ns()
        self._began_ns = self._began_ns or now_ns
        self.asked.append(round((now_ns - self._began_ns) / 10**9))
        return self._outcomes.pop(0) if len(self._outcomes) > 1 else self._outcomes[0]


def fails() -> PullOutcome:
    return PullOutcome(problem=PROBLEM)


async def waiting_of(client, name: str = "p") -> dict[str, Any]:
    state = state_of(await client.get(PODS, name, "default"))
    assert state["restartCount"] == 0
    found: dict[str, Any] = state["state"].get("waiting") or {}
    return found


async def test_a_container_waits_while_its_image_is_pulled_and_then_starts(sim):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].images.registry = Registry(sim, PullOutcome(seconds(20)))
        await client.create(PODS, a_pod("p"), "default")
        await tasks.sleep(seconds(10))
        pulling = await client.get(PODS, "p", "default")
        assert state_of(pulling)["state"] == {
            "waiting": {"reason": "ContainerCreating", "message": 'pulling image "x:1"'}
        }
        assert begun(world) == []
        limit = find_limit(count_replicas([pulling]).holdups)
        assert limit is not None
        assert (limit[0].stage, limit[0].reason, limit[0].message) == (
            "ready",
            "ContainerCreating",
            'pulling image "x:1"',
        )

        await tasks.sleep(seconds(15))
        assert "running" in state_of(await client.get(PODS, "p", "default"))["state"]
        events = [(each["reason"], each["message"]) for each in (await client.list(EVENTS, "default")).items]
        assert ("Pulling", 'Pulling image "x:1"') in events
        assert ("Pulled", 'Successfully pulled image "x:1" in 20s') in events


async def test_a_failed_pull_is_tried_again_after_a_while_that_doubles_and_is_no_restart(sim):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        registry = world.machines["node-0"].images.registry = Registry(sim, *[fails()] * 4, PullOutcome())
        await client.create(PODS, a_pod("p"), "default")
        await tasks.sleep(seconds(1))
        assert await waiting_of(client) == {"reason": "ErrImagePull", "message": PROBLEM}
        await tasks.sleep(seconds(5))
        said = 'Back-off pulling image "x:1"'
        assert await waiting_of(client) == {"reason": "ImagePullBackOff", "message": f"{said}: {PROBLEM}"}

        await tasks.sleep(timedelta(minutes=4))
        pod = await client.get(PODS, "p", "default")
        assert ("running" in state_of(pod)["state"], state_of(pod)["restartCount"]) == (True, 0)
        assert registry.asked == [0, 10, 30, 70, 150]
        assert begun(world) == [("node-0", "p", 0)]
        events = {(each["reason"], each["type"]): each for each in (await client.list(EVENTS, "default")).items}
        assert events["Failed", "Warning"]["message"] == f'Failed to pull image "x:1": {PROBLEM}'
        assert events["BackOff", "Normal"]["message"] == said


async def test_an_image_that_may_not_be_pulled_and_is_not_there_is_never_pulled(sim):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].images.registry = Registry(sim, PullOutcome())
        container = a_container(imagePullPolicy="Never")
        await client.create(PODS, a_pod("p", "node-0", container), "default")
        await tasks.sleep(seconds(3))

        said = 'Container image "x:1" is not present with pull policy of Never'
        assert await waiting_of(client) == {"reason": "ErrImageNeverPull", "message": said}
        await client.create(PODS, a_pod("q"), "default")
        await tasks.sleep(seconds(15))
        assert sorted(begun(world)) == [("node-0", "p", 0), ("node-0", "q", 0)]  # Now it is there.


async def test_a_pod_can_be_deleted_while_its_image_is_pulled(sim):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        world.machines["node-0"].images.registry = Registry(sim, PullOutcome(timedelta(hours=1)))
        await client.create(PODS, a_pod("p"), "default")
        await tasks.sleep(seconds(5))
        await client.delete(PODS, "p", "default")
        await tasks.sleep(seconds(5))

        assert (await client.list(PODS, "default")).items == []
        assert begun(world) == []


async def test_an_agent_that_restarts_pulls_again_at_once(sim):
    async with a_cluster(sim, "node-0", settings=an_agent()) as (world, client):
        registry = world.machines["node-0"].images.registry = Registry(sim, fails(), fails(), fails(), PullOutcome())
        await client.create(PODS, a_pod("p"), "default")
        await tasks.sleep(seconds(35))
        world.programs["node-0"].crash()
        world.programs["node-0"].start()
        await tasks.sleep(seconds(5))

        assert "running" in state_of(await client.get(PODS, "p", "default"))["state"]
        assert registry.asked[:3] == [0, 10, 30]


@pytest.mark.parametrize(
    ("policy", "pulls"), [("IfNotPresent", [True, False]), ("Always", [True, True]), ("", [True, False])]
)
async def test_what_was_pulled_is_there_unless_it_is_always_pulled(sim, policy, pulls):
    images = PretendImages(lambda image: PullOutcome())
    found = []
    for _ in range(2):
        pull = images.pull("x:1", policy)
        found.append(pull is not None)
        if pull is not None:
            await pull()
    assert (found, images.has("x:1")) == (pulls, True)
    assert PretendImages().pull("x:1", "Always") is None
    with pytest.raises(CannotPull, match="not present"):
        PretendImages(lambda image: PullOutcome()).pull("x:1", "Never")
