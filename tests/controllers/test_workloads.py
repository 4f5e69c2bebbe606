"""Deployments and ReplicaSets at work: server, scheduler, nodes and controllers, in virtual time."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest

from mainstay.api.kind_names import PODS, RESOURCE_QUOTAS
from mainstay.env import tasks
from mainstay.sim.cluster.history import RequestReceived
from tests.controllers.running import CONTROLLER, Cluster, Object, a_cluster, a_deployment, image

pytestmark = pytest.mark.slow

CALM = timedelta(minutes=2)


def condition(deployment: Object, name: str) -> Object:
    (found,) = [each for each in deployment["status"]["conditions"] if each["type"] == name]
    return dict(found)


async def at_rest(cluster: Cluster) -> None:
    await cluster.world.quiet(within=timedelta(minutes=10), calm=CALM)


async def test_a_rollout_ends_with_the_new_template_and_then_nothing_is_written_any_more(sim):
    async with a_cluster(sim) as cluster:
        await cluster.apply(a_deployment(replicas=6))
        await cluster.rolled_out()
        await cluster.change("web", image("web:2"))
        await cluster.rolled_out()
        await at_rest(cluster)

        sets = await cluster.sets()
        assert [each["spec"]["replicas"] for each in sets] == [0, 6]
        pods = await cluster.pods()
        assert [pod["spec"]["containers"][0]["image"] for pod in pods] == ["web:2"] * 6
        progress = condition(await cluster.deployment(), "Progressing")
        assert (progress["status"], progress["reason"]) == ("True", "NewReplicaSetAvailable")
        writes = len(_telling(cluster))
        await tasks.sleep(timedelta(minutes=20))
        assert len(_telling(cluster)) == writes


async def test_all_the_while_enough_pods_are_available_and_never_too_many_are_asked_for(sim):
    async with a_cluster(sim) as cluster:
        await cluster.apply(a_deployment(replicas=8))  # At most 10 at a time, at least 6 available.
        await cluster.rolled_out()
        since = len(cluster.world.history.events)
        for version in ("web:2", "web:3", "web:2"):
            await cluster.change("web", image(version))
            await tasks.sleep(timedelta(seconds=1.5))  # In the middle of it.
        await cluster.rolled_out()

        available, asked = Counted(), Counted()
        for event in cluster.world.history.events[:since]:
            available.see(event, "core/pods/", _is_available)
            asked.see(event, "apps/replicasets/", _replicas)
        lows, highs = [], []
        for event in cluster.world.history.events[since:]:
            available.see(event, "core/pods/", _is_available)
            asked.see(event, "apps/replicasets/", _replicas)
            lows.append(available.total)
            highs.append(asked.total)
        assert min(lows) >= 6
        assert max(highs) <= 10


async def test_a_pod_that_is_deleted_or_evicted_is_replaced_once(sim):
    async with a_cluster(sim) as cluster:
        await cluster.apply(a_deployment(replicas=3))
        await cluster.rolled_out()
        before = {pod["metadata"]["uid"]: pod["metadata"]["name"] for pod in await cluster.pods()}
        gone = sorted(before.values())[0]
        await cluster.client.delete(PODS, gone, "default")
        await at_rest(cluster)

        after = {pod["metadata"]["uid"]: pod for pod in await cluster.pods()}
        (new,) = [pod for uid, pod in after.items() if uid not in before]
        assert len(after) == 3
        assert before[new["metadata"]["annotations"]["mainstay.dev/replaces"]] == gone
        made = [
            each for each in cluster.writes() if each.method == "POST" and each.path.split("?")[0].endswith("/pods")
        ]
        assert len(made) == 4


async def test_orphans_are_taken_over_and_what_does_not_match_any_more_is_let_go_and_replaced(sim):
    async with a_cluster(sim) as cluster:
        await cluster.apply(a_deployment(replicas=2))
        await cluster.rolled_out()
        let_go, kept = [pod["metadata"]["name"] for pod in await cluster.pods()]
        await cluster.client.patch(PODS, let_go, "default", {"metadata": {"labels": {"app": "debug"}}})
        await at_rest(cluster)
        pods = {pod["metadata"]["name"]: pod for pod in await cluster.pods()}
        assert len(pods) == 3
        assert not pods[let_go]["metadata"].get("ownerReferences")

        # Back: one too many now, and the one that came last goes.
        await cluster.client.patch(PODS, let_go, "default", {"metadata": {"labels": {"app": "web"}}})
        await at_rest(cluster)
        names = [pod["metadata"]["name"] for pod in await cluster.pods()]
        assert names == sorted([let_go, kept])


async def test_a_quota_that_is_used_up_is_said_and_the_rest_is_made_when_there_is_room(sim):
    async with a_cluster(sim) as cluster:
        quota = {"metadata": {"name": "small", "namespace": "default"}, "spec": {"hard": {"pods": "2"}}}
        await cluster.client.create(RESOURCE_QUOTAS, quota)
        await cluster.apply(a_deployment(replicas=5))

        async def is_said() -> bool:
            found = (await cluster.deployment()).get("status", {}).get("conditions") or ()
            return any(each["type"] == "ReplicaFailure" for each in found)

        await cluster.until(is_said)
        failure = condition(await cluster.deployment(), "ReplicaFailure")
        assert (failure["status"], failure["reason"]) == ("True", "FailedCreate")
        assert "exceeded quota: small" in failure["message"]
        await tasks.sleep(timedelta(minutes=30))
        assert len(await cluster.pods()) == 2
        refused = [each for each in cluster.writes() if each.method == "POST" and "/pods" in each.path]
        assert len(refused) < 40  # Ever less often, and one at a time.

        await cluster.client.patch(RESOURCE_QUOTAS, "small", "default", {"spec": {"hard": {"pods": "10"}}})
        deployment = await cluster.rolled_out(within=timedelta(minutes=10))
        assert not [each for each in deployment["status"]["conditions"] if each["type"] == "ReplicaFailure"]


async def test_a_bad_rollout_is_stopped_by_its_deadline_and_undone(sim):
    async with a_cluster(sim) as cluster:
        await cluster.apply(a_deployment(replicas=6, progressDeadlineSeconds=60))
        await cluster.rolled_out()
        before = {pod["metadata"]["uid"] for pod in await cluster.pods()}
        # No node is that large.
        huge = {"name": "main", "image": "web:bad", "resources": {"requests": {"cpu": "100"}}}
        await cluster.change("web", {"template": {"spec": {"containers": [huge]}}})

        async def is_late() -> bool:
            return bool(condition(await cluster.deployment(), "Progressing")["reason"] == "ProgressDeadlineExceeded")

        await cluster.until(is_late)
        await tasks.sleep(timedelta(minutes=10))
        late = await cluster.deployment()
        assert late["status"]["availableReplicas"] >= 5
        assert condition(late, "Available")["status"] == "True"

        small = {"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "100m"}}}
        await cluster.change("web", {"template": {"spec": {"containers": [small]}}})
        await cluster.rolled_out()
        await at_rest(cluster)
        after = {pod["metadata"]["uid"] for pod in await cluster.pods()}
        assert len(after & before) >= 5  # Those that worked all the time were left alone.
        assert condition(await cluster.deployment(), "Progressing")["reason"] == "NewReplicaSetAvailable"


async def test_pods_count_as_available_only_after_they_have_been_ready_for_long_enough(sim):
    async with a_cluster(sim) as cluster:
        await cluster.apply(a_deployment(replicas=2, minReadySeconds=30))

        async def are_ready() -> bool:
            return bool((await cluster.deployment())["status"].get("readyReplicas") == 2)

        await cluster.until(are_ready)
        assert not (await cluster.deployment())["status"].get("availableReplicas")
        began = cluster.world.sim.loop.time()
        await cluster.rolled_out()
        assert 28 <= cluster.world.sim.loop.time() - began <= 32


async def test_to_recreate_no_old_pod_is_there_when_the_first_new_one_is_made(sim):
    async with a_cluster(sim) as cluster:
        await cluster.apply(a_deployment(replicas=3, strategy={"type": "Recreate"}))
        await cluster.rolled_out()
        await cluster.change("web", image("web:2"))
        await cluster.rolled_out()

        there: dict[str, str] = {}
        for event in cluster.commits("core/pods/"):
            if event.value is None:
                there.pop(event.key, None)
            else:
                there[event.key] = json.loads(event.value)["spec"]["containers"][0]["image"]
            assert len(set(there.values())) <= 1


async def test_a_rollback_does_not_take_the_only_ready_pod_of_a_zone_before_its_successor_is_ready(sim):
    async with a_cluster(sim) as cluster:
        await cluster.apply(a_deployment(replicas=3))
        await cluster.rolled_out()
        zones = {"node-a": "a", "node-b": "b", "node-c": "c"}
        for version in ("web:2", "web:1"):
            await cluster.change("web", image(version))
            await cluster.rolled_out()
        served: dict[str, str] = {}
        for event in cluster.commits("core/pods/"):
            pod = json.loads(event.value) if event.value is not None else None
            if pod is not None and _is_available(pod):
                served[event.key] = zones[pod["spec"]["nodeName"]]
            elif event.key in served:
                zone = served.pop(event.key)
                # A pod that has gone from a zone left another there, or all that is wanted is there without it.
                assert zone in served.values() or len(served) >= 3


class Counted:
    """A sum over the objects of a kind as they are after each commit."""

    def __init__(self) -> None:
        self._parts: dict[str, int] = {}

    def see(self, event: object, prefix: str, part: Callable[[Object], int]) -> None:
        key, value = getattr(event, "key", ""), getattr(event, "value", None)
        if isinstance(key, str) and key.startswith(prefix):
            self._parts[key] = 0 if value is None else part(json.loads(value))

    @property
    def total(self) -> int:
        return sum(self._parts.values())


def _is_available(pod: Object) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or ()
    is_ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


def _replicas(replica_set: Object) -> int:
    return int(replica_set["spec"]["replicas"])


def _telling(cluster: Cluster) -> list[RequestReceived]:
    """What the controllers wrote that is no heartbeat."""
    quiet = ("/leases/", "/componentstates/")
    return [each for each in cluster.writes(CONTROLLER) if not any(part in each.path for part in quiet)]
