"""The addresses and ports of Services: which a Service gets, and that no two have the same.

Each address that is taken is a key of its own in the store, which names the Service that has it. It is written in the
commit that writes the Service, on condition that it is not there, and removed in the commit that removes the Service
or its address. So nothing can be given out twice or forgotten, whatever crashes, and however many servers there are;
and nothing has to be repaired in the background.

    core/services/shop/web            …"clusterIP":"10.96.14.7"…
    ~addresses/cluster-ip/10.96.14.7  core/services/shop/web

A Service that names its address gets that one, or is refused. One that does not gets any: not from the low end of the
range as long as there are others, because those are what people name (as in Kubernetes). Where to begin to look comes
from the uid of the Service, so two servers seldom try the same one.

Only IPv4. What else a Service may say is in api/kinds/services.py.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network
from typing import Any, Final

from mainstay.api.errors import CauseType, StatusCause, StatusError, StatusReason, invalid, invalid_value
from mainstay.api.kind import Kind, Object
from mainstay.server.storage.commit_points import Intended, TransactionParts
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.store.interface import ABSENT, Check, DeleteEntry, Put, Store, Write

GUESSES_MAX: Final = 4  # After so many that are taken, all that are taken are read.
TAKEN_MAX: Final = 40  # By one write: each is a check and a write of its transaction, of which there is a limit.

SERVICE_NETWORK: Final = "10.96.0.0/16"
API_SERVER_ADDRESS: Final = str(IPv4Network(SERVICE_NETWORK)[1])
"""Of the Service `kubernetes`, by which pods know the API server."""
_CLUSTER_IPS: Final = f"{INTERNAL_PREFIX}addresses/cluster-ip/"
_NODE_PORTS: Final = f"{INTERNAL_PREFIX}addresses/node-port/"
_HEADLESS: Final = "None"
_WITH_NODE_PORTS: Final = ("NodePort", "LoadBalancer")


@dataclass(frozen=True, slots=True)
class NumberPool:
    """Numbers from which one is taken, and how they are written."""

    prefix: str
    first: int
    size: int
    reserved: int
    """So many at the beginning are only given to those who name them, as long as there are others."""

    def key(self, number: int) -> str:
        return f"{self.prefix}{IPv4Address(number) if self.prefix == _CLUSTER_IPS else number}"

    def candidates(self, seed: str) -> Iterator[int]:
        """All of them, in an order that depends on the seed."""
        count = self.size - self.reserved
        start = int.from_bytes(hashlib.sha256(f"{self.prefix}{seed}".encode()).digest()[:8]) % max(count, 1)
        for number in range(count):
            yield self.first + self.reserved + (start + number) % count
        yield from range(self.first, self.first + self.reserved)

    def __contains__(self, number: int) -> bool:
        return self.first <= number < self.first + self.size


class Ranges:
    """What there is to give out."""

    def __init__(self, network: str = SERVICE_NETWORK, ports: range = range(30_000, 32_768)) -> None:
        self.network = IPv4Network(network)
        self.ports = ports
        size = self.network.num_addresses - 2  # Neither the network address nor the broadcast address.
        first = int(self.network.network_address) + 1
        self.cluster_ips = NumberPool(_CLUSTER_IPS, first, size, _reserved(size, 16, 256))
        self.node_ports = NumberPool(_NODE_PORTS, ports.start, len(ports), _reserved(len(ports), 32, 128))


def _reserved(size: int, part: int, most: int) -> int:
    """How much is left to those who name what they want: as Kubernetes does it."""
    return min(max(16, size // part), most) if size > 16 else 0


@dataclass(frozen=True, slots=True)
class AddressedObject:
    """An object with its addresses, and what has to be committed together with it."""

    object: Object
    checks: Sequence[Check] = ()
    writes: Sequence[Write] = ()


class ServiceAddresses:
    """Gives addresses to Services."""

    def __init__(self, store: Store, ranges: Ranges | None = None) -> None:
        self._store = store
        self._ranges = ranges or Ranges()

    async def placed(self, kind: Kind, key: str, new: Object, old: Object | None) -> AddressedObject:
        """An object as it is to be stored at a key. Leaves `new` alone: after a lost race, ask again.

        Raises `StatusError`: 422 for an address that cannot be had, 500 if there are none left.
        """
        if not _has_addresses(kind):
            return AddressedObject(new)
        _require_ipv4(new)
        service: Object = {**new, "spec": {**new["spec"]}}
        if service["spec"].get("ports"):
            service["spec"]["ports"] = [dict(port) for port in service["spec"]["ports"]]
        before = held(old)
        await self._require_free(service, before)
        await self._fill(service)
        after = held(service)
        taken = [each for each in after if each not in before]
        if len(taken) > TAKEN_MAX:
            cause = invalid_value("spec.ports", len(taken), f"at most {TAKEN_MAX} of them can be allocated at once")
            raise invalid("Service", "", service["metadata"].get("name", ""), [cause])
        writes: list[Write] = [Put(each, key.encode()) for each in taken]
        writes += [DeleteEntry(each) for each in before if each not in after]
        return AddressedObject(service, [Check(each, ABSENT) for each in taken], writes)

    async def _require_free(self, service: Object, before: Collection[str]) -> None:
        """What a Service names must be its own already, or free."""
        for path, number, pool in self._named(service["spec"]):
            key = pool.key(number)
            if key in before:
                continue
            if number not in pool:
                raise _refused(service, path, number, self._out_of_range(number, pool))
            if await self._store.get(key) is not None:
                what = "port" if pool.prefix == _NODE_PORTS else "IP"
                raise _refused(service, path, number, f"provided {what} is already allocated")

    def _named(self, spec: dict[str, Any]) -> Iterator[tuple[str, int, NumberPool]]:
        address = _cluster_ip(spec)
        if address:
            yield "spec.clusterIPs", int(IPv4Address(address)), self._ranges.cluster_ips
        if spec.get("type") in _WITH_NODE_PORTS:
            for index, port in enumerate(spec.get("ports") or ()):
                if port.get("nodePort"):
                    yield f"spec.ports[{index}].nodePort", port["nodePort"], self._ranges.node_ports
            if spec.get("healthCheckNodePort"):
                yield "spec.healthCheckNodePort", spec["healthCheckNodePort"], self._ranges.node_ports

    def _out_of_range(self, number: int, pool: NumberPool) -> str:
        if pool.prefix == _NODE_PORTS:
            valid = f"{self._ranges.ports.start}-{self._ranges.ports.stop - 1}"
            return f"provided port is not in the valid range. The range of valid ports is {valid}"
        valid = str(self._ranges.network)
        return f"the provided IP ({IPv4Address(number)}) is not in the valid range. The range of valid IPs is {valid}"

    async def _fill(self, service: Object) -> None:
        """Give a Service what it needs and has not named."""
        spec, uid = service["spec"], service["metadata"]["uid"]
        if spec.get("type") != "ExternalName" and not spec.get("clusterIP"):
            number = await self._free(self._ranges.cluster_ips, uid, set(), "failed to allocate a serviceIP")
            spec["clusterIP"] = str(IPv4Address(number))
        if spec.get("clusterIP"):
            spec["clusterIPs"] = [spec["clusterIP"]]
        if spec.get("type") not in _WITH_NODE_PORTS:
            return
        own = {port["nodePort"] for port in spec.get("ports") or () if port.get("nodePort")}
        is_balanced = spec["type"] == "LoadBalancer"
        if not is_balanced or spec.get("allocateLoadBalancerNodePorts", True):
            for port in spec.get("ports") or ():
                if not port.get("nodePort"):
                    number = await self._free(self._ranges.node_ports, uid, own, "failed to allocate a nodePort")
                    port["nodePort"] = number
                    own.add(number)
        is_local = spec.get("externalTrafficPolicy") == "Local"
        if is_balanced and is_local and not spec.get("healthCheckNodePort"):
            number = await self._free(self._ranges.node_ports, uid, own, "failed to allocate a nodePort")
            spec["healthCheckNodePort"] = number

    async def _free(self, pool: NumberPool, seed: str, own: set[int], failing: str) -> int:
        """One that is free: a good guess, or else what is left."""
        candidates = (number for number in pool.candidates(seed) if number not in own)
        for _, number in zip(range(GUESSES_MAX), candidates, strict=False):
            if await self._store.get(pool.key(number)) is None:
                return number
        taken = {entry.key for entry in (await self._store.range(pool.prefix)).entries}
        for number in candidates:
            if pool.key(number) not in taken:
                return number
        raise StatusError(500, StatusReason.INTERNAL_ERROR, f"Internal error occurred: {failing}: range is full")


class ServicePoint:
    """Implements `CommitPoint`: a Service takes its addresses, and gives them back."""

    def __init__(self, addresses: ServiceAddresses) -> None:
        self._addresses = addresses

    def applies_to(self, intended: Intended) -> bool:
        return True

    async def parts_for(self, intended: Intended) -> TransactionParts:
        if intended.new is None:
            return TransactionParts(writes=released(intended.kind, intended.old or {}))
        placed = await self._addresses.placed(intended.kind, intended.key, intended.new, intended.old)
        return TransactionParts(placed.checks, placed.writes, object=placed.object)


def held(service: Object | None) -> list[str]:
    """The keys of everything that a Service has."""
    spec = (service or {}).get("spec") or {}
    keys: dict[str, None] = {}
    address = _cluster_ip(spec)
    if address:
        keys[f"{_CLUSTER_IPS}{IPv4Address(address)}"] = None
    if spec.get("type") in _WITH_NODE_PORTS:
        ports = [port.get("nodePort") for port in spec.get("ports") or ()]
        # Two ports of one Service may share one outside, for different protocols.
        keys.update((f"{_NODE_PORTS}{port}", None) for port in (*ports, spec.get("healthCheckNodePort")) if port)
    return list(keys)


def released(kind: Kind, old: Object) -> list[Write]:
    """What has to be committed together with the removal of an object."""
    return [DeleteEntry(key) for key in held(old)] if _has_addresses(kind) else []


def _has_addresses(kind: Kind) -> bool:
    return kind.kind == "Service" and kind.group == ""


def _cluster_ip(spec: dict[str, Any]) -> str:
    address: str = spec.get("clusterIP") or ""
    return "" if address == _HEADLESS or spec.get("type") == "ExternalName" else address


def _require_ipv4(service: Object) -> None:
    spec = service["spec"]
    causes = [
        invalid_value(f"spec.ipFamilies[{index}]", family, "not configured on this cluster")
        for index, family in enumerate(spec.get("ipFamilies") or ())
        if family != "IPv4"
    ]
    if ":" in (spec.get("clusterIP") or ""):
        detail = "expected an IPv4 value as indicated by `ipFamilies[0]`"
        causes.append(invalid_value("spec.clusterIPs[0]", spec["clusterIP"], detail))
    if spec.get("ipFamilyPolicy") == "RequireDualStack":
        detail = "this cluster is not configured for dual-stack services"
        causes.append(invalid_value("spec.ipFamilyPolicy", "RequireDualStack", detail))
    if causes:
        raise invalid("Service", "", service["metadata"].get("name", ""), causes)


def _refused(service: Object, path: str, number: int, why: str) -> StatusError:
    cause = invalid_value(path, number, why)
    if path == "spec.clusterIPs":
        address = IPv4Address(number)
        text = f'Invalid value: ["{address}"]: failed to allocate IP {address}: {why}'
        cause = StatusCause(CauseType.INVALID, path, text)
    return invalid("Service", "", service["metadata"].get("name", ""), [cause])
