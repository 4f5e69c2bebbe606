"""Repair at work: what has lost its owner, in a simulated cluster."""

import json
from datetime import timedelta

import pytest
from msgspec.structs import replace

from mainstay.api.kind_names import COMPONENT_STATES, DEPLOYMENTS, NODES, PODS, RESERVATIONS
from mainstay.api.reservations import reservation_name
from mainstay.api.times import format_time
from mainstay.controllers.node_health.loop import LOOP as NODE_HEALTH
from mainstay.controllers.repair.loop import LOOP
from mainstay.server.placement.ledger.charge import Charge
from mainstay.server.placement.ledger.ledger import build_write, charged, ledger_in, ledger_key
from mainstay.sim.cluster.history import RequestReceived
from tests.controllers.node_health.nodes import WATCHER, Fleet, Object, a_fleet

pytestmark = pytest.mark.slow

LOOPS = (NODE_HEALTH, LOOP)


async def state_of(fleet: Fleet) -> Object:
    return dict((await fleet.client.get(COMPONENT_STATES, "repair"))["status"])


async def complete(fleet: Fleet) -> tuple[str, str, int]:
    (condition,) = (await state_of(fleet))["conditions"]
    return condition["status"], condition["reason"], condition["observedGeneration"]


async def test_a_reservation_whose_workload_is_gone_is_released(sim):
    async with a_fleet(sim, loops=LOOPS) as fleet:
        workload = {"kind": "Deployment", "name": "risk-api", "uid": "gone"}
        name = reservation_name(workload, 42, "replica-042")
        spec = {
            "nodeName": "node-a",
            "workload": workload,
            "generation": 42,
            "intent": "replica-042",
            "resources": {"cpu": "2"},
            "expiresAt": format_time(sim.env("user").clock.wall() + timedelta(hours=1)),
        }
        await fleet.client.create(RESERVATIONS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        await fleet.after(15)
        assert await complete(fleet) == ("False", "OrphanedReservation", 1)
        await fleet.after(60)
        assert (await fleet.client.get(RESERVATIONS, name, "default"))["status"]["phase"] == "Released"
        assert await complete(fleet) == ("True", "NothingLeft", 1)
        ledger = ledger_in(await fleet.world.store.get(ledger_key("node-a")))
        assert not ledger.held


async def test_one_whose_workload_is_there_stays(sim):
    async with a_fleet(sim, loops=LOOPS) as fleet:
        labels = {"app": "risk-api"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "x:1"}]}}
        deployment = await fleet.client.create(
            DEPLOYMENTS,
            {
                "metadata": {"name": "risk-api", "namespace": "default"},
                "spec": {"replicas": 0, "selector": {"matchLabels": labels}, "template": template},
            },
        )
        workload = {"kind": "Deployment", "name": "risk-api", "uid": deployment["metadata"]["uid"]}
        name = reservation_name(workload, 1, "replica-0")
        spec = {
            "nodeName": "node-a",
            "workload": workload,
            "generation": 1,
            "intent": "replica-0",
            "resources": {"cpu": "2"},
            "expiresAt": format_time(sim.env("user").clock.wall() + timedelta(hours=1)),
        }
        await fleet.client.create(RESERVATIONS, {"metadata": {"name": name, "namespace": "default"}, "spec": spec})
        await fleet.after(200)
        assert (await fleet.client.get(RESERVATIONS, name, "default"))["status"]["phase"] == "Active"
        said = (await state_of(fleet))["workloads"]
        assert said == {"Deployment/default/risk-api": {"observedGeneration": 1, "RepairComplete": "True"}}


async def test_pods_of_a_node_that_was_deleted_are_removed_after_a_while(sim):
    async with a_fleet(sim, loops=LOOPS) as fleet:
        await fleet.add_pod("web", "node-a")
        await fleet.after(5)
        await fleet.world.programs["node-a"].stop()
        await fleet.client.delete(NODES, "node-a")
        await fleet.after(20)
        assert (await fleet.pod("web"))["spec"]["nodeName"] == "node-a"
        assert await complete(fleet) == ("False", "VanishedNode", 1)
        await fleet.after(60)
        assert fleet.commits("core/pods/default/web")[-1].value is None
        assert await complete(fleet) == ("True", "NothingLeft", 1)
        ledger = ledger_in(await fleet.world.store.get(ledger_key("node-a")))
        assert (dict(ledger.used), dict(ledger.ghosts)) == ({}, {})


async def test_an_at_most_one_pod_of_a_deleted_node_is_removed_only_when_its_agent_must_have_ended_it(sim):
    async with a_fleet(sim, loops=LOOPS) as fleet:
        await fleet.add_pod("db-0", "node-a", annotations={"mainstay.dev/at-most-one": "true"})
        await fleet.after(5)
        await fleet.client.delete(NODES, "node-a")
        # Its agent is alive, and renews its lease.
        await fleet.after(300)
        assert (await fleet.pod("db-0"))["spec"]["nodeName"] == "node-a"
        fleet.cut("node-a")
        await fleet.after(40)
        assert fleet.commits("core/pods/default/db-0")[-1].value is None
        holders = [
            json.loads(each.value)["spec"]["holderIdentity"]
            for each in fleet.commits("coordination.k8s.io/leases/kube-node-lease/node-a")
            if each.value is not None
        ]
        assert holders[-2:] == ["mainstay-node-health", ""]


async def test_a_wrong_ledger_is_recounted(sim):
    async with a_fleet(sim, loops=LOOPS) as fleet:
        await fleet.add_pod("web", "node-b")
        await fleet.after(5)
        store, key = fleet.world.store, ledger_key("node-b")
        right = ledger_in(await store.get(key))
        wrong = charged(right, Charge("unknown", "default/unknown", "node-b", {"cpu": 4000}, ()))
        await store.commit([], [build_write(key, wrong, None)])
        await fleet.after(120)
        assert replace(ledger_in(await store.get(key)), history=right.history) == right
        assert await complete(fleet) == ("True", "NothingLeft", 1)


async def test_finalizers_that_take_too_long_are_told_of_once_and_not_removed(sim):
    async with a_fleet(sim, loops=LOOPS) as fleet:
        await fleet.add_pod("web", "node-a", finalizers=["example.com/wait"])
        await fleet.after(5)
        await fleet.client.delete(PODS, "web", "default")
        await fleet.after(500)
        assert await complete(fleet) == ("True", "NothingLeft", 1)
        await fleet.after(900)
        events = [json.loads(each.value or b"") for each in fleet.commits("core/events/")]
        assert [(each["reason"], each["involvedObject"]["name"]) for each in events] == [("StuckFinalizers", "web")]
        assert (await fleet.pod("web"))["metadata"]["finalizers"] == ["example.com/wait"]
        assert await complete(fleet) == ("False", "StuckFinalizers", 1)


async def test_nothing_is_written_when_there_is_nothing_to_put_right(sim):
    async with a_fleet(sim, loops=LOOPS) as fleet:
        await fleet.add_pod("web", "node-a")
        await fleet.after(60)
        begun_ns = sim.loop.time_ns()
        await fleet.after(600)
        asked = [
            each for each in fleet.world.history.events if isinstance(each, RequestReceived) and each.who == WATCHER
        ]
        later = [each.path for each in asked if each.is_write and each.at_ns > begun_ns]
        # Its lease, what the process says of itself, and a ledger to be counted, which is right.
        heartbeats = ("/leases/", "/componentstates/controllers-0", "/recount")
        assert [path for path in later if not any(part in path for part in heartbeats)] == []
        assert len(fleet.commits("mainstay.dev/componentstates/repair")) == 2  # It was made, and said once what it is.
