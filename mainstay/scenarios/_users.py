"""What users do to a cluster, as a small set of named deeds (_swarm.py).

Names are few, so they come again. What operators do to nodes is in _operators.py.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api.annotations import AT_MOST_ONE
from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import CONFIG_MAPS, DEPLOYMENTS, JOBS, NAMESPACES, PODS, REPLICASETS, RESERVATIONS
from mainstay.api.reservations import reservation_name
from mainstay.api.times import format_time
from mainstay.api.well_known_labels import NOT_READY_TAINT, UNREACHABLE_TAINT
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, NotFound
from mainstay.env import tasks
from mainstay.scenarios._stages import NAMESPACE
from mainstay.scenarios._swarm import SwarmStage

CPU: Final = ("100m", "250m", "500m")

WELL: Final = ("work:1", "work:2", "work:3")
BROKEN: Final = "broken:1"
"""Its containers fail as soon as they run."""
PASSING: Final = "passing:1"
"""Its containers end well after a while."""

HIGH: Final = "high"
"""A PriorityClass, which is there from the beginning."""
SETS: Final = ("web-0", "web-1")
APPS: Final = ("app-0", "app-1")
BATCHES: Final = ("job-0", "job-1")
TASKS: Final = ("task-0", "task-1", "task-2")
SINGLES: Final = ("single-0", "single-1")
PLANS: Final = ("plan-0", "plan-1")
TEAM: Final = "team"
"""A namespace that comes and goes."""
WAYS: Final = (Propagation.BACKGROUND, Propagation.FOREGROUND, Propagation.ORPHAN)
PATIENCE_S: Final = 5
"""How long pods stay on a node that was released."""
_DAY: Final = timedelta(days=1)
_A_LITTLE: Final = timedelta(seconds=1)


# Objects.


def a_pod_spec(image: str = WELL[0], cpu: str = CPU[0], **more: Any) -> dict[str, Any]:
    tolerations = [
        {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": PATIENCE_S}
        for key in (UNREACHABLE_TAINT, NOT_READY_TAINT)
    ]
    return {
        "containers": [{"name": "main", "image": image, "resources": {"requests": {"cpu": cpu}}}],
        "terminationGracePeriodSeconds": 2,
        "tolerations": tolerations,
        **more,
    }


def a_workload(name: str, replicas: int, spec: Mapping[str, Any], **more: Any) -> Object:
    """A ReplicaSet or a Deployment."""
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": spec}
    wanted = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template, **more}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": wanted}


def a_single(name: str, spec: Mapping[str, Any]) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE, "annotations": {AT_MOST_ONE: "true"}}
    return {"metadata": metadata, "spec": spec}


def a_job(name: str, spec: Mapping[str, Any], parallelism: int) -> Object:
    template = {"spec": {**spec, "restartPolicy": "Never"}}
    wanted = {"completions": 2, "parallelism": parallelism, "backoffLimit": 4, "template": template}
    return {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": wanted}


def an_autoscaler(app: str) -> Object:
    """Of a Deployment, by what its pods use. It waits for a while only, so that it comes to rest soon."""
    target = {"type": "Utilization", "averageUtilization": 50}
    spec = {
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": app},
        "minReplicas": 1,
        "maxReplicas": 4,
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 15}},
        "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
    }
    return {"metadata": {"name": app, "namespace": NAMESPACE}, "spec": spec}


def _some_spec(stage: SwarmStage, image: str = WELL[0]) -> dict[str, Any]:
    more: dict[str, Any] = {}
    if stage.options.has_priorities and stage.choose("priority", 2):
        more["priorityClassName"] = HIGH
    return a_pod_spec(image, CPU[stage.choose("cpu", len(CPU))], **more)


def some_replicas(stage: SwarmStage) -> int:
    return 1 + stage.choose("replicas", stage.options.replicas_max)


# Deeds about workloads.


async def submit_set(stage: SwarmStage, client: Client) -> None:
    name = SETS[stage.choose("which set", len(SETS))]
    with suppress(AlreadyExists):
        await client.create(REPLICASETS, a_workload(name, some_replicas(stage), _some_spec(stage)))


async def submit_app(stage: SwarmStage, client: Client) -> None:
    name = APPS[stage.choose("which app", len(APPS))]
    with suppress(AlreadyExists):
        await client.create(DEPLOYMENTS, a_workload(name, some_replicas(stage), _some_spec(stage)))


async def submit_job(stage: SwarmStage, client: Client) -> None:
    name = BATCHES[stage.choose("which job", len(BATCHES))]
    with suppress(AlreadyExists):
        await client.create(JOBS, a_job(name, _some_spec(stage, PASSING), 1 + stage.choose("parallelism", 2)))


async def submit_task(stage: SwarmStage, client: Client) -> None:
    """A pod without a controller."""
    name = TASKS[stage.choose("which task", len(TASKS))]
    with suppress(AlreadyExists):
        await client.create(PODS, {"metadata": {"name": name, "namespace": NAMESPACE}, "spec": _some_spec(stage)})


async def submit_single(stage: SwarmStage, client: Client) -> None:
    """A pod of which never two may run. Its user creates it again when it is gone."""
    name = SINGLES[stage.choose("which single", len(SINGLES))]
    stage.singles[name] = None
    await ensure_singles(client, [name])


async def ensure_singles(client: Client, names: Sequence[str]) -> None:
    for name in names:
        with suppress(AlreadyExists):
            await client.create(PODS, a_single(name, a_pod_spec()))


async def scale_set(stage: SwarmStage, client: Client) -> None:
    name = SETS[stage.choose("which set", len(SETS))]
    await client.patch(REPLICASETS, name, NAMESPACE, {"spec": {"replicas": stage.choose("scale", 5)}})


async def scale_app(stage: SwarmStage, client: Client) -> None:
    name = APPS[stage.choose("which app", len(APPS))]
    await client.patch(DEPLOYMENTS, name, NAMESPACE, {"spec": {"replicas": stage.choose("scale", 5)}})


async def roll(stage: SwarmStage, client: Client) -> None:
    """To another image, which may be one that cannot work; sometimes on, or back, before that is done."""
    name = APPS[stage.choose("which app", len(APPS))]
    images = (*WELL, BROKEN)
    await client.patch(DEPLOYMENTS, name, NAMESPACE, with_image(images[stage.choose("image", len(images))]))


async def roll_back(stage: SwarmStage, client: Client) -> None:
    name = APPS[stage.choose("which app", len(APPS))]
    await client.patch(DEPLOYMENTS, name, NAMESPACE, with_image(WELL[0]))


async def delete_pod(stage: SwarmStage, client: Client) -> None:
    """Any of those that are there."""
    pods = (await client.list(PODS, NAMESPACE)).items
    if pods:
        metadata = pods[stage.choose("which pod", len(pods))]["metadata"]
        await client.delete(PODS, metadata["name"], NAMESPACE, uid=metadata["uid"])


async def delete_workload(stage: SwarmStage, client: Client) -> None:
    """In one of the three ways. One that is being deleted in one way is not told another."""
    kinds: tuple[tuple[KindName, Sequence[str]], ...] = ((DEPLOYMENTS, APPS), (REPLICASETS, SETS), (JOBS, BATCHES))
    kind, names = kinds[stage.choose("delete what", len(kinds))]
    found = await client.get(kind, names[stage.choose("delete which", len(names))], NAMESPACE)
    metadata = found["metadata"]
    if "deletionTimestamp" not in metadata:
        # The pods of a job are released by the controller that counts them, so they are not to stay behind.
        way = WAYS[stage.choose("way", len(WAYS) - (kind == JOBS))]
        await client.delete(kind, metadata["name"], NAMESPACE, uid=metadata["uid"], propagation=way)


async def plan_ahead(stage: SwarmStage, client: Client) -> None:
    """Room is reserved for a workload that comes later, or never."""
    name = PLANS[stage.choose("which plan", len(PLANS))]
    with suppress(AlreadyExists):
        await client.create(DEPLOYMENTS, a_workload(name, 0, a_pod_spec()))
    made = await client.get(DEPLOYMENTS, name, NAMESPACE)
    workload = {"kind": "Deployment", "name": name, "uid": made["metadata"]["uid"]}
    intent = f"replica-{stage.choose('which intent', 3)}"
    nodes = sorted(stage.world.machines)
    spec = {
        "nodeName": nodes[stage.choose("reserve where", len(nodes))],
        "workload": workload,
        "generation": 1,
        "intent": intent,
        "resources": {"cpu": CPU[0]},
        "expiresAt": format_time(stage.world.sim.clock.wall() + _DAY),
    }
    metadata = {"name": reservation_name(workload, 1, intent), "namespace": NAMESPACE}
    with suppress(AlreadyExists):
        await client.create(RESERVATIONS, {"metadata": metadata, "spec": spec})


async def give_up_plan(stage: SwarmStage, client: Client) -> None:
    name = PLANS[stage.choose("which plan", len(PLANS))]
    with suppress(NotFound):
        await client.delete(DEPLOYMENTS, name, NAMESPACE, propagation=Propagation.BACKGROUND)


async def come_and_go(stage: SwarmStage, client: Client) -> None:
    """A namespace with something in it, which is then deleted, or one that is there is; and another user, who has not
    heard of that, creates something in it at the same time."""
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": TEAM}})
    spec = a_workload("web", 1 + stage.choose("team replicas", 2), a_pod_spec())
    with suppress(AlreadyExists):
        await client.create(REPLICASETS, {**spec, "metadata": {"name": "web", "namespace": TEAM}}, TEAM)
    await tasks.sleep(_A_LITTLE * stage.choose("team stays", 4))
    if stage.choose("team goes", 2):
        await tasks.together([_delete_team(client), _join_team(stage, client)], name="team")


async def _delete_team(client: Client) -> None:
    await client.delete(NAMESPACES, TEAM)


async def _join_team(stage: SwarmStage, client: Client) -> None:
    for number in range(stage.choose("others join", 4)):
        await tasks.sleep(_A_LITTLE / 4 * stage.choose("others wait", 4))
        with suppress(ApiError):  # The namespace may be gone, or going.
            metadata = {"name": f"other-{number}", "namespace": TEAM}
            await client.create(CONFIG_MAPS, {"metadata": metadata})


def with_image(image: str) -> Object:
    """A change to another image. A patch of a list takes its place, so all of it is said."""
    return {"spec": {"template": {"spec": a_pod_spec(image)}}}


async def mend(client: Client) -> None:
    """At the end no user wants what cannot work. Of what was left behind when its owner went, the user lets go."""
    for app in (await client.list(DEPLOYMENTS, NAMESPACE)).items:
        if _is_broken(app["spec"]["template"]):
            with suppress(NotFound):
                await client.patch(DEPLOYMENTS, app["metadata"]["name"], NAMESPACE, with_image(WELL[0]))
    for each in (await client.list(REPLICASETS, NAMESPACE)).items:
        if _is_broken(each["spec"]["template"]) and not each["metadata"].get("ownerReferences"):
            with suppress(NotFound):
                await client.delete(REPLICASETS, each["metadata"]["name"], NAMESPACE, propagation=WAYS[0])
    for pod in (await client.list(PODS, NAMESPACE)).items:
        if _is_broken(pod) and not pod["metadata"].get("ownerReferences"):
            with suppress(NotFound):
                await client.delete(PODS, pod["metadata"]["name"], NAMESPACE)


def _is_broken(template: Object) -> bool:
    return bool(template["spec"]["containers"][0]["image"] == BROKEN)
