"""The seam between the store and etcd: etcd's key-value API in plain values, and its refusals as types.

Two implementations: `GrpcEtcdKv` (grpc_kv.py) talks to a real one, `FakeEtcdKv` (tests/store/fake_etcd.py) to a pretend
one. Both behave as Debian's etcd 3.4.23 does, its faults included, and tests/store/test_etcd_kv.py holds them to it.
Nothing is repeated, checked or repaired at this level: that is the store's work.

All reads are quorum reads: the answering member has first made sure that it knows of every commit acknowledged before.
Watches are not: a member delivers what it has applied, which may be behind.
"""

from collections.abc import Sequence
from typing import Protocol

import msgspec


class EtcdError(Exception):
    """The base of all of them."""


class RevisionCompacted(EtcdError):
    """The revision asked for is before what is still kept (to be compacted: is already). etcd does not say to where."""


class RevisionInFuture(EtcdError):
    """The revision asked for has not happened."""


class NoSpace(EtcdError):
    """The database has reached its quota. The transaction that reaches it is *done* and still answered with this."""


class TooManyRequests(EtcdError):
    """More is waiting than etcd cares to hold. The request was not taken on."""


class RequestTooLarge(EtcdError):
    """More bytes than etcd takes in one request. It was not taken on."""


class EtcdRejected(EtcdError):
    """etcd understood the request and will not have it: malformed, or not allowed. It was not taken on."""


class EtcdDenied(EtcdRejected):
    """etcd does not know this user or password, or the user may not do this. It was not taken on."""


class CorruptCluster(EtcdError):
    """The members have found that they disagree, and answer nothing else any more."""


class EtcdNotSent(EtcdError):
    """There is no connection, so the request has not left this process."""


class EtcdUntrusted(EtcdNotSent):
    """There is no connection because the two sides do not trust each other: TLS, or the lack of it."""


class NoAnswer(EtcdError):
    """It was sent, and no answer came: it may have been done, or not, or may still be."""


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """A key as of one revision."""

    key: bytes
    value: bytes
    create_revision: int
    mod_revision: int
    version: int


class RangeResult(msgspec.Struct, frozen=True):
    kvs: list[KeyValue]
    """In key order."""
    count: int
    """How many the range has at that revision, whatever the limit."""
    revision: int
    """The latest one when this was read, also if an older one was asked for."""


class Compare(msgspec.Struct, frozen=True, gc=False):
    """The key was last written at this revision; 0 if it is absent."""

    key: bytes
    mod_revision: int


class PutKey(msgspec.Struct, frozen=True, gc=False):
    key: bytes
    value: bytes


class DeleteKey(msgspec.Struct, frozen=True, gc=False):
    key: bytes


class GetKey(msgspec.Struct, frozen=True, gc=False):
    key: bytes


Operation = PutKey | DeleteKey | GetKey


class TxnResult(msgspec.Struct, frozen=True):
    succeeded: bool
    """Whether the comparisons held. Either way a list of operations was done."""
    revision: int
    """The one this made; if it changed nothing, the latest."""
    gets: list[KeyValue | None]
    """What the `GetKey`s among those operations found, in order."""


class EtcdEvent(msgspec.Struct, frozen=True, gc=False):
    is_delete: bool
    kv: KeyValue
    """Of a deletion: no value, `version` and `create_revision` are 0, and `mod_revision` is the one that deleted it."""
    previous: KeyValue | None
    """What was there before. Also None if compaction was faster."""


class WatchResponse(msgspec.Struct, frozen=True):
    revision: int
    """What the member knew when it made this. With events: that of the last one, or later if it was catching up."""
    created: bool
    canceled: bool
    compact_revision: int
    """If not 0: cancelled because history before this is gone."""
    events: list[EtcdEvent]
    """In the order of their revisions; all of a revision, or nothing of it."""


class WatchStream(Protocol):
    """One watch on one connection to one member."""

    async def next(self) -> WatchResponse:
        """Wait for the next response; the first one says `created`. Raises `NoAnswer` or `EtcdNotSent` if it breaks.

        A caller that is cancelled here must not use the stream again.
        """

    def cancel(self) -> None:
        """Let go of it."""


class EtcdKv(Protocol):
    """Every call may raise `EtcdNotSent`, `NoAnswer`, `TooManyRequests`, `EtcdRejected` and `CorruptCluster`."""

    async def range(
        self, key: bytes, end: bytes = b"", *, revision: int = 0, limit: int = 0, count_only: bool = False
    ) -> RangeResult:
        """The keys from `key` to before `end`; without an end, just `key`. Revision 0 is now, limit 0 is none.

        Raises `RevisionCompacted`, `RevisionInFuture`.
        """

    async def txn(
        self, compares: Sequence[Compare], success: Sequence[Operation], failure: Sequence[Operation]
    ) -> TxnResult:
        """Do one list of operations if all comparisons hold, and else the other.

        Raises `NoSpace`, `RequestTooLarge`.
        """

    async def compact(self, revision: int) -> None:
        """Forget what was replaced before a revision. Raises `RevisionCompacted`, `RevisionInFuture`."""

    def watch(self, key: bytes, end: bytes, *, start_revision: int) -> WatchStream:
        """The events from a revision on, with what was there before each. It connects when it is first read."""

    async def close(self) -> None:
        """Let calls that are under way come to their end, and disconnect."""
