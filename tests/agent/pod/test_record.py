"""What an agent decides about pods is in the journal, when it changes something, and its writes say which decision."""

from datetime import timedelta
from typing import Any

from mainstay.agent.pod.facts import ContainerWaiting, FailedProbe, PodRefused, ProbeVerdicts
from mainstay.agent.pod.lifecycle import decide
from mainstay.agent.pod.record import PodReason, summarize_plan
from mainstay.api.kind_names import PODS
from mainstay.env import tasks
from mainstay.journal.record import DecisionRecord, Ending, WhyNot
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.simulation import Simulation
from tests.agent.cluster import a_container
from tests.agent.pods_and_facts import a_pod, after, an_id, ended, instances, running, some_facts, with_status

NODES = {"node-a": NodeOptions()}


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def outcome_of(pod: dict[str, Any], at: float = 0, **facts: Any) -> tuple[str, str, str]:
    known = some_facts(**facts)
    told = summarize_plan(decide(pod, known, after(at)), known.refused)
    assert told is not None
    return str(told.outcome.ending), told.outcome.reason, told.outcome.message


# What there is to tell.


def test_a_start_and_a_restart_are_told_apart():
    assert outcome_of(a_pod("a", "b")) == ("Done", "Starting", "starts a, b")
    exited = instances(a=[ended(1)])
    assert outcome_of(a_pod("a"), 2, instances=exited)[:2] == ("Done", "Restarting")


def test_a_refusal_a_back_off_and_what_cannot_be_started_have_their_reasons():
    refused = PodRefused("OutOfcpu", "Node didn't have enough resource: cpu")
    assert outcome_of(a_pod("a"), refused=refused) == ("Refused", "OutOfcpu", "Node didn't have enough resource: cpu")
    crashed = instances(a=[ended(1), ended(1, since=1, at=2)])
    ending, reason, message = outcome_of(a_pod("a"), 3, instances=crashed)
    assert (ending, reason) == ("WakeAt", "CrashLoopBackOff")
    assert message.startswith("a: back-off 10s restarting failed container=a")
    waiting = {"a": ContainerWaiting("CreateContainerConfigError", "configmap x is not there", after(10))}
    assert outcome_of(a_pod("a"), waiting=waiting) == (
        "Retry",
        "CreateContainerConfigError",
        "a: configmap x is not there",
    )


def test_a_probe_that_ends_a_container_is_told_by_its_reason():
    probes = {an_id("a"): ProbeVerdicts(is_started=True, is_ready=False, failed=FailedProbe.LIVENESS)}
    pod = a_pod(a_container("a", livenessProbe={"exec": {"command": ["x"]}}))
    assert outcome_of(pod, 5, instances=instances(a=[running(0)]), probes=probes) == (
        "Done",
        "LivenessProbeFailed",
        "ends a",
    )


def test_becoming_ready_is_told_and_saying_the_same_again_is_the_same():
    pod, facts = a_pod("a"), some_facts(instances=instances(a=[running(0)]))
    first = summarize_plan(decide(pod, facts, after(1)), None)
    assert first is not None
    assert (first.outcome.reason, [each.status for each in first.conditions]) == (PodReason.READY, ["True"])

    stored = with_status(pod, decide(pod, facts, after(1)).status)

    assert summarize_plan(decide(stored, facts, after(9)), None) == first


# In a cluster.


async def test_the_life_of_a_pod_on_its_node_is_in_the_journal_and_its_writes_carry_the_decisions(sim: Simulation):
    async with whole_cluster(sim, nodes=NODES) as cluster:
        await tasks.sleep(seconds(5))
        await cluster.client.create(PODS, a_pod_for("web"), "default")
        await tasks.sleep(seconds(10))
        await cluster.client.delete(PODS, "web", "default")
        await tasks.sleep(seconds(60))
        found = await cluster.journal.decisions(kind="pods", namespace="default", name="web", component="agent")
        changes = await cluster.journal.changes(kind="pods", namespace="default", name="web")

    said = [each.outcome.reason for each in found.records]
    assert said == ["Starting", "Ready", "NotReady", "PodDeleted", "Succeeded", "Removing"]
    ids = [each.id for each in found.records]
    assert len(ids) == len({*ids})
    for each in found.records:
        assert each.subject.uid
        assert each.reasons[0] == "node=node-a"
        assert each.why_not == (WhyNot.READ_OUTSIDE,)
        assert each.view[0].revision > 0
    by_agent = [each for each in changes.records if each.decision.startswith("agent-")]
    assert {each.decision for each in by_agent} <= {*ids}
    assert {ids[0], ids[1]} <= {each.decision for each in by_agent}
    assert all(each.cause.startswith("pods/default/web@") for each in by_agent)
    assert changes.records[-1].value is None
    assert changes.records[-1].decision == ids[-1]


async def test_a_pod_that_does_not_fit_its_node_is_refused_and_recorded_once(sim: Simulation):
    async with whole_cluster(sim, nodes=NODES) as cluster:
        await tasks.sleep(seconds(5))
        pod = a_pod_for("big")
        pod["spec"] |= {"nodeName": "node-a"}
        pod["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "64"}}
        await cluster.client.create(PODS, pod, "default")
        await tasks.sleep(seconds(60))
        found = await cluster.journal.decisions(kind="pods", namespace="default", name="big", component="agent")

    (refused,) = found.records
    assert (refused.outcome.ending, refused.outcome.reason) == (Ending.REFUSED, "OutOfcpu")


async def test_a_quiet_cluster_records_no_decisions_about_pods(sim: Simulation):
    async with whole_cluster(sim, nodes=NODES) as cluster:
        await tasks.sleep(seconds(5))
        for number in range(3):
            await cluster.client.create(PODS, a_pod_for(f"web-{number}"), "default")
        await tasks.sleep(seconds(30))
        before = len(of_agents(cluster.journal.records()))
        await tasks.sleep(timedelta(minutes=5))
        after_a_while = len(of_agents(cluster.journal.records()))

    assert before == after_a_while == 6


def of_agents(records: list[DecisionRecord]) -> list[DecisionRecord]:
    return [each for each in records if each.component == "agent"]


def a_pod_for(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"containers": [a_container()]}}
