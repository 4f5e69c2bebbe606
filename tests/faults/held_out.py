"""Faults that are in no list: written after `why` was, and not known to its author until they were asked.

The forty of docs/faults.md were known while `why` was written. These are other causes, and the same ones in other
circumstances, to see how it does on what it was not prepared for: `python -m bench.faults --held-out`. When they
were first asked about, 21 of 26 were named; since then they are known, too.
"""

from datetime import timedelta
from typing import Any, Final

from mainstay.agent.runner import CannotRun, ContainerSpec
from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.agent.settings import TaintSetting
from mainstay.api.kind_names import (
    CONFIG_MAPS,
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    NODES,
    PODS,
    REPLICASETS,
    RESOURCE_QUOTAS,
    SERVICES,
    ZONE_QUOTAS,
)
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.errors import ApiError
from mainstay.explain.why.causes import Cause
from mainstay.sim.cluster.cluster import NodeOptions
from tests.faults.bed import SCHEDULER, Bed, is_true
from tests.faults.fault import Ask, fault
from tests.faults.objects import NAMESPACE, a_deployment, a_pod, an_acting_node

ACTING: Final = {"node-a": an_acting_node("node-a", 1), "node-b": an_acting_node("node-b", 2, "b")}
ONE_NODE: Final = {"node-a": NodeOptions(zone="eu")}
CHECK: Final = {"exec": {"command": ["check"]}, "periodSeconds": 5, "failureThreshold": 3}
WEB: Final = Ask(DEPLOYMENTS, "web")
NAMED_AT_FIRST: Final = 21


@fault("other-scheduler", codes=[Cause.OTHER_SCHEDULER], words=["gang-scheduler"])
async def other_scheduler(bed: Bed) -> Ask:
    """The pod asks for a scheduler that there is not."""
    await bed.client.create(PODS, a_pod("web", schedulerName="gang-scheduler"))
    await bed.rest(30)
    await bed.must_be_pending("web", is_refused=False)
    return Ask(PODS, "web")


@fault("gated", codes=[Cause.SCHEDULING_GATED], words=["example.com/budget"])
async def gated(bed: Bed) -> Ask:
    """The pod waits behind a scheduling gate; asked about its Deployment."""
    pod = {"schedulingGates": [{"name": "example.com/budget"}]}
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1, pod=pod))
    await bed.rest(20)
    (waiting,) = await bed.pods("web")
    await bed.must_be_pending(waiting["metadata"]["name"], is_refused=False)
    return WEB


@fault(
    "half-tainted",
    codes=[Cause.UNTOLERATED_TAINT, Cause.CONSTRAINTS_COMBINED],
    words=["gpu"],
    nodes={
        "node-a": NodeOptions(taints=(TaintSetting("gpu", "NoSchedule", "true"),)),
        "node-b": NodeOptions(capacity={"cpu": "1", "memory": "8Gi"}),
    },
)
async def half_tainted(bed: Bed) -> Ask:
    """The large node is kept for others by a taint; the small one is too small. Three replicas wait."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 3, "2"))
    await bed.rest(10)
    pods = await bed.pods("web")
    for pod in pods:
        await bed.must_be_pending(pod["metadata"]["name"])
    return WEB


@fault("memory", codes=[Cause.INSUFFICIENT_RESOURCES], words=["memory"], nodes=ONE_NODE)
async def memory(bed: Bed) -> Ask:
    """There is CPU enough, and the memory is taken."""
    hog = {"resources": {"requests": {"cpu": "100m", "memory": "6Gi"}}}
    await bed.client.create(PODS, a_pod("hog", container=hog))
    await bed.must_run("hog")
    want = {"resources": {"requests": {"cpu": "100m", "memory": "4Gi"}}}
    await bed.client.create(PODS, a_pod("web", container=want))
    await bed.must_be_pending("web")
    return Ask(PODS, "web")


@fault("nodes-silent", codes=[Cause.NODE_LOST, Cause.NODE_NOT_READY], words=["node-a"], nodes=ONE_NODE)
async def nodes_silent(bed: Bed) -> Ask:
    """The only node is not heard of; a new pod is refused because of the taint that says so."""
    bed.vanish("node-a")
    await bed.rest(30)
    await bed.client.create(PODS, a_pod("web"))
    await bed.must_be_pending("web")
    return Ask(PODS, "web")


@fault("stale-nodes", codes=[Cause.STALE_VIEW], words=["scheduler", "node"], nodes=ONE_NODE)
async def stale_nodes(bed: Bed) -> Ask:
    """The node was uncordoned, and the scheduler has not heard of it."""
    await bed.client.patch(NODES, "node-a", "", {"spec": {"unschedulable": True}})
    await bed.rest(5)
    bed.hold_back(SCHEDULER, "core/nodes/")
    await bed.client.patch(NODES, "node-a", "", {"spec": {"unschedulable": False}})
    await bed.rest(5)
    await bed.client.create(PODS, a_pod("web"))
    await bed.must_be_pending("web")
    await bed.rest(10)
    return Ask(PODS, "web")


@fault("quota-wants-requests", codes=[Cause.QUOTA_EXCEEDED, Cause.ADMISSION_REFUSED], words=["mem-limit", "memory"])
async def quota_wants_requests(bed: Bed) -> Ask:
    """A quota on memory: pods that do not say how much they need are refused. Asked about the ReplicaSet."""
    spec = {"hard": {"requests.memory": "1Gi"}}
    await bed.client.create(RESOURCE_QUOTAS, {"metadata": {"name": "mem-limit", "namespace": NAMESPACE}, "spec": spec})
    await bed.rest(2)
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.rest(20)

    async def none() -> bool:
        return not await bed.pods("web")

    await bed.must("there are no pods", none)
    (made,) = (await bed.client.list(REPLICASETS, NAMESPACE)).items
    return Ask(REPLICASETS, made["metadata"]["name"])


@fault("zone-quota-of-a-rollout", codes=[Cause.ZONE_QUOTA_EXCEEDED], words=["small-zone"], nodes=ONE_NODE)
async def zone_quota_of_a_rollout(bed: Bed) -> Ask:
    """The new pod of a rollout does not fit into the quota beside the old ones. Asked about the Deployment."""
    quota = {"spec": {"zone": "eu", "hard": {"cpu": "2"}}, "metadata": {"name": "small-zone", "namespace": NAMESPACE}}
    await bed.client.create(ZONE_QUOTAS, quota)
    await bed.rest(2)
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2, "1", strategy=strategy))
    await bed.must_have_ready("web", 2)
    template = a_deployment("web", 2, "1", image="x:2")["spec"]["template"]
    await bed.client.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"template": template}})
    await bed.rest(20)
    (waiting,) = [each for each in await bed.pods("web") if not each["spec"].get("nodeName")]
    await bed.must_be_pending(waiting["metadata"]["name"])
    return WEB


@fault("suspended", codes=[Cause.SUSPENDED], words=["suspend"])
async def suspended(bed: Bed) -> Ask:
    """The Job is suspended."""
    spec = {"suspend": True, "template": {"spec": a_pod("report", restartPolicy="Never")["spec"]}}
    await bed.client.create(JOBS, {"metadata": {"name": "report", "namespace": NAMESPACE}, "spec": spec})
    await bed.rest(10)

    async def idle() -> bool:
        job = await bed.get(JOBS, "report")
        return job is not None and is_true(job, "Suspended")

    await bed.must("the Job is suspended", idle)
    return Ask(JOBS, "report")


@fault("job-deadline", codes=[Cause.DEADLINE_EXCEEDED], words=["activeDeadlineSeconds|deadline"])
async def job_deadline(bed: Bed) -> Ask:
    """The Job took longer than it may."""
    spec = {"activeDeadlineSeconds": 20, "template": {"spec": a_pod("report", restartPolicy="Never")["spec"]}}
    await bed.client.create(JOBS, {"metadata": {"name": "report", "namespace": NAMESPACE}, "spec": spec})

    async def failed() -> bool:
        job = await bed.get(JOBS, "report")
        return job is not None and is_true(job, "Failed")

    await bed.must("the Job has failed", failed)
    return Ask(JOBS, "report")


@fault("job-has-no-room", codes=[Cause.NODE_TOO_SMALL], words=["cpu"])
async def job_has_no_room(bed: Bed) -> Ask:
    """The pods of a Job are too large for any node. Asked about the Job."""
    spec = {"template": {"spec": a_pod("report", "12", restartPolicy="Never")["spec"]}}
    await bed.client.create(JOBS, {"metadata": {"name": "report", "namespace": NAMESPACE}, "spec": spec})

    async def waits() -> bool:
        pods = (await bed.client.list(PODS, NAMESPACE, labels="job-name=report")).items
        return len(pods) == 1 and not pods[0]["spec"].get("nodeName")

    await bed.rest(20)
    await bed.must("its pod waits", waits)
    return Ask(JOBS, "report")


@fault("missing-secret", codes=[Cause.CONFIG_MISSING], words=["tls-key"], nodes=ACTING)
async def missing_secret(bed: Bed) -> Ask:
    """A volume is made of a Secret that is not there. Asked about the pod."""
    container = {"volumeMounts": [{"name": "keys", "mountPath": "/keys"}]}
    volumes = [{"name": "keys", "secret": {"secretName": "tls-key"}}]
    await bed.client.create(PODS, a_pod("web", container=container, volumes=volumes))
    await bed.rest(20)

    async def waits() -> bool:
        pod = await bed.get(PODS, "web")
        return pod is not None and bool(pod["spec"].get("nodeName")) and pod["status"]["phase"] == "Pending"

    await bed.must("it is bound, and does not start", waits)
    return Ask(PODS, "web")


@fault("missing-key", codes=[Cause.CONFIG_MISSING], words=["settings", "log-level"], nodes=ACTING)
async def missing_key(bed: Bed) -> Ask:
    """The ConfigMap is there, and has no such key. Asked about the Deployment."""
    await bed.client.create(CONFIG_MAPS, {"metadata": {"name": "settings", "namespace": NAMESPACE}, "data": {"a": "b"}})
    source = {"configMapKeyRef": {"name": "settings", "key": "log-level"}}
    container = {"env": [{"name": "LEVEL", "valueFrom": source}]}
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1, container=container))
    await bed.rest(10)
    await bed.must("it does not start", lambda: _is_waiting(bed, "CreateContainerConfigError"))
    return WEB


@fault("init-container", codes=[Cause.CRASH_LOOP, Cause.CONTAINER_FAILED], words=["migrate"], nodes=ACTING)
async def init_container(bed: Bed) -> Ask:
    """An init container fails again and again; the main one never comes."""

    def behave(container: ContainerSpec) -> Behaviour:
        is_first = container.id.name == "migrate"
        return Behaviour(lasts=timedelta(seconds=1), code=5) if is_first else Behaviour()

    for machine in bed.world.machines.values():
        machine.behave = behave
    first = {"name": "migrate", "image": "x:1", "command": ["migrate"]}
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1, pod={"initContainers": [first]}))
    await bed.rest(60)

    async def unready() -> bool:
        pods = await bed.pods("web")
        return bool(pods) and not any(is_true(pod, "Ready") for pod in pods)

    await bed.must("it does not become ready", unready)
    return WEB


@fault("startup-probe", codes=[Cause.STARTUP_PROBE_FAILING], words=["startup"], nodes=ACTING)
async def startup_probe(bed: Bed) -> Ask:
    """The startup probe never succeeds, and the container is killed for it. Asked about the Deployment."""
    for machine in bed.world.machines.values():
        machine.answer = lambda id_, command: 1
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1, container={"startupProbe": CHECK}))
    await bed.rest(70)

    async def restarted() -> bool:
        statuses = [each for pod in await bed.pods("web") for each in pod["status"].get("containerStatuses") or ()]
        return any(each["restartCount"] for each in statuses)

    await bed.must("it was restarted", restarted, timedelta(minutes=5))
    return WEB


@fault("one-bad-node", codes=[Cause.CONTAINER_CANNOT_START, Cause.IMAGE_UNAVAILABLE], words=["node-b"], nodes=ACTING)
async def one_bad_node(bed: Bed) -> Ask:
    """One of two machines cannot start containers. Asked about the Deployment, half of which runs."""

    def cannot(container: ContainerSpec) -> Behaviour:
        raise CannotRun("CreateContainerError", "no space left on device")

    bed.world.machines["node-b"].behave = cannot
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2, "3"))
    await bed.must_have_ready("web", 1)
    await bed.rest(20)
    await bed.must("one does not start", lambda: _is_waiting(bed, "CreateContainerError"))
    return WEB


@fault("unready-service", codes=[Cause.READINESS_PROBE_FAILING], words=["readiness"], nodes=ACTING)
async def unready_service(bed: Bed) -> Ask:
    """A Service selects the right pods, none of which is ready. Asked about the Service."""
    for machine in bed.world.machines.values():
        machine.answer = lambda id_, command: 1
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1, container={"readinessProbe": CHECK}))
    spec = {"selector": {"app": "web"}, "ports": [{"port": 80}]}
    await bed.client.create(SERVICES, {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec})
    await bed.rest(40)

    async def unready() -> bool:
        return not any(is_true(pod, "Ready") for pod in await bed.pods("web"))

    await bed.must("none is ready", unready)
    return Ask(SERVICES, "web")


@fault("who-deleted-it", codes=[Cause.DELETED], words=["mallory"])
async def who_deleted_it(bed: Bed) -> Ask:
    """A user has deleted a single pod."""
    await bed.client.create(PODS, a_pod("db"))
    await bed.must_run("db")
    mallory = await bed.as_user("mallory")
    await mallory.delete(PODS, "db", NAMESPACE)
    await bed.must_be_gone(PODS, "db")
    return Ask(PODS, "db")


@fault("gone-with-its-owner", codes=[Cause.OWNER_DELETED], words=["web", "mallory"])
async def gone_with_its_owner(bed: Bed) -> Ask:
    """A user has deleted the Deployment, and its pods went with it."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1))
    (pod,) = await bed.must_have_ready("web", 1)
    mallory = await bed.as_user("mallory")
    await mallory.delete(DEPLOYMENTS, "web", NAMESPACE)
    await bed.must_be_gone(PODS, pod["metadata"]["name"])
    return Ask(PODS, pod["metadata"]["name"])


@fault("rolled-over", codes=[Cause.ROLLED_OVER], words=["web", "alice"])
async def rolled_over(bed: Bed) -> Ask:
    """A user has changed the image, and the old pod was replaced."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1))
    (pod,) = await bed.must_have_ready("web", 1)
    alice = await bed.as_user("alice")
    template = a_deployment("web", image="x:2")["spec"]["template"]
    await alice.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"template": template}})
    await bed.must_be_gone(PODS, pod["metadata"]["name"])
    return Ask(PODS, pod["metadata"]["name"])


@fault("evicted-by-drain", codes=[Cause.EVICTED], words=["drainer"])
async def evicted_by_drain(bed: Bed) -> Ask:
    """A user has drained the node, and nothing stood in the way."""
    await bed.client.create(PODS, a_pod("web"))
    await bed.must_run("web")
    drainer = await bed.as_user("drainer")
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "web", "namespace": NAMESPACE}}
    await drainer.create(PODS, eviction, subresource="eviction")
    await bed.must_be_gone(PODS, "web")
    return Ask(PODS, "web")


@fault("two-budgets", codes=[Cause.BUDGET_EXHAUSTED], words=["one-budget", "other-budget"])
async def two_budgets(bed: Bed) -> Ask:
    """Two budgets cover the same pod, so that it can never be evicted."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    pods = await bed.must_have_ready("web", 2)
    for name in ("one-budget", "other-budget"):
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
        metadata = {"name": name, "namespace": NAMESPACE}
        await bed.client.create(DISRUPTION_BUDGETS, {"metadata": metadata, "spec": spec})
    await bed.rest(5)
    name = pods[0]["metadata"]["name"]
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": NAMESPACE}}
    refused: list[int] = []
    try:
        await bed.client.create(PODS, eviction, subresource="eviction")
    except ApiError as error:
        refused.append(error.status or 0)

    async def so() -> bool:
        return refused == [500]

    await bed.must("the eviction was refused", so)
    return Ask(PODS, name)


@fault("cordoned-node", codes=[Cause.NODE_CORDONED], words=["ops"])
async def cordoned_node(bed: Bed) -> Ask:
    """A user has cordoned a node. Asked about the node."""
    ops = await bed.as_user("ops")
    await ops.patch(NODES, "node-a", "", {"spec": {"unschedulable": True}})
    await bed.rest(5)

    async def cordoned() -> bool:
        return bool((await bed.client.get(NODES, "node-a"))["spec"].get("unschedulable"))

    await bed.must("it is cordoned", cordoned)
    return Ask(NODES, "node-a", "")


@fault("scaled-to-zero", codes=[Cause.SCALED_TO_ZERO, Cause.SCALED_DOWN], words=["alice"])
async def scaled_to_zero(bed: Bed) -> Ask:
    """A user has scaled the Deployment to nothing. Asked about the Deployment."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.must_have_ready("web", 2)
    alice = await bed.as_user("alice")
    await alice.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 0}})
    await bed.rest(20)

    async def none() -> bool:
        return not await bed.pods("web")

    await bed.must("there are no pods", none)
    return WEB


@fault("stop-unconfirmed", codes=[Cause.STOP_NOT_CONFIRMED, Cause.NODE_LOST], words=["node-a"])
async def stop_unconfirmed(bed: Bed) -> Ask:
    """The pod was deleted, and its machine is gone: no agent reports that it has stopped."""
    await bed.client.create(PODS, a_pod("db", nodeSelector={ZONE_LABEL: "a"}))
    await bed.must_run("db")
    bed.vanish("node-a")
    await bed.rest(2)
    await bed.client.delete(PODS, "db", NAMESPACE)
    await bed.rest(60)

    async def leaving() -> bool:
        pod = await bed.get(PODS, "db")
        return pod is not None and "deletionTimestamp" in pod["metadata"]

    await bed.must("it is there and leaving", leaving)
    return Ask(PODS, "db")


@fault("full-quota", codes=[Cause.QUOTA_EXCEEDED], words=["team-limit", "hog"])
async def full_quota(bed: Bed) -> Ask:
    """A quota is used up, nearly all of it by one workload. Asked about the quota."""
    spec = {"hard": {"requests.cpu": "2"}}
    await bed.client.create(RESOURCE_QUOTAS, {"metadata": {"name": "team-limit", "namespace": NAMESPACE}, "spec": spec})
    await bed.rest(2)
    await bed.client.create(DEPLOYMENTS, a_deployment("hog", 2, "950m"))
    await bed.must_have_ready("hog", 2)
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2, "500m"))
    await bed.rest(20)

    async def none() -> bool:
        return not await bed.pods("web")

    await bed.must("nothing of the other one is there", none)
    return Ask(RESOURCE_QUOTAS, "team-limit")


async def _is_waiting(bed: Bed, reason: str) -> bool:
    statuses: list[Any] = [each for pod in await bed.pods("web") for each in pod["status"].get("containerStatuses", ())]
    return any(((each.get("state") or {}).get("waiting") or {}).get("reason") == reason for each in statuses)


FAULTS: Final = (
    other_scheduler,
    gated,
    half_tainted,
    memory,
    nodes_silent,
    stale_nodes,
    quota_wants_requests,
    zone_quota_of_a_rollout,
    suspended,
    job_deadline,
    job_has_no_room,
    missing_secret,
    missing_key,
    init_container,
    startup_probe,
    one_bad_node,
    unready_service,
    who_deleted_it,
    gone_with_its_owner,
    rolled_over,
    evicted_by_drain,
    two_budgets,
    cordoned_node,
    scaled_to_zero,
    stop_unconfirmed,
    full_quota,
)
