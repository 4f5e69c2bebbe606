"""The pages about the store.

    GET /mainstay/backup   a backup of everything at one revision (store/backup_format.py)
    GET /mainstay/verify   read every record again (verification.py): a report as JSON, line by line as it grows

A backup has the values of all Secrets, so it is for those who may `get` that path: `system:masters`, and users of the
ClusterRole `system:mainstay:backup`. The client sets the pace: the next megabyte is made when it has taken the last
one, and a client that takes nothing for a minute is cut off. If the store fails on the way, the connection is cut off
too, and the end of the backup is missing, so no client can take it for a whole one.
"""

import logging
from collections.abc import AsyncGenerator, Awaitable
from contextlib import aclosing
from datetime import timedelta
from typing import Final

from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.store_pages import BACKUP_PATH, BACKUP_TYPE, VERIFY_PATH
from mainstay.env import Clock, tasks
from mainstay.http.messages import Answer, StreamResponse
from mainstay.http.streams import BodyStream, while_open
from mainstay.server.auth.authorization import Authorizers
from mainstay.server.backup.export import export_backup
from mainstay.server.backup.verification import StoreReport, encode_report, verify_store
from mainstay.server.request.context import ApiCall
from mainstay.server.request.router import find_page_access
from mainstay.server.request.target import method_not_allowed
from mainstay.store.errors import StoreError
from mainstay.store.interface import Store

AT_ONCE_MAX: Final = 2
PIECE_WITHIN: Final = timedelta(seconds=60)

_JSON_LINES: Final = "application/x-ndjson"
_NO_CACHE: Final = ("Cache-Control", "no-cache, private")
_log = logging.getLogger(__name__)


class StorePages:
    """Implements `Route` (request/router.py)."""

    def __init__(self, store: Store, clock: Clock, authorizers: Authorizers, worker: tasks.Worker) -> None:
        self._store = store
        self._clock = clock
        self._authorizers = authorizers
        self._worker = worker
        self._running = 0

    def resolve(self, call: ApiCall) -> Answer | None:
        return None

    def authorize(self, call: ApiCall) -> None:
        call.access_reason = self._authorizers.require(call.user, find_page_access(call))

    def handle(self, call: ApiCall) -> Answer | Awaitable[Answer]:
        path = call.request.path
        if path not in (BACKUP_PATH, VERIFY_PATH):
            raise StatusError(404, StatusReason.NOT_FOUND, f"page {path!r} not found", {})
        if call.request.method != "GET":
            raise method_not_allowed()
        if self._running >= AT_ONCE_MAX:
            text = f"{self._running} backups or verifications are running already; retry later"
            raise StatusError(429, StatusReason.TOO_MANY_REQUESTS, text, retry_after_s=10)
        if path == BACKUP_PATH:
            return StreamResponse(200, self._send_backup, BACKUP_TYPE, (_NO_CACHE,))
        return StreamResponse(200, self._send_report, _JSON_LINES, (_NO_CACHE,))

    async def _send_backup(self, stream: BodyStream) -> None:
        await self._send(export_backup(self._store, self._clock, self._worker), stream)

    async def _send_report(self, stream: BodyStream) -> None:
        await self._send(self._report(), stream)

    async def _report(self) -> AsyncGenerator[bytes, None]:
        report = StoreReport()
        async for report in verify_store(self._store, self._worker):
            yield encode_report(report, is_last=False)
        yield encode_report(report, is_last=True)

    async def _send(self, pieces: AsyncGenerator[bytes, None], stream: BodyStream) -> None:
        self._running += 1
        is_whole = False

        async def send() -> None:
            nonlocal is_whole
            is_whole = await _send_pieces(pieces, stream)

        try:
            await while_open(stream, send())
        except StoreError as error:
            _log.warning("a backup or verification failed: %s", error)
        finally:
            self._running -= 1
            if not is_whole:
                stream.break_off()


async def _send_pieces(pieces: AsyncGenerator[bytes, None], stream: BodyStream) -> bool:
    """Send them as the client takes them. Returns whether all were sent."""
    async with aclosing(pieces):
        async for piece in pieces:
            await stream.turn()
            if not stream.write(piece):
                return False
            if stream.is_behind and not await stream.drained_within(PIECE_WITHIN):
                return False
    return True
