"""Two machines want to be the same node. Tokens expire, answers are lost, servers restart, credentials are revoked.

The machines do what agents do (agent/join.py): ask with a token, keep the certificate, renew it with a new key, and
write the lease of the node; one that is refused forgets its credential and joins again. The user creates tokens for new
nodes and for this one, deletes tokens, removes the node and revokes single certificates.

- Never have two machines a valid certificate of one node, at any revision.
- A certificate that is revoked writes nothing after a minute, also in the hands of a thief who never gives up; one
  that is valid is not refused, and none is issued that is revoked already.
- No token that has expired or was deleted gets a certificate.
"""

from base64 import b64decode
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from mainstay.agent.join import CannotJoin, request_certificate
from mainstay.api.kind_names import CREDENTIALS, LEASES, NODES, SECRETS
from mainstay.api.times import format_time, parse_time
from mainstay.client.client import Client
from mainstay.client.config import Config
from mainstay.client.errors import AlreadyExists, ApiError, NotFound, Unauthorized
from mainstay.env import Env, tasks
from mainstay.scenarios._stages import SERVERS, USER, UserStage
from mainstay.server.auth.node_claims import NO_CREDENTIAL, KnownCredential, parse_credential
from mainstay.server.auth.request_signer import compute_key_digest
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.authority import build_authority, build_badge, build_key, read_badge
from mainstay.sim.cluster.history import Event, RevisionCommitted
from mainstay.sim.cluster.world import World
from mainstay.sim.run.scenario import Scenario

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NAME: Final = "machines join"
NODE: Final = "worker"
MACHINES: Final = ("machine-1", "machine-2")
KEYS_MAX: Final = 150
"""Of each machine, in one run."""
REVOKED_WITHIN: Final = timedelta(minutes=1)
STEP_EVERY: Final = timedelta(seconds=2)
THIEF: Final = "thief"
STOLEN_USED_EVERY: Final = timedelta(seconds=10)
STOLEN_MAX: Final = 2
A_LITTLE: Final = timedelta(milliseconds=100)
_LEASES: Final = "kube-node-lease"
_SYSTEM: Final = "kube-system"
_CREDENTIAL_KEY: Final = f"mainstay.dev/credentials/system:node:{NODE}"
_LEASE_KEY: Final = f"coordination.k8s.io/leases/{_LEASES}/{NODE}"
_TOKENS: Final = f"core/secrets/{_SYSTEM}/bootstrap-token-"
_REQUESTS: Final = "certificates.k8s.io/certificatesigningrequests/"
_LONG_AGO: Final = datetime(2000, 1, 1, tzinfo=UTC)
"""As the present: no certificate has expired."""
_LATER: Final = "9999-12-31T23:59:59Z"


class _MachineDisk(msgspec.Struct):
    """What a machine has on its disk."""

    keys: int = 0
    """How many it has made."""
    certificate: str = ""
    token: str = ""


class MachinesJoin(UserStage):
    def __init__(self, world: World) -> None:
        world.authority = build_authority()
        super().__init__(world)
        self._disks = {name: _MachineDisk() for name in MACHINES}
        self._tokens = 0
        self._problems: list[str] = []
        self._stolen: list[str] = []
        """Certificates that were copied from a machine, the latest last."""
        for name in MACHINES:
            world.add_program(name, partial(self._run_machine, name))
        world.add_program(THIEF, self._steal)

    # The user.

    async def turn(self, client: Client) -> None:
        name = MACHINES[self.choose("machine", len(MACHINES))]
        disk = self._disks[name]
        match self.choose("what", 10):
            case 0 | 1 | 2:
                disk.token = await self._create_token(client)
            case 3:
                disk.token = await self._create_token(client, NODE)
                disk.certificate = ""  # Its disk was replaced.
            case 4 | 5:
                await self._remove(client)
            case 6:
                known = await self._read_record()
                serials = sorted({*known.revoked_serials, *(each.serial_number for each in known.certificates[-1:])})
                await self._revoke(client, {"revokedSerialNumbers": serials})
            case 7:
                await self._join_as_the_token_goes(client, name, disk)
            case 8:
                await self._join_together(client)
            case _:
                if disk.token:
                    await client.delete(SECRETS, f"bootstrap-token-{disk.token[:6]}", _SYSTEM)

    async def _join_as_the_token_goes(self, client: Client, name: str, disk: _MachineDisk) -> None:
        """The token is deleted while a request is being decided."""
        disk.token = await self._create_token(client)
        self._slow_down()

        async def delete() -> None:
            await tasks.sleep(A_LITTLE * self.choose("deleted after", 8))
            with suppress(ApiError):
                await client.delete(SECRETS, f"bootstrap-token-{disk.token[:6]}", _SYSTEM)

        await tasks.together([self._rejoin(name), delete()], name="overlapping")

    async def _join_together(self, client: Client) -> None:
        """The node is free, and both machines have the token."""
        await self._remove(client)
        token = await self._create_token(client)
        for disk in self._disks.values():
            disk.token = token
        self._slow_down()
        await tasks.together([self._rejoin(name) for name in MACHINES], name="overlapping")

    async def _rejoin(self, name: str) -> None:
        disk = self._disks[name]
        disk.certificate = ""
        disk.keys += 1
        with suppress(ApiError, CannotJoin):
            await self._join(name, disk, self.world.sim.env(name))

    def _slow_down(self) -> None:
        for server in SERVERS:
            self.world.faults.strike("slow-store", server)

    async def _remove(self, client: Client) -> None:
        await self._revoke(client, {"revokedBefore": _LATER})
        with suppress(NotFound):
            await client.delete(NODES, NODE)

    async def _create_token(self, client: Client, node: str = "") -> str:
        self._tokens += 1
        token_id, secret = f"{self._tokens:06}", "0123456789abcdef"
        lasts = timedelta(seconds=2 + 4 * self.choose("token lasts", 6))
        data = {
            "token-id": token_id,
            "token-secret": secret,
            "expiration": format_time(self.world.sim.env(USER).clock.wall() + lasts),
            "usage-bootstrap-authentication": "true",
            **({"node-name": node} if node else {}),
        }
        metadata = {"name": f"bootstrap-token-{token_id}", "namespace": _SYSTEM}
        body = {"metadata": metadata, "type": "bootstrap.kubernetes.io/token", "stringData": data}
        await client.create(SECRETS, body)
        return f"{token_id}.{secret}"

    async def _revoke(self, client: Client, spec: Mapping[str, Any]) -> None:
        name = f"system:node:{NODE}"
        try:
            await client.create(CREDENTIALS, {"metadata": {"name": name}, "spec": dict(spec)})
        except AlreadyExists:
            await client.patch(CREDENTIALS, name, "", {"spec": dict(spec)})

    # The machines.

    async def _run_machine(self, name: str, env: Env) -> None:
        disk = self._disks[name]
        while True:
            await tasks.sleep(STEP_EVERY)
            try:
                if disk.certificate:
                    await self._be_node(name, disk, env)
                elif disk.token:
                    await self._join(name, disk, env)
            except (ApiError, CannotJoin):
                continue  # The next step finds out.

    async def _steal(self, env: Env) -> None:
        """Goes on with what machines have had, whether it is revoked or not."""
        while True:
            await tasks.sleep(STOLEN_USED_EVERY)
            for certificate in self._stolen[-STOLEN_MAX:]:
                async with self._open(env, build_badge(certificate)) as client:
                    with suppress(ApiError):
                        await self._write_lease(client, THIEF, _read_serial(certificate))

    def _open(self, env: Env, token: str) -> Client:
        servers = self.world.client_for(USER, env).config.servers
        return Client(Config(servers, token=token), env, user_agent="machine")

    async def _join(self, name: str, disk: _MachineDisk, env: Env) -> None:
        async with self._open(env, disk.token) as client:
            key = build_machine_key(name, disk.keys)
            certificate = await request_certificate(client, NODE, key, lambda _: None, disk.token)
        async with self._open(env, build_badge(certificate)) as client:
            with suppress(AlreadyExists):
                await client.create(NODES, {"metadata": {"name": NODE}})
        disk.certificate = certificate
        self._stolen.append(certificate)

    async def _be_node(self, name: str, disk: _MachineDisk, env: Env) -> None:
        shown = disk.certificate
        serial = _read_serial(shown)
        async with self._open(env, build_badge(shown)) as client:
            try:
                await self._write_lease(client, name, serial)
                if not self._is_over and self.world.sim.choices.choose(f"{name}/renews", 8) == 7:
                    disk.keys += 1
                    key = build_machine_key(name, disk.keys)
                    disk.certificate = await request_certificate(client, NODE, key, lambda _: None)
            except Unauthorized:
                known = await self._read_record()
                if any(each.serial_number == serial for each in known.list_valid(_LONG_AGO)):
                    self._problems.append(f"{name} is refused with certificate {serial}, which is not revoked")
                disk.certificate = ""
                disk.keys += 1

    async def _write_lease(self, client: Client, name: str, serial: str) -> None:
        annotations = {"machine": name, "serial": serial}
        body = {"metadata": {"name": NODE, "namespace": _LEASES, "annotations": annotations}}
        renewed = {**body, "spec": {"holderIdentity": f"{name} {self.world.sim.loop.time_ns()}"}}
        try:
            await client.patch(LEASES, NODE, _LEASES, renewed)
        except NotFound:
            await client.create(LEASES, renewed)

    async def _read_record(self) -> KnownCredential:
        entry = await self.world.store.get(_CREDENTIAL_KEY)
        return NO_CREDENTIAL if entry is None else parse_credential(decode_commit(entry.value))

    async def check(self) -> None:
        for problem in self._problems:
            raise Violated(NAME, problem)
        known = await self._read_record()
        for name, disk in self._disks.items():
            serial = _read_serial(disk.certificate) if disk.certificate else ""
            if serial and not any(each.serial_number == serial for each in known.certificates):
                raise Violated(NAME, f"the certificate {serial} of {name} is not on record")


def _read_serial(pem: str) -> str:
    shown = read_badge(build_badge(pem))
    return "" if shown is None else str(shown["serialNumber"]).lower()


def build_machine_key(machine: str, number: int) -> "Ed25519PrivateKey":
    return build_key(f"{machine} {number}")


@cache
def _find_machine(digest: str) -> str:
    return _list_digests().get(digest, "an unknown machine")


@cache
def _list_digests() -> Mapping[str, str]:
    return {
        compute_key_digest(build_machine_key(machine, number).public_key()): machine
        for machine in MACHINES
        for number in range(KEYS_MAX)
    }


class OneMachine:
    """What the promises of this scenario say of each commit."""

    name = NAME

    def __init__(self) -> None:
        self._known = NO_CREDENTIAL
        self._revoked: dict[str, RevisionCommitted] = {}
        """By serial number: the commit that revoked it."""
        self._expires: dict[str, datetime | None] = {}
        """Of each token that is there."""

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        if event.key == _CREDENTIAL_KEY:
            self._record(event)
        elif event.key == _LEASE_KEY:
            self._lease(event)
        elif event.key.startswith(_TOKENS):
            self._token(event)
        elif event.key.startswith(_REQUESTS) and event.value is not None:
            self._request(event)

    async def at_end(self, world: World) -> None:
        """Everything can be told as it happens."""

    def _record(self, event: RevisionCommitted) -> None:
        known = NO_CREDENTIAL if event.value is None else parse_credential(decode_commit(event.value))
        valid = known.list_valid(_LONG_AGO)
        machines = sorted({_find_machine(each.key) for each in valid})
        if len(machines) > 1:
            raise Violated(NAME, f"{' and '.join(machines)} have valid certificates of {NODE}", [event])
        still = {each.serial_number for each in valid}
        before = {each.serial_number for each in self._known.certificates}
        for each in known.certificates:
            if each.serial_number not in before and each.serial_number not in still:
                raise Violated(NAME, f"certificate {each.serial_number} was revoked before it was issued", [event])
        for each in self._known.list_valid(_LONG_AGO):
            if each.serial_number not in still:
                self._revoked[each.serial_number] = event
        self._known = known

    def _lease(self, event: RevisionCommitted) -> None:
        if event.value is None:
            return
        said = decode_commit(event.value)["metadata"].get("annotations") or {}
        revoked = self._revoked.get(said.get("serial", ""))
        limit_ns = int(REVOKED_WITHIN.total_seconds() * 1e9)
        if revoked is not None and event.at_ns - revoked.at_ns > limit_ns:
            text = f"{said['machine']} writes with certificate {said['serial']}, revoked more than a minute ago"
            raise Violated(NAME, text, [revoked, event])

    def _token(self, event: RevisionCommitted) -> None:
        if event.value is None:
            self._expires.pop(event.key, None)
        else:
            self._expires[event.key] = _read_expiration(event.value)

    def _request(self, event: RevisionCommitted) -> None:
        request = decode_commit(event.value or b"{}")
        user = (request.get("spec") or {}).get("username", "")
        if not user.startswith("system:bootstrap:") or not (request.get("status") or {}).get("certificate"):
            return
        if event.previous is not None:
            return
        token = _TOKENS + user.removeprefix("system:bootstrap:")
        expires = self._expires.get(token)
        if expires is None:
            raise Violated(NAME, f"token {token} was deleted, and {request['metadata']['name']} is signed", [event])
        if parse_time(request["metadata"]["creationTimestamp"]) > expires:
            raise Violated(NAME, f"token {token} had expired when a certificate was issued", [event])


def _read_expiration(value: bytes) -> datetime | None:
    data = decode_commit(value).get("data") or {}
    return parse_time(b64decode(data["expiration"]).decode())


SCENARIO: Final = Scenario(
    name="machines-join",
    about="Two machines join as the same node while tokens expire and credentials are revoked: one is the node.",
    make=MachinesJoin,
    checkers=lambda: [OneMachine()],
    faults=(
        "answer-lost",
        "request-lost",
        "crash",
        "server-crash",
        "restart",
        "pause",
        "slow-store",
        "latency",
        "watch-delay",
    ),
    lasts=timedelta(seconds=80),
    ids=("H7",),
)
