"""What goes into a server's journal: decisions of components, who asked for each revision, what was refused."""

import json
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from mainstay.api.kind_names import (
    CONFIG_MAPS,
    DISRUPTION_BUDGETS,
    EVENTS,
    LEASES,
    NODES,
    PODS,
    RESOURCE_QUOTAS,
    SAMPLING_POLICIES,
    SECRETS,
)
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, BadRequest, Conflict, Fenced, Forbidden, Invalid, Throttled
from mainstay.env import tasks
from mainstay.journal.reader import Reader
from mainstay.journal.record import (
    ChangeRecord,
    DecisionRecord,
    Ending,
    LostRecord,
    SampledRecord,
    WhyNot,
    WriteRecord,
    encode,
    joined,
    micros,
)
from mainstay.journal.sampling import Sampler
from mainstay.journal.trace_id import derive_trace_id
from mainstay.server.decisions.journal import JournalLimits
from mainstay.sim.cluster.cluster import NodeOptions, whole_cluster
from mainstay.sim.cluster.world import World
from mainstay.sim.simulation import Simulation
from tests.journal.builders import AT, a_decision
from tests.server.decisions.journal_world import Served, a_configmap, a_journaled_server, a_pod

BINDINGS = "/apis/mainstay.dev/v1/bindings"


async def refusals(served: Served, **wanted: Any) -> tuple[DecisionRecord, ...]:
    await served.journal.extent()
    found = (await served.journal.decisions(**wanted)).records
    return tuple(each for each in found if each.outcome.ending is Ending.REFUSED)


# Decisions of components.


async def test_a_batch_that_comes_twice_is_there_once(sim: Simulation):
    async with a_journaled_server(sim) as served:
        await served.tell([a_decision(number=1), a_decision(number=2)])
        await served.tell([a_decision(number=2), a_decision(number=3)])

        found = await served.journal.decisions()

    assert [each.id for each in found.records] == ["replicasets-1", "replicasets-2", "replicasets-3"]
    labels = b'{component="replicasets",kept="actions=full",outcome="Done"}'
    assert b"decision_records_total%b 3.0" % labels in served.metrics.render()
    assert b"decision_record_bytes_count 3.0" in served.metrics.render()


async def test_an_answer_means_that_the_records_survive_a_power_cut(sim: Simulation):
    async with a_journaled_server(sim) as served:
        await served.tell([a_decision(number=1)])
        found = Reader(sim.get_disk("journal").after_power_cut()).decisions().records
        sim.get_disk("journal")._has_power = True  # So that the server can be stopped.

    assert [each.id for each in found] == ["replicasets-1"]


async def test_agents_may_record_only_their_own_decisions(sim: Simulation):
    async with a_journaled_server(sim) as served:
        await served.tell([a_decision(component="agent")], "node-a")
        with pytest.raises(Forbidden, match="node node-a may only tell of its agent"):
            await served.tell([a_decision(component="scheduler")], "node-a")
        with pytest.raises(Forbidden, match='User "alice" cannot post path'):
            await served.tell([a_decision()], "alice")

        assert [each.component for each in (await served.journal.decisions()).records] == ["agent"]


async def test_what_only_a_server_can_know_is_taken_from_no_component(sim: Simulation):
    async with a_journaled_server(sim) as served:
        for record in (
            WriteRecord(3, "pods", "a", "web", AT, "create", "ann"),
            ChangeRecord(3, "core/pods/a/web", None, AT),
        ):
            with pytest.raises(BadRequest, match="which only servers write"):
                await served.tell([a_decision(), record])

        assert (await served.journal.decisions()).records == ()


@pytest.mark.parametrize("body", [b"", b"nonsense", b"\xc1", joined([encode(a_decision())])[:-3]])
async def test_what_is_no_batch_of_records_is_refused(sim: Simulation, body: bytes):
    async with a_journaled_server(sim) as served:
        headers = {"Content-Type": "application/vnd.mainstay.records"}
        with pytest.raises(BadRequest, match="records"):
            await served.admin.request("POST", "/journal/decisions", body=body, headers=headers)
        with pytest.raises(BadRequest, match=r"application/vnd\.mainstay\.records"):
            await served.admin.request("POST", "/journal/decisions", body=body)


async def test_a_record_of_a_newer_component_is_passed_over(sim: Simulation):
    body = msgspec.msgpack.encode([["zz", 1, 2], msgspec.Raw(encode(a_decision()))])
    async with a_journaled_server(sim) as served:
        headers = {"Content-Type": "application/vnd.mainstay.records"}
        answer = await served.admin.request("POST", "/journal/decisions", body=body, headers=headers)

        assert json.loads(answer.body) == {"records": 1}
        assert len((await served.journal.decisions()).records) == 1


async def test_losses_that_components_tell_of_are_counted(sim: Simulation):
    async with a_journaled_server(sim) as served:
        lost, sampled = LostRecord(AT, AT + 1, 7, 5, "scheduler-0"), SampledRecord(AT, AT + 1, "quiet", "scheduler", 40)
        await served.tell([lost, sampled])

    shown = served.metrics.render()
    for why, count in (("overload", 7), ("detail", 5), ("sampled", 40)):
        assert f'decision_records_dropped_total{{why="{why}"}} {count}.0'.encode() in shown


async def test_a_full_disk_makes_components_wait_and_loses_nothing(sim: Simulation):
    async with a_journaled_server(sim) as served:
        sim.get_disk("journal").capacity_bytes = 0
        with pytest.raises(Throttled, match="disk does not take these records"):
            await served.tell([a_decision(number=1)])
        await served.admin.create(CONFIG_MAPS, a_configmap("one"))  # All else goes on.
        sim.get_disk("journal").capacity_bytes = None
        await served.tell([a_decision(number=1)])

        assert [each.id for each in (await served.journal.decisions()).records] == ["replicasets-1"]


async def test_when_much_is_waiting_for_the_disk_no_more_is_taken(sim: Simulation):
    async with a_journaled_server(sim) as served:
        sim.get_disk("journal").capacity_bytes = 0
        for first in (0, 40):
            with pytest.raises(Throttled, match="retry later"):
                now = micros(sim.env("server").clock.wall())
                large = [a_decision(number=first + n, at=now + n, seed="s" * 60_000) for n in range(40)]
                await served.tell(large)
        with pytest.raises(Throttled, match="cannot keep up"):
            await served.tell([a_decision(number=100)])
        sim.get_disk("journal").capacity_bytes = None
        await tasks.sleep(timedelta(seconds=5))
        await served.tell([a_decision(number=100, at=micros(sim.env("server").clock.wall()))])

        found = (await served.journal.decisions()).records
        assert (len(found), found[-1].id) == (81, "replicasets-100")
        assert b'decision_records_dropped_total{why="disk"} 0.0' in served.metrics.render()


async def test_retention_by_size_forgets_the_oldest_decisions(sim: Simulation):
    limits = JournalLimits(keep=timedelta(days=7), keep_bytes=20_000)
    async with a_journaled_server(sim, limits=limits) as served:
        for hour in range(6):
            now = micros(sim.env("server").clock.wall())
            await served.tell([a_decision(f"w-{n}", hour * 1_000 + n, at=now + n) for n in range(300)])
            await tasks.sleep(timedelta(hours=1, minutes=1))
        found = await served.journal.decisions(limit=10_000)

    ids = [int(each.id.removeprefix("replicasets-")) for each in found.records]
    assert 0 < len(ids) < 1_800
    assert ids[-1] == 5_299
    assert ids[0] > 0


async def test_retention_by_time_forgets_what_is_older(sim: Simulation):
    async with a_journaled_server(sim, limits=JournalLimits(keep=timedelta(hours=3))) as served:
        for hour in range(6):
            now = micros(sim.env("server").clock.wall())
            await served.tell([a_decision(number=hour, at=now)])
            await tasks.sleep(timedelta(hours=1, minutes=1))
        await served.tell([a_decision(number=9, at=micros(sim.env("server").clock.wall()))])
        found = await served.journal.decisions()

    assert [each.id for each in found.records] == [f"replicasets-{number}" for number in (4, 5, 9)]


# Who asked for a revision.


async def test_every_revision_tells_who_asked_for_it(sim: Simulation):
    async with a_journaled_server(sim) as served:
        write = WriteOptions(decision="d-1", cause="pods/default/x@1", field_manager="tests")
        made = await served.admin.create(CONFIG_MAPS, a_configmap("one"), write=write)
        await served.admin.patch(CONFIG_MAPS, "one", "default", {"data": {"a": "b"}})
        await served.admin.delete(CONFIG_MAPS, "one", "default")
        first = int(made["metadata"]["resourceVersion"])

        await served.journal.extent()
        found = (await served.journal.writes(kind="configmaps", namespace="default", name="one")).records
        changes = (await served.journal.changes(kind="configmaps", namespace="default", name="one")).records

    assert [each.revision for each in found] == [each.revision for each in changes] == [first, first + 1, first + 2]
    assert [each.verb for each in found] == ["create", "patch", "delete"]
    created = found[0]
    assert (created.user, created.agent, created.manager) == ("admin", "admin/1.0", "tests")
    assert (created.decision, created.trace) == ("d-1", "")  # The trace follows from the decision.
    assert len({each.audit for each in found}) == 3


async def test_a_decision_is_told_the_audit_ids_of_its_writes(sim: Simulation):
    async with a_journaled_server(sim) as served:
        made = a_decision(number=1)
        for name in ("one", "two"):
            await served.admin.create(CONFIG_MAPS, a_configmap(name), write=WriteOptions(decision=made.id))
        await served.tell([made, a_decision(number=2)])

        await served.journal.extent()
        first, second = (await served.journal.decisions()).records
        writes = (await served.journal.writes(kind="configmaps")).records

    assert first.audits == tuple(each.audit for each in writes if each.decision == made.id)
    assert (len(first.audits), second.audits) == (2, ())


async def test_what_a_component_has_marked_is_taken_as_it_came_with_its_audit_ids(sim: Simulation):
    sampler = Sampler()
    made = [sampler.marked(a_decision(number=number)) for number in (1, 2)]
    async with a_journaled_server(sim) as served:
        await served.admin.create(CONFIG_MAPS, a_configmap("one"), write=WriteOptions(decision=made[0].id))
        for _ in range(2):  # The second time nothing is new.
            await served.tell(made)

        await served.journal.extent()
        found = (await served.journal.decisions()).records
        (write,) = (await served.journal.writes(kind="configmaps")).records

    assert [each.kept for each in made] == ["actions=full"] * 2
    assert found == (msgspec.structs.replace(made[0], audits=(write.audit,)), made[1])
    labels = b'{component="replicasets",kept="actions=full",outcome="Done"}'
    assert b"decision_records_total%b 2.0" % labels in served.metrics.render()


async def test_a_mark_of_a_component_does_not_hold_against_other_rules(sim: Simulation):
    made = Sampler().marked(a_decision(number=1))
    async with a_journaled_server(sim) as served:
        rules = [{"name": "quiet", "keep": "nothing"}]
        await served.admin.create(SAMPLING_POLICIES, {"metadata": {"name": "default"}, "spec": {"rules": rules}})
        await tasks.sleep(timedelta(seconds=1))
        await served.tell([made])

        found = await served.journal.decisions()

    assert found.records == ()
    assert [each.rule for each in found.left_out] == ["quiet"]


async def test_what_a_component_has_marked_is_still_only_taken_from_itself(sim: Simulation):
    async with a_journaled_server(sim) as served:
        with pytest.raises(Forbidden, match="node node-a may only tell of its agent"):
            await served.tell([Sampler().marked(a_decision(number=1))], "node-a")

        assert (await served.journal.decisions()).records == ()


async def test_a_trace_of_the_askers_own_is_kept(sim: Simulation):
    trace = "0af7651916cd43dd8448eb211c80319c"
    async with a_journaled_server(sim) as served:
        headers = {"traceparent": f"00-{trace}-b7ad6b7169203331-01"}
        path = CONFIG_MAPS.path("default")
        await served.admin.request("POST", path, body=a_configmap("one"), headers=headers)
        await served.journal.extent()
        (found,) = (await served.journal.writes(kind="configmaps")).records

    assert found.trace == trace


async def test_leases_events_and_what_the_server_does_itself_are_not_noted(sim: Simulation):
    async with a_journaled_server(sim) as served:
        lease = {"metadata": {"name": "l", "namespace": "default"}, "spec": {"holderIdentity": "x"}}
        await served.admin.create(LEASES, lease)
        event = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"namespace": "default"}}
        await served.admin.create(EVENTS, event)
        await served.admin.create(CONFIG_MAPS, a_configmap("dry"), write=WriteOptions(dry_run=True))

        await served.journal.extent()
        assert (await served.journal.writes()).records == ()


async def test_each_binding_of_a_batch_and_each_object_of_a_collection_is_noted(sim: Simulation):
    async with a_journaled_server(sim) as served:
        await a_node(served.admin, "n1")
        for number in range(3):
            await served.admin.create(PODS, a_pod(f"p{number}"))
        items = [{"metadata": {"name": f"p{n}"}, "target": {"name": "n1"}, "decision": f"d-{n}"} for n in range(2)]
        await served.admin.request("POST", BINDINGS, body={"kind": "BindingList", "items": items})
        await served.admin.request("DELETE", CONFIG_MAPS.path("default"))

        await served.journal.extent()
        found = (await served.journal.writes(kind="pods")).records

    bound = [each for each in found if each.subresource == "binding"]
    assert [(each.name, each.decision, each.verb) for each in bound] == [
        ("p0", "d-0", "create"),
        ("p1", "d-1", "create"),
    ]


async def a_node(client: Client, name: str, pods: str = "10") -> None:
    room = {"cpu": "1", "memory": "1Gi", "pods": pods}
    await client.create(NODES, {"metadata": {"name": name}})
    status = {"status": {"capacity": room, "allocatable": room}}
    await client.patch(NODES, name, "", status, subresource="status")


# What was refused.


async def test_a_refusal_of_a_quota_is_a_decision_with_its_typed_cause(sim: Simulation):
    async with a_journaled_server(sim) as served:
        quota = {"metadata": {"name": "q", "namespace": "default"}, "spec": {"hard": {"pods": "0"}}}
        await served.admin.create(RESOURCE_QUOTAS, quota)
        with pytest.raises(Forbidden):
            await served.admin.create(PODS, a_pod("web"), write=WriteOptions(decision="rs-7", field_manager="rs"))

        (found,) = await refusals(served, kind="pods", namespace="default", name="web")

    assert (found.component, found.outcome.reason) == ("quota", "QuotaExceeded")
    assert "exceeded quota: q" in found.outcome.message
    assert (found.user, found.parent, found.trace) == ("admin", "rs-7", derive_trace_id("rs-7"))
    assert (found.id, found.why_not) == (f"quota-{found.audits[0]}", (WhyNot.READ_OUTSIDE,))
    assert (found.actions[0].verb, found.actions[0].name) == ("create", "web")
    [write] = found.writes
    assert (write.error, write.cause, write.quota, write.requested) == ("Forbidden", "QuotaExceeded", "q", "pods=1")


async def test_what_is_invalid_says_which_fields(sim: Simulation):
    async with a_journaled_server(sim) as served:
        pod = a_pod("web")
        pod["spec"]["containers"][0]["image"] = ""
        with pytest.raises(Invalid):
            await served.admin.create(PODS, pod)

        (found,) = await refusals(served)

    assert (found.component, found.outcome.reason, found.subject.name) == ("admission", "Invalid", "web")
    assert any("spec.containers[0].image" in each for each in found.reasons)


async def test_bindings_evictions_and_deposed_leaders_are_told_apart(sim: Simulation):
    async with a_journaled_server(sim) as served:
        admin = served.admin
        await a_node(admin, "n1", pods="1")
        for name in ("web", "full"):
            await admin.create(
                PODS, {**a_pod(name), "metadata": {"name": name, "namespace": "default", "labels": {"a": "b"}}}
            )
        target = {"target": {"name": "n1"}}
        await admin.create(PODS, {"metadata": {"name": "web"}, **target}, "default", subresource="binding")
        with pytest.raises(Conflict):
            await admin.create(PODS, {"metadata": {"name": "full"}, **target}, "default", subresource="binding")
        item = {"metadata": {"name": "full", "uid": ""}, **target, "decision": "s-9"}
        await admin.request("POST", BINDINGS, body={"kind": "BindingList", "items": [item]})
        budget = {
            "metadata": {"name": "b", "namespace": "default"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}},
        }
        await admin.create(DISRUPTION_BUDGETS, budget)
        running = {"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}
        await admin.patch(PODS, "web", "default", running, subresource="status")
        with pytest.raises(Throttled):
            await admin.create(PODS, {"metadata": {"name": "web"}}, "default", subresource="eviction")
        with pytest.raises(Fenced):
            await admin.create(CONFIG_MAPS, a_configmap("c"), write=WriteOptions(term="kube-system/x=77"))

        found = await refusals(served)

    told = [(each.component, each.outcome.reason, each.subject.kind, each.subject.name) for each in found]
    assert told == [
        ("binding", "CapacityChanged", "pods", "full"),
        ("eviction", "DisruptionBudget", "pods", "web"),
        ("term", "Fenced", "configmaps", "c"),
    ]
    assert found[2].term == "kube-system/x=77"


async def test_the_same_refusal_again_is_counted_and_not_repeated(sim: Simulation):
    async with a_journaled_server(sim) as served:
        for _ in range(5):
            await refuse(served.admin, "web")
            await tasks.sleep(timedelta(seconds=1))
        at_first = await refusals(served)
        await tasks.sleep(timedelta(seconds=10))
        after = await refusals(served)
        await refuse(served.admin, "web")
        later = await refusals(served)

    assert [each.attempts for each in at_first] == [1]
    assert [(each.id, each.attempts) for each in after] == [(at_first[0].id, 5)]
    assert len(after[0].audits) == 2
    assert [each.attempts for each in later] == [5, 1]


async def test_how_many_different_refusals_are_taken_is_bounded(sim: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("mainstay.server.decisions.refusals.OPEN_MAX", 3)
    async with a_journaled_server(sim) as served:
        for number in range(5):
            await refuse(served.admin, f"web-{number}")

        assert len(await refusals(served)) == 3
        assert b'decision_records_dropped_total{why="refusals"} 2.0' in served.metrics.render()


async def refuse(client: Client, name: str) -> None:
    with pytest.raises(Invalid):
        await client.create(PODS, {"metadata": {"name": name, "namespace": "default"}, "spec": {}})


async def test_no_value_of_a_secret_gets_into_the_journal(sim: Simulation):
    async with a_journaled_server(sim) as served:
        value = "aHVudGVyMg"  # Not even base64: it is told so, with the value.
        secret = {"metadata": {"name": "s", "namespace": "default"}, "type": "x", "data": {"bad key!": value}}
        with pytest.raises(ApiError) as refused:
            await served.admin.create(SECRETS, secret)
        assert refused.value.status in (400, 422)

        (found,) = await refusals(served)

    assert (found.subject.kind, found.subject.name) == ("secrets", "s")
    assert value.encode() not in encode(found)
    assert b"bad key" not in encode(found).replace(b"data[bad key!]", b"")


async def test_conflicts_missing_rights_and_dry_runs_are_no_refusals(sim: Simulation):
    async with a_journaled_server(sim) as served:
        made = await served.admin.create(CONFIG_MAPS, a_configmap("one"))
        await served.admin.patch(CONFIG_MAPS, "one", "default", {"data": {"a": "b"}})
        with pytest.raises(Conflict):
            await served.admin.replace(CONFIG_MAPS, made)
        with pytest.raises(ApiError):
            await served.admin.create(CONFIG_MAPS, a_configmap("one"))
        with pytest.raises(ApiError):
            await served.admin.delete(CONFIG_MAPS, "two", "default")
        with pytest.raises(Forbidden):
            await served.clients["alice"].create(PODS, a_pod("x"))
        with pytest.raises(Invalid):
            dry = WriteOptions(dry_run=True)
            await served.admin.create(PODS, {"metadata": {"name": "x", "namespace": "default"}, "spec": {}}, write=dry)

        assert await refusals(served) == ()


# In a simulated world, and in the audit log.


async def test_a_simulated_world_has_writes_and_refusals_in_its_journal(sim: Simulation):
    world = World(sim, journal=True)
    world.add_server("server-1")
    world.know("admin")
    await world.boot()
    assert world.journal is not None
    with sim.network.host("admin").active():
        async with world.client_for("admin", sim.env("admin")) as client:
            await client.create(CONFIG_MAPS, a_configmap("one"))
            for _ in range(2):
                await refuse(client, "web")
            await tasks.sleep(timedelta(seconds=11))
    (write,) = (await world.journal.writes(kind="configmaps")).records
    (refused,) = world.journal.records()
    assert (write.user, write.agent, write.name) == ("admin", "admin/sim", "one")
    assert (refused.component, refused.attempts, refused.user) == ("admission", 2, "admin")
    await world.stop()


async def test_in_a_whole_cluster_every_change_of_a_pod_has_who_asked_for_it(sim: Simulation):
    async with whole_cluster(sim, nodes={"node-a": NodeOptions()}) as cluster:
        await cluster.client.create(PODS, a_pod("web"))
        await tasks.sleep(timedelta(seconds=20))
        changes = (await cluster.journal.changes(kind="pods", namespace="default", name="web")).records
        writes = (await cluster.journal.writes(kind="pods", namespace="default", name="web")).records

    assert len(changes) > 2
    assert [each.revision for each in writes] == [each.revision for each in changes]
    assert writes[0].user == "admin"
    assert {"system:kube-scheduler", "system:node:node-a"} <= {each.user for each in writes}
    assert {each.decision for each in changes} == {each.decision for each in writes}


async def test_audit_lines_lead_to_the_revision_the_decision_and_the_trace(sim: Simulation):
    async with a_journaled_server(sim, audit_log=True) as served:
        made = await served.admin.create(CONFIG_MAPS, a_configmap("one"), write=WriteOptions(decision="d-1"))
        await served.admin.get(CONFIG_MAPS, "one", "default")
        await served.journal.extent()
        (write,) = (await served.journal.writes(kind="configmaps")).records
        await tasks.sleep(timedelta(seconds=1))
        lines = [json.loads(line) for line in sim.env("server").disk.read("audit_log").splitlines()]

    created = next(line for line in lines if line["verb"] == "create")
    assert created["auditID"] == write.audit
    assert (
        created["annotations"]
        | {
            "mainstay.dev/decision": "d-1",
            "mainstay.dev/trace": derive_trace_id("d-1"),
            "mainstay.dev/revision": made["metadata"]["resourceVersion"],
        }
        == created["annotations"]
    )
    about = created["objectRef"]
    assert (about["name"], about["uid"]) == ("one", made["metadata"]["uid"])
    assert about["resourceVersion"] == made["metadata"]["resourceVersion"]
    read = next(line for line in lines if line["verb"] == "get" and line.get("objectRef"))
    assert "mainstay.dev/revision" not in read["annotations"]


async def test_an_audit_line_of_many_writes_names_none_of_them(sim: Simulation):
    async with a_journaled_server(sim, audit_log=True) as served:
        await a_node(served.admin, "n1")
        for name in ("p0", "p1", "p2"):
            await served.admin.create(PODS, a_pod(name))
        items = [
            {"metadata": {"name": name}, "target": {"name": "n1"}, "decision": f"d-{name}"} for name in ("p0", "p1")
        ]
        await served.admin.request("POST", BINDINGS, body={"kind": "BindingList", "items": items})
        alone = {"metadata": {"name": "p2"}, "target": {"name": "n1"}, "decision": "d-p2"}
        await served.admin.request("POST", BINDINGS, body={"kind": "BindingList", "items": [alone]})
        await tasks.sleep(timedelta(seconds=1))
        lines = [json.loads(line) for line in sim.env("server").disk.read("audit_log").splitlines()]

    many, one = (line for line in lines if line["requestURI"] == BINDINGS)
    assert "name" not in many["objectRef"]
    assert "mainstay.dev/decision" not in many["annotations"]
    assert (one["objectRef"]["name"], one["annotations"]["mainstay.dev/decision"]) == ("p2", "d-p2")
