"""Services and progress at work: server, scheduler, nodes and controllers, in virtual time."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mainstay.api.kind_names import DEPLOYMENTS, ENDPOINT_SLICES, ENDPOINTS, PODS, SERVICES
from mainstay.api.progress import Progress, read_progress
from mainstay.controllers.registry import CONTROLLERS
from mainstay.env import tasks
from mainstay.sim.cluster.history import RequestReceived, RevisionCommitted
from mainstay.sim.simulation import Simulation
from tests.controllers.running import CONTROLLER, Cluster, a_cluster, a_deployment, image

pytestmark = pytest.mark.slow

Object = dict[str, Any]

NAMES = (
    "deployment",
    "replicaset",
    "endpoint-slice",
    "endpoints",
    "serving",
    "deployment-progress",
    "replicaset-progress",
)
OURS = tuple(each for each in CONTROLLERS if each.name in NAMES)
CALM = timedelta(minutes=2)
INTERNAL_PREFIX = ("/leases", "/componentstates")


def a_service(name: str = "web", **spec: Any) -> Object:
    ports = [{"name": "http", "port": 80, "targetPort": 8080}]
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"app": "web"}, "ports": ports, **spec},
    }


def services_cluster(sim: Simulation):
    return a_cluster(sim, controllers=OURS)


async def at_rest(cluster: Cluster) -> None:
    await cluster.world.quiet(within=timedelta(minutes=10), calm=CALM)


async def slices_of(cluster: Cluster) -> list[Object]:
    return list((await cluster.client.list(ENDPOINT_SLICES, "default")).items)


async def progress(cluster: Cluster) -> Progress:
    found = read_progress(await cluster.deployment())
    assert found is not None
    return found


def writes(cluster: Cluster) -> list[RequestReceived]:
    return [each for each in cluster.writes() if not any(part in each.path for part in INTERNAL_PREFIX)]


async def test_pods_come_into_service_and_the_record_says_so_and_then_nothing_is_written(sim):
    async with services_cluster(sim) as cluster:
        await cluster.client.create(SERVICES, a_service())
        await cluster.apply(a_deployment(replicas=6))
        await cluster.rolled_out()
        await at_rest(cluster)

        (piece,) = await slices_of(cluster)
        pods = {pod["metadata"]["uid"]: pod for pod in await cluster.pods()}
        assert {each["targetRef"]["uid"] for each in piece["endpoints"]} == pods.keys()
        assert {each["zone"] for each in piece["endpoints"]} == {"a", "b", "c"}
        assert all(each["conditions"]["ready"] for each in piece["endpoints"])
        for pod in pods.values():
            (said,) = [each for each in pod["status"]["conditions"] if each["type"] == "mainstay.dev/Serving"]
            assert (said["status"], said["reason"]) == ("True", "InSlice")
            assert said["observedGeneration"] == pod["metadata"]["generation"]
        legacy = await cluster.client.get(ENDPOINTS, "web", "default")
        assert len(legacy["subsets"][0]["addresses"]) == 6

        found = await progress(cluster)
        assert (found.desired, found.admitted, found.bound, found.ready, found.serving) == (6, 6, 6, 6, 6)
        assert (found.pending, found.starting, found.limited_by, found.verdict) == (0, 0, None, "complete")
        before = len(writes(cluster))
        await tasks.sleep(timedelta(minutes=70))  # Two resyncs.
        assert writes(cluster)[before:] == []


async def test_a_rollout_keeps_enough_in_the_slices_at_every_moment(sim):
    async with services_cluster(sim) as cluster:
        await cluster.client.create(SERVICES, a_service())
        await cluster.apply(a_deployment(replicas=8))  # At least 6 available.
        await cluster.rolled_out()
        await at_rest(cluster)
        since = len(cluster.world.history.events)
        await cluster.change("web", image("web:2"))
        await cluster.rolled_out()
        await at_rest(cluster)

        ready: dict[str, list[str]] = {}
        lows = []
        for number, event in enumerate(cluster.world.history.events):
            if isinstance(event, RevisionCommitted) and event.key.startswith("discovery.k8s.io/endpointslices/"):
                ready[event.key] = [] if event.value is None else _ready_in(msgspec.json.decode(event.value))
                together = [uid for each in ready.values() for uid in each]
                assert len(together) == len(set(together))
                if number >= since:
                    lows.append(len(together))
        assert min(lows) >= 6
        assert lows[-1] == 8
        assert (await progress(cluster)).serving == 8


def _ready_in(piece: Object) -> list[str]:
    return [each["targetRef"]["uid"] for each in piece["endpoints"] if each["conditions"]["ready"]]


async def test_two_controllers_write_one_status_and_neither_touches_what_is_the_others(sim):
    async with services_cluster(sim) as cluster:
        await cluster.client.create(SERVICES, a_service())
        await cluster.apply(a_deployment(replicas=4))
        await cluster.rolled_out()
        for version in ("web:2", "web:3"):
            await cluster.change("web", image(version))
            await tasks.sleep(timedelta(seconds=1.5))
        await cluster.rolled_out()
        await at_rest(cluster)

        for prefix in ("apps/deployments/", "apps/replicasets/"):
            steps = [each for each in cluster.commits(prefix) if each.previous is not None and each.value is not None]
            ours = 0
            for step in steps:
                before, after = _parts(step.previous), _parts(step.value)
                assert (before[0] == after[0]) or (before[1] == after[1]), "a write changes both"
                ours += before[1] != after[1]
            assert ours
            # A record is made at most once a second, however many changes there are.
            assert ours < len(steps)


def _parts(raw: bytes) -> tuple[Object, Object | None]:
    found = msgspec.json.decode(raw)
    said = (found.get("status") or {}).pop("progress", None)
    found["metadata"].pop("managedFields", None)
    found["metadata"].pop("resourceVersion", None)
    if not found.get("status"):
        found.pop("status", None)
    return found, said


async def test_a_workload_without_room_waits_for_the_scheduler_and_says_so_without_end_of_writes(sim):
    async with services_cluster(sim) as cluster:
        made = a_deployment(replicas=3)
        made["spec"]["template"]["spec"]["nodeSelector"] = {"disk": "none-such"}
        await cluster.apply(made)

        async def is_said() -> bool:
            found = read_progress(await cluster.deployment())
            return found is not None and found.verdict == "waiting"

        await cluster.until(is_said)
        await at_rest(cluster)
        found = await progress(cluster)
        assert (found.desired, found.admitted, found.pending, found.bound) == (3, 3, 3, 0)
        assert found.limited_by is not None
        assert (found.limited_by.stage, found.limited_by.component) == ("scheduled", "scheduler")
        assert [(each.reason, each.count) for each in found.pending_reasons] == [("Unschedulable", 3)]
        assert found.last_error is not None
        assert found.last_error.reason == "Unschedulable"
        assert found.deadline.state == "running"

        before = len(writes(cluster))
        await tasks.sleep(timedelta(minutes=12))  # Its deadline passes meanwhile.
        assert (await progress(cluster)).verdict == "failed"
        assert (await progress(cluster)).deadline.state == "passed"
        assert len(writes(cluster)[before:]) <= 4


async def test_a_pod_that_is_taken_out_of_its_service_does_not_serve_any_more(sim):
    async with services_cluster(sim) as cluster:
        await cluster.client.create(SERVICES, a_service())
        await cluster.apply(a_deployment(replicas=2))
        await cluster.rolled_out()
        await at_rest(cluster)
        await cluster.client.delete(SERVICES, "web", "default")
        await at_rest(cluster)

        for pod in await cluster.pods():
            (said,) = [each for each in pod["status"]["conditions"] if each["type"] == "mainstay.dev/Serving"]
            assert (said["status"], said["reason"]) == ("False", "NotSelected")
        assert list((await cluster.client.list(ENDPOINTS, "default")).items) == []
        found = await progress(cluster)
        assert (found.ready, found.serving) == (2, 0)


async def test_many_pods_that_come_one_by_one_cost_few_writes_of_their_slice(sim):
    async with services_cluster(sim) as cluster:
        await cluster.client.create(SERVICES, a_service())
        await cluster.apply(a_deployment(replicas=60))
        await cluster.rolled_out()
        await at_rest(cluster)

        assert len((await slices_of(cluster))[0]["endpoints"]) == 60
        assert len(cluster.commits("discovery.k8s.io/endpointslices/")) <= 20
        served = [
            each for each in writes(cluster) if each.path.split("?")[0].endswith("/status") and "/pods/" in each.path
        ]
        assert len(served) <= 60 + 10  # One each; a few meet a write of the agent and come again.


async def test_what_others_write_about_progress_is_put_right(sim):
    async with services_cluster(sim) as cluster:
        await cluster.apply(a_deployment(replicas=1))
        await cluster.rolled_out()
        await at_rest(cluster)
        wrong = {"status": {"progress": {"ready": 17, "verdict": "failed", "limitedBy": {"reason": "Bad luck"}}}}
        await cluster.client.patch(DEPLOYMENTS, "web", "default", wrong, subresource="status")
        await at_rest(cluster)

        found = await progress(cluster)
        assert (found.ready, found.verdict, found.limited_by) == (1, "complete", None)
        pods = [each for each in writes(cluster) if "/pods" in each.path]
        assert len(pods) == 1  # It was made. No Service leads to it, so nothing was said about that.
        assert PODS.plural in pods[0].path
        assert pods[0].who == CONTROLLER
