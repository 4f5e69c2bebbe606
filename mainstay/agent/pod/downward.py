"""What a pod may be told about itself and where it runs: the downward API, in variables and in files.

`fieldRef` names a field of the pod, `resourceFieldRef` an amount of one of its containers. Both are read from the pod
as it is stored and from its `Surroundings`, and are texts in the end, exactly as the kubelet writes them.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.quantity import parse

_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_UNLIMITED: Final = ("cpu", "memory", "ephemeral-storage")  # Without a limit, what the node has is the limit.
_NOTHING: Final[Mapping[str, Any]] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a pod can learn about where it runs."""

    node_name: str
    address: str = ""
    """The pod's."""
    host_address: str = ""
    allocatable: Mapping[str, Any] = field(default_factory=dict)
    """Of the node: quantities, as its status has them."""
    service_host: str = ""
    """Where pods find the API server; empty if they are not told."""
    service_port: int = 443
    path: str = _PATH
    home: str = "/"
    user: int = 0
    """Who containers run as that do not say."""
    has_images: bool = False
    """Whether the runner knows what to run when a container has no command."""


class Unresolved(Exception):
    """Something is referred to and not there. Those who resolve turn it into `Missing`."""

    def __init__(self, message: str, missing: str = "") -> None:
        super().__init__(message)
        self.missing = missing
        """The ConfigMap or Secret, or the key in one, that is not there: `Secret/db`, `ConfigMap/settings/level`."""


def read_field(pod: Object, path: str, facts: Surroundings) -> str:
    """A field of a pod, as `fieldRef` names it. Raises `Unresolved` if there is no such field."""
    metadata = pod.get("metadata") or _NOTHING
    if path.endswith("']") and "['" in path:
        of, key = path[:-2].split("['", 1)
        if of in ("metadata.labels", "metadata.annotations"):
            return str((metadata.get(of.removeprefix("metadata.")) or _NOTHING).get(key, ""))
    match path:
        case "metadata.name" | "metadata.namespace" | "metadata.uid":
            return str(metadata.get(path.removeprefix("metadata.")) or "")
        case "metadata.labels" | "metadata.annotations":
            return written_map(metadata.get(path.removeprefix("metadata.")) or _NOTHING)
        case "spec.nodeName":
            return facts.node_name
        case "spec.serviceAccountName":
            return str((pod.get("spec") or _NOTHING).get("serviceAccountName") or "")
        case "status.hostIP" | "status.hostIPs":
            return facts.host_address
        case "status.podIP" | "status.podIPs":
            return facts.address
    raise Unresolved(f"unsupported fieldPath: {path}")


def written_map(pairs: Mapping[str, str]) -> str:
    """Labels or annotations, as a file of the downward API has them."""
    return "\n".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in sorted(pairs.items()))


def read_resource(pod: Object, container: Object, reference: Mapping[str, Any], facts: Surroundings) -> str:
    """What `resourceFieldRef` refers to: so many of the divisor, rounded up. Raises `Unresolved`.

    A container without a limit has the pod's, and one of a pod without a limit the node's.
    """
    named = reference.get("containerName")
    if named and named != container.get("name"):
        container = _container_named(pod, named)
    side, _, resource = str(reference.get("resource") or "").partition(".")
    if side not in ("limits", "requests") or not (resource in _UNLIMITED or resource.startswith("hugepages-")):
        raise Unresolved(f"unsupported container resource : {reference.get('resource')}")
    amount = _amount(container.get("resources"), side, resource)
    if side == "limits" and not amount and resource in _UNLIMITED:
        of_pod = _amount((pod.get("spec") or _NOTHING).get("resources"), side, resource)
        amount = of_pod or facts.allocatable.get(resource, 0)
    total, divisor = parse(amount), parse(reference.get("divisor") or 0) or parse(1)
    if resource == "cpu":
        return str(-(-total.to_milli() // divisor.to_milli()))
    return str(-(-total.to_int() // divisor.to_int()))


def _amount(resources: Mapping[str, Any] | None, side: str, resource: str) -> Any:
    amount = ((resources or _NOTHING).get(side) or _NOTHING).get(resource) or 0
    return amount if parse(amount) else 0


def _container_named(pod: Object, name: str) -> Object:
    spec = pod.get("spec") or _NOTHING
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if container.get("name") == name:
            found: Object = container
            return found
    raise Unresolved(f"container {name} not found")
