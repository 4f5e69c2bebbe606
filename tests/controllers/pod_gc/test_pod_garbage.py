"""Pods that no agent is going to remove."""

from datetime import timedelta

import msgspec

from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.informer import Informers
from mainstay.controllers.pod_gc.loop import INDEXES, PodGarbage, PodGcInput, PodRemoval, garbage, garbage_in
from mainstay.controllers.repair.snapshot import LOOKED_AT
from mainstay.env import tasks
from mainstay.loop.kernel import LoopContext
from tests.controllers.objects import Object, a_pod
from tests.controllers.running import a_cluster


def removal(name: str, *, at_once: bool = False) -> PodRemoval:
    return PodRemoval(ObjectKey("default", name), name, at_once)


def test_above_a_number_the_oldest_that_have_ended_go():
    ended = [a_pod(f"p{number}", phase="Failed", created_at=-number) for number in range(5)]

    assert garbage(ended, [], 3) == [removal("p4"), removal("p3")]
    assert garbage(ended, [], 5) == []


def test_those_that_leave_anyhow_do_not_count():
    ended = [a_pod(f"p{number}", phase="Failed", created_at=-number, leaving=number > 2) for number in range(5)]

    assert garbage(ended, [], 3) == []


def test_one_that_leaves_and_never_had_a_node_goes_at_once():
    def leaving(name: str, node: str, grace: int) -> Object:
        pod = a_pod(name, node=node, phase="Pending", leaving=True)
        pod["metadata"]["deletionGracePeriodSeconds"] = grace
        return pod

    found = garbage([], [leaving("lost", "", 30), leaving("on-a-node", "n1", 30), leaving("held", "", 0)])

    assert found == [removal("lost", at_once=True)]


def test_what_leaves_is_found_in_a_cache_that_repair_has_indexed_first():
    """They share the caches of a process, and an index of one name is made once."""
    pod = a_pod("lost", node="", phase="Pending", leaving=True)
    pod["metadata"] |= {"deletionGracePeriodSeconds": 30, "resourceVersion": "1"}
    cache = Cache(PODS, LOOKED_AT[PODS])
    cache.add_indexes(INDEXES)
    cache.replace([cache.read_item(msgspec.json.encode(pod))], 1)

    assert garbage_in(cache, PodGcInput(10)) == [removal("lost", at_once=True)]


async def test_in_a_cluster_only_the_newest_that_have_ended_stay(sim):
    async with a_cluster(sim, controllers=()) as cluster:
        env = sim.env("garbage")
        informers = Informers(cluster.client, env)
        loop = PodGarbage(LoopContext(cluster.client, informers, env), ended_max=2)
        running = tasks.spawn(loop.run(), name="garbage")
        for number in range(5):
            name = f"p{number}"
            spec = {"containers": [{"name": "main", "image": "work:1"}], "schedulerName": "none"}
            await cluster.client.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
            await cluster.client.patch(PODS, name, "default", {"status": {"phase": "Failed"}}, subresource="status")
            await tasks.sleep(timedelta(seconds=2))

        async def is_tidy() -> bool:
            return len(await cluster.pods()) == 2

        await cluster.until(is_tidy, timedelta(minutes=2))
        assert [pod["metadata"]["name"] for pod in await cluster.pods()] == ["p3", "p4"]
        await tasks.stop(running)
        await informers.stop()
