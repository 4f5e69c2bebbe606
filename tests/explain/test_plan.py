"""What would happen if this were applied, asked of a simulated cluster; and what then does happen."""

import json
from datetime import timedelta
from typing import Any

import pytest

from mainstay.api.kind_names import DEPLOYMENTS, NODES, PODS, RESOURCE_QUOTAS, SECRETS
from mainstay.cli import main
from mainstay.cli.exits import Exit
from mainstay.cli.journal_access import OpenJournal, list_kinds
from mainstay.cli.manifests import Manifest
from mainstay.cli.output import Output, OutputFormat
from mainstay.cli.plan import PlanOptions, build_plan, show_plan
from mainstay.client.call import WriteOptions
from mainstay.env import tasks
from mainstay.explain.moment import Moment
from mainstay.explain.plan.text import render_plan
from mainstay.explain.plan.values import PlanAnswer
from mainstay.explain.why.answer import Verdict
from mainstay.sim.cluster.cluster import ADMIN, NodeOptions, whole_cluster
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation
from tests.cli.paper import Paper
from tests.explain.advice import advice_of
from tests.explain.plan_agreement import agreement_of, apply, plan_of

pytestmark = pytest.mark.slow

Object = dict[str, Any]
THREE = {f"node-{zone}": NodeOptions(zone=zone) for zone in "abc"}
SETTLES = timedelta(seconds=60)
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def a_deployment(name: str = "web", replicas: int = 3, *, image: str = "pause", cpu: str = "1", **spec: Any) -> Object:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": cpu}}}
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template},
    }


def a_quota(**hard: str) -> Object:
    amounts = {name.replace("__", "."): amount for name, amount in hard.items()}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team"}, "spec": {"hard": amounts}}


async def test_pods_would_go_to_nodes_in_all_zones(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [a_deployment()])
    assert plan.verdict is Verdict.SATISFIED
    assert plan.sentence == "All 3 pods would run."
    (workload,) = plan.workloads
    assert workload.nodes == {"node-a": 1, "node-b": 1, "node-c": 1}
    assert workload.zones == {"a": 1, "b": 1, "c": 1}
    assert [each.action for each in plan.objects] == ["created"]


async def test_what_nothing_would_act_on_is_said(sim: Simulation) -> None:
    stateful = {**a_deployment("db"), "kind": "StatefulSet"}
    stateful["spec"]["serviceName"] = "db"
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [a_deployment(subdomain="web"), stateful])
        refused = await plan_of(cluster, [a_deployment(runtimeClassName="gvisor")])
        unsafe = await plan_of(cluster, [a_deployment(hostPID=True)])
    assert [note for note in plan.notes if "not enforced" in note or "not acted on" in note] == [
        "deployment/web: spec.template.spec.subdomain: not enforced: there is no cluster DNS: read the EndpointSlices "
        "of the Service",
        "statefulset/db: stored but not acted on: no controller makes its pods: use a Deployment, or run a controller "
        "of your own",
    ]
    assert refused.verdict is Verdict.BLOCKED
    assert "runtimeClassName: Forbidden: not supported" in refused.objects[0].refusal
    text = 'would violate PodSecurity "baseline:latest": host namespaces (hostPID=true)'
    assert f"deployment/web: {text}" in unsafe.notes


async def test_what_would_wait_says_why_and_what_would_cure_it(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        full = await plan_of(cluster, [a_deployment(replicas=7, cpu="2")])
        never = await plan_of(cluster, [a_deployment(replicas=1, cpu="1", nodeSelector={"disk": "fast"})])
    assert full.verdict is Verdict.WAITING
    assert full.sentence == "6 of 7 pods would run; 1 would stay pending."
    (wait,) = full.workloads[0].waits
    assert (wait.count, wait.cause, wait.is_blocked) == (1, "InsufficientResources", False)
    assert "3 Insufficient cpu" in wait.message
    assert wait.cures
    assert never.verdict is Verdict.BLOCKED
    (wait,) = never.workloads[0].waits
    assert wait.cause == "NodeAffinity"
    assert wait.cures[0].command == "kubectl label node node-a disk=fast"


async def test_a_rollout_is_planned_step_by_step_and_comes_true(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        await apply(cluster.client, a_deployment(replicas=4))
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [a_deployment(replicas=4, image="pause:2")])
        before = await (await Moment.now(cluster.journal)).all(PODS)
        await apply(cluster.client, a_deployment(replicas=4, image="pause:2"))
        await tasks.sleep(SETTLES)
        after = await (await Moment.now(cluster.journal)).all(PODS)
    (workload,) = plan.workloads
    assert (workload.running, workload.kept, workload.old) == (4, 0, 0)
    (removed,) = workload.removed
    assert removed.pods == tuple(sorted(pod["metadata"]["name"] for pod in before))
    assert len(workload.steps) > 2
    assert [pod["spec"]["containers"][0]["image"] for pod in after] == ["pause:2"] * 4


async def test_a_quota_that_is_there_is_counted_on_and_what_would_cure_it_is_said(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        await apply(cluster.client, a_quota(pods="5", requests__cpu="4"))
        await apply(cluster.client, a_deployment("old", 2))
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [a_deployment(replicas=4)])
        await apply(cluster.client, a_deployment(replicas=4))
        await tasks.sleep(SETTLES)
        now = await Moment.now(cluster.journal)
        quota = await now.get(RESOURCE_QUOTAS, "team", "default")
    assert plan.verdict is Verdict.BLOCKED
    (workload,) = plan.workloads
    (refused,) = workload.refused
    assert (workload.running, refused.count) == (2, 2)
    assert (
        "exceeded quota: team, requested: requests.cpu=1, used: requests.cpu=4, limited: requests.cpu=4" in refused.text
    )
    assert refused.cures[0].sentence == (
        "raise quota team: pods from 5 to 6, requests.cpu from 4 to 6: then 2 pods can be created"
    )
    used = {each.resource: (each.used_before, each.used_after, each.hard_after) for each in plan.quotas}
    assert used == {"pods": ("2", "4", "5"), "requests.cpu": ("2", "4", "4")}
    assert quota is not None
    assert quota["status"]["used"] == {"pods": "4", "requests.cpu": "4"}


async def test_a_quota_and_what_it_limits_are_planned_together(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        await apply(cluster.client, a_deployment("old", 2))
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [a_quota(pods="3"), a_deployment(replicas=2)])
    assert [each.action for each in plan.objects] == ["created", "created"]
    assert plan.workloads[0].running == 1
    (use,) = plan.quotas
    assert (use.used_before, use.used_after, use.hard_before, use.hard_after) == ("2", "3", "", "3")


async def test_what_the_server_would_refuse_is_said_in_its_words(sim: Simulation) -> None:
    wrong = a_deployment()
    wrong["spec"]["selector"] = {"matchLabels": {"app": "other"}}
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [wrong, a_deployment("fine", 1)])
    assert plan.verdict is Verdict.BLOCKED
    assert [each.action for each in plan.objects] == ["refused", "created"]
    assert "`selector` does not match template `labels`" in plan.objects[0].refusal
    assert [each.name for each in plan.workloads] == ["fine"]


async def test_fields_of_others_are_planned_as_taken_over_and_a_note_says_whose(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        await apply(cluster.client, a_deployment(replicas=3))
        scaled = {"spec": {"replicas": 5}}
        await cluster.client.patch(
            DEPLOYMENTS, "web", "default", scaled, write=WriteOptions(field_manager="autoscaler")
        )
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [a_deployment(replicas=3)])
        opened = OpenJournal(journal=cluster.journal, kinds=await list_kinds(cluster.journal))
        alone = await build_plan(opened, [Manifest("test", a_deployment(replicas=3))], PlanOptions())
        forced = PlanOptions(force_conflicts=True)
        silent = await build_plan(opened, [Manifest("test", a_deployment(replicas=3))], forced)
    for each in (plan, alone):
        assert [obj.action for obj in each.objects] == ["configured"]
        assert each.verdict is Verdict.SATISFIED
        (workload,) = each.workloads
        assert (workload.running, workload.kept, sum(len(gone.pods) for gone in workload.removed)) == (3, 3, 2)
        (note,) = (note for note in each.notes if "take over" in note)
        assert note.startswith(
            'deployment/web would take over fields of other managers: .spec.replicas (5 → 3) of "autoscaler"'
        )
        assert "would be rejected without --force-conflicts" in note
    assert not any("take over" in note for note in silent.notes)


async def test_what_kubectl_apply_would_remove_besides_is_said(sim: Simulation) -> None:
    wanted = a_deployment(replicas=2, nodeSelector={"zone": "b"})
    last = json.dumps({**wanted, "metadata": {"name": "web", "namespace": "default", "annotations": {}}})
    made = {**wanted, "metadata": {"name": "web", "annotations": {LAST_APPLIED: last}}}
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await cluster.client.create(DEPLOYMENTS, made, "default", write=WriteOptions(field_manager="kubectl"))
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [a_deployment(replicas=2)])
        same = await plan_of(cluster, [wanted])
    (note,) = (note for note in plan.notes if "no longer in the file" in note)
    assert "kept in this plan: .spec.template.spec.nodeSelector. `kubectl apply` would remove them" in note
    assert not any("not in the file" in note for note in same.notes)


async def test_values_of_secrets_are_not_in_the_note_about_whose_fields_would_be_taken_over(sim: Simulation) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}}
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await apply(cluster.client, {**secret, "data": {"word": "b25l"}})
        other = {"data": {"word": "dHdv"}}
        await cluster.client.patch(SECRETS, "db", "default", other, write=WriteOptions(field_manager="vault"))
        plan = await plan_of(cluster, [{**secret, "data": {"word": "b25l"}}])
    (note,) = (note for note in plan.notes if "take over" in note)
    assert '.data.word of "vault"' in note
    assert not any(value in note for value in ("b25l", "dHdv"))


async def test_a_node_with_another_taint_moves_pods_and_says_whose(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes={"node-a": NodeOptions(), "node-b": NodeOptions()}) as cluster:
        await tasks.sleep(SETTLES)
        await apply(cluster.client, a_deployment(replicas=2))
        await tasks.sleep(SETTLES)
        tainted = {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": "node-a"},
            "spec": {"taints": [{"key": "old", "effect": "NoExecute"}]},
        }
        plan = await plan_of(cluster, [tainted])
    assert [each.text for each in plan.others] == ["would be deleted on node-a: does not tolerate a taint of node-a"]


async def test_a_cure_says_for_how_many_it_is_enough(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await tasks.sleep(SETTLES)
        await cluster.client.patch(NODES, "node-a", "", {"spec": {"unschedulable": True}})
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [a_deployment(replicas=5, cpu="2")])
        all_of_them = await plan_of(cluster, [a_deployment(replicas=2, cpu="2")])
    (wait,) = plan.workloads[0].waits
    assert (wait.count, wait.cures[0].command, wait.cures[0].enough_for) == (5, "kubectl uncordon node-a", 2)
    assert "cure: uncordon node-a: then node-a can take it (enough for 2 of 5)" in render_plan(plan)
    (wait,) = all_of_them.workloads[0].waits
    assert (wait.count, wait.cures[0].enough_for) == (2, 2)
    assert "cure: uncordon node-a: then node-a can take it\n" in render_plan(all_of_them)


async def test_pods_on_a_node_that_is_lost_are_not_counted_as_running(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        tolerations = [
            {"key": f"node.kubernetes.io/{each}", "operator": "Exists"} for each in ("unreachable", "not-ready")
        ]
        await apply(cluster.client, a_deployment(replicas=3, tolerations=tolerations))
        await tasks.sleep(SETTLES)
        cluster.world.programs["node-a"].crash(silently=True)
        await tasks.sleep(SETTLES * 2)
        plan = await plan_of(cluster, [a_deployment(replicas=3, tolerations=tolerations)])
    (workload,) = plan.workloads
    assert (workload.running, workload.running_least, workload.running_most) == (2, 2, 2)
    assert workload.nodes == {"node-b": 1, "node-c": 1}
    assert workload.notes == ("1 is on node-a, which is unreachable: not counted as running",)
    assert plan.sentence == "2 of 3 pods would run."
    assert plan.verdict is Verdict.WAITING


async def test_pods_that_wait_now_would_get_the_room_that_is_made(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await tasks.sleep(SETTLES)
        await apply(cluster.client, a_deployment("first", 4))
        await tasks.sleep(SETTLES)
        await apply(cluster.client, a_deployment("second", 1))
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [a_deployment("first", 2)])
    assert [each.text for each in plan.others] == ["would be scheduled to node-a"]
    assert plan.others[0].pod.startswith("default/second-")
    assert plan.verdict is Verdict.SATISFIED


async def test_a_plan_with_its_own_namespace_does_not_ask_for_what_is_not_there(sim: Simulation) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    inside = a_deployment(replicas=1)
    inside["metadata"]["namespace"] = "shop"
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        plan = await plan_of(cluster, [space, inside])
    assert plan.verdict is Verdict.SATISFIED
    assert any("its namespace does not exist yet" in note for note in plan.notes)


async def test_without_a_server_the_same_is_planned_from_the_journal_alone(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        await apply(cluster.client, a_deployment(replicas=2))
        await tasks.sleep(SETTLES)
        wanted = [a_deployment(replicas=5)]
        asked = await plan_of(cluster, wanted)
        opened = OpenJournal(journal=cluster.journal, kinds=await list_kinds(cluster.journal))
        alone = await build_plan(opened, [Manifest("test", each) for each in wanted], PlanOptions())
        earlier = OpenJournal(journal=cluster.journal, kinds=opened.kinds, client=cluster.client, at="80s")
        past = await build_plan(earlier, [Manifest("test", each) for each in wanted], PlanOptions())
    assert _counts(alone) == _counts(asked) == (5, 2)
    assert _counts(past) == (5, 0)
    for plan in (alone, past):
        assert any("Planned without a server" in note for note in plan.notes)
    assert not any("Planned without a server" in note for note in asked.notes)


def _counts(plan: PlanAnswer) -> tuple[int, int]:
    return plan.workloads[0].running, plan.workloads[0].kept


async def test_nothing_is_ever_written(sim: Simulation) -> None:
    """Not by a dry run of a quota either, which a server would begin to count for."""
    world = World(sim, journal=True)
    world.add_server("server-1")
    world.know(ADMIN)
    with sim.network.host(ADMIN).active():
        async with world.client_for(ADMIN, sim.env(ADMIN)) as client:
            await world.boot()
            await client.create(NODES, _a_node("node-a"))
            await client.create(DEPLOYMENTS, a_deployment("old", 1), "default")
            assert world.journal is not None
            opened = OpenJournal(journal=world.journal, kinds=await list_kinds(world.journal), client=client)
            zone_quota = {
                "apiVersion": "mainstay.dev/v1",
                "kind": "ZoneQuota",
                "metadata": {"name": "a"},
                "spec": {"zone": "a", "hard": {"cpu": "1"}},
            }
            service = {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "web"},
                "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
            }
            changed = a_deployment("old", 3)
            wanted = [a_quota(pods="3"), zone_quota, service, changed, a_deployment(), _a_node("node-b")]
            before = await world.store.revision()
            plan = await build_plan(opened, [Manifest("test", each) for each in wanted], PlanOptions())
            assert await world.store.revision() == before
    assert len(plan.objects) == 6


def _a_node(name: str) -> Object:
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


async def test_the_command_says_it_in_words_and_as_data_and_its_exit_code_says_the_verdict(sim: Simulation) -> None:
    async with whole_cluster(sim, nodes=THREE) as cluster:
        await tasks.sleep(SETTLES)
        opened = OpenJournal(
            journal=cluster.journal, kinds=await list_kinds(cluster.journal), client=cluster.client, namespace="default"
        )

        async def shown(wanted: Object, form: OutputFormat | None = None) -> tuple[int, str]:
            paper = Paper()
            options = PlanOptions(output=Output(form) if form is not None else Output())
            code = await show_plan(opened, paper, [Manifest("web.yaml", wanted)], options)
            return code, paper.text

        codes = [
            (await shown(a_deployment()))[0],
            (await shown(a_deployment(cpu="9")))[0],
            (await shown(a_deployment(replicas=20)))[0],
        ]
        _, text = await shown(a_deployment(replicas=20))
        _, wide = await shown(a_deployment(replicas=20), OutputFormat.WIDE)
        _, encoded = await shown(a_deployment(replicas=20), OutputFormat.JSON)
    assert codes == [Exit.SATISFIED, Exit.BLOCKED, Exit.WAITING]
    assert text.splitlines()[:3] == [
        "12 of 20 pods would run; 8 would stay pending.",
        "deployment/web in default would be created",
        "  12 of 20 would run: node-a 4, node-b 4, node-c 4; by zone: a 4, b 4, c 4",
    ]
    assert "0/3 nodes are available" in wide
    found = json.loads(encoded)
    assert (found["kind"], found["verdict"]) == ("Plan", "waiting")
    assert found["workloads"][0]["nodes"] == {"node-a": 4, "node-b": 4, "node-c": 4}


def test_the_command_is_there_and_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.run(["plan", "--help"]) == 0
    assert "Changes nothing" in capsys.readouterr().out
    assert main.run(["plan"]) == Exit.USAGE
    assert "missing option -f" in capsys.readouterr().err


def test_words_of_a_plan_that_changes_nothing() -> None:
    plan = PlanAnswer(
        verdict=Verdict.SATISFIED,
        sentence="Nothing would change.",
        revision=7,
        at=Simulation(0).clock.wall(),
    )
    assert render_plan(plan) == "Nothing would change."


@pytest.mark.deep
def test_plans_come_true() -> None:
    """A few clusters each time; many with `python -m tests.explain.plan_agreement`."""
    agreement = agreement_of(range(8))
    assert agreement.workloads >= 8
    assert agreement.counts / agreement.certain >= 0.98, agreement.differences
    assert agreement.uncertain < agreement.workloads / 3
    assert agreement.refusals_same == agreement.refusals


@pytest.mark.deep
def test_cures_help_when_they_are_done_as_they_are_said() -> None:
    """A few clusters each time; many with `python -m tests.explain.advice`."""
    advice = advice_of(range(5))
    assert advice.given
    assert advice.helped == advice.given, advice.failures
