"""What users are told about a pod without a node, and how often."""

from datetime import UTC, datetime, timedelta

from mainstay.client.informer import Informers
from mainstay.env import tasks
from mainstay.scheduler.binding import PODS
from mainstay.scheduler.reporting import EVENTS, Reason, Report, Reporter, condition_patch
from tests.client.world import a_world
from tests.scheduler.objects import a_pod
from tests.scheduler.running import created

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def said(status: str, reason: str, message: str):
    condition = {"type": "PodScheduled", "status": status, "reason": reason, "message": message}
    return {**a_pod(), "status": {"conditions": [{**condition, "lastTransitionTime": "2026-01-01T00:00:00Z"}]}}


def test_a_pod_that_says_nothing_yet_gets_a_condition():
    patch = condition_patch(a_pod(uid="u"), "Unschedulable", "no room", NOON)

    assert patch == {
        "metadata": {"uid": "u"},
        "status": {
            "conditions": [
                {
                    "type": "PodScheduled",
                    "status": "False",
                    "reason": "Unschedulable",
                    "message": "no room",
                    "lastTransitionTime": "2026-01-01T12:00:00Z",
                }
            ]
        },
    }


def test_what_is_said_already_is_not_said_again():
    assert condition_patch(said("False", "Unschedulable", "no room"), "Unschedulable", "no room", NOON) is None


def test_another_message_is_no_transition():
    patch = condition_patch(said("False", "Unschedulable", "no room"), "Unschedulable", "less room", NOON)

    assert patch is not None
    assert "lastTransitionTime" not in patch["status"]["conditions"][0]


def test_a_pod_that_has_a_node_is_left_alone():
    assert condition_patch(a_pod(node="n1"), "Unschedulable", "no room", NOON) is None


async def test_messages_are_written_now_and_then_and_reasons_at_once(sim):
    async with a_world(sim) as world:
        env = sim.env("reporter")
        informers = Informers(world.client, env)
        made = await world.client.create(PODS, created(a_pod("web")))
        pods = informers.get(PODS)
        await pods.synced()
        reporter = Reporter(world.client, pods.cache, env, "scheduler")
        task = tasks.spawn(reporter.run(), name="reporter")
        uid = made["metadata"]["uid"]

        async def message(reason: Reason, text: str) -> str:
            reporter.report(Report(pods.cache.keys()[0], uid, reason, text))
            await tasks.sleep(timedelta(seconds=1))
            pod = await world.client.get(PODS, "web", "default")
            return str(pod["status"]["conditions"][0]["message"])

        assert await message(Reason.UNSCHEDULABLE, "one") == "one"
        assert await message(Reason.UNSCHEDULABLE, "two") == "one"
        await tasks.sleep(timedelta(minutes=1))
        assert await message(Reason.UNSCHEDULABLE, "three") == "three"
        assert await message(Reason.SCHEDULER_ERROR, "four") == "four"
        assert reporter.written == 3
        await tasks.stop(task)
        await informers.stop()


async def test_the_same_again_counts_one_event_up(sim):
    async with a_world(sim) as world:
        env = sim.env("reporter")
        informers = Informers(world.client, env)
        made = await world.client.create(PODS, created(a_pod("web")))
        pods = informers.get(PODS)
        await pods.synced()
        reporter = Reporter(world.client, pods.cache, env, "scheduler")
        task = tasks.spawn(reporter.run(), name="reporter")
        for _ in range(60):
            reporter.report(Report(pods.cache.keys()[0], made["metadata"]["uid"], Reason.UNSCHEDULABLE, "no room"))
            await tasks.sleep(timedelta(seconds=10))

        [event] = (await world.client.list(EVENTS, "default")).items

        assert (event["reason"], event["count"], event["message"]) == ("FailedScheduling", 2, "no room")
        assert event["involvedObject"]["name"] == "web"
        assert reporter.written == 1
        await tasks.stop(task)
        await informers.stop()
