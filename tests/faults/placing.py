"""Faults by which no node is found for a pod, or none is asked."""

from typing import Final

from mainstay.agent.settings import TaintSetting
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, NAMESPACES, NODES, PODS, RESERVATIONS, ZONE_QUOTAS
from mainstay.api.pod_security import ENFORCE
from mainstay.api.reservations import reservation_name
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.client import Client
from mainstay.explain.why.causes import Cause
from mainstay.scheduler.bind import BATCHES
from mainstay.scheduler.report import RETRYING
from mainstay.sim.cluster.cluster import NodeOptions
from mainstay.sim.cluster.history import RequestReceived
from mainstay.sim.cluster.server_proxy import Fate, LostPart
from tests.faults.bed import SCHEDULER, Bed, is_true
from tests.faults.fault import Ask, fault
from tests.faults.objects import NAMESPACE, a_deployment, a_pod

ONE_NODE: Final = {"node-a": NodeOptions(zone="eu")}
QUOTA: Final = "team-eu"


@fault(
    "taint",
    codes=[Cause.UNTOLERATED_TAINT],
    words=["dedicated"],
    nodes={
        name: NodeOptions(taints=(TaintSetting("dedicated", "NoSchedule", "batch"),)) for name in ("node-a", "node-b")
    },
)
async def taint(bed: Bed) -> Ask:
    """All nodes have a taint that the pod does not tolerate."""
    await bed.client.create(PODS, a_pod("web"))
    await bed.must_be_pending("web")
    return Ask(PODS, "web")


@fault(
    "cordon",
    codes=[Cause.NODE_CORDONED],
    words=["node-a"],
    nodes={"node-a": NodeOptions(labels={"disk": "ssd"}), "node-b": NodeOptions()},
)
async def cordon(bed: Bed) -> Ask:
    """The only node that the pod may go to is cordoned; another one has room, but not the label."""
    await bed.client.patch(NODES, "node-a", "", {"spec": {"unschedulable": True}})
    await bed.client.create(PODS, a_pod("db", nodeSelector={"disk": "ssd"}))
    await bed.must_be_pending("db")
    return Ask(PODS, "db")


@fault(
    "selector-typo",
    codes=[Cause.NODE_AFFINITY],
    words=["disk", "sdd"],
    nodes={name: NodeOptions(labels={"disk": "ssd"}) for name in ("node-a", "node-b")},
)
async def selector_typo(bed: Bed) -> Ask:
    """The pod selects nodes by a value that none of them has."""
    await bed.client.create(PODS, a_pod("db", nodeSelector={"disk": "sdd"}))
    await bed.must_be_pending("db")
    return Ask(PODS, "db")


@fault("node-too-small", codes=[Cause.NODE_TOO_SMALL], words=["cpu"])
async def node_too_small(bed: Bed) -> Ask:
    """The pod wants more than any node has, even with nothing on it."""
    await bed.client.create(PODS, a_pod("big", "16"))
    await bed.must_be_pending("big")
    return Ask(PODS, "big")


@fault("fragmentation", codes=[Cause.FRAGMENTATION], words=["cpu", "total|together|fragment"])
async def fragmentation(bed: Bed) -> Ask:
    """There is enough room in total, and on no single node."""
    for number in ("1", "2"):
        await bed.client.create(PODS, a_pod(f"other-{number}", "2500m"))
    await bed.must_run("other-1", "other-2")
    await bed.client.create(PODS, a_pod("web", "2"))
    await bed.must_be_pending("web")
    return Ask(PODS, "web")


@fault("host-port", codes=[Cause.PORT_TAKEN], words=["8080"])
async def host_port(bed: Bed) -> Ask:
    """On every node another pod has the port."""
    port = {"ports": [{"containerPort": 80, "hostPort": 8080}]}
    await bed.client.patch(NAMESPACES, NAMESPACE, "", {"metadata": {"labels": {ENFORCE: "privileged"}}})
    for name in ("edge-1", "edge-2"):
        await bed.client.create(PODS, a_pod(name, container=port))
    await bed.must_run("edge-1", "edge-2")
    await bed.client.create(PODS, a_pod("web", container=port))
    await bed.must_be_pending("web")
    return Ask(PODS, "web")


@fault(
    "topology-spread",
    codes=[Cause.TOPOLOGY_SPREAD],
    words=["zone"],
    nodes={"node-a": NodeOptions(zone="a"), "node-b": NodeOptions(zone="b", capacity={"cpu": "1", "memory": "8Gi"})},
)
async def topology_spread(bed: Bed) -> Ask:
    """Pods must be level across zones; one zone is full, and the other would have room."""
    spread = {
        "maxSkew": 1,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    pod = {"topologySpreadConstraints": [spread]}
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 4, "600m", pod=pod))
    await bed.must_have_ready("web", 3)
    (waiting,) = [each for each in await bed.pods("web") if not each["spec"].get("nodeName")]
    name = waiting["metadata"]["name"]
    await bed.must_be_pending(name)
    return Ask(PODS, name)


@fault("ghost", codes=[Cause.HELD_BY_GHOSTS], words=["node-a"], nodes=ONE_NODE)
async def ghost(bed: Bed) -> Ask:
    """A pod was removed by force, and still runs on its node, which has not heard of that."""
    await bed.client.create(PODS, a_pod("old", "3"))
    await bed.must_run("old")
    bed.hold_back("node-a", "core/pods/")
    await bed.client.delete(PODS, "old", NAMESPACE, grace_s=0)
    await bed.client.create(PODS, a_pod("web", "3"))
    await bed.must_be_pending("web")
    await bed.rest(10)
    await bed.must_be_pending("web")
    return Ask(PODS, "web")


@fault("reserved", codes=[Cause.RESERVED_ELSEWHERE], words=["risk-api"], nodes=ONE_NODE)
async def reserved(bed: Bed) -> Ask:
    """Most of the node is reserved for another workload, which has not come yet."""
    workload = await bed.client.create(DEPLOYMENTS, a_deployment("risk-api", 0, "3"))
    whose = {"kind": "Deployment", "name": "risk-api", "uid": workload["metadata"]["uid"]}
    spec = {
        "nodeName": "node-a",
        "workload": whose,
        "generation": 1,
        "intent": "replica-0",
        "resources": {"cpu": "3", "pods": "1"},
        "expiresAt": "2099-01-01T00:00:00Z",
    }
    name = reservation_name(whose, 1, "replica-0")
    await bed.client.create(RESERVATIONS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    await bed.client.create(PODS, a_pod("web", "2"))
    await bed.must_be_pending("web")
    return Ask(PODS, "web")


@fault("zone-quota", codes=[Cause.ZONE_QUOTA_EXCEEDED], words=[QUOTA], nodes=ONE_NODE)
async def zone_quota(bed: Bed) -> Ask:
    """The quota of the namespace in the only zone is used up."""
    await _use_up_the_quota(bed)
    await bed.client.create(PODS, a_pod("web", "1"))
    await bed.must_be_pending("web")
    return Ask(PODS, "web")


@fault("stale-quota", codes=[Cause.STALE_VIEW], words=[f"zonequota|{QUOTA}", "scheduler"], nodes=ONE_NODE)
async def stale_quota(bed: Bed) -> Ask:
    """The quota has been raised, and the scheduler's watch is late: it refuses by the old one. (O8)"""
    await _use_up_the_quota(bed)
    bed.hold_back(SCHEDULER, "mainstay.dev/zonequotas/")
    await bed.client.patch(ZONE_QUOTAS, QUOTA, NAMESPACE, {"spec": {"hard": {"cpu": "4"}}})
    await bed.rest(5)
    await bed.client.create(PODS, a_pod("web", "1"))
    await bed.must_be_pending("web")
    await bed.rest(15)
    await bed.must_be_pending("web")
    return Ask(PODS, "web")


async def _use_up_the_quota(bed: Bed) -> None:
    await bed.client.create(ZONE_QUOTAS, _a_zone_quota("1"))
    await bed.rest(2)
    await bed.client.create(PODS, a_pod("first", "1"))
    await bed.must_run("first")


def _a_zone_quota(cpu: str) -> Object:
    return {"metadata": {"name": QUOTA, "namespace": NAMESPACE}, "spec": {"zone": "eu", "hard": {"cpu": cpu}}}


@fault("no-scheduler", codes=[Cause.NO_SCHEDULER], words=["scheduler"])
async def no_scheduler(bed: Bed) -> Ask:
    """No scheduler runs."""
    bed.world.programs[SCHEDULER].crash()
    await bed.rest(5)
    await bed.client.create(PODS, a_pod("web"))
    await bed.rest(60)
    await bed.must_be_pending("web", is_refused=False)
    return Ask(PODS, "web")


@fault("bind-unanswered", codes=[Cause.BEING_BOUND, Cause.API_UNAVAILABLE], words=["bind", "answer"])
async def bind_unanswered(bed: Bed) -> Ask:
    """Each request of the scheduler to bind is lost on its way; it can only ask again, by the same identity. (F7)"""
    lost = 0

    def fate(asked: RequestReceived) -> Fate | None:
        nonlocal lost
        if asked.who == SCHEDULER and (asked.path == BATCHES or asked.path.endswith("/binding")):
            lost += 1
            return Fate(LostPart.REQUEST)
        return None

    bed.lose(fate)
    await bed.client.create(PODS, a_pod("web"))
    await bed.must("several bindings were lost", lambda: _is(lost >= 3))
    await bed.must("the pod says that its binding is tried again", lambda: _is_retrying(bed.client, "web"))
    return Ask(PODS, "web")


async def _is(value: bool) -> bool:
    return value


async def _is_retrying(client: Client, name: str) -> bool:
    pod = await client.get(PODS, name, NAMESPACE)
    return not pod["spec"].get("nodeName") and is_true(pod, RETRYING)


FAULTS: Final = (
    taint,
    cordon,
    selector_typo,
    node_too_small,
    fragmentation,
    host_port,
    topology_spread,
    ghost,
    reserved,
    zone_quota,
    stale_quota,
    no_scheduler,
    bind_unanswered,
)
