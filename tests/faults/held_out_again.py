"""A second set that was in no list, written when the first one was known (held_out.py). 8 of 12 were named at first."""

from datetime import timedelta
from typing import Any, Final

from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.api.kind import Propagation
from mainstay.api.kind_names import DEPLOYMENTS, JOBS, NODES, PODS, RESOURCE_QUOTAS
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.errors import Invalid
from mainstay.explain.why.causes import Cause
from mainstay.sim.cluster.cluster import NodeOptions
from tests.faults.bed import Bed, NotPlanted, is_true
from tests.faults.fault import TWO_NODES, Ask, fault
from tests.faults.objects import NAMESPACE, a_deployment, a_pod, an_acting_node

ACTING: Final = {"node-a": an_acting_node("node-a", 1), "node-b": an_acting_node("node-b", 2, "b")}
CHECK: Final = {"exec": {"command": ["check"]}, "periodSeconds": 5, "failureThreshold": 2}
WEB: Final = Ask(DEPLOYMENTS, "web")
NAMED_AT_FIRST: Final = 8


@fault("change-refused", codes=[Cause.INVALID, Cause.ADMISSION_REFUSED], words=["alice"])
async def change_refused(bed: Bed) -> Ask:
    """The Deployment is well; a change of it was refused, and its author wonders where it is."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.must_have_ready("web", 2)
    alice = await bed.as_user("alice")
    container = {"name": "main", "image": "x:2", "resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
    template = {"spec": {"containers": [container]}}
    try:
        await alice.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"template": template}})
    except Invalid:
        await bed.rest(2)
        bed.made_sure += 1
        return WEB
    raise NotPlanted("it was accepted")


@fault("lost-node-asked", codes=[Cause.NODE_LOST], words=["node-a"])
async def lost_node_asked(bed: Bed) -> Ask:
    """A machine is gone. Asked about the node."""
    bed.vanish("node-a")

    async def unknown() -> bool:
        return not is_true(await bed.client.get(NODES, "node-a"), "Ready")

    await bed.must("it is not ready", unknown)
    return Ask(NODES, "node-a", "")


@fault("all-cordoned", codes=[Cause.NODE_CORDONED], words=["node-a", "node-b"])
async def all_cordoned(bed: Bed) -> Ask:
    """A user has cordoned every node. Asked about a Deployment of two."""
    for name in TWO_NODES:
        await bed.client.patch(NODES, name, "", {"spec": {"unschedulable": True}})
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.rest(10)
    for pod in await bed.pods("web"):
        await bed.must_be_pending(pod["metadata"]["name"])
    return WEB


@fault("liveness-of-many", codes=[Cause.LIVENESS_PROBE_FAILING], words=["liveness"], nodes=ACTING)
async def liveness_of_many(bed: Bed) -> Ask:
    """Both pods are killed by their liveness probes now and then. Asked about the Deployment."""
    for machine in bed.world.machines.values():
        machine.answer = lambda id_, command: 1
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2, container={"livenessProbe": CHECK}))

    async def restarted() -> bool:
        return sum(_restarts(pod) for pod in await bed.pods("web")) >= 4

    await bed.must("they were restarted", restarted, timedelta(minutes=5))
    return WEB


@fault("no-such-node", codes=[Cause.NODE_DOES_NOT_EXIST], words=["node-z"])
async def no_such_node(bed: Bed) -> Ask:
    """The pod was created for a node that there is not."""
    await bed.client.create(PODS, a_pod("web", nodeName="node-z"))
    await bed.rest(10)

    async def waits() -> bool:
        pod = await bed.get(PODS, "web")
        return pod is not None and not pod["status"].get("startTime")

    await bed.must("no runner takes it", waits)
    return Ask(PODS, "web")


@fault("no-command", codes=[Cause.COMMAND_MISSING], words=["command"], nodes=ACTING)
async def no_command(bed: Bed) -> Ask:
    """The container says nothing of what to run. Asked about the Deployment."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1, container={"command": None}))
    await bed.rest(10)

    async def waits() -> bool:
        pods = await bed.pods("web")
        return bool(pods) and not any(is_true(pod, "Ready") for pod in pods)

    await bed.must("it does not start", waits)
    return WEB


@fault("job-quota", codes=[Cause.QUOTA_EXCEEDED], words=["team-limit"])
async def job_quota(bed: Bed) -> Ask:
    """A quota refuses the pods of a Job. Asked about the Job."""
    spec = {"hard": {"pods": "0"}}
    await bed.client.create(RESOURCE_QUOTAS, {"metadata": {"name": "team-limit", "namespace": NAMESPACE}, "spec": spec})
    await bed.rest(2)
    job = {"template": {"spec": a_pod("x", restartPolicy="Never")["spec"]}}
    await bed.client.create(JOBS, {"metadata": {"name": "report", "namespace": NAMESPACE}, "spec": job})
    await bed.rest(20)

    async def none() -> bool:
        return not (await bed.client.list(PODS, NAMESPACE, labels="job-name=report")).items

    await bed.must("it has no pods", none)
    return Ask(JOBS, "report")


@fault("two-troubles", codes=[Cause.CRASH_LOOP, Cause.NODE_TOO_SMALL], words=["web"], nodes=ACTING)
async def two_troubles(bed: Bed) -> Ask:
    """Old pods crash, and the new ones are too large for any node: either is a cause, and one must be told."""
    for machine in bed.world.machines.values():
        machine.behave = lambda container: Behaviour(lasts=timedelta(seconds=1), code=7)
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1))
    await bed.rest(30)
    template = a_deployment("web", 1, "12", image="x:2")["spec"]["template"]
    await bed.client.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"template": template}})
    await bed.rest(30)

    async def unwell() -> bool:
        return not any(is_true(pod, "Ready") for pod in await bed.pods("web"))

    await bed.must("nothing is ready", unwell)
    return WEB


@fault("owner-waits", codes=[Cause.FINALIZER_WAITING], words=["example.com/backup"])
async def owner_waits(bed: Bed) -> Ask:
    """The Deployment was deleted in the foreground; one of its pods has a finalizer. Asked about the Deployment."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1))
    (pod,) = await bed.must_have_ready("web", 1)
    name = pod["metadata"]["name"]
    await bed.client.patch(PODS, name, NAMESPACE, {"metadata": {"finalizers": ["example.com/backup"]}})
    await bed.client.delete(DEPLOYMENTS, "web", NAMESPACE, propagation=Propagation.FOREGROUND)
    await bed.rest(40)

    async def stays() -> bool:
        web = await bed.get(DEPLOYMENTS, "web")
        return web is not None and "deletionTimestamp" in web["metadata"]

    await bed.must("it is there and leaving", stays)
    return WEB


@fault("readiness-gate", codes=[Cause.NOT_READY_YET], words=["example.com/balanced"], nodes=ACTING)
async def readiness_gate(bed: Bed) -> Ask:
    """The pod counts as ready only when a readiness gate is set, and no controller sets it."""
    await bed.client.create(PODS, a_pod("web", readinessGates=[{"conditionType": "example.com/balanced"}]))
    await bed.rest(30)

    async def unready() -> bool:
        pod = await bed.get(PODS, "web")
        return pod is not None and pod["status"]["phase"] == "Running" and not is_true(pod, "Ready")

    await bed.must("it runs, and is not ready", unready)
    return Ask(PODS, "web")


@fault(
    "spread-over-hosts",
    codes=[Cause.TOPOLOGY_SPREAD, Cause.TOPOLOGY_LABEL_MISSING],
    words=["rack"],
    nodes={"node-a": NodeOptions(), "node-b": NodeOptions()},
)
async def spread_over_hosts(bed: Bed) -> Ask:
    """Pods are to be spread over racks, and no node says in which it is."""
    spread = {
        "maxSkew": 1,
        "topologyKey": "rack",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2, pod={"topologySpreadConstraints": [spread]}))
    await bed.rest(10)
    for pod in await bed.pods("web"):
        await bed.must_be_pending(pod["metadata"]["name"])
    return WEB


@fault("tainted-and-gone", codes=[Cause.UNTOLERATED_TAINT], words=["maintenance"])
async def tainted_and_gone(bed: Bed) -> Ask:
    """The only zone that the pods may be in was tainted: the old pod is gone, its replacement waits."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1, pod={"nodeSelector": {ZONE_LABEL: "a"}}))
    (old,) = await bed.must_have_ready("web", 1)
    taint = {"key": "maintenance", "value": "now", "effect": "NoExecute"}
    await bed.client.patch(NODES, "node-a", "", {"spec": {"taints": [taint]}})
    await bed.must_be_gone(PODS, old["metadata"]["name"])
    await bed.rest(5)
    (new,) = await bed.pods("web")
    await bed.must_be_pending(new["metadata"]["name"])
    return WEB


def _restarts(pod: Any) -> int:
    return sum(each["restartCount"] for each in pod["status"].get("containerStatuses") or ())


FAULTS: Final = (
    change_refused,
    lost_node_asked,
    all_cordoned,
    liveness_of_many,
    no_such_node,
    no_command,
    job_quota,
    two_troubles,
    owner_waits,
    readiness_gate,
    spread_over_hosts,
    tainted_and_gone,
)
