"""`why` about pods: the first broken link on their way, with the records that it is known from."""

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS, SERVICES
from mainstay.explain.why.answer import LinkState, Verdict
from mainstay.explain.why.causes import Cause, Tier
from mainstay.scheduler.component import SchedulerSettings
from mainstay.sim.cluster.cluster import NodeOptions
from mainstay.sim.simulation import Simulation
from tests.explain.why.asked import TWO, a_cluster, a_deployment, a_pod, asked, rest, steps

pytestmark = pytest.mark.slow


async def test_a_pod_that_runs_says_how_it_came_to_its_node(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(10)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict, answer.tier) == (Cause.SATISFIED, Verdict.SATISFIED, Tier.SATISFIED)
    assert steps(answer) == ["created", "scheduler", "ready"]
    chosen = answer.chain[1]
    assert "2 of 2 nodes fit" in chosen.text
    assert "score 471, next node-b with 471" in chosen.text
    assert chosen.evidence[0].decision.startswith("scheduler-1-")
    record = await cluster.journal.decision(chosen.evidence[0].decision)
    assert record is not None
    assert answer.gaps == ()


async def test_a_pod_with_gates_waits_for_their_removal(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web", schedulingGates=[{"name": "example.com/license"}]), "default")
        await rest(10)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict) == (Cause.SCHEDULING_GATED, Verdict.BLOCKED)
    assert "example.com/license" in answer.sentence


async def test_a_pod_that_asks_for_a_scheduler_that_is_not_there_is_blocked(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web", schedulerName="volcano"), "default")
        await rest(10)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict, answer.tier) == (
        Cause.OTHER_SCHEDULER,
        Verdict.BLOCKED,
        Tier.MISCONFIGURED,
    )
    assert '"volcano"' in answer.sentence


async def test_a_scheduler_that_has_died_is_named_with_when_it_was_last_heard_of(sim: Simulation):
    async with a_cluster(sim) as cluster:
        cluster.world.programs["scheduler-1"].crash()
        await rest(60)
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(20)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict) == (Cause.NO_SCHEDULER, Verdict.BLOCKED)
    assert "scheduler-1 was last active at 00:00:0" in answer.sentence
    assert answer.chain[-1].evidence[0].source == "ComponentState"


async def test_a_new_pod_is_in_progress_before_any_decision(sim: Simulation):
    async with a_cluster(sim) as cluster:
        cluster.world.programs["scheduler-1"].pause()
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(0.5)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict) == (Cause.QUEUED, Verdict.WAITING)


async def test_of_two_schedulers_the_one_that_lost_its_leader_waits_for_the_other(sim: Simulation):
    settings = SchedulerSettings(lease_name="mainstay-scheduler")
    async with a_cluster(sim, scheduler_settings=settings, schedulers=2) as cluster:
        await rest(20)
        leader = next(name for name, each in cluster.schedulers.items() if each.is_deciding)
        cluster.world.programs[leader].crash()
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(11)
        answer = await asked(cluster, PODS, "web")
        await rest(60)
        later = await asked(cluster, PODS, "web")

    assert answer.cause is Cause.LEADER_LOST, answer.sentence
    assert leader in answer.sentence
    assert later.cause is Cause.SATISFIED


async def test_a_pod_without_room_names_the_node_with_the_most_and_a_cure_that_works(sim: Simulation):
    nodes = {"node-a": NodeOptions(capacity={"cpu": "2", "memory": "8Gi"}), "node-b": NodeOptions(zone="b")}
    async with a_cluster(sim, nodes) as cluster:
        await cluster.client.create(
            PODS, a_pod("big", "3", nodeSelector={"topology.kubernetes.io/zone": "b"}), "default"
        )
        await rest(5)
        await cluster.client.create(PODS, a_pod("web", "2500m"), "default")
        await rest(5)
        answer = await asked(cluster, PODS, "web")

        assert (answer.cause, answer.verdict) == (Cause.INSUFFICIENT_RESOURCES, Verdict.WAITING)
        assert "2500m cpu" in answer.sentence
        assert "node-b" in answer.sentence
        assert all(cure.verified for cure in answer.cures)
        await cluster.client.delete(PODS, "big", "default")
        await rest(10)
        assert (await asked(cluster, PODS, "web")).cause is Cause.SATISFIED
        then = await asked(cluster, PODS, "web", at=answer.revision)

    assert (then.cause, then.sentence) == (answer.cause, answer.sentence)


async def test_an_answer_about_the_past_knows_nothing_of_what_came_later(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web", nodeSelector={"disk": "ssd"}), "default")
        await rest(5)
        before = await asked(cluster, PODS, "web")
        await cluster.client.patch(NODES, "node-a", "", {"metadata": {"labels": {"disk": "ssd"}}})
        await rest(10)
        now = await asked(cluster, PODS, "web")
        then = await asked(cluster, PODS, "web", at=before.revision)

    assert before.cause is Cause.NODE_AFFINITY
    assert now.cause is Cause.SATISFIED
    assert now.chain[1].text.startswith("scheduler-1 chose node-a at attempt 2")
    assert then == before


async def test_a_change_that_the_scheduler_has_not_seen_is_the_cause_and_not_what_it_says(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.patch(NODES, "node-a", "", {"spec": {"unschedulable": True}})
        await cluster.client.patch(NODES, "node-b", "", {"spec": {"unschedulable": True}})
        await rest(3)
        for gate in cluster.world.gates.values():
            for tap in gate.taps.values():
                if tap.who == "scheduler-1" and tap.prefix == "core/nodes/":
                    tap.hold()
        await cluster.client.patch(NODES, "node-a", "", {"spec": {"unschedulable": None}})
        await rest(5)
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(5)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict) == (Cause.STALE_VIEW, Verdict.WAITING)
    assert "node node-a" in answer.sentence.replace("node /node-a", "node node-a")
    assert "scheduler" in answer.sentence
    [stale] = [each for each in answer.staleness if each.is_decisive]
    assert stale.kind == "nodes"
    assert stale.seen < stale.latest
    assert stale.behind_ms >= 4_000
    assert any("cordoned" in note for note in answer.notes)


async def test_a_deleted_pod_names_the_user_who_deleted_it(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(10)
        await cluster.client.delete(PODS, "web", "default")
        await rest(10)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict) == (Cause.DELETED, Verdict.SATISFIED)
    assert answer.sentence.endswith(" by admin.")
    assert answer.involved[0].who == "admin"


async def test_a_pod_that_was_evicted_names_who_asked_for_it(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web"), "default")
        await rest(10)
        body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web", "namespace": "default"}}
        await cluster.client.request("POST", PODS.path("default", "web", "eviction"), body=body)
        await rest(10)
        answer = await asked(cluster, PODS, "web")

    assert answer.cause is Cause.EVICTED
    assert "evicted by admin" in answer.sentence


async def test_a_pod_that_made_way_for_a_newer_template_says_whose(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        await rest(15)
        [old] = (await cluster.client.list(PODS, "default")).items
        image = {
            "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "x:2", "command": ["work"]}]}}}
        }
        await cluster.client.patch(DEPLOYMENTS, "web", "default", image)
        await rest(40)
        answer = await asked(cluster, PODS, old["metadata"]["name"])

    assert answer.cause is Cause.ROLLED_OVER, answer.sentence
    assert "admin changed the template of Deployment web" in answer.sentence
    assert [link.step for link in answer.chain] == ["desired", "replicaset", "deleted", "removed"]


async def test_a_pod_whose_owner_is_gone_leads_back_to_who_deleted_that(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(DEPLOYMENTS, a_deployment("web", 1))
        await rest(15)
        [pod] = (await cluster.client.list(PODS, "default")).items
        await cluster.client.delete(DEPLOYMENTS, "web", "default")
        await rest(30)
        answer = await asked(cluster, PODS, pod["metadata"]["name"])

    assert answer.cause is Cause.OWNER_DELETED, answer.sentence
    assert "Deployment web was deleted at 00:00:23 by admin" in answer.sentence


async def test_a_pod_that_never_was_is_not_there_and_never_was(sim: Simulation):
    async with a_cluster(sim) as cluster:
        answer = await asked(cluster, PODS, "nope")

    assert (answer.cause, answer.verdict) == (Cause.NO_SUCH_OBJECT, Verdict.BLOCKED)
    assert "Pod default/nope not found, nor in the journal (since 00:00:00)" in answer.sentence


async def test_a_pod_that_fits_again_is_about_to_be_tried(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web", nodeSelector={"disk": "ssd"}), "default")
        await rest(5)
        cluster.world.programs["scheduler-1"].pause()
        await cluster.client.patch(NODES, "node-a", "", {"metadata": {"labels": {"disk": "ssd"}}})
        await rest(0.3)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict) == (Cause.QUEUED, Verdict.WAITING), answer.sentence
    assert "node-a" in answer.sentence


async def test_a_service_without_a_ready_pod_is_as_grave_as_what_its_pods_wait_for(sim: Simulation):
    service = {"metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}
    async with a_cluster(sim) as cluster:
        await cluster.client.create(SERVICES, service, "default")
        await cluster.client.create(PODS, a_pod("web", "100"), "default")
        await rest(10)
        answer = await asked(cluster, SERVICES, "web")

    assert answer.cause is Cause.NODE_TOO_SMALL
    assert answer.about is not None
    assert answer.about.name == "web"
    assert answer.sentence.startswith("Service default/web has no ready endpoints")


async def test_a_pod_on_a_node_that_fell_silent_says_since_when(sim: Simulation):
    async with a_cluster(sim) as cluster:
        await cluster.client.create(PODS, a_pod("web", nodeName="node-a"), "default")
        await rest(10)
        cluster.world.programs["node-a"].crash()
        await rest(14)
        soon = await asked(cluster, PODS, "web")
        await rest(60)
        later = await asked(cluster, PODS, "web")

    assert soon.cause is Cause.NODE_LOST, soon.sentence
    assert later.cause is Cause.NODE_LOST
    assert "node-a has sent no heartbeat since 00:00:" in later.sentence
    broken = [link for link in later.chain if link.state is LinkState.BROKEN]
    assert [link.step for link in broken] == ["node"]
    assert any(each.decision.startswith("node-health-") for each in broken[0].evidence)


async def test_a_pod_that_was_bound_by_hand_to_no_node_says_that_there_is_none(sim: Simulation):
    async with a_cluster(sim, TWO) as cluster:
        await cluster.client.create(PODS, a_pod("web", nodeName="node-z"), "default")
        await rest(5)
        answer = await asked(cluster, PODS, "web")

    assert (answer.cause, answer.verdict) == (Cause.NODE_DOES_NOT_EXIST, Verdict.BLOCKED)
    assert "node-z" in answer.sentence
