"""The Service `kubernetes` in `default`, with the addresses of the API servers that are alive.

The Service has the first address of the Service range, and port 443 leads to where the servers really listen. Its
Endpoints and EndpointSlice are kept by the servers themselves: at start, every `RECONCILE_EVERY`, and after they were
deleted or changed.

A store that one process alone writes has one server. Servers that share a store each keep a *lease*: an internal key
that they write again every `RECONCILE_EVERY`. A server whose lease has not changed for `LEASE_LASTS`, by the clock of
the server that looks, is taken out, and its lease removed; one that stops in order takes itself out. So no two clocks
are ever compared, and a server that has just started gives all others the full time.

Servers of one machine may differ in their port only. Endpoints have a subset for each port; so there is a slice for
each, of which the first is called `kubernetes`. All have addresses of one family.

Not promised: that traffic to the Service's address arrives. Nothing routes Service addresses yet; agents tell pods the
address of the server itself.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from ipaddress import IPv6Address, ip_address
from typing import Any, Final

import msgspec

from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.kind import Kind, Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import ENDPOINT_SLICES, ENDPOINTS, SERVICES
from mainstay.env import Clock, tasks, vital
from mainstay.server.request.options import DeleteOptions, WriteParameters
from mainstay.server.request.served_kinds import Registry
from mainstay.server.services.addresses import API_SERVER_ADDRESS
from mainstay.server.storage.keyspace import INTERNAL_PREFIX, build_key, build_prefix
from mainstay.server.storage.strategies import PATCH
from mainstay.server.storage.writes import ObjectWriter
from mainstay.store.errors import StoreError
from mainstay.store.interface import Check, DeleteEntry, Put, Store

RECONCILE_EVERY: Final = timedelta(seconds=10)
LEASE_LASTS: Final = timedelta(seconds=15)
NAMESPACE: Final = "default"
NAME: Final = "kubernetes"
PORT: Final = 443
PORT_NAME: Final = "https"

SERVER_LEASES: Final = f"{INTERNAL_PREFIX}servers/"
_LABELS: Final = {"component": "apiserver", "provider": "kubernetes"}
_SERVICE_NAME: Final = "kubernetes.io/service-name"
_OPTIONS: Final = WriteParameters(False, "Ignore", "mainstay")
_DELETE: Final = DeleteOptions(dry_run=False, grace_period_s=None, propagation=None, uid="", resource_version="")

_logger = logging.getLogger(__name__)


class ServerEndpoint(msgspec.Struct, frozen=True, order=True):
    """Where an API server listens."""

    host: str
    """An address, not a name."""
    port: int
    digest: str = ""
    """Of the certificate that it shows, as its peers know it. Empty: it has none."""


class ApiService:
    """Kept by one server, for as long as it runs. `start` it when the server listens."""

    def __init__(
        self, store: Store, writes: ObjectWriter, registry: Registry, clock: Clock, own: ServerEndpoint
    ) -> None:
        self._store = store
        self._writes = writes
        self._registry = registry
        self._clock = clock
        self._own = own
        self._is_shared = store.local is None
        self._renewals = 0
        self._seen: dict[str, tuple[int, int]] = {}
        """Of each lease: its revision, and when we saw that for the first time."""
        self._failure = ""
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Reconcile once, then regularly."""
        await self._try()
        self._task = vital.spawn(self._run(), name="kubernetes-service")

    async def stop(self) -> None:
        """Stop, and take this server out if others go on."""
        if self._task is None:
            return
        await tasks.stop(self._task)
        self._task = None
        if self._is_shared:
            with suppress(StoreError, StatusError):
                await self._store.commit((), (DeleteEntry(self._lease_key),))
                living = [each for each in await self._find_living() if each != self._own]
                if living:
                    await self._reconcile(living)

    def show(self, digest: str) -> None:
        """From now on this server shows another certificate: its peers hear of it with the next renewal."""
        self._own = ServerEndpoint(self._own.host, self._own.port, digest)

    async def find_peers(self) -> list[ServerEndpoint]:
        """The other servers that are alive. Raises `StoreError`."""
        if not self._is_shared:
            return []
        return [each for each in await self._find_living() if each != self._own]

    async def _run(self) -> None:
        while True:
            await tasks.sleep(RECONCILE_EVERY)
            await self._try()

    async def _try(self) -> None:
        failure = ""
        try:
            if self._is_shared:
                await self._renew()
                await self._reconcile(await self._find_living())
            else:
                await self._reconcile([self._own])
        except (StoreError, StatusError) as error:
            failure = str(error)
        if failure and failure != self._failure:
            _logger.warning("cannot reconcile the Service kubernetes; retrying every 10s: %s", failure)
        self._failure = failure

    # Which servers are alive.

    @property
    def _lease_key(self) -> str:
        return f"{SERVER_LEASES}{self._own.host}/{self._own.port}"

    async def _renew(self) -> None:
        self._renewals += 1
        value = {**msgspec.to_builtins(self._own), "renewals": self._renewals}
        await self._store.commit((), (Put(self._lease_key, msgspec.json.encode(value)),))

    async def _find_living(self) -> list[ServerEndpoint]:
        """This server, and the others whose lease goes on changing. Removes the leases of those that have ended."""
        entries = (await self._store.range(SERVER_LEASES)).entries
        now_ns = self._clock.monotonic_ns()
        self._seen = {
            each.key: (each.revision, before[1] if before is not None and before[0] == each.revision else now_ns)
            for each in entries
            for before in (self._seen.get(each.key),)
        }
        living = [self._own]
        for entry in entries:
            if entry.key == self._lease_key:
                continue
            if self._has_ended(now_ns - self._seen[entry.key][1]):
                await self._store.commit((Check(entry.key, entry.revision),), (DeleteEntry(entry.key),))
            else:
                living.append(_decode_endpoint(entry.value))
        return sorted(living)

    def _has_ended(self, unchanged_ns: int) -> bool:
        return unchanged_ns > LEASE_LASTS // timedelta(microseconds=1) * 1000

    # What is written about them.

    async def _reconcile(self, living: Sequence[ServerEndpoint]) -> None:
        by_port: dict[int, list[str]] = {}
        for each in living:
            by_port.setdefault(each.port, []).append(each.host)
        await self._ensure(SERVICES, NAME, build_service(min(by_port)))
        await self._ensure(ENDPOINTS, NAME, build_endpoints(by_port))
        slices = build_slices(by_port)
        for name, wanted in slices.items():
            await self._ensure(ENDPOINT_SLICES, name, wanted)
        await self._remove_other_slices(slices)

    async def _ensure(self, name: KindName, called: str, wanted: Object) -> None:
        """Let an object say what it should. Fields that are not ours stay as they are."""
        kind = self._registry.require(name)
        entry = await self._store.get(build_key(kind, NAMESPACE, called))
        if entry is None:
            metadata = {"name": called, "namespace": NAMESPACE, **wanted["metadata"]}
            new = {"kind": kind.kind, "apiVersion": kind.group_version, **wanted, "metadata": metadata}
            try:
                await self._writes.create(kind, NAMESPACE, new, _OPTIONS)
            except StatusError as error:
                if error.reason is not StatusReason.ALREADY_EXISTS:  # Another server was faster.
                    raise
            return
        if not _says(msgspec.json.decode(entry.value), wanted):
            await self._writes.update(kind, NAMESPACE, called, lambda found: merge(found, wanted), PATCH, _OPTIONS)

    async def _remove_other_slices(self, wanted: Mapping[str, Object]) -> None:
        """Those of ports at which no server listens any more."""
        kind: Kind = self._registry.require(ENDPOINT_SLICES)
        prefix = build_prefix(kind, NAMESPACE)
        for entry in (await self._store.range(f"{prefix}{NAME}-")).entries:
            name = entry.key.removeprefix(prefix)
            if name not in wanted and name.removeprefix(f"{NAME}-").isdigit():
                with suppress(StatusError):
                    await self._writes.delete(kind, NAMESPACE, name, _DELETE)


def build_service(port: int) -> Object:
    """What the Service must say, with the port at which a server listens."""
    ports = [{"name": PORT_NAME, "protocol": "TCP", "port": PORT, "targetPort": port}]
    return {
        "metadata": {"labels": dict(_LABELS)},
        "spec": {"type": "ClusterIP", "clusterIP": API_SERVER_ADDRESS, "ports": ports},
    }


def build_endpoints(by_port: Mapping[int, Sequence[str]]) -> Object:
    subsets = [
        {
            "addresses": [{"ip": host} for host in sorted(by_port[port])],
            "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
        }
        for port in sorted(by_port)
    ]
    return {"metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}}, "subsets": subsets}


def build_slices(by_port: Mapping[int, Sequence[str]]) -> dict[str, Object]:
    """By name: one for each port, of which the first has the name of the Service."""
    slices: dict[str, Object] = {}
    for port in sorted(by_port):
        hosts = sorted(by_port[port])
        is_v6 = isinstance(ip_address(hosts[0]), IPv6Address)
        slices[f"{NAME}-{port}" if slices else NAME] = {
            "metadata": {"labels": {_SERVICE_NAME: NAME}},
            "addressType": "IPv6" if is_v6 else "IPv4",
            "endpoints": [{"addresses": [host], "conditions": {"ready": True}} for host in hosts],
            "ports": [{"name": PORT_NAME, "port": port, "protocol": "TCP"}],
        }
    return slices


def merge(found: Object, wanted: Object) -> Object:
    """An object that says what it should, and otherwise what it did. Lists are replaced."""
    return {
        **found,
        **{
            name: merge(found.get(name) or {}, value) if isinstance(value, dict) else value
            for name, value in wanted.items()
        },
    }


def _says(found: Any, wanted: Any) -> bool:
    """Whether all that is wanted is so. Lists must be equal, but for fields that are not mentioned."""
    if isinstance(wanted, dict):
        return isinstance(found, dict) and all(_says(found.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, list):
        is_as_long = isinstance(found, list) and len(found) == len(wanted)
        return is_as_long and all(_says(*pair) for pair in zip(found, wanted, strict=True))
    return bool(found == wanted)


_decode_endpoint = msgspec.json.Decoder(ServerEndpoint).decode
