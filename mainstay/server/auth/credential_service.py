"""What a server keeps doing about credentials: follow what is revoked, remove what has expired; and how it is known."""

import asyncio

from mainstay.api.kind import Kind
from mainstay.env import Clock, tasks, vital
from mainstay.server.auth.cluster_info import publish_cluster_info
from mainstay.server.auth.expired_credentials import ExpiredCredentials
from mainstay.server.auth.request_signer import NO_AUTHORITY, ClusterAuthority
from mainstay.server.auth.revocation import EndConnections, RevocationFollower, Revocations
from mainstay.server.storage.writes import ObjectWriter
from mainstay.server.watch.feed import Feed
from mainstay.store.interface import Store

__all__ = ["NO_AUTHORITY", "ClusterAuthority", "CredentialService"]


class CredentialService:
    def __init__(self, store: Store, clock: Clock, revocations: Revocations) -> None:
        self.authorities = ""
        """The certificates with which clients check the server, as PEM. Empty: it has no TLS."""
        self._store = store
        self._expired = ExpiredCredentials(store, clock)
        self._follower = RevocationFollower(revocations)
        self._cleaning: asyncio.Task[None] | None = None

    def end_connections_by(self, end: EndConnections) -> None:
        """From now on, also close the connections of those whose certificate is revoked."""
        self._follower.end_connections = end

    async def start(self, feed: Feed) -> None:
        """Raises `StoreError`."""
        await self._follower.start(self._store, feed)
        self._cleaning = vital.spawn(self._expired.run(), name="expired-credentials")

    async def publish(self, writes: ObjectWriter, kind: Kind, url: str) -> None:
        """Let machines that join find the authority of the server, if it has one. `kind` is ConfigMap."""
        if self.authorities:
            await publish_cluster_info(writes, kind, url, self.authorities)

    async def stop(self) -> None:
        if self._cleaning is not None:
            await tasks.stop(self._cleaning)
        await self._follower.stop()
