"""Faults by which something goes that should stay, or stays that should go."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Final

from mainstay.api.holds import HoldScope
from mainstay.api.kind import Object
from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS, DISRUPTION_BUDGETS, NAMESPACES, NODES, PODS
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.errors import ApiError
from mainstay.explain.why.causes import Cause
from mainstay.sim.cluster.cluster import NodeOptions
from tests.faults.bed import Bed, NotPlanted, is_true
from tests.faults.fault import Ask, fault
from tests.faults.making import OWNER, hold
from tests.faults.objects import NAMESPACE, a_deployment, a_pod

FINALIZER: Final = "example.com/backup"
AT_ONCE: Final = [
    {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
    for key in ("unreachable", "not-ready")
]
ZONE_A: Final = ("node-a1", "node-a2", "node-a3")


@fault("budget", codes=[Cause.BUDGET_EXHAUSTED], words=["web-budget"])
async def budget(bed: Bed) -> Ask:
    """A drain tried to evict the pod; its disruption budget allows none."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    pods = await bed.must_have_ready("web", 2)
    spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
    metadata = {"name": "web-budget", "namespace": NAMESPACE}
    await bed.client.create(DISRUPTION_BUDGETS, {"metadata": metadata, "spec": spec})
    await bed.rest(5)
    return await _evict_in_vain(bed, pods[0])


@fault("evictions-frozen", codes=[Cause.EVICTIONS_FROZEN], words=[OWNER])
async def evictions_frozen(bed: Bed) -> Ask:
    """Break glass: evictions are frozen, and one was refused."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    pods = await bed.must_have_ready("web", 2)
    await hold(bed, HoldScope.EVICTIONS, {})
    return await _evict_in_vain(bed, pods[0])


async def _evict_in_vain(bed: Bed, pod: Object) -> Ask:
    name, drainer = pod["metadata"]["name"], await bed.as_user("drainer")
    eviction = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": name, "namespace": NAMESPACE},
    }
    for _ in range(3):
        try:
            await drainer.create(PODS, eviction, subresource="eviction")
        except ApiError as error:
            if error.status != 429:
                raise
        else:
            raise NotPlanted("it was evicted")
        await bed.rest(5)

    async def stays() -> bool:
        found = await bed.get(PODS, name)
        return found is not None and is_true(found, "Ready") and "deletionTimestamp" not in found["metadata"]

    await bed.must("it is there after three evictions", stays)
    return Ask(PODS, name)


@fault("evicted-by-taint", codes=[Cause.EVICTED_BY_TAINT], words=["maintenance", "node-a"])
async def evicted_by_taint(bed: Bed) -> Ask:
    """A node got a taint that ends pods, and the pod is gone."""
    await bed.client.create(PODS, a_pod("web", nodeSelector={ZONE_LABEL: "a"}))
    await bed.must_run("web")
    ops = await bed.as_user("ops")
    taint = {"key": "maintenance", "value": "now", "effect": "NoExecute"}
    await ops.patch(NODES, "node-a", "", {"spec": {"taints": [taint]}})
    await bed.must_be_gone(PODS, "web")
    return Ask(PODS, "web")


@fault("scaled-down", codes=[Cause.SCALED_DOWN], words=["web", "alice"])
async def scaled_down(bed: Bed) -> Ask:
    """A user has scaled the Deployment down, and the pod is gone."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 3))
    before = await bed.must_have_ready("web", 3)
    alice = await bed.as_user("alice")
    await alice.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 1}})
    await bed.rest(20)
    left = {pod["metadata"]["name"] for pod in await bed.pods("web")}
    gone = sorted({pod["metadata"]["name"] for pod in before} - left)
    if len(gone) != 2:
        raise NotPlanted(f"{len(gone)} pods are gone, not 2")
    await bed.must_be_gone(PODS, gone[0])
    return Ask(PODS, gone[0])


@fault("node-lost", codes=[Cause.NODE_LOST], words=["node-a"])
async def node_lost(bed: Bed) -> Ask:
    """The machine is gone without a word; its pod is neither known to run nor to have ended."""
    await bed.client.create(PODS, a_pod("web", nodeSelector={ZONE_LABEL: "a"}))
    await bed.must_run("web")
    bed.vanish("node-a")
    await bed.must("its pod is not ready any more", _is_unready(bed, "web"))
    await bed.rest(30)
    return Ask(PODS, "web")


@fault(
    "zone-silent",
    codes=[Cause.NODE_LOST],
    words=['zone a|zone "a"'],
    nodes={**{name: NodeOptions(zone="a") for name in ZONE_A}, "node-b1": NodeOptions(zone="b")},
)
async def zone_silent(bed: Bed) -> Ask:
    """All nodes of a zone fell silent at once: they are released slowly, and their pods stay meanwhile."""
    for name in ZONE_A:
        on = {"kubernetes.io/hostname": name}
        await bed.client.create(PODS, a_pod(f"on-{name}", nodeSelector=on, tolerations=AT_ONCE))
    await bed.must_run(*(f"on-{name}" for name in ZONE_A))
    bed.vanish(*ZONE_A)
    released: list[str] = []

    async def has_begun() -> bool:
        nodes = {name: await bed.client.get(NODES, name) for name in ZONE_A}
        released[:] = [name for name, node in nodes.items() if _is_released(node)]
        return len(released) == 1

    await bed.must("one node was released", has_begun, timedelta(minutes=10))
    waiting = next(name for name in ZONE_A if name not in released)
    await bed.rest(20)

    async def stays() -> bool:
        pod = await bed.get(PODS, f"on-{waiting}")
        is_released = _is_released(await bed.client.get(NODES, waiting))
        return pod is not None and "deletionTimestamp" not in pod["metadata"] and not is_released

    await bed.must("the pod of another one waits", stays)
    return Ask(PODS, f"on-{waiting}")


def _is_released(node: Object) -> bool:
    taints = node["spec"].get("taints") or ()
    return any(each["effect"] == "NoExecute" and each["key"].endswith("unreachable") for each in taints)


def _is_unready(bed: Bed, name: str) -> Callable[[], Awaitable[bool]]:
    async def so() -> bool:
        pod = await bed.get(PODS, name)
        return pod is not None and not is_true(pod, "Ready")

    return so


@fault("finalizer", codes=[Cause.FINALIZER_WAITING], words=[FINALIZER])
async def finalizer(bed: Bed) -> Ask:
    """The pod was deleted and has stopped; a finalizer keeps it, and no controller removes it."""
    pod = a_pod("db")
    pod["metadata"]["finalizers"] = [FINALIZER]
    await bed.client.create(PODS, pod)
    await bed.must_run("db")
    await bed.client.delete(PODS, "db", NAMESPACE)
    await bed.rest(30)

    async def stays() -> bool:
        found = await bed.get(PODS, "db")
        return found is not None and "deletionTimestamp" in found["metadata"]

    await bed.must("it is there and leaving", stays)
    return Ask(PODS, "db")


@fault(
    "namespace-terminating",
    codes=[Cause.FINALIZER_WAITING, Cause.NAMESPACE_TERMINATING],
    words=[FINALIZER, "precious"],
)
async def namespace_terminating(bed: Bed) -> Ask:
    """The namespace was deleted; something in it has a finalizer that no controller removes."""
    await bed.client.create(NAMESPACES, {"metadata": {"name": "old-team"}})
    await bed.rest(3)
    metadata = {"name": "precious", "namespace": "old-team", "finalizers": [FINALIZER]}
    await bed.client.create(CONFIG_MAPS, {"metadata": metadata, "data": {"a": "b"}})
    await bed.client.delete(NAMESPACES, "old-team")
    await bed.rest(60)

    async def stays() -> bool:
        found = await bed.get(NAMESPACES, "old-team", "")
        return found is not None and found["status"]["phase"] == "Terminating"

    await bed.must("it is there and terminating", stays)
    return Ask(NAMESPACES, "old-team", "")


FAULTS: Final = (
    budget,
    evictions_frozen,
    evicted_by_taint,
    scaled_down,
    node_lost,
    zone_silent,
    finalizer,
    namespace_terminating,
)
