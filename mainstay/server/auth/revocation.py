"""Which client certificates are not accepted any more, by the Credentials in the store (api/kinds/credentials.py).

A certificate is revoked by its serial number, or with all that its user was issued until a certain time. Every request
is checked against the index, which follows the store; what is revoked while a connection is open ends the connection,
with the watches and sessions on it.

    a Credential is written ─► the feed of each server ─► the index ─► 401, and connections are closed

The server that takes the write answers it when its own index has it. Others hear of it within moments: a server whose
feed has lost its store goes on by what it knew, and can neither read nor write objects meanwhile.

Tokens are not revoked here: those of service accounts end with their objects (tokens.py), bootstrap tokens with their
Secrets (bootstrap_tokens.py), those of a file with the file.
"""

import ssl
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from mainstay.api.kinds.credentials import CREDENTIAL, normalize_serial
from mainstay.api.times import parse_time
from mainstay.server.storage.keyspace import build_prefix
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.interface import Entry, KeyChange, Store

Certificate = Mapping[str, Any]
"""As `ssl.SSLObject.getpeercert` tells it."""
EndConnections = Callable[[Callable[[Certificate], bool]], None]
"""Closes the connections whose client has shown a certificate of which the function says so."""

PREFIX: Final = build_prefix(CREDENTIAL)


class _Spec(msgspec.Struct, rename="camel"):
    revoked_before: str = ""
    revoked_serial_numbers: list[str] | None = None


class _Credential(msgspec.Struct):
    spec: _Spec = msgspec.field(default_factory=_Spec)


_decode = msgspec.json.Decoder(_Credential).decode


class Revocations:
    """The index. It revokes nothing until it is filled."""

    def __init__(self) -> None:
        self._before: dict[str, datetime] = {}
        """By user: certificates that were issued until then are revoked."""
        self._serials: dict[str, frozenset[str]] = {}
        """By name of the Credential."""
        self._all_serials: frozenset[str] = frozenset()

    def is_revoked(self, certificate: Certificate) -> bool:
        """Asked with every request."""
        if self._all_serials and normalize_serial(certificate.get("serialNumber", "")) in self._all_serials:
            return True
        return bool(self._before) and any(self._is_old(certificate, user) for user in _list_names(certificate))

    def _is_old(self, certificate: Certificate, user: str) -> bool:
        before = self._before.get(user)
        if before is None:
            return False
        return datetime.fromtimestamp(ssl.cert_time_to_seconds(certificate["notBefore"]), UTC) <= before

    def put(self, name: str, value: bytes | None) -> bool:
        """A Credential as it is now; None: it is gone. Returns whether more is revoked than before."""
        spec = _Spec() if value is None else _decode(value).spec
        before = parse_time(spec.revoked_before) if spec.revoked_before else None
        serials = frozenset(map(normalize_serial, spec.revoked_serial_numbers or ()))
        is_more = bool(serials - self._all_serials) or (before is not None and self._before.get(name) != before)
        self._before.pop(name, None)
        self._serials.pop(name, None)
        if before is not None:
            self._before[name] = before
        if serials:
            self._serials[name] = serials
        self._all_serials = frozenset().union(*self._serials.values())
        return is_more


class RevocationFollower:
    """Keeps the index of one server, and closes the connections of those whose certificate is revoked."""

    def __init__(self, index: Revocations) -> None:
        self._index = index
        self._follower: PrefixFollower | None = None
        self.end_connections: EndConnections | None = None
        """Of the HTTP server, once it listens."""

    async def start(self, store: Store, feed: Feed) -> None:
        """Raises `StoreError`."""
        self._follower = PrefixFollower(store, feed, PREFIX, self._take, self._reset)
        self._reset(await self._follower.start())

    async def stop(self) -> None:
        if self._follower is not None:
            await self._follower.stop()

    def _take(self, change: KeyChange) -> None:
        name = change.key.removeprefix(PREFIX)
        if self._index.put(name, None if change.entry is None else change.entry.value):
            self._end()

    def _reset(self, entries: Sequence[Entry]) -> None:
        """What is gone meanwhile stays revoked until the process ends: to refuse too much for a while does no harm."""
        is_more = [self._index.put(entry.key.removeprefix(PREFIX), entry.value) for entry in entries]
        if any(is_more):
            self._end()

    def _end(self) -> None:
        if self.end_connections is not None:
            self.end_connections(self._index.is_revoked)


def _list_names(certificate: Certificate) -> Iterator[str]:
    for attributes in certificate.get("subject", ()):
        for attribute, value in attributes:
            if attribute == "commonName":
                yield value
