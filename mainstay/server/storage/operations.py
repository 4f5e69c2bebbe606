"""Operation ids: a write that may be sent again, because its second time is recognised.

A client names its write with `Mainstay-Operation: ID`. The id, a hash of the request and the outcome are stored in the
write's own transaction, so there is no moment in which one of them is there without the other. The same request again
is answered with the first outcome and `Mainstay-Repeated: true`; the same id with another request is a mistake of the
client, and refused (422). Ids are each user's own, and are forgotten after an hour.

A write that was refused leaves nothing behind: sent again, it is judged again. A dry run is not remembered.
"""

import hashlib
import logging
import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.headers import OPERATION
from mainstay.api.headers import REPEATED as REPEATED_HEADER
from mainstay.env import Clock, tasks, vital
from mainstay.http.messages import Request
from mainstay.server.auth.authorization import User
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.storage.stored import StoredWrite
from mainstay.store.errors import StoreError
from mainstay.store.interface import ABSENT, Check, DeleteEntry, Entry, Put, Store

REPEATED: Final = (REPEATED_HEADER, "true")
KEPT_FOR: Final = timedelta(hours=1)
SWEEP_EVERY: Final = timedelta(minutes=5)
SWEEP_ENTRIES: Final = 50  # Removed in one transaction.

OPERATIONS: Final = f"{INTERNAL_PREFIX}operations/"
_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
_logger = logging.getLogger(__name__)


class _Record(msgspec.Struct, frozen=True):
    """What is stored of an operation."""

    request: bytes
    """The hash of the request."""
    at_s: int
    outcome: StoredWrite
    """At revision 0: that of this record."""


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(_Record).decode


class Operation(msgspec.Struct, frozen=True):
    """One write that a client has given an id."""

    key: str
    request: bytes
    at_s: int

    @property
    def check(self) -> Check:
        return Check(self.key, ABSENT)

    def put(self, outcome: StoredWrite) -> Put:
        """What remembers it. An outcome without a revision has that of the transaction."""
        return Put(self.key, _encode(_Record(self.request, self.at_s, outcome)))

    def outcome_in(self, entry: Entry) -> StoredWrite:
        """What it led to the first time. Raises `StatusError` (422) if that was another request."""
        record = _decode(entry.value)
        if record.request != self.request:
            text = f"the operation {self.key.rpartition('/')[2]} was another request: give each its own id"
            raise StatusError(
                422, StatusReason.INVALID, text, {"causes": [{"reason": "OperationReused", "message": text}]}
            )
        first = record.outcome
        return replace(first, revision=first.revision or entry.revision, is_repeated=True)


def read_operation(request: Request, user: User, clock: Clock) -> Operation | None:
    """The operation that a request is, if it says so. Raises `StatusError` (400) for an id that is none."""
    name = request.headers.get(OPERATION)
    if not name:
        return None
    about = (request.method, request.target, request.headers.get("content-type") or "")
    return build_operation(name, about, request.body, user, clock)


def build_operation(name: str, about: Sequence[str], body: bytes, user: User, clock: Clock) -> Operation:
    """The operation that a client has given a name. `about` and `body` say what it is, all of it."""
    if _ID.fullmatch(name) is None:
        raise bad_request(f"{OPERATION} must be 1 to 128 letters, digits or any of . _ : -")
    said = hashlib.sha256()
    for part in about:
        said.update(part.encode() + b"\0")
    said.update(body)
    owner = hashlib.sha256(user.name.encode()).hexdigest()[:16]
    return Operation(f"{OPERATIONS}{owner}/{name}", said.digest()[:16], int(clock.wall().timestamp()))


def _read_age(entry: Entry) -> int:
    """When it was, in seconds. What cannot be read is of another version: old."""
    try:
        return _decode(entry.value).at_s
    except msgspec.MsgspecError:
        return 0


class Sweeper:
    """Forgets operations that are old enough. Several servers may do so at once."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._task = vital.spawn(self._run(), name="operations-sweeper")

    async def stop(self) -> None:
        await tasks.stop(self._task)

    async def _run(self) -> None:
        while True:
            await tasks.sleep(SWEEP_EVERY)
            try:
                await self._sweep()
            except StoreError as error:
                _logger.warning("cannot delete old operations; retrying in %s: %s", SWEEP_EVERY, error)

    async def _sweep(self) -> None:
        until_s = self._clock.wall().timestamp() - KEPT_FOR.total_seconds()
        page = await self._store.range(OPERATIONS)
        old = [entry for entry in page.entries if _read_age(entry) < until_s]
        for start in range(0, len(old), SWEEP_ENTRIES):
            await self._store.commit([], [DeleteEntry(entry.key) for entry in old[start : start + SWEEP_ENTRIES]])
