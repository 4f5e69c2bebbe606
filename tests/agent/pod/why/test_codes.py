"""Why a container does not run follows from what its agent says for programs. Its words may be any."""

from datetime import timedelta
from typing import Any

from mainstay.agent.pod.why.kubelet_text import find_probe
from mainstay.agent.runners.pretend_images import PullOutcome
from mainstay.api.kind_names import CONFIG_MAPS, EVENTS, PODS, SECRETS
from mainstay.explain.why.answer import Verdict
from mainstay.explain.why.causes import Cause
from mainstay.sim.cluster.cluster import Cluster
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import a_cluster, a_pod, asked, rest
from tests.faults.objects import an_acting_node

ACTING = {"node-a": an_acting_node("node-a", 1)}
MOUNTS_SECRET = {"volumes": [{"name": "keys", "secret": {"secretName": "db"}}]}


async def paused(cluster: Cluster, **spec: Any) -> None:
    """A pod whose agent has said why it does not run, and says no more."""
    await cluster.client.create(PODS, a_pod("web", **spec), "default")
    await rest(10)
    cluster.world.programs["node-a"].pause()


async def test_a_secret_that_a_volume_needs_is_missing_until_it_is_there(sim: Simulation):
    async with a_cluster(sim, ACTING) as cluster:
        await paused(cluster, **MOUNTS_SECRET)
        missing = await asked(cluster, PODS, "web")
        await cluster.client.create(SECRETS, {"metadata": {"name": "db", "namespace": "default"}})
        await rest(1)
        there = await asked(cluster, PODS, "web")

    assert (missing.cause, missing.verdict) == (Cause.CONFIG_MISSING, Verdict.BLOCKED)
    assert (there.cause, there.verdict) == (Cause.CONFIG_MISSING, Verdict.WAITING)
    assert there.sentence.endswith("; it exists now, and the agent has not retried yet.")


async def test_a_config_map_without_the_key_is_not_there_by_now(sim: Simulation):
    volume = {"name": "keys", "configMap": {"name": "settings", "items": [{"key": "level", "path": "level"}]}}
    async with a_cluster(sim, ACTING) as cluster:
        await cluster.client.create(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": "default"}})
        await paused(cluster, volumes=[volume])
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict) == (Cause.CONFIG_MISSING, Verdict.BLOCKED)


async def test_what_version_0_1_wrote_without_a_code_is_told_in_its_words(sim: Simulation):
    async with a_cluster(sim, ACTING) as cluster:
        await paused(cluster, **MOUNTS_SECRET)
        pod = await cluster.client.get(PODS, "web", "default")
        for status in pod["status"]["containerStatuses"]:
            del status["state"]["waiting"]["missing"]
        await cluster.client.replace(PODS, pod, subresource="status")
        await rest(1)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict) == (Cause.CONTAINER_CANNOT_START, Verdict.BLOCKED)
    assert 'secret "db" not found' in answer.sentence


async def test_which_probe_has_failed_follows_from_the_action_of_the_event(sim: Simulation):
    probe = {"exec": {"command": ["check"]}, "periodSeconds": 2, "failureThreshold": 1}
    async with a_cluster(sim, ACTING) as cluster:
        cluster.world.machines["node-a"].answer = lambda id_, command: 1
        pod = a_pod("web")
        pod["spec"]["containers"][0]["livenessProbe"] = probe
        await cluster.client.create(PODS, pod, "default")
        await rest(40)
        for event in (await cluster.client.list(EVENTS, "default")).items:
            if event["reason"] == "Unhealthy":
                change = {"message": "in words of another version"}
                await cluster.client.patch(EVENTS, event["metadata"]["name"], "default", change)
        cluster.world.programs["node-a"].pause()
        await rest(1)
        answer = await asked(cluster, PODS, "web")

    assert answer.cause is Cause.LIVENESS_PROBE_FAILING
    assert "its liveness probe fails: in words of another version" in answer.sentence


def test_an_event_of_a_kubelet_has_only_its_words():
    assert find_probe("Liveness probe failed: HTTP probe failed with statuscode: 500") == "Liveness"
    assert find_probe("Readiness probe failed: ") == "Readiness"
    assert find_probe("Container web failed liveness probe, will be restarted") == ""


async def test_an_image_that_is_being_pulled_is_named_and_so_is_one_that_cannot_be(sim: Simulation):
    async with a_cluster(sim, ACTING) as cluster:
        images = cluster.world.machines["node-a"].images
        images.registry = lambda image: PullOutcome(timedelta(minutes=1))
        await cluster.client.create(PODS, a_pod("slow"), "default")
        await rest(10)
        slow = await asked(cluster, PODS, "slow")
        images.registry = lambda image: PullOutcome(problem="manifest unknown")
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(5)
        failed = await asked(cluster, PODS, "web")

    assert (slow.cause, slow.verdict) == (Cause.STARTING, Verdict.WAITING)
    assert "is starting on node-a: pulling image" in slow.sentence
    assert (failed.cause, failed.verdict) == (Cause.IMAGE_UNAVAILABLE, Verdict.BLOCKED)
    assert "(ImagePullBackOff)" in failed.sentence
