"""`risk-api` as the text tells of it (SPEC O4, O5, O8): three zones, a quota that stops it in one, an autoscaler.

Its pods are spread over the zones, at most three more in one than in another. In zone-c a quota of the tenant leaves no
room, because a batch of the same tenant uses it up. So of eight replicas two wait: zones a and b are refused by the
spreading, and zone-c by the quota.

`Autoscaler` stands in for the real one (controllers/autoscaler/): a controller of its own, in a process of its own,
that adds replicas when too few are ready for too long. The text's timeline depends on that rule, which the real one
does not have.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, NAMESPACES, ZONE_QUOTAS
from mainstay.api.object_key import ObjectKey
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.loop.controller import Controller
from mainstay.loop.decision import Decision, Patch, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View
from mainstay.sim.cluster.world import World

TENANT: Final = "risk"
NAME: Final = "risk-api"
BATCH: Final = "risk-batch"
QUOTA: Final = "risk-zone-c"
SCHEDULER: Final = "scheduler-1"
AUTOSCALER: Final = "autoscaler"
QUOTA_CONTROLLER: Final = "quota-controller"
ZONES: Final[Mapping[str, str]] = {
    "node-a1": "zone-a",
    "node-a2": "zone-a",
    "node-b1": "zone-b",
    "node-b2": "zone-b",
    "node-c11": "zone-c",
    "node-c12": "zone-c",
}
READY_AT_FIRST: Final = 6
WANTED: Final = 8
_QUOTAS_PREFIX: Final = "mainstay.dev/zonequotas/"


@dataclass(frozen=True, slots=True)
class Since:
    at: datetime


class Autoscaler(Controller):
    """Adds two replicas when some have not been ready for a while. Knows nothing of quotas."""

    name = AUTOSCALER
    kind = DEPLOYMENTS
    writes = (DEPLOYMENTS,)

    patience = timedelta(seconds=6)
    replicas_max = 10

    def decide(self, view: View, key: ObjectKey, memory: Since | None) -> Decision:
        found = view.get(DEPLOYMENTS, key)
        if found is None or key.name != NAME:
            return Decision()
        wanted = found["spec"]["replicas"]
        ready = (found.get("status") or {}).get("readyReplicas") or 0
        if ready >= wanted or wanted >= self.replicas_max:
            return Decision()
        since = memory or Since(view.now)
        if view.now < since.at + self.patience:
            return Decision(result=WakeAt(since.at + self.patience, "LowReadyReplicas"), memory=since)
        more = min(wanted + 2, self.replicas_max)
        patch = Patch(
            DEPLOYMENTS, key, found["metadata"]["uid"], {"spec": {"replicas": more}}, freshness=Freshness.MAY_BE_STALE
        )
        return Decision((patch,), reasons=(f"LowReadyReplicas: {ready} of {wanted} are ready",))


def risk_api(replicas: int) -> Object:
    spread = {
        "maxSkew": 3,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": NAME}},
    }
    return _workload(NAME, replicas, {"topologySpreadConstraints": [spread]})


def risk_batch() -> Object:
    """Uses up what the quota of zone-c leaves."""
    return _workload(BATCH, 2, {"nodeSelector": {ZONE_LABEL: "zone-c"}})


def _workload(name: str, replicas: int, more: Mapping[str, Any]) -> Object:
    labels = {"app": name}
    container = {"name": "main", "image": f"{name}:1", "resources": {"requests": {"cpu": "1"}}}
    spec = {"containers": [container], "terminationGracePeriodSeconds": 2, **more}
    return {
        "metadata": {"name": name, "namespace": TENANT},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def risk_quota(cpu: str) -> Object:
    return {"metadata": {"name": QUOTA, "namespace": TENANT}, "spec": {"zone": "zone-c", "hard": {"cpu": cpu}}}


async def set_up(client: Client) -> None:
    """The tenant, its quota, and both workloads."""
    await client.create(NAMESPACES, {"metadata": {"name": TENANT}})
    await client.create(ZONE_QUOTAS, risk_quota("2"))
    await client.create(DEPLOYMENTS, risk_batch())


async def free_capacity(client: Client, cpu: str = "4") -> Object:
    """What the quota controller does: the tenant may use more in zone-c."""
    write = WriteOptions(field_manager=QUOTA_CONTROLLER)
    return await client.patch(ZONE_QUOTAS, QUOTA, TENANT, {"spec": {"hard": {"cpu": cpu}}}, write=write)


def hold_quota_watch(world: World) -> int:
    """From now on the scheduler hears nothing of quotas, until `release_quota_watch`. Says how many watches it held."""
    held = 0
    for gate in world.gates.values():
        for tap in gate.taps.values():
            if tap.who == SCHEDULER and tap.prefix == _QUOTAS_PREFIX:
                tap.hold()
                held += 1
    return held


def release_quota_watch(world: World) -> None:
    for gate in world.gates.values():
        for tap in list(gate.taps.values()):
            if tap.who == SCHEDULER and tap.prefix == _QUOTAS_PREFIX:
                tap.release()
