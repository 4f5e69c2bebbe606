"""What the check of a world's final state excuses: a namespace that waits for a pod on a lost machine, and no other."""

from dataclasses import dataclass, field
from typing import Any

import msgspec
import pytest

from mainstay.api.annotations import AT_MOST_ONE
from mainstay.api.kind import Object
from mainstay.scenarios._expected_state import find_deviations
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.namespaces import Namespaces
from mainstay.sim.cluster.history import RevisionCommitted
from mainstay.store.interface import Put
from mainstay.store.local import LocalStore
from mainstay.store.log import MemoryLog

GOING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


@dataclass
class HeldWorld:
    store: LocalStore
    lost: dict[str, None]
    machines: dict[str, None] = field(default_factory=dict)


@dataclass
class HeldStage:
    world: HeldWorld
    controllers: tuple[()] = ()
    observed: tuple[()] = ()
    singles: dict[str, None] = field(default_factory=dict)


def an_object(name: str, namespace: str = "", **more: Any) -> Object:
    return {"metadata": {"name": name, "namespace": namespace, "uid": f"uid of {name}", **more}}


def a_pod(name: str, node: str = "dead", **more: Any) -> Object:
    """On its way out."""
    return {**an_object(name, "team", **{**GOING, **more}), "spec": {"nodeName": node, "containers": []}}


def a_set(name: str, namespace: str = "team") -> Object:
    return {**an_object(name, namespace), "spec": {"replicas": 2}}


async def held(*objects: Object, pods: tuple[Object, ...], team: Object) -> HeldStage:
    """A world with a machine that is lost, and its Node; and this."""
    store = await LocalStore.open(MemoryLog())
    stored = {"core/namespaces/team": team, "core/nodes/dead": an_object("dead")}
    for pod in pods:
        stored[f"core/pods/team/{pod['metadata']['name']}"] = pod
    for each in objects:
        stored[f"apps/replicasets/{each['metadata']['namespace']}/{each['metadata']['name']}"] = each
    await store.commit([], [Put(key, msgspec.json.encode(obj)) for key, obj in stored.items()])
    return HeldStage(HeldWorld(store, {"dead": None}))


async def find(stage: HeldStage) -> str:
    problem = await find_deviations(stage)  # type: ignore[arg-type]
    return "" if problem is None else problem[1]


async def check_namespaces(stage: HeldStage) -> None:
    checker = Namespaces(["apps/replicasets/"], [])
    entry = await stage.world.store.get("core/namespaces/team")
    assert entry is not None
    checker.saw(RevisionCommitted(0, 1, entry.key, entry.value, None, None))
    await checker.at_end(stage.world)  # type: ignore[arg-type]


async def test_a_namespace_may_wait_with_all_its_content_for_a_pod_on_a_lost_machine():
    stage = await held(a_set("web"), pods=(a_pod("web-0"),), team=an_object("team", **GOING))

    assert await find(stage) == ""
    await check_namespaces(stage)


async def test_a_set_in_a_namespace_that_is_not_going_must_have_its_pods():
    stage = await held(a_set("web"), pods=(a_pod("web-0"),), team=an_object("team"))

    assert await find(stage) == "web wants 2 pods, but has []"


async def test_a_set_in_another_namespace_must_have_its_pods():
    stage = await held(a_set("web", "default"), pods=(a_pod("web-0"),), team=an_object("team", **GOING))

    assert await find(stage) == "web wants 2 pods, but has []"


@pytest.mark.parametrize(
    ("pods", "problem"),
    [
        pytest.param((), "namespace team is still terminating", id="no pods are left"),
        pytest.param(
            (a_pod("web-0"), a_pod("web-1", "")), "namespace team is still terminating", id="one is on no machine"
        ),
        pytest.param(
            (a_pod("web-0"), a_pod("web-1", deletionTimestamp=None)),
            "web-1 is still on dead, which is lost",
            id="one was never deleted",
        ),
        pytest.param(
            (a_pod("web-0"), a_pod("one", annotations={AT_MOST_ONE: "true"})),
            "one on dead was deleted, but still exists",
            id="one is removed once the machine is fenced",
        ),
    ],
)
async def test_a_namespace_must_not_wait_for_anything_else(pods: tuple[Object, ...], problem: str):
    kept = tuple(
        {**pod, "metadata": {name: value for name, value in pod["metadata"].items() if value is not None}}
        for pod in pods
    )
    stage = await held(pods=kept, team=an_object("team", **GOING))

    assert await find(stage) == problem
    with pytest.raises(Violated, match="team is still being deleted at the end"):
        await check_namespaces(stage)


async def test_a_namespace_must_not_wait_for_a_pod_on_a_machine_that_is_alive():
    stage = await held(a_set("web"), pods=(a_pod("web-0"),), team=an_object("team", **GOING))
    stage.world.lost.clear()

    assert await find(stage) == "web wants 2 pods, but has []"
    with pytest.raises(Violated, match="team is still being deleted at the end"):
        await check_namespaces(stage)
