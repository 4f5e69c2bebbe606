"""Asking the other API servers of a cluster for what they have collected.

Components tell their decisions to one server, whichever they are connected to; so does the record of who asked for a
write stay where the request came. A question to any server must be answered from all of them: `PeerJournals` finds the
others in the store (server/services/api_service.py), and asks each for its own part.

A server knows another by the digest of its certificate, which is in the store, and shows its own client certificate: of
the cluster's authority, which all servers share, and of the group that may read journals and nothing else. A question
to a peer is marked, so that it answers from its own journal only: there are no loops. It has `ANSWERED_WITHIN` for it.
"""

import contextlib
import ssl
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from functools import partial
from typing import Final
from urllib.parse import urlencode

from mainstay.api.headers import PEER
from mainstay.http.outgoing import Exchange, ExchangeBroken, WrongCertificate, connect
from mainstay.journal import wire
from mainstay.journal.errors import JournalUnreachable
from mainstay.journal.interface import Journal
from mainstay.journal.joint_journal import JournalMember
from mainstay.journal.paged_journal import PagedJournal
from mainstay.journal.wire import Pairs
from mainstay.server.services.api_service import ServerEndpoint
from mainstay.store.errors import StoreError

CONNECTED_WITHIN: Final = timedelta(seconds=2)
ANSWERED_WITHIN: Final = timedelta(seconds=5)
PAGE_BYTES_MAX: Final = 256 * 1024 * 1024
_OK: Final = 200
_DENIED: Final = (401, 403)


class PeerJournals:
    """The journals of this server and of its peers."""

    def __init__(
        self,
        own: Journal,
        find_peers: Callable[[], Awaitable[Sequence[ServerEndpoint]]],
        tls: Callable[[], ssl.SSLContext | None],
        token: str,
    ) -> None:
        """`tls` is what we show now, and `token` what we show where there is no TLS."""
        self._own = JournalMember("this server", own)
        self._find_peers = find_peers
        self._tls = tls
        self._token = token
        self._peers: Sequence[ServerEndpoint] = ()

    async def find_members(self) -> Sequence[JournalMember]:
        """Those that are alive, this server first. Without the store: those that were alive the last time."""
        with contextlib.suppress(StoreError):
            self._peers = await self._find_peers()
        return [self._own, *(self._member(each) for each in self._peers)]

    def _member(self, peer: ServerEndpoint) -> JournalMember:
        name = f"[{peer.host}]:{peer.port}" if ":" in peer.host else f"{peer.host}:{peer.port}"
        return JournalMember(name, PagedJournal(name, partial(self._fetch, peer, name)))

    async def _fetch(self, peer: ServerEndpoint, name: str, page: str, query: Pairs) -> tuple[bytes, str]:
        try:
            exchange = await connect(
                Exchange,
                peer.host,
                peer.port,
                CONNECTED_WITHIN,
                tls=self._tls() if peer.digest else None,
                digest=peer.digest,
            )
        except WrongCertificate:
            raise JournalUnreachable("another server answers there, or its certificate has just been renewed") from None
        except OSError as error:
            raise JournalUnreachable(f"cannot connect: {str(error) or 'no answer'}") from None
        try:
            head = await exchange.ask(_request(name, page, query, "" if peer.digest else self._token), ANSWERED_WITHIN)
            body = await exchange.read_all(PAGE_BYTES_MAX, ANSWERED_WITHIN)
        except ExchangeBroken as broken:
            raise JournalUnreachable(str(broken)) from None
        finally:
            exchange.close()
        if head.status in _DENIED:
            raise JournalUnreachable(
                f"it denies access ({head.status}): servers of one cluster need the same ca.crt and ca.key"
            )
        if head.status != _OK:
            raise JournalUnreachable(f"it answers {head.status}")
        return body, head.headers.get("content-type") or ""


def _request(host: str, page: str, query: Pairs, token: str) -> bytes:
    lines = [
        f"GET {wire.PATH}{page}?{urlencode(query)} HTTP/1.1",
        f"Host: {host}",
        f"Accept: {wire.COMPRESSED}, {wire.RECORDS}",
        f"{PEER}: true",
        "Connection: close",
        *([f"Authorization: Bearer {token}"] if token else []),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
