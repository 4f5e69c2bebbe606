"""`risk-api` as the text tells of it (SPEC O4, O5, O8): three zones, a quota that stops it in one, an autoscaler.

Its pods are spread over the zones, at most three more in one than in another. In zone-c a quota of the tenant leaves no
room, because a batch of the same tenant uses it up. So of eight replicas two wait: zones a and b are refused by the
spreading, and zone-c by the quota.

It has a HorizontalPodAutoscaler: half of the core that a pod requests is what it should use.
"""

from collections.abc import Mapping
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, NAMESPACES, ZONE_QUOTAS
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.client.call import WriteOptions
from mainstay.client.client import Client
from mainstay.scenarios._held_watch import HeldWatch
from mainstay.sim.cluster.world import World

TENANT: Final = "risk"
NAME: Final = "risk-api"
BATCH: Final = "risk-batch"
QUOTA: Final = "risk-zone-c"
SCHEDULER: Final = "scheduler-1"
QUOTA_CONTROLLER: Final = "quota-controller"
ZONES: Final[Mapping[str, str]] = {
    "node-a1": "zone-a",
    "node-a2": "zone-a",
    "node-b1": "zone-b",
    "node-b2": "zone-b",
    "node-c11": "zone-c",
    "node-c12": "zone-c",
}
BATCH_PODS: Final = 2
READY_AT_FIRST: Final = 6
WANTED: Final = 8
MOST: Final = 10
PERCENT: Final = 50
CORE: Final = 10**9
PER_POD: Final = CORE * PERCENT // 100
"""What a pod should use, in billionths of a core."""
_QUOTAS_PREFIX: Final = "mainstay.dev/zonequotas/"


def risk_api(replicas: int) -> Object:
    spread = {
        "maxSkew": 3,
        "topologyKey": ZONE_LABEL,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": NAME}},
    }
    return _workload(NAME, replicas, {"topologySpreadConstraints": [spread]})


def risk_autoscaler() -> Object:
    target = {"type": "Utilization", "averageUtilization": PERCENT}
    return {
        "metadata": {"name": NAME, "namespace": TENANT},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": NAME},
            "minReplicas": READY_AT_FIRST,
            "maxReplicas": MOST,
            "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": target}}],
        },
    }


def risk_batch() -> Object:
    """Uses up what the quota of zone-c leaves."""
    return _workload(BATCH, BATCH_PODS, {"nodeSelector": {ZONE_LABEL: "zone-c"}})


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


def build_quota_watch(world: World) -> HeldWatch:
    """To let the scheduler hear nothing of quotas for a while."""
    return HeldWatch(world, SCHEDULER, _QUOTAS_PREFIX)
