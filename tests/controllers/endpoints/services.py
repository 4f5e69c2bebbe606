"""Services, their pods and slices for tests. Only what matters has to be said."""

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any

from mainstay.api.kind_names import ENDPOINT_SLICES, ENDPOINTS, NODES, PODS, SERVICES
from mainstay.api.well_known_labels import SERVICE_NAME
from mainstay.controllers.endpoints.routes import Port
from mainstay.controllers.endpoints.slices import MANAGED_BY, MANAGER
from mainstay.loop.controller import Controller
from mainstay.loop.view import View
from tests.controllers.objects import NOON, at

Object = dict[str, Any]

HTTP = Port("http", "TCP", 8080)


def a_service(
    name: str = "web",
    *,
    uid: str = "svc",
    selector: dict[str, str] | None = None,
    ports: Sequence[Object] = ({"name": "http", "port": 80, "targetPort": 8080, "protocol": "TCP"},),
    labels: dict[str, str] | None = None,
    **spec: Any,
) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default", "uid": uid, "labels": labels or {}},
        "spec": {"selector": {"app": "web"} if selector is None else selector, "ports": list(ports), **spec},
    }


def a_pod(
    name: str,
    address: str = "10.0.0.1",
    *,
    ready: bool = True,
    leaving: bool = False,
    phase: str = "Running",
    node: str = "n1",
    addresses: Sequence[str] = (),
    labels: dict[str, str] | None = None,
    ports: Sequence[Object] = (),
    serving: str = "",
    generation: int = 1,
    ready_at: float = -60,
    **spec: Any,
) -> Object:
    """A pod whose uid is its name."""
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "generation": generation,
        "labels": {"app": "web"} if labels is None else labels,
        "creationTimestamp": at(-120),
    }
    if leaving:
        metadata["deletionTimestamp"] = at(30)
    conditions = [{"type": "Ready", "status": str(ready), "lastTransitionTime": at(ready_at)}]
    if serving:
        conditions.append({"type": "mainstay.dev/Serving", "status": serving, "lastTransitionTime": at(-30)})
    status: Object = {"phase": phase, "conditions": conditions}
    given = [*addresses] or ([address] if address else [])
    if given:
        status |= {"podIP": given[0], "podIPs": [{"ip": each} for each in given]}
    container = {"name": "main", "image": "web:1", "ports": list(ports)}
    return {"metadata": metadata, "spec": {"nodeName": node, "containers": [container], **spec}, "status": status}


def an_endpoint(
    pod: str, address: str = "10.0.0.1", *, ready: bool = True, serving: bool | None = None, terminating: bool = False
) -> Object:
    """As it stands in a slice."""
    return {
        "addresses": [address],
        "conditions": {"ready": ready, "serving": ready if serving is None else serving, "terminating": terminating},
        "targetRef": {"kind": "Pod", "namespace": "default", "name": pod, "uid": pod},
        "nodeName": "n1",
    }


def a_slice(
    name: str,
    endpoints: Iterable[Object] = (),
    *,
    service: str = "web",
    owner: str = "svc",
    ports: Sequence[Port] = (HTTP,),
    family: str = "IPv4",
    manager: str = MANAGER,
    labels: dict[str, str] | None = None,
) -> Object:
    metadata: Object = {
        "name": name,
        "namespace": "default",
        "uid": name,
        "resourceVersion": "7",
        "labels": {**(labels or {}), SERVICE_NAME: service, MANAGED_BY: manager},
    }
    if owner:
        reference = {"apiVersion": "v1", "kind": "Service", "name": service, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [{**reference, "blockOwnerDeletion": True}]
    return {
        "metadata": metadata,
        "addressType": family,
        "endpoints": list(endpoints),
        "ports": [each.as_object() for each in ports],
    }


def a_view(
    controller: Controller,
    *,
    services: Iterable[Object] = (),
    pods: Iterable[Object] = (),
    slices: Iterable[Object] = (),
    endpoints: Iterable[Object] = (),
    nodes: Iterable[Object] = (),
    now: datetime = NOON,
) -> View:
    indexes = {controller.kind: controller.indexes}
    for reads in controller.reads:
        indexes[reads.kind] = (*indexes.get(reads.kind, ()), *reads.indexes)
    given = {SERVICES: services, PODS: pods, ENDPOINT_SLICES: slices, ENDPOINTS: endpoints, NODES: nodes}
    return View.of({kind: given[kind] for kind in indexes}, now, indexes=indexes)
