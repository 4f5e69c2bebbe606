"""What operators do to nodes, and what they allow: the deeds of _users.py for those who run a cluster.

Machines change, lose their power and come back; operators cordon, drain, taint or delete a node; quotas and policies
change. `put_in_order` undoes what would keep pods from running.
"""

from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.holds import HoldScope
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import NODES, PODS, PRIORITY_CLASSES, RESOURCE_QUOTAS, SAMPLING_POLICIES, ZONE_QUOTAS
from mainstay.api.node_health import OUT_OF_SERVICE
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, Conflict, NotFound
from mainstay.scenarios._holds import hold
from mainstay.scenarios._stages import NAMESPACE
from mainstay.scenarios._swarm import SwarmStage, UserAction
from mainstay.scenarios._users import APPS, HIGH

CPUS: Final = ("4", "2", "1", "6")
"""What a machine may have. The first is what each has in the beginning and in the end."""
AWAY: Final = tuple(timedelta(seconds=seconds) for seconds in (3, 12, 60, 90))
"""How long a machine is off. Longer than a lease, and it is taken for lost."""
HELD_FOR: Final = tuple(timedelta(seconds=seconds) for seconds in (3, 8, 15))
PODS_MAX: Final = ("20", "6", "3")
KEPT: Final = {"key": "example.dev/kept", "effect": "NoSchedule"}
OFF: Final = {"key": OUT_OF_SERVICE, "effect": "NoExecute"}
QUOTA: Final = "limit"
_HELD: Final = ("replicaset", "deployment", "scheduler")


def _some_node(stage: SwarmStage) -> str:
    nodes = sorted(stage.world.machines)
    return nodes[stage.choose("which node", len(nodes))]


async def cordon(stage: SwarmStage, client: Client) -> None:
    is_cordoned = bool(stage.choose("cordoned", 2))
    await client.patch(NODES, _some_node(stage), "", {"spec": {"unschedulable": is_cordoned}})


async def close_all(stage: SwarmStage, client: Client) -> None:
    """For a while no node takes pods, or all do again."""
    is_closed = bool(stage.choose("closed", 2))
    for name in sorted(stage.world.machines):
        with suppress(NotFound):
            await client.patch(NODES, name, "", {"spec": {"unschedulable": is_closed or None}})


async def drain(stage: SwarmStage, client: Client) -> None:
    """Cordon a node, and ask each pod on it to go. What a budget does not allow stays."""
    node = _some_node(stage)
    await client.patch(NODES, node, "", {"spec": {"unschedulable": True}})
    for pod in (await client.list(PODS, NAMESPACE, fields=f"spec.nodeName={node}")).items:
        if pod_state.is_active(pod):
            with suppress(ApiError):
                await evict(client, pod["metadata"]["name"])


async def evict_some(stage: SwarmStage, client: Client) -> None:
    """Until a budget says no."""
    pods = [pod for pod in (await client.list(PODS, NAMESPACE)).items if pod_state.is_ready(pod)]
    first = stage.choose("evict which", max(1, len(pods)))
    for pod in [*pods[first:], *pods[:first]][:3]:
        await evict(client, pod["metadata"]["name"])


async def evict(client: Client, name: str) -> None:
    metadata = {"name": name, "namespace": NAMESPACE}
    eviction = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": metadata}
    await client.create(PODS, eviction, NAMESPACE, subresource="eviction")


async def taint(stage: SwarmStage, client: Client) -> None:
    await _set_taint(client, _some_node(stage), KEPT, is_on=bool(stage.choose("tainted", 2)))


async def _set_taint(client: Client, name: str, taint: Mapping[str, str], *, is_on: bool) -> None:
    node = await client.get(NODES, name)
    spec = node.get("spec") or {}
    others = [each for each in spec.get("taints") or () if each.get("key") != taint["key"]]
    taints = [*others, taint] if is_on else others
    if taints != (spec.get("taints") or []):
        # On condition that it has not changed: others write taints too.
        await client.replace(NODES, {**node, "spec": {**spec, "taints": taints}})


async def relabel(stage: SwarmStage, client: Client) -> None:
    labels = {"tier": ("front", "back")[stage.choose("tier", 2)]}
    await client.patch(NODES, _some_node(stage), "", {"metadata": {"labels": labels}})


async def resize(stage: SwarmStage, client: Client) -> None:
    """A machine is stopped, and comes back with another size. What runs there starts again."""
    _resize(stage, _some_node(stage), CPUS[stage.choose("size", len(CPUS))])


def _resize(stage: SwarmStage, name: str, cpus: str) -> None:
    stage.sizes[name]["cpu"] = cpus
    power_off(stage, name, AWAY[0])


async def switch_off(stage: SwarmStage, client: Client) -> None:
    power_off(stage, _some_node(stage), AWAY[stage.choose("off for", len(AWAY))])


def power_off(stage: SwarmStage, name: str, duration: timedelta) -> None:
    """Without notice, as when a cable is pulled."""
    world = stage.world
    world.faults.note(f"{name} is without power for {duration}")
    world.programs[name].crash(silently=True)
    world.machines[name].reboot()
    world.after(duration, lambda: stage.come_back(name))


async def forget_node(stage: SwarmStage, client: Client) -> None:
    """A machine is switched off, and its Node deleted. If it comes back, it registers again. Should it be back before
    the Node can be deleted, that stays: a machine that is running does not register again."""
    name = _some_node(stage)
    with suppress(NotFound, Conflict):
        node = await client.get(NODES, name)
        power_off(stage, name, AWAY[stage.choose("off for", len(AWAY))])
        await client.delete(NODES, name, resource_version=node["metadata"]["resourceVersion"])


async def set_quota(stage: SwarmStage, client: Client) -> None:
    hard = {"pods": PODS_MAX[stage.choose("pods max", len(PODS_MAX))]}
    spec = {"hard": {**hard, "requests.cpu": "8"} if stage.choose("cpu too", 2) else hard}
    await ensure(client, RESOURCE_QUOTAS, QUOTA, {"spec": spec}, NAMESPACE)


async def set_zone_quota(stage: SwarmStage, client: Client) -> None:
    zone = "abc"[stage.choose("which zone", 3)]
    spec = {"zone": zone, "hard": {"requests.cpu": ("8", "1")[stage.choose("zone cpu", 2)]}}
    await ensure(client, ZONE_QUOTAS, f"{QUOTA}-{zone}", {"spec": spec}, NAMESPACE)


async def set_policies(stage: SwarmStage, client: Client) -> None:
    """Another worth of a priority, or other rules for what is recorded."""
    if stage.choose("which policy", 2):
        rules = [{"name": "quiet", "when": {"noops": True}, "keep": ("full", "nothing")[stage.choose("keep", 2)]}]
        await ensure(client, SAMPLING_POLICIES, "default", {"spec": {"rules": rules}})
        return
    # Its value cannot be changed, so it goes and comes; meanwhile pods that name it are refused.
    with suppress(NotFound):
        await client.delete(PRIORITY_CLASSES, HIGH)
    await client.create(PRIORITY_CLASSES, {"metadata": {"name": HIGH}, "value": 1000 + stage.choose("value", 3)})


async def hold_something(stage: SwarmStage, client: Client) -> None:
    """Break glass, for some seconds."""
    length = HELD_FOR[stage.choose("held for", len(HELD_FOR))]
    match stage.choose("hold what", 3):
        case 0:
            target = _HELD[stage.choose("hold whom", len(_HELD))]
            await hold(stage.world, client, HoldScope.CONTROLLER, length, target=target)
        case 1:
            await hold(stage.world, client, HoldScope.EVICTIONS, length, namespace=NAMESPACE)
        case _:
            app = APPS[stage.choose("which app", len(APPS))]
            await hold(stage.world, client, HoldScope.ROLLOUT, length, target=app, namespace=NAMESPACE)


async def ensure(client: Client, kind: KindName, name: str, body: Object, namespace: str = "") -> None:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    try:
        await client.create(kind, {"metadata": metadata, **body}, namespace)
    except AlreadyExists:
        await client.patch(kind, name, namespace, body)


async def open_all(stage: SwarmStage, client: Client) -> None:
    """Let nothing stand in the way of pods any more."""
    for name, size in stage.sizes.items():
        if size["cpu"] != CPUS[0] and name not in stage.world.lost:
            _resize(stage, name, CPUS[0])
        with suppress(NotFound):
            await _set_taint(client, name, KEPT, is_on=False)
            await client.patch(NODES, name, "", {"spec": {"unschedulable": None}})
        if name in stage.world.lost and stage.options.says_lost:
            stage.world.machines[name].reboot()  # It is off, and so is what ran there.
            with suppress(NotFound):
                await _set_taint(client, name, OFF, is_on=True)
    for kind in (RESOURCE_QUOTAS, ZONE_QUOTAS):
        for found in (await client.list(kind, NAMESPACE)).items:
            with suppress(NotFound):
                await client.delete(kind, found["metadata"]["name"], NAMESPACE)
    with suppress(AlreadyExists):
        await client.create(PRIORITY_CLASSES, {"metadata": {"name": HIGH}, "value": 1000})


USUAL: Final = (
    UserAction("cordon", 2, cordon),
    UserAction("drain", 2, drain),
    UserAction("close-all", 2, close_all),
    UserAction("evict", 2, evict_some),
    UserAction("taint", 1, taint),
    UserAction("relabel", 1, relabel),
    UserAction("resize", 1, resize),
    UserAction("switch-off", 1, switch_off),
    UserAction("forget-node", 1, forget_node),
    UserAction("quota", 1, set_quota),
    UserAction("zone-quota", 1, set_zone_quota),
)
"""What operators do in every world."""
