"""The scheduler against a real server, in virtual time: pods get their nodes, whatever happens on the way."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mainstay.api.kind_names import LEASES, NODES, PLACEMENT_POLICIES, PODS
from mainstay.api.stages import PodStage, find_scheduled_at, find_stage
from mainstay.client.client import Client
from mainstay.client.connection import ServerResponse
from mainstay.client.entry import CachedObject
from mainstay.client.errors import Unavailable
from mainstay.env import tasks
from mainstay.journal.record import Ending, moment
from mainstay.loop.component import LEASE_NAMESPACE, SCHEDULER_LEASE
from mainstay.scheduler.bind import Answer, Bind, Binder, Unknown
from mainstay.scheduler.cache.feed import CacheFeed
from mainstay.scheduler.component import Scheduler, SchedulerSettings
from mainstay.scheduler.cycle import Cycle
from mainstay.scheduler.messages import render_message
from mainstay.scheduler.policy import DEFAULT, Policy
from mainstay.scheduler.queue.pending_pods import PendingPod
from mainstay.scheduler.queue.pod_states import PodState
from mainstay.scheduler.reasons import Decision, Placed, Unschedulable
from mainstay.scheduler.settings import CycleSettings
from mainstay.scheduler.what_if import Objects, what_if
from mainstay.sim.simulation import Simulation
from tests.client.world import a_client, a_gate
from tests.scheduler.objects import a_pod
from tests.scheduler.running import SHARED, Running, a_scheduler, conditions, created

SECOND = timedelta(seconds=1)


async def bind(client: Client, name: str, node: str) -> None:
    target = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
    await client.create(PODS, target, "default", subresource="binding")


async def test_a_pod_gets_a_node(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1")

        await running.add_pod("web", cpu="1")

        assert await running.bound("web", within=SECOND) == "n1"
        assert (await conditions(running, "web"))["PodScheduled"]["status"] == "True"


async def test_nodes_are_filled_and_never_overfilled(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", "n2", cpu="4")

        for number in range(10):
            await running.add_pod(f"web-{number}", cpu="1")

        await running.until(lambda: running.scheduler.counts.bound == 8)
        await tasks.sleep(timedelta(minutes=1))
        nodes = [await running.find_node(f"web-{number}") for number in range(10)]
        assert sorted(nodes) == ["", "", *["n1"] * 4, *["n2"] * 4]


async def test_a_pod_that_fits_nowhere_is_placed_when_a_node_comes(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="1")
        await running.add_pod("large", cpu="2")
        await tasks.sleep(timedelta(seconds=20))
        condition = (await conditions(running, "large"))["PodScheduled"]
        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert "0/1 nodes are available: 1 Insufficient cpu (2 requested" in condition["message"]
        assert "n1" in condition["message"]

        await running.add_nodes("n2", cpu="4")

        assert await running.bound("large", within=5 * SECOND) == "n2"


async def test_a_pod_that_fits_nowhere_is_placed_when_another_one_goes(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="1")
        await running.add_pod("first", cpu="1")
        await running.bound("first")
        await running.add_pod("second", cpu="1")
        await tasks.sleep(timedelta(seconds=20))

        await running.client.delete(PODS, "first", "default", grace_s=0)
        # Its node does not say that it has ended, so by the server's books it may still run: only a node that is gone
        # is known to run nothing.
        await running.client.delete(NODES, "n1")
        await running.add_nodes("n1", cpu="1")

        assert await running.bound("second", within=timedelta(seconds=15)) == "n1"


async def test_nothing_is_written_while_nothing_changes(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="1")
        await running.add_pod("large", cpu="2")
        await tasks.sleep(timedelta(seconds=20))
        before = (await running.pod("large"))["metadata"]["resourceVersion"]

        await tasks.sleep(timedelta(hours=1))

        assert (await running.pod("large"))["metadata"]["resourceVersion"] == before


async def test_a_pod_for_another_scheduler_is_left_alone(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1")
        await running.add_pod("theirs", schedulerName="other")
        await running.add_pod("ours", schedulerName="mainstay")

        assert await running.bound("ours") == "n1"
        await tasks.sleep(timedelta(minutes=10))
        assert await running.find_node("theirs") == ""
        assert "PodScheduled" not in await conditions(running, "theirs")


async def test_a_gated_pod_waits_until_its_gates_are_gone(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1")
        await running.add_pod("held", schedulingGates=[{"name": "example.com/quota"}])
        await tasks.sleep(timedelta(minutes=10))
        assert await running.find_node("held") == ""
        assert running.cycle.state.pods.count(PodState.GATED) == 1

        await running.client.patch(PODS, "held", "default", {"spec": {"schedulingGates": []}})

        assert await running.bound("held", within=SECOND) == "n1"


async def a_refused_binding(sim: Simulation, patch: pytest.MonkeyPatch) -> Running:
    """A pod is bound to n1 by another scheduler, and ours does not see it. Then two more come."""
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", "n2", cpu="1")
        await running.add_pod("other", cpu="1", schedulerName="other")
        look = CacheFeed._look

        def looks_away(feed: CacheFeed, entry: CachedObject, revision: int) -> None:
            if entry.key.name != "other":
                look(feed, entry, revision)

        patch.setattr(CacheFeed, "_look", looks_away)
        await bind(running.client, "other", "n1")
        await tasks.sleep(SECOND)
        await running.add_pod("web-1", cpu="1")
        await tasks.sleep(timedelta(milliseconds=500))
        assert await running.find_node("web-1") == "n2"
        await running.add_pod("web-2", cpu="1")
        await tasks.sleep(timedelta(seconds=5))
        return running


async def test_a_refused_binding_gets_a_fresh_candidate_at_once(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = await a_refused_binding(sim, monkeypatch)

    causes = [record.outcome.reason for record in running.records if record.subject.name == "web-2"]
    assert causes[:2] == ["CapacityChanged", "NoOtherNode"]
    assert running.scheduler.counts.refused["CapacityChanged"] >= 1


async def an_answer_that_never_comes(sim: Simulation, patch: pytest.MonkeyPatch) -> list[str]:
    """The binding of the first pod is on its way for a minute, and so is each repeat of it. Then it is done.

    Says for which pods bindings were sent.
    """
    sent: list[str] = []
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="1")
        is_slow, honest = True, Binder.bind

        async def slow(binder: Binder, binds: Sequence[Bind]) -> list[Answer]:
            sent.extend(each.name for each in binds)
            return [Unknown("no answer")] * len(binds) if is_slow else await honest(binder, binds)

        patch.setattr(Binder, "bind", slow)
        await running.add_pod("first", cpu="1")
        await tasks.sleep(SECOND)
        await running.add_pod("second", cpu="1")
        await tasks.sleep(timedelta(minutes=1))
        await bind(running.client, "first", "n1")
        is_slow = False
        await tasks.sleep(timedelta(minutes=2))
        assert [await running.find_node(name) for name in ("first", "second")] == ["n1", ""]
        assert (len(running.cycle.state.pods.assumed), len(running.cycle.state.queue)) == (0, 1)
    return sent


async def test_a_binding_without_an_answer_holds_its_room_until_it_is_known_what_became_of_it(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await an_answer_that_never_comes(sim, monkeypatch)

    assert "second" not in sent
    assert sent.count("first") > 3


async def test_a_pod_is_scheduled_from_the_choice_of_its_node_on_and_keeps_that_time_when_it_is_bound(
    sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="1")
        is_slow, honest = True, Binder.bind

        async def slow(binder: Binder, binds: Sequence[Bind]) -> list[Answer]:
            return [Unknown("no answer")] * len(binds) if is_slow else await honest(binder, binds)

        monkeypatch.setattr(Binder, "bind", slow)
        await running.add_pod("web", cpu="1")
        await tasks.sleep(timedelta(seconds=20))
        unanswered = await running.pod("web")
        is_slow = False
        await running.bound("web")
        bound = await running.pod("web")
        decided_at = moment(running.records[0].now)

    assert find_stage(unanswered) == (PodStage.SCHEDULED, decided_at)
    assert find_scheduled_at(bound) == decided_at
    stage = find_stage(bound)
    assert stage is not None
    assert (stage[0], stage[1] - decided_at > timedelta(seconds=15)) == (PodStage.BOUND, True)


async def test_a_request_that_gets_lost_is_sent_again(sim: Simulation, monkeypatch: pytest.MonkeyPatch) -> None:
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="1")
        request = Client.request
        lost: list[str] = []

        async def loses(client: Client, method: str, path: str, **more: Any) -> ServerResponse:
            if "bindings" in path and len(lost) < 3:
                lost.append(path)
                raise Unavailable("lost on the way", may_have_happened=True)
            return await request(client, method, path, **more)

        monkeypatch.setattr(Client, "request", loses)
        await running.add_pod("web", cpu="1")

        assert await running.bound("web", within=timedelta(seconds=30)) == "n1"
        assert running.scheduler.counts.unknown == 3


async def test_lost_answers_cost_no_pod_and_no_room(sim):
    async with a_gate(sim) as gate, a_scheduler(sim, server="gate:7000") as running:
        await running.add_nodes("n1", "n2", cpu="5")
        await tasks.sleep(SECOND)
        for number in range(10):
            await running.add_pod(f"web-{number}", cpu="1")
            gate.answers_to_lose = number % 3
            await tasks.sleep(timedelta(milliseconds=300))

        nodes = [await running.bound(f"web-{number}", within=timedelta(minutes=5)) for number in range(10)]

        assert sorted(nodes) == [*["n1"] * 5, *["n2"] * 5]
        await tasks.sleep(timedelta(minutes=2))
        assert len(running.cycle.state.pods.assumed) == 0
        assert len(running.cycle.state.queue) == 0


async def test_two_schedulers_share_the_same_pods(sim):
    async with a_scheduler(sim) as running, a_client(sim, "server", name="rival") as client:
        rival = Scheduler(client, sim.env("rival"), instance="rival", settings=SHARED)
        task = tasks.spawn(rival.run(), name="rival")
        await running.until(lambda: rival.is_deciding)
        await running.add_nodes("n1", "n2", "n3", cpu="4")

        await asyncio.gather(*[running.add_pod(f"web-{number}", cpu="1") for number in range(14)])

        await tasks.sleep(timedelta(minutes=2))
        nodes = [await running.find_node(f"web-{number}") for number in range(14)]
        assert sorted(nodes) == ["", "", *["n1"] * 4, *["n2"] * 4, *["n3"] * 4]
        assert running.scheduler.counts.bound + rival.counts.bound == 12
        await tasks.stop(task)


async def test_with_a_lease_one_of_two_decides_and_the_other_takes_over(sim):
    led = SchedulerSettings()
    async with a_scheduler(sim, settings=led) as running, a_client(sim, "server", name="second") as client:
        second = Scheduler(client, sim.env("second"), instance="second", settings=led)
        task = tasks.spawn(second.run(), name="second")
        await running.add_nodes("n1")
        await running.add_pod("web-1", cpu="1")
        await running.bound("web-1")
        assert not second.is_deciding

        assert running.scheduler.term is not None
        running.scheduler.term.lost()  # As if its clock had told it to stop.
        await tasks.sleep(timedelta(minutes=1))
        await running.add_pod("web-2", cpu="1")

        await running.bound("web-2")
        assert running.scheduler.counts.bound + second.counts.bound == 2
        await tasks.stop(task)


async def test_a_leader_whose_lease_was_taken_binds_nothing_more(sim):
    async with a_scheduler(sim, settings=SchedulerSettings()) as running:
        await running.add_nodes("n1")
        lease = await running.client.get(LEASES, SCHEDULER_LEASE, LEASE_NAMESPACE)
        lease["spec"]["holderIdentity"] = "other"
        await running.client.replace(LEASES, lease)

        await running.add_pod("web", cpu="1")
        await tasks.sleep(timedelta(seconds=3))

        assert await running.find_node("web") == ""
        assert not running.scheduler.is_deciding
        assert await running.bound("web") == "n1"  # The lease is not renewed, so it is ours again in the end.


async def test_every_decision_is_recorded_with_its_view(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="1")
        await running.add_pod("web", cpu="1")
        await running.bound("web")
        await running.add_pod("large", cpu="2")
        await running.until(lambda: len(running.records) == 2)

        done, refused = running.records

        assert (done.subject.name, done.outcome.ending, done.reasons[0]) == ("web", Ending.DONE, "node=n1")
        assert [seen.kind for seen in done.view] == [
            "pods",
            "nodes",
            "reservations.mainstay.dev",
            "zonequotas.mainstay.dev",
            "placementpolicies.mainstay.dev",
        ]
        assert done.writes[0].revision > 0
        assert msgspec.msgpack.decode(done.memory.inline)[0] == 1
        assert (refused.outcome.reason, refused.reasons) == ("Unschedulable", ("NodeTooSmall cpu ×1",))


async def test_a_decision_is_the_same_when_it_is_made_again_from_the_objects(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", "n2", "n3", "n4", cpu="8")
        seen: dict[str, Objects] = {}
        for number in range(8):
            nodes = (await running.client.list(NODES)).items
            pods = (await running.client.list(PODS)).items
            made = await running.add_pod(f"web-{number}", cpu="1")
            seen[made["metadata"]["uid"]] = Objects(nodes=tuple(nodes), pods=tuple(pods))
            await running.bound(f"web-{number}")

        for record in running.records:
            pod = await running.pod(record.subject.name)
            pod["spec"].pop("nodeName")
            [decision] = what_if(seen[record.subject.uid], [pod], DEFAULT, record.seed)
            assert isinstance(decision, Placed)
            assert record.reasons == (f"node={decision.node}", f"score={decision.score}")


async def test_a_named_policy_is_followed_as_it_changes(sim):
    settings = replace(SHARED, policy_name="packed")
    async with a_scheduler(sim, settings=settings) as running:
        policy = {
            "metadata": {"name": "packed"},
            "spec": {"policyVersion": "1", "active": True, "scores": {"MostAllocated": 10, "BalancedAllocation": 0}},
        }
        await running.client.create(PLACEMENT_POLICIES, policy)
        await running.add_nodes("n1", "n2", "n3", cpu="8")
        for number in range(6):
            await running.add_pod(f"web-{number}", cpu="1")

        nodes = {await running.bound(f"web-{number}") for number in range(6)}

        assert len(nodes) == 1
        assert running.scheduler.state().policies.keys() == {"packed"}
        assert running.records[0].policies[0].name == "packed"


async def test_another_pod_of_the_same_name_is_another_pod(sim):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1", cpu="1")
        await running.add_pod("web", cpu="2")
        await tasks.sleep(timedelta(seconds=5))
        await running.client.delete(PODS, "web", "default", grace_s=0)

        await running.add_pod("web", cpu="1")

        assert await running.bound("web", within=SECOND) == "n1"


async def test_a_pod_whose_end_the_cache_does_not_show_is_not_tried_again_and_again(sim, monkeypatch):
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1")
        monkeypatch.setattr(CacheFeed, "_gone", lambda feed, uid, revision: None)
        await running.add_pod("web", schedulingGates=[{"name": "example.com/quota"}])
        await running.client.patch(PODS, "web", "default", {"spec": {"schedulingGates": []}})
        await running.client.delete(PODS, "web", "default", grace_s=0)

        await tasks.sleep(timedelta(minutes=1))

        assert sum(running.scheduler.counts.refused.values()) <= 10


async def unconfirmed_nodes(running: Running) -> list[str]:
    """Two nodes, full of pods that were deleted by force, and by the server's books may still run. Says which."""
    await running.add_nodes("n1", "n2", cpu="1")
    uids = []
    for name in ("a", "b"):
        made = await running.add_pod(name, cpu="1")
        await running.bound(name)
        await running.client.delete(PODS, name, "default", grace_s=0)
        uids.append(made["metadata"]["uid"])
    return uids


async def end_ghosts(running: Running, uids: Sequence[str]) -> None:
    for node in ("n1", "n2"):
        await running.client.request("PUT", f"/api/v1/nodes/{node}/ghosts", body={"gone": list(uids)})


async def test_pods_that_wait_for_the_room_of_ghosts_are_told_so_once_and_left_alone(sim):
    async with a_scheduler(sim) as running:
        await unconfirmed_nodes(running)
        for number in range(10):
            await running.add_pod(f"web-{number}", cpu="1")
        await tasks.sleep(timedelta(minutes=2))
        condition = (await conditions(running, "web-7"))["PodScheduled"]
        refused = dict(running.scheduler.counts.refused)
        versions = [(await running.pod(f"web-{number}"))["metadata"]["resourceVersion"] for number in range(10)]

        await tasks.sleep(timedelta(hours=1))

        assert (condition["status"], condition["reason"]) == ("False", "Unschedulable")
        assert condition["message"].startswith(
            "0/2 nodes are available: 2 node(s) had room held by force-deleted pods, cpu "
            "(1 requested, at most 0 free: n1, n2)."
        )
        assert running.scheduler.counts.refused == refused
        assert refused["HeldByGhosts"] <= 10 * 2
        assert versions == [(await running.pod(f"web-{number}"))["metadata"]["resourceVersion"] for number in range(10)]


async def test_the_room_of_ghosts_is_taken_soon_after_they_are_laid_to_rest(sim):
    async with a_scheduler(sim) as running:
        ghosts = await unconfirmed_nodes(running)
        await running.add_pod("web", cpu="1")
        await tasks.sleep(timedelta(hours=1))
        assert await running.find_node("web") == ""

        await end_ghosts(running, ghosts)

        await running.bound("web", within=timedelta(seconds=31))
        await tasks.sleep(timedelta(minutes=1))
        assert len(running.cycle.bindings.unconfirmed) == 0


async def test_where_ghosts_are_other_pods_do_not_go(sim):
    async with a_scheduler(sim) as running:
        await unconfirmed_nodes(running)
        await running.add_pod("first", cpu="1")
        await tasks.sleep(timedelta(seconds=5))
        await running.add_nodes("n3", cpu="8")
        await running.bound("first")
        refused = running.scheduler.counts.refused["HeldByGhosts"]

        for number in range(5):
            await running.add_pod(f"web-{number}", cpu="1")
            assert await running.bound(f"web-{number}") == "n3"

        assert running.scheduler.counts.refused["HeldByGhosts"] == refused


async def test_what_is_known_of_ghosts_is_recorded_before_the_decisions_that_depend_on_it(sim):
    async with a_scheduler(sim) as running:
        uids = await unconfirmed_nodes(running)
        await running.add_pod("web", cpu="1")
        await tasks.sleep(timedelta(seconds=10))

        seen = {each.subject.name: each for each in running.records if each.subject.kind == "nodes"}
        refused = running.records[-1]

        assert sorted(seen) == ["n1", "n2"]
        ghosts = {name: msgspec.msgpack.decode(each.memory.inline)[4] for name, each in sorted(seen.items())}
        assert sorted(ghost["uid"] for found in ghosts.values() for ghost in found) == sorted(uids)
        nodes = tuple((await running.client.list(NODES)).items)
        objects = Objects(nodes=nodes, unconfirmed=tuple((name, tuple(found)) for name, found in ghosts.items()))
        [decision] = what_if(objects, [await running.pod("web")], DEFAULT, refused.seed)
        assert isinstance(decision, Unschedulable)
        assert refused.reasons == ("HeldByGhosts cpu ×2",)
        assert refused.outcome.message == render_message(decision)


async def test_a_scheduler_that_starts_late_finds_everything(sim):
    async with a_scheduler(sim, starts=False) as running:
        await running.add_nodes("n1", cpu="4")
        await running.client.create(PODS, created(a_pod("there", cpu="3", nodeName="n1")))
        await running.add_pod("fits", cpu="1")
        await running.add_pod("does-not", cpu="1", priority=0)
        task = tasks.spawn(running.scheduler.run(), name="scheduler")

        await tasks.sleep(timedelta(seconds=5))

        nodes = [await running.find_node(name) for name in ("fits", "does-not")]
        assert sorted(nodes) == ["", "n1"]
        await tasks.stop(task)


async def test_one_bug_leaves_all_other_pods_alone(sim, monkeypatch):
    errors = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context["message"]))
    async with a_scheduler(sim) as running:
        await running.add_nodes("n1")
        original = Cycle._decide

        def decide(cycle: Cycle, queued: PendingPod, policy: Policy) -> Decision:
            if queued.pod.name == "cursed":
                raise ZeroDivisionError
            return original(cycle, queued, policy)

        monkeypatch.setattr(Cycle, "_decide", decide)
        await running.add_pod("cursed")
        await running.add_pod("web")

        assert await running.bound("web") == "n1"
        await tasks.sleep(timedelta(seconds=5))
        assert (await conditions(running, "cursed"))["PodScheduled"]["reason"] == "SchedulerError"
        assert any("cursed" in error for error in errors)


async def test_every_so_many_decisions_one_is_made_a_second_time_from_the_caches(sim):
    settings = replace(SHARED, cycle=CycleSettings(recheck_one_in=1))
    async with a_scheduler(sim, settings=settings) as running:
        await running.add_nodes("n1", "n2", cpu="2")
        for number in range(6):
            await running.add_pod(f"web-{number}", cpu="1")

        await tasks.sleep(timedelta(seconds=10))

        assert running.scheduler.counts.rechecked >= 6
        assert running.scheduler.counts.disagreements == 0


async def test_columns_that_are_not_what_the_caches_say_are_noticed(sim):
    settings = replace(SHARED, cycle=CycleSettings(recheck_one_in=1))
    async with a_scheduler(sim, settings=settings) as running:
        await running.add_nodes("n1", "n2", cpu="2")
        await tasks.sleep(SECOND)
        running.cycle.state.columns.node_changed(None, "n1")  # As if a mistake had lost it.

        await running.add_pod("web", cpu="1")

        assert await running.bound("web") == "n2"
        assert running.scheduler.counts.disagreements == 1


async def test_where_there_is_too_much_nothing_is_decided_twice(sim):
    settings = replace(SHARED, cycle=CycleSettings(recheck_one_in=1, recheck_objects_max=2))
    async with a_scheduler(sim, settings=settings) as running:
        await running.add_nodes("n1", "n2", cpu="2")
        await running.add_pod("web", cpu="1")

        await running.bound("web")

        assert running.scheduler.counts.rechecked == 0
