"""Faults by which what has a node does not run there as it should, or does not do what it is for."""

from datetime import timedelta
from typing import Any, Final

from mainstay.agent.runner import CannotRun, ContainerSpec
from mainstay.agent.runners.pretend_containers import Behaviour
from mainstay.api.kind_names import DEPLOYMENTS, JOBS, PODS, SERVICES
from mainstay.client.call import WriteOptions
from mainstay.explain.why.causes import Cause
from mainstay.sim.cluster.cluster import NodeOptions
from tests.faults.bed import Bed, is_true
from tests.faults.fault import Ask, fault
from tests.faults.objects import NAMESPACE, a_deployment, a_pod, an_acting_node

ACTING: Final = {"node-a": an_acting_node("node-a", 1), "node-b": an_acting_node("node-b", 2, "b")}
ONE_NODE: Final = {"node-a": NodeOptions(zone="a")}
CHECK: Final = {"exec": {"command": ["check"]}, "periodSeconds": 5, "failureThreshold": 2}
WEB: Final = Ask(DEPLOYMENTS, "web")
CRASH: Final = Behaviour(lasts=timedelta(seconds=1), code=3)


@fault("image", codes=[Cause.IMAGE_UNAVAILABLE], words=["shop:v9"], nodes=ACTING)
async def image(bed: Bed) -> Ask:
    """The image of the new version is not to be had."""

    def behave(container: ContainerSpec) -> Behaviour:
        if container.image == "shop:v9":
            raise CannotRun("ErrImagePull", 'failed to pull image "shop:v9": manifest unknown')
        return Behaviour()

    for machine in bed.world.machines.values():
        machine.behave = behave
    await bed.client.create(DEPLOYMENTS, a_deployment("shop", 2, image="shop:v8"))
    await bed.must_have_ready("shop", 2)
    template = a_deployment("shop", 2, image="shop:v9")["spec"]["template"]
    await bed.client.patch(DEPLOYMENTS, "shop", NAMESPACE, {"spec": {"template": template}})
    await bed.rest(60)

    async def waiting() -> bool:
        return any(_waits_because(pod).startswith(("ErrImage", "ImagePull")) for pod in await bed.pods("shop"))

    await bed.must("a pod waits for the image", waiting)
    return Ask(DEPLOYMENTS, "shop")


@fault("crash-loop", codes=[Cause.CRASH_LOOP], words=["code 3|exit 3|exited 3|(3)"], nodes=ACTING)
async def crash_loop(bed: Bed) -> Ask:
    """The container ends with code 3 as soon as it runs, again and again."""
    for machine in bed.world.machines.values():
        machine.behave = lambda container: CRASH
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1))

    async def crashing() -> bool:
        return any(_waits_because(pod) == "CrashLoopBackOff" for pod in await bed.pods("web"))

    await bed.must("it keeps crashing", crashing)
    return WEB


@fault("readiness", codes=[Cause.READINESS_PROBE_FAILING], words=["readiness"], nodes=ACTING)
async def readiness(bed: Bed) -> Ask:
    """The containers run, and their readiness probes fail."""
    _let_checks_fail(bed)
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1, container={"readinessProbe": CHECK}))
    await bed.rest(40)

    async def unready() -> bool:
        pods = await bed.pods("web")
        return bool(pods) and all(pod["status"]["phase"] == "Running" and not is_true(pod, "Ready") for pod in pods)

    await bed.must("it runs, and is not ready", unready)
    return WEB


@fault("liveness", codes=[Cause.LIVENESS_PROBE_FAILING], words=["liveness"], nodes=ACTING)
async def liveness(bed: Bed) -> Ask:
    """The liveness probe fails, and the container is killed for it each time."""
    _let_checks_fail(bed)
    await bed.client.create(PODS, a_pod("web", container={"livenessProbe": CHECK}))

    async def restarted() -> bool:
        pod = await bed.get(PODS, "web")
        statuses = ((pod or {}).get("status") or {}).get("containerStatuses") or ()
        return any(each["restartCount"] >= 2 for each in statuses)

    await bed.must("it was restarted twice", restarted, timedelta(minutes=5))
    return Ask(PODS, "web")


@fault("missing-config-map", codes=[Cause.CONFIG_MISSING], words=["settings"], nodes=ACTING)
async def missing_config_map(bed: Bed) -> Ask:
    """Its environment is from a ConfigMap that is not there."""
    container = {"envFrom": [{"configMapRef": {"name": "settings"}}]}
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 1, container=container))

    async def waiting() -> bool:
        return any(_waits_because(pod) == "CreateContainerConfigError" for pod in await bed.pods("web"))

    await bed.must("it waits for the ConfigMap", waiting)
    return WEB


@fault(
    "job-backoff",
    codes=[Cause.BACKOFF_LIMIT_EXCEEDED, Cause.CONTAINER_FAILED],
    words=["code 2|exit 2|exited 2|(2)"],
)
async def job_backoff(bed: Bed) -> Ask:
    """Each pod of the Job ends with code 2, until it may have no more."""
    for machine in bed.world.machines.values():
        machine.behave = lambda container: Behaviour(lasts=timedelta(seconds=1), code=2)
    spec = a_pod("report", restartPolicy="Never")["spec"]
    job = {"backoffLimit": 1, "template": {"spec": spec}}
    await bed.client.create(JOBS, {"metadata": {"name": "report", "namespace": NAMESPACE}, "spec": job})

    async def failed() -> bool:
        found = await bed.get(JOBS, "report")
        return found is not None and is_true(found, "Failed")

    await bed.must("the Job has failed", failed, timedelta(minutes=5))
    return Ask(JOBS, "report")


@fault("service-selector", codes=[Cause.NOTHING_SELECTED, Cause.SELECTOR_MISMATCH], words=["webb"])
async def service_selector(bed: Bed) -> Ask:
    """Pods are ready, and the Service selects others, by a slip of the pen."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    spec = {"selector": {"app": "webb"}, "ports": [{"port": 80}]}
    await bed.client.create(SERVICES, {"metadata": {"name": "web", "namespace": NAMESPACE}, "spec": spec})
    await bed.must_have_ready("web", 2)
    await bed.rest(10)

    async def unserved() -> bool:
        return all(not is_true(pod, "mainstay.dev/Serving") for pod in await bed.pods("web"))

    await bed.must("nothing leads to its pods", unserved)
    return Ask(SERVICES, "web")


@fault("fighting-writers", codes=[Cause.FIGHTING_WRITERS], words=["replicas", "gitops", "autoscaler"])
async def fighting_writers(bed: Bed) -> Ask:
    """Two programs want different numbers of replicas, and each sets its own in turn."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.must_have_ready("web", 2)
    sides = [(name, count, await bed.as_user(name)) for name, count in (("gitops", 2), ("autoscaler", 5))]
    for _ in range(4):
        for name, count, client in reversed(sides):
            write = WriteOptions(field_manager=name)
            await client.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": count}}, write=write)
            await bed.rest(8)

    async def changed() -> bool:
        web = await bed.client.get(DEPLOYMENTS, "web", NAMESPACE)
        return int(web["metadata"]["generation"]) >= 8

    await bed.must("it keeps changing", changed)
    return WEB


@fault("agent-refused", codes=[Cause.AGENT_REFUSED], words=["node-a", "cpu"], nodes=ACTING)
async def agent_refused(bed: Bed) -> Ask:
    """The pod was created right on a node, which is too small for it."""
    await bed.client.create(PODS, a_pod("big", "6", nodeName="node-a"))

    async def refused() -> bool:
        pod = await bed.get(PODS, "big")
        return pod is not None and pod["status"].get("reason") == "OutOfcpu"

    await bed.must("the node has refused it", refused)
    return Ask(PODS, "big")


@fault("stale-agent", codes=[Cause.AGENT_SILENT], words=["node-a", "agent"], nodes=ONE_NODE)
async def stale_agent(bed: Bed) -> Ask:
    """The agent renews its lease, and does not hear of its pods: its watch stands still."""
    bed.hold_back("node-a", "core/pods/")
    await bed.client.create(PODS, a_pod("web"))
    await bed.rest(40)

    async def untouched() -> bool:
        pod = await bed.get(PODS, "web")
        if pod is None or pod["spec"].get("nodeName") != "node-a":
            return False
        return not pod["status"].get("startTime") and not pod["status"].get("containerStatuses")

    await bed.must("it is bound, and not taken on", untouched)
    return Ask(PODS, "web")


def _let_checks_fail(bed: Bed) -> None:
    for machine in bed.world.machines.values():
        machine.answer = lambda id_, command: 1


def _waits_because(pod: dict[str, Any]) -> str:
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    found = [((each.get("state") or {}).get("waiting") or {}).get("reason") for each in statuses]
    return next((str(each) for each in found if each), "")


FAULTS: Final = (
    image,
    crash_loop,
    readiness,
    liveness,
    missing_config_map,
    job_backoff,
    service_selector,
    fighting_writers,
    agent_refused,
    stale_agent,
)
