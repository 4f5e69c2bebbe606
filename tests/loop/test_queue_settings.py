"""Queues follow the ControllerSettings of the cluster, without a restart."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.kind_names import CONTROLLER_SETTINGS, DEPLOYMENTS
from mainstay.api.kinds.controller_settings import CONTROLLER_SETTINGS as KIND
from mainstay.api.kinds.controller_settings import QueueSpec, parse_queue
from mainstay.client.errors import Invalid
from mainstay.env import tasks
from mainstay.loop.component import Component, ComponentSettings
from mainstay.loop.queue.items import EnqueueReason, KeyRetry, KeyState, Priority, QueueSettings
from mainstay.loop.queue_settings import build_settings
from tests.client.world import a_world
from tests.loop.copying import Copying
from tests.loop.queues import S, a_queue, failed, take, taken
from tests.server.world import a_deployment

MINUTE = timedelta(minutes=1)
OPERATED = ComponentSettings(is_operated=True)


def an_object(name: str, **queue: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"queue": queue}}


# What an object asks for


def test_what_is_not_named_stays_as_it_was():
    base = QueueSettings(resync=MINUTE)

    assert build_settings(base, [QueueSpec()]) == base
    assert build_settings(base, [QueueSpec(retries_burst=5)]).resync == MINUTE


def test_the_object_of_the_controller_wins_over_the_default():
    specs = [QueueSpec(resync_seconds=60, attempts_max=5), QueueSpec(resync_seconds=30)]

    settings = build_settings(QueueSettings(), specs)

    assert (settings.resync, settings.retry.attempts_max) == (timedelta(seconds=30), 5)


def test_zero_means_no_resync_and_no_bound_for_a_tenant():
    base = QueueSettings(processing_per_tenant_max=2)

    settings = build_settings(base, [QueueSpec(resync_seconds=0, processing_per_tenant_max=0)])

    assert (settings.resync, settings.processing_per_tenant_max) == (None, None)


def test_delays_that_come_from_two_objects_agree():
    slow = build_settings(QueueSettings(), [QueueSpec(delay_max_seconds=2), QueueSpec(first_delay_milliseconds=5000)])
    quick = build_settings(QueueSettings(), [QueueSpec(first_delay_milliseconds=5000), QueueSpec(delay_max_seconds=2)])

    assert (slow.retry.first_delay, slow.retry.delay_max) == (timedelta(seconds=5), timedelta(seconds=5))
    assert (quick.retry.first_delay, quick.retry.delay_max) == (timedelta(seconds=2), timedelta(seconds=2))


_NUMBERS = st.integers(-1, 8) | st.sampled_from([10**4, 10**9])
_FIELDS = sorted(set(QueueSpec.__struct_encode_fields__) - {"tenantWeights"})
_SPECS = st.fixed_dictionaries(
    {},
    optional=dict.fromkeys(_FIELDS, _NUMBERS) | {"tenantWeights": st.dictionaries(st.sampled_from("ab"), _NUMBERS)},
)


@given(st.lists(_SPECS, max_size=2))
def test_whatever_is_accepted_can_be_followed(specs: list[dict[str, Any]]):
    accepted = [spec for spec in specs if not KIND.validate(an_object("default", **spec), None)]

    settings = build_settings(QueueSettings(), [parse_queue(an_object("x", **spec)) for spec in accepted])

    queue = a_queue()
    queue.change_settings(settings, 0)
    assert queue.settings == settings


@pytest.mark.parametrize(
    ("queue", "field"),
    [
        ({"attemptsMax": 0}, "spec.queue.attemptsMax"),
        ({"passedOverMax": 3}, "spec.queue.passedOverMax"),
        ({"resyncSeconds": "1m"}, "spec.queue.resyncSeconds"),
        ({"tenantWeights": {"shop": 0}}, "spec.queue.tenantWeights"),
        ({"firstDelayMilliseconds": 3000, "delayMaxSeconds": 2}, "spec.queue.firstDelayMilliseconds"),
        ({"resync": 10}, "spec.queue.resync"),
    ],
)
async def test_what_cannot_be_followed_is_refused_with_the_field(sim, queue: dict[str, Any], field: str):
    async with a_world(sim) as world:
        with pytest.raises(Invalid) as refused:
            await world.client.create(CONTROLLER_SETTINGS, an_object("default", **queue))

        assert [cause.field for cause in refused.value.causes] == [field]


# A queue whose settings change


def test_a_shorter_resync_holds_for_keys_that_wait_already():
    queue = a_queue(resync=timedelta(hours=1), resync_spread=0)
    queue.add("a", 0)
    assert taken(queue) == ["a"]

    queue.change_settings(QueueSettings(resync=MINUTE, resync_spread=0), 10 * S)

    assert queue.get(69 * S) is None
    assert take(queue, 70 * S).because is EnqueueReason.RESYNC


def test_without_resync_a_queue_forgets_what_it_only_kept_for_that():
    queue = a_queue(resync=timedelta(hours=1))
    queue.add("a", 0)
    queue.add_after("b", 0, MINUTE)
    assert taken(queue) == ["a"]

    queue.change_settings(QueueSettings(resync=None), S)

    assert queue.state("a") is KeyState.FORGOTTEN
    assert take(queue, 61 * S).key == "b"


def test_a_key_that_backs_off_keeps_its_time():
    queue = a_queue()
    queue.add("a", 0)
    failed(queue, "a", 0)

    queue.change_settings(QueueSettings(resync=timedelta(seconds=1), resync_spread=0), 0)

    assert queue.get(3 * S) is None
    assert take(queue, 4 * S).key == "a"


def test_fewer_attempts_hold_from_the_next_failure():
    queue = a_queue()
    queue.add("a", 0)
    failed(queue, "a", 0)

    queue.change_settings(build_settings(queue.settings, [QueueSpec(attempts_max=2)]), 0)

    item = take(queue, 4 * S)
    assert item.is_last_attempt
    assert queue.done("a", KeyRetry(), 4 * S) is KeyState.TERMINAL


def test_a_tenant_that_was_held_back_goes_on_when_its_bound_is_lifted():
    queue = a_queue(processing_per_tenant_max=1)
    for key in ("a", "b", "c"):
        queue.add(key, 0, "shop")
    assert take(queue).key == "a"
    assert queue.get(0) is None

    queue.change_settings(build_settings(queue.settings, [QueueSpec(processing_per_tenant_max=0)]), 0)

    assert [take(queue).key, take(queue).key] == ["b", "c"]


def test_weights_hold_for_tenants_that_are_there():
    queue = a_queue()
    for number in range(4):
        queue.add(f"a{number}", 0, "a")
        queue.add(f"b{number}", 0, "b")
    assert taken(queue, at_most=2) == ["a0", "b0"]

    queue.change_settings(build_settings(queue.settings, [QueueSpec(tenant_weights={"a": 3})]), 0)

    # Each line first uses the credit that it had.
    assert taken(queue) == ["a1", "b1", "a2", "a3", "b2", "b3"]


# A process that follows


async def test_a_process_follows_its_settings_without_a_restart(sim):
    async with a_world(sim) as world:
        await world.client.create(CONTROLLER_SETTINGS, an_object("default", retriesBurst=7))
        component = Component("copying", [Copying()], world.client, sim.env("one"), settings=OPERATED)
        running = tasks.spawn(component.run(), name="one")
        await tasks.sleep(MINUTE)
        (loop,) = component.loops
        queue = loop.kernel.queue
        assert queue is not None
        assert (queue.settings.retries_burst, queue.settings.resync) == (7, timedelta(minutes=30))
        await world.client.create(DEPLOYMENTS, a_deployment("web"), "default")
        await tasks.sleep(MINUTE)
        assert queue.figures().resyncs == 0

        await world.client.create(CONTROLLER_SETTINGS, an_object("copying", resyncSeconds=10))
        await tasks.sleep(MINUTE)
        assert queue.figures().resyncs >= 5
        assert queue.settings.retries_burst == 7
        assert [each.partition("@")[0] for each in loop.kernel.origin.flags] == [
            "controllersettings/default",
            "controllersettings/copying",
        ]

        await world.client.delete(CONTROLLER_SETTINGS, "copying")
        await tasks.sleep(MINUTE)
        assert queue.settings.resync == timedelta(minutes=30)
        await tasks.stop(running)


class Urgent(Copying):
    """Deployments without replicas can wait."""

    name = "urgent"

    def priority(self, obj: Any) -> Priority:
        return Priority.HIGH if obj["spec"]["replicas"] else Priority.BACKGROUND


async def test_what_enqueues_an_object_does_so_with_the_objects_own_priority(sim):
    async with a_world(sim) as world:
        component = Component("urgent", [Urgent()], world.client, sim.env("one"), settings=OPERATED)
        running = tasks.spawn(component.run(), name="one")
        for name, replicas in (("web", 2), ("old", 0)):
            await world.client.create(DEPLOYMENTS, a_deployment(name, replicas), "default")
        await tasks.sleep(MINUTE)
        (loop,) = component.loops
        assert loop.kernel.queue is not None
        loop.kernel.queue.pause()

        # Its ConfigMap changes, and with that each of them has to be looked at.
        for name in ("old", "web"):
            change = {"metadata": {"labels": {"changed": "true"}}}
            await world.asking.patch(f"/api/v1/namespaces/default/configmaps/{name}-copy", change)
        await tasks.sleep(timedelta(seconds=5))

        waiting = loop.kernel.queue.figures().ready_by_priority
        assert (waiting[Priority.HIGH], waiting[Priority.BACKGROUND], waiting[Priority.NORMAL]) == (1, 1, 0)
        await tasks.stop(running)
