"""What users are told about a pod without a node, and how often."""

from datetime import UTC, datetime, timedelta

from mainstay.api.kind_names import EVENTS, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.informer import Informers
from mainstay.env import tasks
from mainstay.scheduler.report import (
    PlacedPod,
    PodConditionReason,
    PodReport,
    Reporter,
    ReportSettings,
    condition_patch,
    retrying_patch,
)
from tests.client.world import a_world
from tests.scheduler.objects import a_pod
from tests.scheduler.running import created
from tests.twins import found as twins

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


def test_the_cause_is_said_for_programs_and_goes_with_what_it_was_about():
    patch = condition_patch(a_pod(uid="u"), "Unschedulable", "no room", NOON, cause="NodeTooSmall")
    assert patch is not None
    assert patch["status"]["conditions"][0]["cause"] == "NodeTooSmall"

    pod = said("False", "Unschedulable", "no room")
    pod["status"]["conditions"][0]["cause"] = "NodeTooSmall"
    assert condition_patch(pod, "Unschedulable", "no room", NOON, cause="NodeTooSmall") is None
    other = condition_patch(pod, "Unschedulable", "no room", NOON, cause="NodeAffinity")
    assert other is not None
    assert other["status"]["conditions"][0]["cause"] == "NodeAffinity"
    none = condition_patch(pod, "SchedulerError", "odd", NOON)
    assert none is not None
    assert none["status"]["conditions"][0]["cause"] is None


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

        async def message(reason: PodConditionReason, text: str) -> str:
            reporter.report(PodReport(pods.cache.keys()[0], uid, reason, text))
            await tasks.sleep(timedelta(seconds=1))
            pod = await world.client.get(PODS, "web", "default")
            return str(pod["status"]["conditions"][0]["message"])

        assert await message(PodConditionReason.UNSCHEDULABLE, "one") == "one"
        assert await message(PodConditionReason.UNSCHEDULABLE, "two") == "one"
        await tasks.sleep(timedelta(minutes=1))
        assert await message(PodConditionReason.UNSCHEDULABLE, "three") == "three"
        assert await message(PodConditionReason.SCHEDULER_ERROR, "four") == "four"
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
            reporter.report(
                PodReport(pods.cache.keys()[0], made["metadata"]["uid"], PodConditionReason.UNSCHEDULABLE, "no room")
            )
            await tasks.sleep(timedelta(seconds=10))

        [event] = (await world.client.list(EVENTS, "default")).items

        assert (event["reason"], event["count"], event["message"]) == ("FailedScheduling", 2, "no room")
        assert event["involvedObject"]["name"] == "web"
        assert reporter.written == 1
        await tasks.stop(task)
        await informers.stop()


def test_that_a_binding_is_retried_is_only_said_of_a_pod_without_a_node_and_at_that_revision():
    pod = a_pod(uid="u")
    pod["metadata"]["resourceVersion"] = "7"

    patch = retrying_patch(pod, "no answer", NOON)

    assert patch is not None
    assert patch["metadata"] == {"uid": "u", "resourceVersion": "7"}
    [condition] = patch["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "SchedulingRetrying",
        "True",
        "BindingUnanswered",
    )
    assert retrying_patch({**pod, **patch, "metadata": pod["metadata"]}, "no answer", NOON) is None
    bound = a_pod(uid="u", node="n1")
    bound["metadata"]["resourceVersion"] = "8"
    assert retrying_patch(bound, "no answer", NOON) is None


def test_who_says_that_a_pod_has_no_node_also_says_that_nothing_is_retried():
    patch = condition_patch(said("False", "Unschedulable", "no"), "Unschedulable", "no", NOON, is_retrying=True)

    assert patch is not None
    told = {each["type"]: each["status"] for each in patch["status"]["conditions"]}
    assert told == {"PodScheduled": "False", "SchedulingRetrying": "False"}


async def tell_in_quick_succession(sim) -> list[dict[str, str]]:
    """The conditions of pods whose bindings were without an answer when it became known that there is no room."""
    async with a_world(sim) as world:
        env = sim.env("reporter")
        informers = Informers(world.client, env)
        pods = informers.get(PODS)
        await pods.synced()
        reporter = Reporter(world.client, pods.cache, env, "scheduler")
        writers = [tasks.spawn(reporter.run(), name=f"writer {number}") for number in range(2)]
        for number in range(20):
            made = await world.client.create(PODS, created(a_pod(f"web-{number}")))
            await pods.cache.wait_until(int(made["metadata"]["resourceVersion"]))
            key, uid = ObjectKey("default", f"web-{number}"), made["metadata"]["uid"]
            reporter.report(PodReport(key, uid, PodConditionReason.BINDING_UNANSWERED, "no answer"))
            await tasks.sleep(timedelta(microseconds=200 * number))
            reporter.report(PodReport(key, uid, PodConditionReason.UNSCHEDULABLE, "no room"))
            await tasks.sleep(timedelta(seconds=1))

        pods_told = (await world.client.list(PODS, "default")).items
        for writer in writers:
            await tasks.stop(writer)
        await informers.stop()
    return [{each["type"]: each["status"] for each in pod["status"]["conditions"]} for pod in pods_told]


async def test_what_is_said_of_a_pod_goes_by_what_was_said_of_it_last_however_late_the_answers_are(sim):
    told = await tell_in_quick_succession(sim)

    assert [each["PodScheduled"] for each in told] == ["False"] * 20
    assert "True" not in {each.get("SchedulingRetrying") for each in told}


async def test_two_writers_at_one_pod_leave_it_said_that_its_binding_is_retried(sim, monkeypatch):
    twins.lets_two_writers_at_one_pod(monkeypatch)

    assert "True" in {each.get("SchedulingRetrying") for each in await tell_in_quick_succession(sim)}


async def test_of_pods_that_found_a_node_a_few_are_told_at_once_and_the_others_are_counted(sim):
    async with a_world(sim) as world:
        env = sim.env("reporter")
        informers = Informers(world.client, env)
        pods = informers.get(PODS)
        await pods.synced()
        settings = ReportSettings(placed_a_second=2, placed_at_once=5)
        reporter = Reporter(world.client, pods.cache, env, "scheduler", settings)
        task = tasks.spawn(reporter.run(), name="reporter")

        for number in range(20):
            reporter.placed(PlacedPod(ObjectKey("default", f"web-{number}"), f"u-{number}", "n1"))
        await tasks.sleep(timedelta(seconds=2))
        reporter.placed(PlacedPod(ObjectKey("default", "late"), "u-late", "n2"))
        await tasks.sleep(timedelta(seconds=1))

        events = (await world.client.list(EVENTS, "default")).items
        assert (len(events), reporter.untold) == (6, 15)
        [late] = [each for each in events if each["involvedObject"]["name"] == "late"]
        assert (late["type"], late["reason"]) == ("Normal", "Scheduled")
        assert late["message"] == "Successfully assigned default/late to n2"
        await tasks.stop(task)
        await informers.stop()
