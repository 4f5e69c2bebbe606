"""Pods, workloads and nodes that mention only what matters."""

from collections.abc import Mapping
from datetime import timedelta
from ipaddress import IPv4Network
from typing import Any, Final

from mainstay.agent.settings import AgentSettings
from mainstay.api.kind import Object
from mainstay.api.well_known_labels import ZONE_LABEL
from mainstay.sim.cluster.cluster import NODE_LEASE

NAMESPACE: Final = "default"
COMMAND: Final = ("work",)


def a_pod(name: str, cpu: str = "100m", *, container: Mapping[str, Any] | None = None, **spec: Any) -> Object:
    metadata = {"name": name, "namespace": NAMESPACE, "labels": {"app": name}}
    return {"metadata": metadata, "spec": _pod_spec(cpu, container, spec)}


def a_deployment(
    name: str,
    replicas: int = 1,
    cpu: str = "100m",
    *,
    image: str = "x:1",
    container: Mapping[str, Any] | None = None,
    pod: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Object:
    labels = {"app": name}
    pod_spec = _pod_spec(cpu, {"image": image, **(container or {})}, pod or {})
    return {
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": pod_spec},
            **spec,
        },
    }


def with_image(image: str) -> Object:
    """A change to another image."""
    return {"spec": {"template": {"spec": {"containers": [{**_container("100m"), "image": image}]}}}}


def an_acting_node(name: str, number: int, zone: str = "a", cpu: str = "4") -> AgentSettings:
    """A node that does all that agents do: probes, ConfigMaps, volumes, Events. Only its containers are pretended."""
    return AgentSettings(
        name=name,
        labels={ZONE_LABEL: zone},
        capacity={"cpu": cpu, "memory": "8Gi"},
        pod_cidr=IPv4Network(f"10.128.{number}.0/24"),
        host_address=f"10.128.{number}.1",
        lease=NODE_LEASE,
        status_every=timedelta(minutes=5),
    )


def _container(cpu: str) -> dict[str, Any]:
    requests = {"requests": {"cpu": cpu}} if cpu else {}
    return {"name": "main", "image": "x:1", "command": list(COMMAND), "resources": requests}


def _pod_spec(cpu: str, container: Mapping[str, Any] | None, spec: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "containers": [{**_container(cpu), **(container or {})}],
        "terminationGracePeriodSeconds": 2,
        **spec,
    }
