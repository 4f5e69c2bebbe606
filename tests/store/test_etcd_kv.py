"""What etcd does at key-value level: one suite, on a real etcd and on the pretend one of the simulator.

It holds the fake to the truth, and records those faults of etcd 3.4 that the store has to work around: when a newer
etcd makes one of these tests fail, the workaround can be looked at again.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Protocol, TypeVar

import pytest

from mainstay.env import tasks
from mainstay.store.etcd import grpc_kv
from mainstay.store.etcd.backoff import FIRST
from mainstay.store.etcd.grpc_kv import GrpcEtcdKv
from mainstay.store.etcd.kv import (
    Compare,
    DeleteKey,
    EtcdError,
    EtcdEvent,
    EtcdKv,
    EtcdNotSent,
    EtcdRejected,
    GetKey,
    KeyValue,
    NoAnswer,
    NoSpace,
    PutKey,
    RequestTooLarge,
    RevisionCompacted,
    RevisionInFuture,
    WatchResponse,
    WatchStream,
)
from tests.requirements import needs
from tests.store.etcd_process import EtcdProcess, shared_etcd, unique_prefix
from tests.store.fake_etcd import FakeEtcd

T = TypeVar("T")

CLUSTERS = ["fake", pytest.param("etcd", marks=[pytest.mark.real_loop, needs("etcd")])]


@pytest.fixture(params=CLUSTERS)
def cluster(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@dataclass(frozen=True)
class Space:
    """A client, and a part of the cluster's keys that no other test uses."""

    kv: EtcdKv
    root: bytes

    def key(self, name: str) -> bytes:
        return self.root + name.encode()

    async def put(self, *names: str, value: bytes = b"value") -> int:
        return (await self.kv.txn([], [PutKey(self.key(name), value) for name in names], [])).revision

    async def delete(self, *names: str) -> int:
        return (await self.kv.txn([], [DeleteKey(self.key(name)) for name in names], [])).revision

    async def get(self, name: str, revision: int = 0) -> KeyValue | None:
        result = await self.kv.range(self.key(name), revision=revision)
        return result.kvs[0] if result.kvs else None

    async def revision(self) -> int:
        return (await self.kv.range(self.root)).revision

    @asynccontextmanager
    async def watch(self, start_revision: int) -> AsyncIterator[WatchStream]:
        stream = self.kv.watch(self.root, self.root[:-1] + b"0", start_revision=start_revision)
        try:
            yield stream
        finally:
            stream.cancel()


@asynccontextmanager
async def a_space(cluster: str) -> AsyncIterator[Space]:
    kv = FakeEtcd().client() if cluster == "fake" else GrpcEtcdKv([shared_etcd().endpoint])
    try:
        yield Space(kv, unique_prefix().encode())
    finally:
        await kv.close()


class Crashable(Protocol):
    def start(self) -> None: ...

    def kill(self) -> None: ...


@asynccontextmanager
async def a_cluster_of_its_own(cluster: str) -> AsyncIterator[tuple[Crashable, Space]]:
    if cluster == "fake":
        fake = FakeEtcd()
        yield fake, Space(fake.client(), b"/")
        return
    with EtcdProcess() as etcd:
        kv = GrpcEtcdKv([etcd.endpoint])
        try:
            yield etcd, Space(kv, b"/")
        finally:
            await kv.close()


def an_event(revision: int, key: bytes, *, previous: KeyValue | None, value: bytes = b"value") -> EtcdEvent:
    created, version = (revision, 1) if previous is None else (previous.create_revision, previous.version + 1)
    return EtcdEvent(False, KeyValue(key, value, created, revision, version), previous)


def a_deletion(revision: int, previous: KeyValue) -> EtcdEvent:
    return EtcdEvent(True, KeyValue(previous.key, b"", 0, revision, 0), previous)


async def events(stream: WatchStream, count: int) -> list[EtcdEvent]:
    found: list[EtcdEvent] = []
    while len(found) < count:
        response = await stream.next()
        assert not response.canceled
        found += response.events
    return found


# Revisions and numbers.


async def test_a_new_cluster_is_at_revision_1(cluster: str) -> None:
    async with a_cluster_of_its_own(cluster) as (_, space):
        assert await space.revision() == 1


async def test_each_put_makes_the_next_revision_and_counts_the_versions_of_its_key(cluster: str) -> None:
    async with a_space(cluster) as space:
        first = await space.put("a", value=b"1")
        second = await space.put("a", value=b"2")

        assert second == first + 1
        assert await space.get("a") == KeyValue(space.key("a"), b"2", first, second, 2)


async def test_a_key_made_again_after_its_deletion_starts_over(cluster: str) -> None:
    async with a_space(cluster) as space:
        await space.put("a")
        await space.delete("a")
        again = await space.put("a")

        assert await space.get("a") == KeyValue(space.key("a"), b"value", again, again, 1)


async def test_all_writes_of_a_transaction_are_one_revision(cluster: str) -> None:
    async with a_space(cluster) as space:
        before = await space.put("a", "b")
        result = await space.kv.txn([], [PutKey(space.key("c"), b""), DeleteKey(space.key("a"))], [])

        assert result.revision == before + 1
        assert await space.get("a") is None
        assert await space.get("c") == KeyValue(space.key("c"), b"", result.revision, result.revision, 1)


async def test_deleting_an_absent_key_makes_no_revision(cluster: str) -> None:
    async with a_space(cluster) as space:
        latest = await space.put("a")

        assert await space.delete("b") == latest
        assert await space.revision() == latest


# Comparisons.


async def test_a_comparison_holds_when_the_key_was_last_written_at_that_revision(cluster: str) -> None:
    async with a_space(cluster) as space:
        revision = await space.put("a")
        key = space.key("a")

        result = await space.kv.txn([Compare(key, revision)], [PutKey(key, b"new")], [GetKey(key)])

        assert (result.succeeded, result.revision, result.gets) == (True, revision + 1, [])
        assert await space.get("a") == KeyValue(key, b"new", revision, revision + 1, 2)


async def test_a_comparison_with_0_holds_only_for_an_absent_key(cluster: str) -> None:
    async with a_space(cluster) as space:
        await space.put("gone")
        latest = await space.delete("gone")
        absent, gone, there = (space.key(name) for name in ("absent", "gone", "there"))

        made = await space.kv.txn([Compare(absent, 0), Compare(gone, 0)], [PutKey(there, b"")], [])
        again = await space.kv.txn([Compare(there, 0)], [PutKey(there, b"")], [])

        assert (made.succeeded, made.revision) == (True, latest + 1)
        assert (again.succeeded, again.revision) == (False, latest + 1)


async def test_if_one_comparison_fails_only_the_other_list_is_done_and_its_gets_come_in_order(cluster: str) -> None:
    async with a_space(cluster) as space:
        revision = await space.put("a", "b")
        a, b, c = (space.key(name) for name in "abc")

        result = await space.kv.txn(
            [Compare(a, revision), Compare(b, revision - 1)],
            [PutKey(a, b"new")],
            [GetKey(b), GetKey(c), GetKey(a)],
        )

        assert (result.succeeded, result.revision) == (False, revision)
        assert result.gets == [
            KeyValue(b, b"value", revision, revision, 1),
            None,
            KeyValue(a, b"value", revision, revision, 1),
        ]


async def test_a_get_in_a_transaction_sees_what_was_written_before_it(cluster: str) -> None:
    async with a_space(cluster) as space:
        key = space.key("a")

        result = await space.kv.txn([], [GetKey(key), PutKey(key, b"new"), GetKey(key)], [])

        assert result.gets == [None, KeyValue(key, b"new", result.revision, result.revision, 1)]


# What is refused.


async def test_a_transaction_writes_each_key_once(cluster: str) -> None:
    async with a_space(cluster) as space:
        key = space.key("a")
        before = await space.put("a")

        with pytest.raises(EtcdRejected, match="duplicate key"):
            await space.kv.txn([], [PutKey(key, b"1"), PutKey(key, b"2")], [])
        with pytest.raises(EtcdRejected, match="duplicate key"):
            await space.kv.txn([], [PutKey(key, b"1"), DeleteKey(key)], [])
        assert await space.revision() == before


async def test_a_transaction_may_delete_a_key_twice(cluster: str) -> None:
    async with a_space(cluster) as space:
        before = await space.put("a")

        assert await space.delete("a", "a") == before + 1


async def test_a_key_is_not_empty(cluster: str) -> None:
    async with a_space(cluster) as space:
        with pytest.raises(EtcdRejected, match="key is not provided"):
            await space.kv.txn([], [PutKey(b"", b"")], [])
        with pytest.raises(EtcdRejected, match="key is not provided"):
            await space.kv.range(b"")


async def test_a_transaction_has_at_most_128_operations_of_a_kind(cluster: str) -> None:
    async with a_space(cluster) as space:
        puts = [PutKey(space.key(str(number)), b"") for number in range(129)]

        assert (await space.kv.txn([Compare(put.key, 0) for put in puts[1:]], puts[1:], [])).succeeded
        with pytest.raises(EtcdRejected, match="too many operations"):
            await space.kv.txn([], puts, [])


@pytest.mark.parametrize("size", [1_572_864, 3_000_000], ids=["just above", "far above"])
async def test_a_request_has_at_most_one_and_a_half_mebibytes(cluster: str, size: int) -> None:
    async with a_space(cluster) as space:
        await space.put("a", value=bytes(1_572_864 - 200))
        with pytest.raises(RequestTooLarge):
            await space.put("a", value=bytes(size))


# Ranges.


async def test_a_range_is_in_key_order_and_without_its_end(cluster: str) -> None:
    async with a_space(cluster) as space:
        await space.put("b", "c", "a", "ab")

        result = await space.kv.range(space.key("a"), space.key("c"))

        assert [kv.key for kv in result.kvs] == [space.key(name) for name in ("a", "ab", "b")]


async def test_a_limited_range_still_tells_how_many_there_are(cluster: str) -> None:
    async with a_space(cluster) as space:
        revision = await space.put("a", "b", "c")

        limited = await space.kv.range(space.key("a"), space.key("z"), limit=2)
        counted = await space.kv.range(space.key("a"), space.key("z"), count_only=True)

        assert ([kv.key for kv in limited.kvs], limited.count) == ([space.key("a"), space.key("b")], 3)
        assert (counted.kvs, counted.count, counted.revision) == ([], 3, revision)


async def test_an_old_revision_can_be_read_and_the_latest_is_told_with_it(cluster: str) -> None:
    async with a_space(cluster) as space:
        first = await space.put("a", value=b"1")
        await space.put("a", value=b"2")
        await space.put("b")
        last = await space.delete("a")

        result = await space.kv.range(space.key("a"), space.key("z"), revision=first)

        assert result.kvs == [KeyValue(space.key("a"), b"1", first, first, 1)]
        assert (result.count, result.revision) == (1, last)


async def test_a_revision_that_has_not_happened_cannot_be_read_or_compacted_to(cluster: str) -> None:
    async with a_space(cluster) as space:
        latest = await space.put("a")

        with pytest.raises(RevisionInFuture):
            await space.get("a", revision=latest + 1)
        with pytest.raises(RevisionInFuture):
            await space.kv.compact(latest + 1)


# Compaction.


async def test_compaction_keeps_what_was_current_at_its_revision(cluster: str) -> None:
    async with a_space(cluster) as space:
        first = await space.put("a", value=b"1")
        second = await space.put("a", value=b"2")
        await space.put("a", value=b"3")

        await space.kv.compact(second)

        assert await space.get("a", revision=second) == KeyValue(space.key("a"), b"2", first, second, 2)
        with pytest.raises(RevisionCompacted):
            await space.get("a", revision=first)


async def test_what_is_compacted_cannot_be_compacted_again(cluster: str) -> None:
    async with a_space(cluster) as space:
        first = await space.put("a")
        second = await space.put("a")
        await space.kv.compact(second)

        with pytest.raises(RevisionCompacted):
            await space.kv.compact(second)
        with pytest.raises(RevisionCompacted):
            await space.kv.compact(first)


# Watches.


async def test_a_watch_says_first_that_it_is_there_and_what_its_member_knows(cluster: str) -> None:
    async with a_space(cluster) as space:
        latest = await space.put("a")
        async with space.watch(latest + 1) as stream:
            assert await stream.next() == WatchResponse(latest, True, False, 0, [])


async def test_a_watch_tells_what_happens_revision_by_revision_with_what_was_there_before(cluster: str) -> None:
    async with a_space(cluster) as space:
        start = await space.revision() + 1
        async with space.watch(start) as stream:
            await stream.next()
            await space.put("a", "b")
            await space.put("b", value=b"new")
            await space.delete("a")

            a, b = (KeyValue(space.key(name), b"value", start, start, 1) for name in "ab")
            expected = [
                [an_event(start, a.key, previous=None), an_event(start, b.key, previous=None)],
                [an_event(start + 1, b.key, value=b"new", previous=b)],
                [a_deletion(start + 2, a)],
            ]
            for revision, found in enumerate(expected, start):
                assert await stream.next() == WatchResponse(revision, False, False, 0, found)


async def test_a_watch_tells_nothing_of_keys_outside_its_range(cluster: str) -> None:
    async with a_space(cluster) as space:
        start = await space.revision() + 1
        stream = space.kv.watch(space.key("b"), space.key("d"), start_revision=start)
        await stream.next()
        for name in ("a", "d", "c"):
            await space.put(name)

        assert [event.kv.key for event in await events(stream, 1)] == [space.key("c")]
        stream.cancel()


async def test_a_watch_from_the_past_catches_up_under_the_latest_revision_and_goes_on(cluster: str) -> None:
    async with a_space(cluster) as space:
        first = await space.put("a")
        second = await space.put("a")
        async with space.watch(first) as stream:
            await stream.next()
            caught_up = await stream.next()
            third = await space.put("b")
            live = await stream.next()

        assert [event.kv.mod_revision for event in caught_up.events] == [first, second]
        assert caught_up.revision == second
        assert live == WatchResponse(third, False, False, 0, [an_event(third, space.key("b"), previous=None)])


async def test_a_watch_that_catches_up_gets_at_most_1000_revisions_at_a_time_and_none_in_parts(cluster: str) -> None:
    async with a_space(cluster) as space:
        start = await space.revision() + 1
        for _ in range(25):
            await asyncio.gather(*(space.put("a", "b") for _ in range(41)))
        async with space.watch(start) as stream:
            await stream.next()
            first, second = await stream.next(), await stream.next()

        for response, revisions in ((first, 1000), (second, 25)):
            assert response.revision == start + 1024
            assert len({event.kv.mod_revision for event in response.events}) == revisions
            assert len(response.events) == 2 * revisions


async def test_a_watch_from_the_future_waits_for_it(cluster: str) -> None:
    async with a_space(cluster) as space:
        latest = await space.revision()
        async with space.watch(latest + 3) as stream:
            assert (await stream.next()).revision == latest
            for _ in range(3):
                await space.put("a")
            assert [event.kv.mod_revision for event in await events(stream, 1)] == [latest + 3]


async def test_a_watch_that_begins_before_what_is_compacted_is_told_how_far_that_is(cluster: str) -> None:
    async with a_space(cluster) as space:
        first = await space.put("a")
        second = await space.put("a")
        await space.kv.compact(second)
        async with space.watch(first) as stream:
            assert (await stream.next()).created
            response = await stream.next()

        assert (response.canceled, response.compact_revision, response.events) == (True, second, [])


async def test_a_watch_from_exactly_the_compacted_revision_is_not_told_of_its_deletions(cluster: str) -> None:
    """A fault: https://github.com/etcd-io/etcd/issues/18089."""
    async with a_space(cluster) as space:
        await space.put("a")
        deleted = await space.delete("a")
        later = await space.put("b")
        await space.kv.compact(deleted)

        told = [deleted, later]
        while told != [later]:  # The real one takes a moment to forget.
            async with space.watch(deleted) as stream:
                told = [event.kv.mod_revision for event in await events(stream, 1)]


async def test_what_was_there_before_is_silently_left_out_when_it_is_compacted(cluster: str) -> None:
    """A fault, or at least a trap: it looks as if there had been nothing."""
    async with a_space(cluster) as space:
        first = await space.put("a")
        second = await space.put("a")
        await space.kv.compact(second)
        async with space.watch(second) as stream:
            found = await events(stream, 1)

        assert found == [EtcdEvent(False, KeyValue(space.key("a"), b"value", first, second, 2), None)]


async def test_a_watch_goes_on_while_what_it_has_already_told_is_compacted(cluster: str) -> None:
    async with a_space(cluster) as space:
        start = await space.revision() + 1
        async with space.watch(start) as stream:
            for _ in range(3):
                revision = await space.put("a")
                assert [event.kv.mod_revision for event in await events(stream, 1)] == [revision]
                await space.kv.compact(revision)


# Failures.


async def test_a_full_cluster_refuses_puts_but_not_deletions(cluster: str) -> None:
    if cluster == "fake":
        fake = FakeEtcd()
        space = Space(fake.client(), b"/")
        await space.put("a")
        fake.is_full = True
        await _expect_full(space)
        return
    with EtcdProcess("--quota-backend-bytes=1000000") as etcd:
        space = Space(GrpcEtcdKv([etcd.endpoint]), b"/")
        with pytest.raises(NoSpace):
            await _put_many(space, 100)
        await _expect_full(space)
        await space.kv.close()


async def _put_many(space: Space, count: int) -> None:
    for _ in range(count):
        await space.put("a", value=bytes(100_000))


async def _expect_full(space: Space) -> None:
    before = await space.revision()
    with pytest.raises(NoSpace):
        await space.put("b")
    assert await space.get("b") is None
    assert await space.delete("a") == before + 1


async def test_the_transaction_that_fills_the_cluster_is_done_and_still_answered_with_no_space() -> None:
    """A trap. (On a real etcd this takes several transactions at once; test_etcd_store.py has that.)"""
    fake = FakeEtcd()
    space = Space(fake.client(), b"/")
    fake.fills_up_at_next_put = True

    with pytest.raises(NoSpace):
        await space.put("a")

    assert await space.get("a") == KeyValue(b"/a", b"value", 2, 2, 1)


@pytest.mark.slow
async def test_a_cluster_that_is_down_breaks_watches_and_is_sent_nothing_and_its_data_is_there_again(
    cluster: str,
) -> None:
    async with a_cluster_of_its_own(cluster) as (etcd, space):
        revision = await space.put("a")
        async with space.watch(revision + 1) as stream:
            await stream.next()
            etcd.kill()
            with pytest.raises(NoAnswer):
                await stream.next()

        with pytest.raises(EtcdNotSent):
            await _repeat_on(NoAnswer, lambda: space.put("b"))  # At first the broken connection may go unnoticed.

        etcd.start()
        assert await _repeat_on(EtcdNotSent, lambda: space.get("a")) == KeyValue(
            space.key("a"), b"value", revision, revision, 1
        )
        assert await space.get("b") is None


async def _repeat_on(error: type[EtcdError], call: Callable[[], Awaitable[T]]) -> T:
    while True:
        try:
            return await call()
        except error:
            await tasks.sleep(FIRST)


async def test_a_closed_client_sends_nothing(cluster: str) -> None:
    async with a_space(cluster) as space:
        await space.kv.close()
        with pytest.raises(EtcdNotSent):
            await space.put("a")
        async with space.watch(1) as stream:
            with pytest.raises(EtcdNotSent):
                await stream.next()


@needs("etcd")
@pytest.mark.real_loop
async def test_an_endpoint_that_does_not_answer_is_passed_over() -> None:
    with EtcdProcess() as dead:
        dead.kill()
        kv = GrpcEtcdKv([dead.endpoint, shared_etcd().endpoint])
        space = Space(kv, unique_prefix().encode())
        revision = await space.put("a")
        async with space.watch(revision) as stream:
            assert [event.kv.mod_revision for event in await events(stream, 1)] == [revision]
        await kv.close()


@pytest.mark.slow
@needs("etcd")
@pytest.mark.real_loop
async def test_a_member_that_is_stuck_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten times as fast as in real life, so that the test is not."""
    faster = [
        (name, value // 10 if name in ("grpc.keepalive_time_ms", "grpc.http2.ping_timeout_ms") else value)
        for name, value in grpc_kv._CHANNEL_OPTIONS
    ]
    monkeypatch.setattr(grpc_kv, "_CHANNEL_OPTIONS", faster)
    with EtcdProcess() as etcd:
        kv = GrpcEtcdKv([etcd.endpoint])
        stream = kv.watch(b"a", b"b", start_revision=1)
        await stream.next()
        etcd.freeze()

        async with tasks.timeout((grpc_kv.KEEPALIVE_TIME + grpc_kv.KEEPALIVE_TIMEOUT) / 2):
            with pytest.raises(NoAnswer):
                await stream.next()
        await kv.close()
