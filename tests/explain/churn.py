"""People at work in a simulated cluster, at random: all kinds of things are wanted, changed and removed, one after the
other, so that every component has much to decide and some of it cannot be done."""

import random
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    DEPLOYMENTS,
    DISRUPTION_BUDGETS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    REPLICASETS,
    RESERVATIONS,
    RESOURCE_QUOTAS,
    SERVICES,
    ZONE_QUOTAS,
)
from mainstay.api.pod_security import ENFORCE
from mainstay.api.times import format_time
from mainstay.client.call import PatchType
from mainstay.client.client import Client
from mainstay.client.errors import ApiError
from mainstay.env import Clock, tasks
from mainstay.sim.cluster.cluster import NodeOptions

ZONE: Final = "topology.kubernetes.io/zone"
NAMES: Final = ("web", "api", "db", "batch", "cache")
SPACES: Final = ("default", "team-a", "team-b")
PERMISSIVE: Final = {ENFORCE: "privileged"}
"""Some pods use ports of the machine."""
NODE_WISHES: Final = {
    f"node-{zone}{number}": NodeOptions(
        zone=zone,
        labels={"disk": "ssd" if number == 1 else "hdd"},
        capacity={"cpu": "4", "memory": "8Gi", "pods": "12"},
    )
    for zone in "abc"
    for number in (1, 2)
}


class Churn:
    """`step` does one thing; whatever is refused is part of the game."""

    def __init__(self, client: Client, clock: Clock, seed: int) -> None:
        self.random = random.Random(seed)
        self.steps = 0
        self._client = client
        self._clock = clock
        self._made = 0
        self._things: tuple[Callable[[], Awaitable[Any]], ...] = (
            *(self._deploy,) * 4,
            *(self._scale,) * 4,
            *(self._roll_out,) * 3,
            self._undeploy,
            *(self._run_job,) * 2,
            self._bare_pod,
            *(self._delete_a_pod,) * 2,
            self._delete_by_force,
            self._set_of_replicas,
            self._serve,
            self._budget,
            self._quota,
            self._zone_quota,
            *(self._reserve,) * 2,
            self._delete_node,
            self._change_node,
            self._change_node,
            self._a_namespace,
            self._label_pods,
        )

    async def step(self) -> None:
        self.steps += 1
        with suppress(ApiError, TimeoutError):
            async with tasks.timeout(timedelta(seconds=5)):
                await self.random.choice(self._things)()

    # Workloads.

    def _place(self) -> tuple[str, str]:
        return self.random.choice(NAMES), self.random.choice(SPACES)

    def _number(self) -> int:
        self._made += 1
        return self._made

    def _pod_spec(self) -> Object:
        pick = self.random
        spec: Object = {
            "containers": [
                {
                    "name": "main",
                    "image": "x:1",
                    "resources": {
                        "requests": {"cpu": pick.choice(("100m", "250m", "500m", "1", "3", "9")), "memory": "128Mi"}
                    },
                }
            ],
            "terminationGracePeriodSeconds": pick.choice((0, 1, 2, 10)),
        }
        match pick.randrange(8):
            case 0:
                spec["nodeSelector"] = {"disk": pick.choice(("ssd", "hdd", "none"))}
            case 1:
                spec["topologySpreadConstraints"] = [
                    {
                        "maxSkew": 1,
                        "topologyKey": ZONE,
                        "whenUnsatisfiable": pick.choice(("DoNotSchedule", "ScheduleAnyway")),
                        "labelSelector": {"matchLabels": {"app": pick.choice(NAMES)}},
                    }
                ]
            case 2:
                spec["tolerations"] = [{"key": "dedicated", "operator": "Exists"}]
            case 3:
                term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
                spec["affinity"] = {
                    "nodeAffinity": {
                        "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 7, "preference": term}]
                    }
                }
            case 4:
                spec["containers"][0]["ports"] = [{"containerPort": 80, "hostPort": 8080}]
        return spec

    def _template(self, name: str, labels: Object | None = None) -> Object:
        return {"metadata": {"labels": {"app": name, **(labels or {})}}, "spec": self._pod_spec()}

    def _workload(self, name: str, namespace: str) -> Object:
        return {
            "metadata": {"name": name, "namespace": namespace},
            "spec": {
                "replicas": self.random.randrange(0, 7),
                "selector": {"matchLabels": {"app": name}},
                "template": self._template(name),
            },
        }

    async def _deploy(self) -> None:
        name, namespace = self._place()
        await self._client.create(DEPLOYMENTS, self._workload(name, namespace))

    async def _set_of_replicas(self) -> None:
        name, namespace = self._place()
        await self._client.create(REPLICASETS, self._workload(f"{name}-set", namespace))

    async def _scale(self) -> None:
        name, namespace = self._place()
        body = {"spec": {"replicas": self.random.randrange(0, 9)}}
        await self._client.patch(DEPLOYMENTS, name, namespace, body)

    async def _roll_out(self) -> None:
        name, namespace = self._place()
        template = self._template(name, {"version": str(self._number())})
        await self._client.patch(DEPLOYMENTS, name, namespace, {"spec": {"template": template}})

    async def _undeploy(self) -> None:
        name, namespace = self._place()
        kind = self.random.choice((DEPLOYMENTS, REPLICASETS, JOBS, SERVICES, DISRUPTION_BUDGETS))
        found = (await self._client.list(kind, namespace)).items
        if found:
            name = self.random.choice(found)["metadata"]["name"]
        await self._client.delete(kind, name, namespace)

    async def _run_job(self) -> None:
        name, namespace = self._place()
        spec = self._pod_spec()
        spec["restartPolicy"] = "Never"
        job = {
            "metadata": {"name": f"{name}-{self._number()}", "namespace": namespace},
            "spec": {
                "completions": self.random.randrange(1, 6),
                "parallelism": self.random.randrange(1, 4),
                "backoffLimit": 2,
                "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
            },
        }
        await self._client.create(JOBS, job)

    # Pods.

    async def _bare_pod(self) -> None:
        name, namespace = self._place()
        metadata = {"name": f"{name}-alone-{self._number()}", "namespace": namespace, "labels": {"app": name}}
        await self._client.create(PODS, {"metadata": metadata, "spec": self._pod_spec()})

    async def _a_pod(self) -> Object | None:
        found = (await self._client.list(PODS)).items
        return self.random.choice(found)["metadata"] if found else None

    async def _delete_a_pod(self) -> None:
        pod = await self._a_pod()
        if pod is not None:
            await self._client.delete(PODS, pod["name"], pod["namespace"])

    async def _delete_by_force(self) -> None:
        pod = await self._a_pod()
        if pod is not None:
            await self._client.delete(PODS, pod["name"], pod["namespace"], grace_s=0)

    async def _label_pods(self) -> None:
        pod = await self._a_pod()
        if pod is not None:
            body = {"metadata": {"labels": {"app": self.random.choice(NAMES)}}}
            await self._client.patch(PODS, pod["name"], pod["namespace"], body)

    # What is around them.

    async def _serve(self) -> None:
        name, namespace = self._place()
        spec = {"selector": {"app": name}, "ports": [{"port": 80}]}
        await self._client.create(SERVICES, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})

    async def _budget(self) -> None:
        name, namespace = self._place()
        spec = {"minAvailable": self.random.randrange(1, 4), "selector": {"matchLabels": {"app": name}}}
        made = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
        await self._client.create(DISRUPTION_BUDGETS, made)

    async def _quota(self) -> None:
        hard = {"hard": {"pods": str(self.random.randrange(4, 30))}}
        await self._ensure(RESOURCE_QUOTAS, "pods", "team-a", hard)

    async def _zone_quota(self) -> None:
        spec = {"zone": self.random.choice("abc"), "hard": {"cpu": str(self.random.randrange(1, 6))}}
        await self._ensure(ZONE_QUOTAS, "cpu", "team-b", spec)

    async def _ensure(self, kind: KindName, name: str, namespace: str, spec: Object) -> None:
        if any(each["metadata"]["name"] == name for each in (await self._client.list(kind, namespace)).items):
            await self._client.delete(kind, name, namespace)
        else:
            await self._client.create(kind, {"metadata": {"name": name, "namespace": namespace}, "spec": spec})

    async def _reserve(self) -> None:
        name, namespace = self._place()
        found = (await self._client.list(DEPLOYMENTS, namespace)).items
        owner = self.random.choice(found)["metadata"] if found else {"name": name, "uid": "gone"}
        spec = {
            "nodeName": self.random.choice(list(NODE_WISHES)),
            "resources": {"cpu": "1"},
            "workload": {"apiVersion": "apps/v1", "kind": "Deployment", "name": owner["name"], "uid": owner["uid"]},
            "intent": f"room-{self._number()}",
            "expiresAt": format_time(self._clock.wall() + timedelta(minutes=5)),
        }
        made = {"metadata": {"namespace": namespace}, "spec": spec}
        await self._client.create(RESERVATIONS, made)

    async def _change_node(self) -> None:
        node = self.random.choice(list(NODE_WISHES))
        match self.random.randrange(4):
            case 0:
                body: Object = {"spec": {"unschedulable": self.random.random() < 0.3}}
            case 1:
                has_taint = self.random.random() < 0.4
                taints = [{"key": "dedicated", "value": "x", "effect": "NoSchedule"}] if has_taint else []
                body = {"spec": {"taints": taints}}
            case 2:
                has_taint = self.random.random() < 0.2
                taints = [{"key": "leave", "value": "now", "effect": "NoExecute"}] if has_taint else []
                body = {"spec": {"taints": taints}}
            case _:
                body = {"metadata": {"labels": {"disk": self.random.choice(("ssd", "hdd"))}}}
        await self._client.patch(NODES, node, "", body, type=PatchType.MERGE)

    async def _delete_node(self) -> None:
        if self.random.random() < 0.3:
            await self._client.delete(NODES, self.random.choice(list(NODE_WISHES)))

    async def _a_namespace(self) -> None:
        name = self.random.choice(("team-c", "team-d", "team-b"))
        there = [each["metadata"]["name"] for each in (await self._client.list(NAMESPACES)).items]
        if name not in there:
            await self._client.create(NAMESPACES, {"metadata": {"name": name, "labels": PERMISSIVE}})
        elif self.random.random() < 0.3:
            await self._client.delete(NAMESPACES, name)
