"""What a pod needs on a node, and what a node has to give, as whole numbers.

CPU is counted in thousandths, memory, storage and huge pages in bytes, everything else (extended resources, `pods`) in
pieces. The rules are those of Kubernetes: containers run side by side, init containers one after the other, and an
init container that restarts always (a sidecar) goes on beside all that start after it. So a pod needs the larger of
what runs at the end and what runs at any step before; then what `spec.resources` says of the whole pod takes the place
of the sum; then comes the overhead. A pod that is being resized needs the larger of what it is given and what it asks
for.

The API server charges nodes by these functions and the scheduler looks for room by them: were there two opinions about
what a pod needs, one would choose nodes that the other refuses. Sums are made exactly, and rounded up at the end.

Read here are objects as they are stored: with defaults, and valid. What a limit says of a request has been filled in.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.quantity import NANO, parse

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGE_PAGES: Final = "hugepages-"

# What scores take a container to need that does not say: else all such pods would go to one node.
_UNSAID: Final = {CPU: NANO // 10, MEMORY: 200 * 1024 * 1024 * NANO}
_NOTHING: Final[Mapping[str, Any]] = {}

_ANY_ADDRESS: Final = "0.0.0.0"

# More than any machine has (a pebibyte), and little enough that sums of many, and hundredfold ones, fit into 64 bits.
# What is larger counts as this; nodes have at most half of it, so nothing that large fits anywhere.
AMOUNT_MAX: Final = 2**50

Amounts = dict[str, int]  # In billionths, until all is added up.


def count_requests(pod: Object) -> dict[str, int]:
    """What a pod needs, by resource, in base units. `pods` is always 1; what is not asked for is left out or 0."""
    needed = {resource: _in_base_units(resource, nano) for resource, nano in _requests(pod, _NOTHING).items()}
    needed[PODS] = 1
    return needed


def count_scored_requests(pod: Object) -> dict[str, int]:
    """What scores take a pod to need: the same, but a container that does not say counts 100m CPU and 200 MiB."""
    needed = {resource: _in_base_units(resource, nano) for resource, nano in _requests(pod, _UNSAID).items()}
    needed[PODS] = 1
    return needed


def read_allocatable(node: Object) -> dict[str, int]:
    """What a node has for pods, in base units. One that does not say it has nothing."""
    status = node.get("status") or _NOTHING
    amounts = parse_amounts(status.get("allocatable"))
    return {resource: min(amount, AMOUNT_MAX // 2) for resource, amount in amounts.items()}


def parse_amounts(quantities: Mapping[str, Any] | None) -> dict[str, int]:
    """A map of resources as it stands in any spec (`hard`, `resources`, `allocatable`), in base units."""
    return {resource: _in_base_units(resource, _nano(quantity)) for resource, quantity in (quantities or {}).items()}


def amount(resource: str, number: int) -> str:
    """An amount in base units, as people write it: 1500m, 2Gi, 3."""
    if resource == CPU:
        return str(number // 1000) if number % 1000 == 0 else f"{number}m"
    if resource in (MEMORY, EPHEMERAL_STORAGE) or resource.startswith(HUGE_PAGES):
        for unit in ("", "Ki", "Mi"):
            if not number or number % 1024:
                return f"{number}{unit}"
            number //= 1024
        return f"{number}Gi"
    return str(number)


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """A port of the machine itself. An address of 0.0.0.0 means all of the machine's addresses."""

    ip: str
    protocol: str
    port: int


def list_host_ports(pod: Object) -> tuple[HostPort, ...]:
    """The ports that a pod takes on its machine for as long as it runs, each once, in the order of its containers."""
    spec = pod.get("spec") or _NOTHING
    sidecars = [each for each in spec.get("initContainers") or () if _is_sidecar(each)]
    found: dict[HostPort, None] = {}
    for container in (*sidecars, *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            if port.get("hostPort"):
                found[parse_host_port(port)] = None
    return tuple(found)


def parse_host_port(port: Mapping[str, Any]) -> HostPort:
    """A port of a container, or one that a reservation holds."""
    return HostPort(port.get("hostIP") or _ANY_ADDRESS, port.get("protocol") or "TCP", port["hostPort"])


def conflicts(one: HostPort, other: HostPort) -> bool:
    """Whether both cannot be taken on the same machine."""
    if one.port != other.port or one.protocol != other.protocol:
        return False
    return one.ip == other.ip or one.ip == _ANY_ADDRESS or other.ip == _ANY_ADDRESS


def is_over(pod: Object) -> bool:
    """Whether a pod has ended for good and needs nothing any more."""
    return (pod.get("status") or _NOTHING).get("phase") in ("Succeeded", "Failed")


# What a pod needs, in billionths.

_Look = Callable[[Object, Mapping[str, Any]], Mapping[str, Any] | None]


def _requests(pod: Object, unsaid: Amounts | Mapping[str, int]) -> Amounts:
    spec = pod.get("spec") or _NOTHING
    status = pod.get("status") or _NOTHING
    needed = _sum_of_containers(spec, _asked, _NOTHING, unsaid)
    if _knows_resources(status):
        needed = _while_resizing(spec, status, needed, unsaid)
    of_pod = (spec.get("resources") or _NOTHING).get("requests")
    if of_pod:
        said = {name: _nano(quantity) for name, quantity in of_pod.items() if _may_be_said_of_pod(name)}
        needed.update(said)
    overhead = spec.get("overhead")
    if overhead:
        _add(needed, {name: _nano(quantity) for name, quantity in overhead.items()})
    return needed


def _sum_of_containers(
    spec: Mapping[str, Any], look: _Look, states: Mapping[str, Mapping[str, Any]], unsaid: Mapping[str, int]
) -> Amounts:
    """The larger of what runs in the end and what runs at each step of the start."""
    in_the_end: Amounts = {}
    for container in spec.get("containers") or ():
        _add(in_the_end, _of_container(container, look, states, unsaid))
    init_containers = spec.get("initContainers")
    if not init_containers:
        return in_the_end
    sidecars: Amounts = {}
    largest_step: Amounts = {}
    for container in init_containers:
        own = _of_container(container, look, states, unsaid)
        if _is_sidecar(container):
            _add(in_the_end, own)
            _add(sidecars, own)
            step = sidecars
        else:
            step = own
            _add(step, sidecars)
        _raise_to(largest_step, step)
    _raise_to(in_the_end, largest_step)
    return in_the_end


def _of_container(
    container: Object, look: _Look, states: Mapping[str, Mapping[str, Any]], unsaid: Mapping[str, int]
) -> Amounts:
    said = look(container, states.get(container.get("name", ""), _NOTHING)) or _NOTHING
    needed = {name: _nano(quantity) for name, quantity in said.items()}
    for name, nano in unsaid.items():
        needed.setdefault(name, nano)
    return needed


# A resize. The agent says in the status what a container was promised and what it has; until the resize is through, or
# is found to be impossible, the room for all of it must be there.


def _knows_resources(status: Mapping[str, Any]) -> bool:
    return any("allocatedResources" in each or "resources" in each for each in _container_states(status))


def _container_states(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    yield from status.get("containerStatuses") or ()
    yield from status.get("initContainerStatuses") or ()


def _while_resizing(
    spec: Mapping[str, Any], status: Mapping[str, Any], asked: Amounts, unsaid: Mapping[str, int]
) -> Amounts:
    states = {each.get("name", ""): each for each in reversed(list(_container_states(status)))}
    is_impossible = _is_resize_impossible(status)

    def promised(container: Object, state: Mapping[str, Any]) -> Mapping[str, Any] | None:
        given: Mapping[str, Any] | None = state.get("allocatedResources")
        if given is not None:
            return given
        return None if is_impossible else _asked(container, state)

    def actual(container: Object, state: Mapping[str, Any]) -> Mapping[str, Any] | None:
        given: Mapping[str, Any] | None = (state.get("resources") or _NOTHING).get("requests")
        return given if given is not None else promised(container, state)

    needed = {} if is_impossible else dict(asked)
    _raise_to(needed, _sum_of_containers(spec, promised, states, unsaid))
    _raise_to(needed, _sum_of_containers(spec, actual, states, unsaid))
    return needed


def _is_resize_impossible(status: Mapping[str, Any]) -> bool:
    for condition in status.get("conditions") or ():
        if condition.get("type") == "PodResizePending":
            return bool(condition.get("reason") == "Infeasible")
    return False


def _asked(container: Object, _: Mapping[str, Any]) -> Mapping[str, Any] | None:
    requests: Mapping[str, Any] | None = (container.get("resources") or _NOTHING).get("requests")
    return requests


def _is_sidecar(container: Mapping[str, Any]) -> bool:
    return bool(container.get("restartPolicy") == "Always")


def _may_be_said_of_pod(resource: str) -> bool:
    return resource in (CPU, MEMORY) or resource.startswith(HUGE_PAGES)


def _add(total: Amounts, more: Mapping[str, int]) -> None:
    for name, nano in more.items():
        total[name] = total.get(name, 0) + nano


def _raise_to(total: Amounts, least: Mapping[str, int]) -> None:
    for name, nano in least.items():
        if nano > total.get(name, -1):
            total[name] = nano


@lru_cache(maxsize=8192)
def _nano(quantity: str | int | float) -> int:
    return parse(quantity).nano


_MILLI: Final = NANO // 1000


def _in_base_units(resource: str, nano: int) -> int:
    """Rounded up: who asks for some gets some. More than `AMOUNT_MAX` counts as that, so that sums can be stored."""
    return min(-(-nano // (_MILLI if resource == CPU else NANO)), AMOUNT_MAX)
