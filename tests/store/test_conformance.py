"""What every store promises, proved on all of them: the suite behind `mainstay/store/interface.py`.

Nothing here may know which store it runs on. Revisions are counted from where the store stands at the beginning, since
several tests share one real etcd.
"""

import asyncio
from typing import Any

import pytest

from mainstay.store.errors import Compacted, FutureRevision, InvalidStoreRequest, StoreClosed, TransactionTooLarge
from mainstay.store.interface import (
    ABSENT,
    KEY_BYTES_MAX,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_OPERATIONS_MAX,
    Check,
    Committed,
    DeleteEntry,
    Entry,
    Put,
    TransactionRefused,
)
from tests.store.conformance import delete, keys, put

# Commits


async def test_each_commit_gets_the_next_revision(backend):
    async with backend.open() as store:
        start = await store.revision()

        revisions = [await put(store, "a"), await put(store, "b"), await put(store, "a"), await delete(store, "a")]

        assert revisions == [start + 1, start + 2, start + 3, start + 4]
        assert await store.revision() == start + 4


async def test_an_entry_tells_when_it_was_made_and_how_often_it_was_written(backend):
    async with backend.open() as store:
        first = await put(store, "a", b"1")
        assert await store.get("a") == Entry("a", b"1", created=first, revision=first, version=1)

        second = await put(store, "a", b"2")
        assert await store.get("a") == Entry("a", b"2", created=first, revision=second, version=2)


async def test_a_key_that_is_made_again_starts_over(backend):
    async with backend.open() as store:
        await put(store, "a")
        await put(store, "a")
        await delete(store, "a")
        assert await store.get("a") is None

        again = await put(store, "a")

        assert await store.get("a") == Entry("a", b"value", created=again, revision=again, version=1)


async def test_a_commit_whose_checks_hold_does_all_its_writes_at_one_revision(backend):
    async with backend.open() as store:
        a = await put(store, "a", b"old")
        await put(store, "b")

        answer = await store.commit(
            [Check("a", a), Check("c", ABSENT)], [Put("a", b"new"), DeleteEntry("b"), Put("c", b"made")]
        )

        assert isinstance(answer, Committed)
        found = (await store.range("")).entries
        assert [(entry.key, entry.value, entry.revision) for entry in found] == [
            ("a", b"new", answer.revision),
            ("c", b"made", answer.revision),
        ]


async def test_a_failed_check_refuses_everything_and_tells_what_is_there(backend):
    async with backend.open() as store:
        a = await put(store, "a")
        b = await put(store, "b", b"theirs")
        before = await store.revision()

        answer = await store.commit(
            [Check("a", a), Check("b", b - 1), Check("c", b)], [Put("a", b"mine"), Put("d", b"mine")]
        )

        assert answer == TransactionRefused({"b": Entry("b", b"theirs", b, b, 1), "c": None})
        assert await store.revision() == before
        assert await keys(store, "") == ["a", "b"]


async def test_a_check_for_absence_is_refused_by_a_key_that_is_there(backend):
    async with backend.open() as store:
        revision = await put(store, "a")

        answer = await store.commit([Check("a", ABSENT)], [Put("a", b"again")])

        assert answer == TransactionRefused({"a": Entry("a", b"value", revision, revision, 1)})


async def test_a_check_on_a_deleted_key_is_refused(backend):
    async with backend.open() as store:
        revision = await put(store, "a")
        await delete(store, "a")

        assert await store.commit([Check("a", revision)], [Put("a", b"late")]) == TransactionRefused({"a": None})


async def test_deleting_what_is_not_there_changes_nothing(backend):
    async with backend.open() as store:
        start = await put(store, "a")

        assert await store.commit([], [DeleteEntry("b")]) == Committed(start)
        assert await store.revision() == start


async def test_of_racing_commits_on_one_key_exactly_one_wins_each_round(backend):
    async with backend.open() as store:
        revision = await put(store, "counter", b"0")
        for number in range(1, 6):
            contenders = [
                store.commit([Check("counter", revision)], [Put("counter", f"{number}/{who}".encode())])
                for who in range(10)
            ]
            answers = await asyncio.gather(*contenders)

            winners = [answer for answer in answers if isinstance(answer, Committed)]
            assert len(winners) == 1
            revision = winners[0].revision
        entry = await store.get("counter")
        assert entry is not None
        assert entry.version == 6


async def test_commits_that_build_on_each_other_need_not_wait_for_each_other(backend):
    """Each of them is asked for before any has been answered, and all succeed, in order."""
    async with backend.open() as store:
        answers = await asyncio.gather(*(store.commit([], [Put("a", str(n).encode())]) for n in range(20)))

        revisions = [answer.revision for answer in answers if isinstance(answer, Committed)]
        assert len(set(revisions)) == 20
        entry = await store.get("a")
        assert entry is not None
        assert entry.version == 20


# Ranges


async def test_a_range_is_in_key_order_and_covers_just_the_prefix(backend):
    async with backend.open() as store:
        for key in ["pods/b", "pods/a", "pods0", "pod", "pods/ü", "pods/Z", "pods/\U0001f600", "pods/\ufffd", "qods/a"]:
            await put(store, key)

        assert await keys(store, "pods/") == ["pods/Z", "pods/a", "pods/b", "pods/ü", "pods/\ufffd", "pods/\U0001f600"]
        assert await keys(store, "pods/a") == ["pods/a"]
        assert await keys(store, "pods") == [*await keys(store, "pods/"), "pods0"]
        assert len(await keys(store, "")) == 9
        assert await keys(store, "nothing") == []


async def test_a_prefix_of_the_last_characters_there_are_has_an_end_too(backend):
    async with backend.open() as store:
        await put(store, "a\U0010ffff")
        await put(store, "a\U0010ffffx")
        await put(store, "b")

        assert await keys(store, "a\U0010ffff") == ["a\U0010ffff", "a\U0010ffffx"]


async def test_the_state_of_an_old_revision_can_be_read(backend):
    async with backend.open() as store:
        await put(store, "a", b"1")
        await put(store, "b", b"1")
        old = await put(store, "a", b"2")
        await delete(store, "b")
        await put(store, "c", b"1")
        await put(store, "a", b"3")

        page = await store.range("", at=old)

        assert [(entry.key, entry.value, entry.version) for entry in page.entries] == [("a", b"2", 2), ("b", b"1", 1)]
        assert page.revision == old
        entry = await store.get("a", at=old)
        assert entry is not None
        assert entry.value == b"2"
        assert await store.get("c", at=old) is None
        assert await store.get("b", at=old) is not None


async def test_pages_stay_on_the_snapshot_of_the_first(backend):
    async with backend.open() as store:
        for number in range(7):
            await put(store, f"pods/{number}")

        first = await store.range("pods/", limit=3)
        await delete(store, "pods/4")
        await put(store, "pods/31")
        await put(store, "pods/5", b"changed")
        second = await store.range("pods/", limit=3, at=first.revision, after=first.entries[-1].key)
        third = await store.range("pods/", limit=3, at=first.revision, after=second.entries[-1].key)

        assert [entry.key for page in (first, second, third) for entry in page.entries] == [
            f"pods/{number}" for number in range(7)
        ]
        assert {entry.value for entry in second.entries} == {b"value"}
        assert [page.remaining for page in (first, second, third)] == [4, 1, 0]
        assert {page.revision for page in (first, second, third)} == {first.revision}


async def test_a_page_of_the_latest_state_tells_how_much_is_left(backend):
    async with backend.open() as store:
        for number in range(5):
            await put(store, f"pods/{number}")
        await put(store, "z")

        page = await store.range("pods/", limit=2)
        rest = await store.range("pods/", after="pods/1")

        assert (len(page.entries), page.remaining) == (2, 3)
        assert ([entry.key for entry in rest.entries], rest.remaining) == (["pods/2", "pods/3", "pods/4"], 0)
        assert page.revision == await store.revision()


async def test_a_page_after_a_key_before_the_prefix_is_the_first_page(backend):
    async with backend.open() as store:
        await put(store, "b/1")
        await put(store, "a/1")

        assert [entry.key for entry in (await store.range("b/", after="a/9")).entries] == ["b/1"]
        assert (await store.range("b/", after="c")).entries == []


async def test_a_large_range_is_complete(backend):
    async with backend.open() as store:
        for start in range(0, 2500, 50):
            await store.commit([], [Put(f"pods/{number:05}", bytes(100)) for number in range(start, start + 50)])

        page = await store.range("pods/")

        assert [entry.key for entry in page.entries] == [f"pods/{number:05}" for number in range(2500)]
        assert page.remaining == 0


# What cannot be


async def test_the_future_cannot_be_read_or_compacted(backend):
    async with backend.open() as store:
        latest = await put(store, "a")

        for impossible in (
            store.range("", at=latest + 1),
            store.get("a", at=latest + 100),
            store.compact(latest + 1),
            anext(store.watch("", after=latest + 1)),
        ):
            with pytest.raises(FutureRevision) as caught:
                await impossible
            assert caught.value.latest == latest


BAD_COMMITS: dict[str, tuple[list[Any], list[Any]]] = {
    "nothing to write": ([Check("a", 0)], []),
    "an empty key": ([], [Put("", b"")]),
    "an empty key to delete": ([], [DeleteEntry("")]),
    "an empty key to check": ([Check("", 0)], [Put("a", b"")]),
    "a key that is too long": ([], [Put("k" * (KEY_BYTES_MAX + 1), b"")]),
    "a key of more bytes than allowed": ([], [Put("ü" * (KEY_BYTES_MAX // 2 + 1), b"")]),
    "a key that is no text": ([], [Put("a\ud800", b"")]),
    "a value that is too large": ([], [Put("a", bytes(TRANSACTION_BYTES_MAX))]),
    "values that are too large together": (
        [],
        [Put("a", bytes(TRANSACTION_BYTES_MAX // 2)), Put("b", bytes(TRANSACTION_BYTES_MAX // 2))],
    ),
    "a negative revision": ([Check("a", -1)], [Put("a", b"")]),
    "a revision that no store can have": ([Check("a", 2**63)], [Put("a", b"")]),
    "a revision that is no number": ([Check("a", True)], [Put("a", b"")]),
    "a check in place of a write": ([], [Check("a", 1)]),
    "a value that is no bytes": ([], [Put("a", "text")]),  # type: ignore[arg-type]
    "too many checks": (
        [Check(f"{number}", 0) for number in range(TRANSACTION_OPERATIONS_MAX)],
        [Put("a", b"")],
    ),
    "too many writes": ([], [Put(f"{number}", b"") for number in range(TRANSACTION_OPERATIONS_MAX + 1)]),
    "a key written twice": ([], [Put("a", b""), DeleteEntry("a")]),
    "a key checked twice": ([Check("a", 0), Check("a", 1)], [Put("a", b"")]),
}


@pytest.mark.parametrize("what", BAD_COMMITS)
async def test_a_bad_commit_is_refused_and_changes_nothing(backend, what):
    checks, writes = BAD_COMMITS[what]
    async with backend.open() as store:
        before = await store.range("")

        with pytest.raises(InvalidStoreRequest) as refused:
            await store.commit(checks, writes)

        assert isinstance(refused.value, TransactionTooLarge) == ("too large" in what or "too many" in what)
        assert await store.range("") == before


async def test_a_transaction_of_the_greatest_size_is_accepted(backend):
    async with backend.open() as store:
        many = TRANSACTION_OPERATIONS_MAX // 2
        checks = [Check(f"{number}", ABSENT) for number in range(many)]
        assert isinstance(
            await store.commit(checks, [Put(f"{number}", b"") for number in range(many)]),
            Committed,
        )
        key = "k" * KEY_BYTES_MAX
        assert isinstance(await store.commit([], [Put(key, bytes(TRANSACTION_BYTES_MAX - KEY_BYTES_MAX))]), Committed)
        entry = await store.get(key)
        assert entry is not None
        assert len(entry.value) == TRANSACTION_BYTES_MAX - KEY_BYTES_MAX


async def test_bad_questions_get_a_clear_answer(backend):
    async with backend.open() as store:
        for wrong in (
            store.get(""),
            store.get("a", at=0),
            store.get("a", at=-1),
            store.range("", at=-5),
            store.range("", limit=0),
            store.range("", limit=-1),
            store.range("", after=""),
            store.range("k" * (KEY_BYTES_MAX + 1)),
            store.compact(0),
            store.compact(-1),
        ):
            with pytest.raises(InvalidStoreRequest):
                await wrong
        with pytest.raises(InvalidStoreRequest):
            store.watch("", after=-1)
        with pytest.raises(InvalidStoreRequest):
            store.hold(-1)


async def test_a_hold_on_compacted_history_is_refused(backend):
    async with backend.open() as store:
        await put(store, "a")
        latest = await put(store, "a")
        await store.compact(latest)

        with pytest.raises(Compacted):
            store.hold(latest - 1)


async def test_a_closed_store_says_so(backend):
    async with backend.open() as store:
        latest = await put(store, "a")
        watch = store.watch("", after=latest)
        waiting = asyncio.ensure_future(anext(watch))
        await store.revision()

        await store.close()
        await store.close()

        with pytest.raises(StoreClosed):
            await waiting
        for call in (store.get("a"), store.range(""), store.commit([], [Put("b", b"")]), store.revision()):
            with pytest.raises(StoreClosed):
                await call
        with pytest.raises(StoreClosed):
            store.watch("", after=latest)
        with pytest.raises(StoreClosed):
            store.hold(latest)
        with pytest.raises(StoreClosed):
            await store.compact(latest)
