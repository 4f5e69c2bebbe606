"""Faults by which what was asked for does not come to be: refused, not seen, or held back on purpose."""

from datetime import timedelta
from typing import Any, Final

from mainstay.api import times
from mainstay.api.holds import HoldScope
from mainstay.api.kind_names import DEPLOYMENTS, HOLDS, PODS, REPLICASETS, RESOURCE_QUOTAS
from mainstay.client.errors import Invalid
from mainstay.controllers.deployment.status import PROGRESSING, TIMED_OUT
from mainstay.explain.why.causes import Cause
from mainstay.sim.cluster.cluster import NodeOptions
from tests.faults.bed import CONTROLLERS, Bed, NotPlanted, condition
from tests.faults.fault import Ask, fault
from tests.faults.objects import NAMESPACE, a_deployment, a_pod, with_image

OWNER: Final = "dana"
INCIDENT: Final = "INC-7: checkout is slow"
WEB: Final = Ask(DEPLOYMENTS, "web")


@fault("resource-quota", codes=[Cause.QUOTA_EXCEEDED], words=["team-limit"])
async def resource_quota(bed: Bed) -> Ask:
    """A ResourceQuota leaves room for one of three replicas; the others are refused before they exist."""
    spec = {"hard": {"requests.cpu": "1500m"}}
    await bed.client.create(RESOURCE_QUOTAS, {"metadata": {"name": "team-limit", "namespace": NAMESPACE}, "spec": spec})
    await bed.rest(2)
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 3, "1"))
    await bed.must_have_ready("web", 1)
    await bed.rest(20)
    await _must_have_pods(bed, 1)
    return WEB


@fault("missing-priority-class", codes=[Cause.ADMISSION_REFUSED], words=["urgent"])
async def missing_priority_class(bed: Bed) -> Ask:
    """The template names a PriorityClass that is not there: each pod is refused at admission."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2, pod={"priorityClassName": "urgent"}))
    await bed.rest(20)
    await _must_have_pods(bed, 0)
    return WEB


@fault(
    "refused-at-the-door",
    codes=[Cause.INVALID, Cause.SELECTOR_MISMATCH, Cause.ADMISSION_REFUSED],
    words=["selector"],
)
async def refused_at_the_door(bed: Bed) -> Ask:
    """A Deployment whose selector does not fit its template was refused, and never was there."""
    deployer = await bed.as_user("pipeline")
    wrong = a_deployment("api", selector={"matchLabels": {"app": "other"}})
    try:
        await deployer.create(DEPLOYMENTS, wrong)
    except Invalid:
        await bed.rest(2)
        await bed.must_be_gone(DEPLOYMENTS, "api")
        return Ask(DEPLOYMENTS, "api")
    raise NotPlanted("it was accepted")


@fault("no-leader", codes=[Cause.NO_CONTROLLER, Cause.LEADER_LOST], words=["controller"])
async def no_leader(bed: Bed) -> Ask:
    """No controllers run, and no process holds their lease."""
    bed.world.programs[CONTROLLERS].crash()
    await bed.rest(20)
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.rest(30)
    await _must_have_pods(bed, 0)
    return WEB


@fault("controller-behind", codes=[Cause.STALE_VIEW, Cause.NOT_OBSERVED_YET], words=["generation 2", "deployment"])
async def controller_behind(bed: Bed) -> Ask:
    """The image was changed, and the controllers' watch on Deployments is late: they know of generation 1 only. (O3)"""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.must_have_ready("web", 2)
    bed.hold_back(CONTROLLERS, "apps/deployments/")
    await bed.client.patch(DEPLOYMENTS, "web", NAMESPACE, with_image("x:2"))
    await bed.rest(30)

    async def unseen() -> bool:
        web = await bed.client.get(DEPLOYMENTS, "web", NAMESPACE)
        return (web["metadata"]["generation"], web["status"]["observedGeneration"]) == (2, 1)

    await bed.must("generation 2 was not observed", unseen)
    return Ask(DEPLOYMENTS, "web", generation=2)


@fault("paused", codes=[Cause.ROLLOUT_PAUSED], words=["paused"])
async def paused(bed: Bed) -> Ask:
    """The Deployment was paused, and its image changed since."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.must_have_ready("web", 2)
    await bed.client.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"paused": True}})
    await bed.client.patch(DEPLOYMENTS, "web", NAMESPACE, with_image("x:2"))
    await bed.rest(20)
    await _must_not_roll(bed)
    return WEB


@fault("held-rollout", codes=[Cause.ROLLOUT_HELD], words=[OWNER, "INC-7"])
async def held_rollout(bed: Bed) -> Ask:
    """Break glass: a user holds the rollout."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.must_have_ready("web", 2)
    await hold(bed, HoldScope.ROLLOUT, {"name": "web", "namespace": NAMESPACE})
    await bed.client.patch(DEPLOYMENTS, "web", NAMESPACE, with_image("x:2"))
    await bed.rest(20)
    await _must_not_roll(bed)
    return WEB


@fault("held-controller", codes=[Cause.CONTROLLER_HELD], words=["replicaset", OWNER])
async def held_controller(bed: Bed) -> Ask:
    """Break glass: a user holds the controller of ReplicaSets; the Deployment was scaled since."""
    await bed.client.create(DEPLOYMENTS, a_deployment("web", 2))
    await bed.must_have_ready("web", 2)
    await hold(bed, HoldScope.CONTROLLER, {"name": "replicaset"})
    await bed.client.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"replicas": 4}})
    await bed.rest(20)
    await _must_have_pods(bed, 2)
    return WEB


@fault(
    "rollout-no-room",
    codes=[Cause.INSUFFICIENT_RESOURCES],
    words=["cpu"],
    nodes={"node-a": NodeOptions(), "node-b": NodeOptions()},
)
async def rollout_no_room(bed: Bed) -> Ask:
    """The cluster is full, and the rollout may not take a pod away first. Its deadline has passed."""
    await bed.client.create(PODS, a_pod("other", "4"))
    await bed.must_run("other")
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    web = a_deployment("web", 2, "2", strategy=strategy, progressDeadlineSeconds=60)
    await bed.client.create(DEPLOYMENTS, web)
    await bed.must_have_ready("web", 2)
    template = a_deployment("web", 2, "2", image="x:2")["spec"]["template"]
    await bed.client.patch(DEPLOYMENTS, "web", NAMESPACE, {"spec": {"template": template}})

    async def late() -> bool:
        found = condition(await bed.client.get(DEPLOYMENTS, "web", NAMESPACE), PROGRESSING)
        return found.get("reason") == TIMED_OUT

    await bed.must("the deadline of the rollout has passed", late, timedelta(minutes=5))
    return WEB


async def hold(bed: Bed, what: HoldScope, target: dict[str, str]) -> None:
    """As `mainstay hold` does it."""
    now = bed.world.sim.get_clock("admin").wall()
    spec: dict[str, Any] = {
        "what": what,
        "owner": OWNER,
        "reason": INCIDENT,
        "expiresAt": times.format_time(now + timedelta(hours=1)),
    }
    if target:
        spec["target"] = target
    await bed.client.create(HOLDS, {"metadata": {"name": "incident-7"}, "spec": spec})
    await bed.rest(3)


async def _must_have_pods(bed: Bed, count: int) -> None:
    async def so() -> bool:
        return len(await bed.pods("web")) == count

    await bed.must(f"web has {count} pods", so)


async def _must_not_roll(bed: Bed) -> None:
    async def so() -> bool:
        sets = (await bed.client.list(REPLICASETS, NAMESPACE)).items
        new = [each for each in sets if _image_of(each["spec"]["template"]) == "x:2"]
        pods = [_image_of(pod) for pod in await bed.pods("web")]
        return pods == ["x:1", "x:1"] and all(not each["spec"].get("replicas") for each in new)

    await bed.must("no pod of the new template was made", so)


def _image_of(template: dict[str, Any]) -> str:
    return str(template["spec"]["containers"][0]["image"])


FAULTS: Final = (
    resource_quota,
    missing_priority_class,
    refused_at_the_door,
    no_leader,
    controller_behind,
    paused,
    held_rollout,
    held_controller,
    rollout_no_room,
)
