"""Each checker accepts what is right, and says at once what is wrong."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from mainstay.sim.checkers import Checker, Violated
from mainstay.sim.checkers.acknowledged_writes import AcknowledgedWrites
from mainstay.sim.checkers.addresses import StoreAddress, parse_address
from mainstay.sim.checkers.one_acting_leader import OneActingLeader
from mainstay.sim.checkers.quiescence import Quiescence
from mainstay.sim.checkers.watch_contract import WatchContract
from mainstay.sim.cluster.history import (
    Event,
    FaultsHealed,
    ProgramCrashed,
    RequestReceived,
    ResponseSent,
    RevisionCommitted,
    WatchDelivered,
    WatchEnded,
    WatchOpened,
)
from mainstay.store.interface import Entry, RangePage

MAPS = "core/configmaps/default/"
PATH = "/api/v1/namespaces/default/configmaps"
SECOND = 1_000_000_000


@dataclass
class HeldStore:
    """A store that holds this, for the last look at it."""

    held: dict[str, int] = field(default_factory=dict)

    async def range(self, prefix: str) -> RangePage:
        entries = [Entry(key, b"{}", revision, revision, 1) for key, revision in self.held.items()]
        return RangePage(entries, max(self.held.values(), default=1), 0)


@dataclass
class HeldWorld:
    store: HeldStore


def put(
    revision: int, name: str, *, was_there: bool = False, by: int | None = None, at_s: float = 0
) -> RevisionCommitted:
    return RevisionCommitted(int(at_s * SECOND), revision, MAPS + name, b"{}", b"{}" if was_there else None, by)


def gone(revision: int, name: str, *, by: int | None = None) -> RevisionCommitted:
    return RevisionCommitted(0, revision, MAPS + name, None, b"{}", by)


def watch(after: int = 0, number: int = 1, **how: bool) -> WatchOpened:
    selected = {"wants_state": False, "is_selecting": False, **how}
    return WatchOpened(0, number, "alice", "server-1", MAPS, after, **selected)


def told(kind: str, revision: int, name: str, number: int = 1) -> WatchDelivered:
    return WatchDelivered(0, number, "alice", kind, MAPS + name, revision)


def bookmark(revision: int, *, ends_state: bool = False) -> WatchDelivered:
    return WatchDelivered(0, 1, "alice", "BOOKMARK", "", revision, ends_state)


def asks(
    request: int, method: str, path: str = PATH, *, who: str = "alice", term: str = "", op: str = "", user: str = ""
) -> RequestReceived:
    return RequestReceived(0, request, who, "server-1", method, path, "", "", term, op, b"", user)


def answer(request: int, status: int, revision: int = 0) -> ResponseSent:
    return ResponseSent(0, request, "alice", "server-1", status, revision, b"", is_delivered=True)


async def check(checker: Checker, events: Iterable[Event], **held: int) -> None:
    for event in events:
        checker.saw(event)
    world = HeldWorld(HeldStore({MAPS + name: revision for name, revision in held.items()}))
    await checker.at_end(world)  # type: ignore[arg-type]


async def must_fail(checker: Checker, events: Iterable[Event], message: str, **held: int) -> Violated:
    with pytest.raises(Violated, match=re.escape(message)) as caught:
        await check(checker, events, **held)
    assert caught.value.checker == checker.name
    return caught.value


# Watches


async def test_a_watch_that_tells_every_commit_once_and_in_order_is_right():
    await check(
        WatchContract(),
        [
            put(2, "before"),
            watch(after=2),
            put(3, "a"),
            told("ADDED", 3, "a"),
            put(4, "a", was_there=True),
            RevisionCommitted(0, 5, "core/pods/default/p", b"{}", None, None),
            bookmark(3),
            told("MODIFIED", 4, "a"),
            bookmark(5),
            gone(6, "a"),
            told("DELETED", 6, "a"),
        ],
    )


async def test_a_watch_may_tell_of_a_commit_a_moment_before_the_history_does():
    await check(WatchContract(), [watch(), told("ADDED", 2, "a"), bookmark(2), put(2, "a")])


async def test_a_watch_that_begins_with_the_state_goes_on_from_it():
    await check(
        WatchContract(),
        [
            put(2, "b"),
            put(3, "a"),
            put(4, "gone"),
            gone(5, "gone"),
            watch(wants_state=True),
            told("ADDED", 3, "a"),
            told("ADDED", 2, "b"),
            put(6, "c"),
            bookmark(5, ends_state=True),
            told("ADDED", 6, "c"),
        ],
    )


async def test_a_watch_that_has_ended_or_whose_server_has_crashed_owes_nothing():
    await check(
        WatchContract(),
        [watch(), watch(number=2), WatchEnded(0, 1, "alice"), ProgramCrashed(0, "server-1", 0), put(2, "a")],
    )


async def test_a_watch_that_has_ended_with_an_error_owes_nothing_and_says_nothing_more():
    error = WatchDelivered(0, 1, "alice", "ERROR", "", 0)

    await check(WatchContract(), [watch(), error, put(2, "a")])
    await must_fail(WatchContract(), [watch(), error, put(2, "a"), bookmark(2)], "after the error that ends it")


async def test_a_watch_with_selectors_is_held_to_the_order_only():
    await check(
        WatchContract(), [watch(is_selecting=True), put(2, "a"), put(3, "b"), told("ADDED", 3, "b"), bookmark(3)]
    )
    await must_fail(
        WatchContract(),
        [watch(is_selecting=True), put(2, "a"), put(3, "b"), told("ADDED", 3, "b"), told("ADDED", 2, "a")],
        "went back in time",
    )


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([told("ADDED", 2, "a"), told("ADDED", 4, "c")], "skipped a commit"),
        (
            [told("ADDED", 2, "a"), told("ADDED", 3, "b"), told("ADDED", 2, "a")],
            "went back in time, or delivered a change twice",
        ),
        ([told("ADDED", 2, "a"), told("ADDED", 2, "a")], "went back in time, or delivered a change twice"),
        ([told("ADDED", 1, "a")], "a change from before its start"),
        ([told("ADDED", 2, "b")], "skipped a commit"),
        ([told("MODIFIED", 2, "a")], "delivered MODIFIED for what was ADDED"),
        ([told("ADDED", 2, "a"), bookmark(3)], "a bookmark is past a commit that was not delivered"),
        ([told("ADDED", 2, "a"), bookmark(1)], "a bookmark went back in time"),
        ([told("ADDED", 2, "a"), told("ADDED", 3, "b"), told("ADDED", 4, "c"), bookmark(9)], "never committed"),
        ([told("ADDED", 2, "a"), told("ADDED", 3, "b"), told("ADDED", 4, "c")], "missed a commit"),
    ],
)
async def test_a_watch_that_breaks_its_contract_is_found(events: list[Event], message: str):
    commits = [put(2, "a"), put(3, "b"), put(4, "c"), gone(5, "b")]

    await must_fail(WatchContract(), [watch(after=1), *commits, *events], message)


async def test_a_delete_that_is_not_told_is_found():
    events: list[Event] = [watch(after=2), put(2, "a"), gone(3, "a"), put(4, "a"), told("ADDED", 4, "a")]

    violated = await must_fail(WatchContract(), events, "skipped a commit")

    assert gone(3, "a") in violated.events


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([told("ADDED", 2, "a")], "lacks an object"),
        ([told("ADDED", 2, "a"), told("ADDED", 3, "b"), told("ADDED", 4, "old")], "has a deleted object"),
        ([told("ADDED", 2, "a"), told("ADDED", 3, "b"), told("ADDED", 3, "x")], "has an object that never existed"),
        ([told("ADDED", 2, "a"), told("ADDED", 2, "b")], "lacks an object"),
        ([told("ADDED", 2, "a"), told("ADDED", 2, "a")], "an object twice in its initial state"),
    ],
)
async def test_a_first_state_that_never_was_is_found(events: list[Event], message: str):
    commits = [put(2, "a"), put(3, "b"), put(4, "old"), gone(5, "old")]

    await must_fail(
        WatchContract(), [*commits, watch(wants_state=True), *events, bookmark(5, ends_state=True)], message
    )


# Writes


async def test_answers_that_are_true_are_accepted():
    await check(
        AcknowledgedWrites(),
        [
            asks(1, "POST"),
            put(2, "a", by=1),
            answer(1, 201, 2),
            asks(2, "PUT", f"{PATH}/a"),
            answer(2, 200, 3),  # Told of a moment before its commit.
            put(3, "a", was_there=True, by=2),
            asks(3, "PUT", f"{PATH}/a"),
            answer(3, 200, 3),  # Nothing was different, so nothing was written.
            asks(4, "DELETE", f"{PATH}/a"),
            gone(4, "a", by=4),
            answer(4, 200, 4),
            asks(5, "PUT", f"{PATH}/a"),
            answer(5, 404),
            asks(6, "POST"),
            answer(6, 500),
            put(5, "b", by=6),  # After an error of the server nothing is known.
        ],
        b=5,
    )


async def test_a_deletion_that_began_is_a_deletion():
    going = RevisionCommitted(0, 3, MAPS + "a", b'{"metadata":{"deletionTimestamp":"now"}}', b"{}", 2)

    await check(AcknowledgedWrites(), [put(2, "a"), asks(2, "DELETE", f"{PATH}/a"), going, answer(2, 200, 3)], a=3)


async def test_a_deletion_stays_true_when_the_object_is_created_again():
    events: list[Event] = [
        put(2, "a"),
        asks(2, "DELETE", f"{PATH}/a"),
        gone(3, "a", by=2),
        put(4, "a"),
        answer(2, 200, 3),
    ]

    await check(AcknowledgedWrites(), events, a=4)


async def test_a_repeated_operation_is_answered_with_what_happened_the_first_time():
    await check(
        AcknowledgedWrites(),
        [
            put(2, "a"),
            asks(1, "DELETE", f"{PATH}/a", op="one"),
            gone(3, "a", by=1),
            put(4, "a"),
            asks(2, "DELETE", f"{PATH}/a", op="one"),
            answer(2, 200, 3),
        ],
        a=4,
    )


async def test_another_program_that_wants_the_same_is_answered_with_what_happened_the_first_time():
    first, second = [asks(number, "POST", who=f"leader-{number}", op="one", user="leader") for number in (1, 2)]

    await check(AcknowledgedWrites(), [first, put(2, "a", by=1), second, answer(2, 201, 2)], a=2)


async def test_the_same_id_of_two_programs_of_one_user_is_one_operation():
    first, second = [asks(number, "POST", who=f"leader-{number}", op="one", user="leader") for number in (1, 2)]

    await must_fail(
        AcknowledgedWrites(),
        [first, put(2, "a", by=1), second, put(3, "b", by=2)],
        "operation one of leader-2 was committed twice",
    )


async def test_the_same_id_of_two_users_is_two_operations():
    first, second = asks(1, "POST", op="one", user="alice"), asks(2, "POST", op="one", user="bob")

    await check(AcknowledgedWrites(), [first, put(2, "a", by=1), second, put(3, "b", by=2)], a=2, b=3)


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([asks(1, "POST"), answer(1, 201, 3)], "acknowledged but not committed"),
        ([asks(1, "POST"), answer(1, 201, 2), put(3, "b")], "acknowledged but not committed"),
        ([asks(1, "PUT", f"{PATH}/b"), put(3, "a", was_there=True), answer(1, 200, 3), put(4, "c")], "not committed"),
        ([asks(1, "DELETE", f"{PATH}/a"), answer(1, 200)], "a deletion was acknowledged"),
        ([asks(1, "PUT", f"{PATH}/a"), answer(1, 409), put(3, "a", by=1)], "a rejected write was committed"),
        ([asks(1, "POST", op="x"), asks(2, "POST", op="x"), put(3, "b", by=1), put(4, "c", by=2)], "committed twice"),
        ([put(5, "b"), put(4, "c")], "went back from revision 5 to 4"),
    ],
)
async def test_an_answer_that_is_not_true_is_found(events: list[Event], message: str):
    await must_fail(
        AcknowledgedWrites(), [RevisionCommitted(0, 2, MAPS + "a", b"{}", None, None), *events], message, a=2
    )


@pytest.mark.parametrize(
    ("held", "message"),
    [
        ({}, "lost the write of core/configmaps/default/a at revision 3"),
        ({"a": 2}, "lost the write of core/configmaps/default/a at revision 3"),
        ({"a": 3, "b": 4}, "has core/configmaps/default/b again"),
        ({"a": 3, "c": 6}, "keys that were never committed: core/configmaps/default/c"),
    ],
)
async def test_a_store_that_is_not_what_its_commits_say_is_found(held: dict[str, int], message: str):
    events = [put(2, "a"), put(3, "a", was_there=True), put(4, "b"), gone(5, "b")]

    await must_fail(AcknowledgedWrites(), events, message, **held)


# Leaders

LEASE = "default/lead"


def acquired(revision: int, *, by: int | None = None, is_deleted: bool = False) -> RevisionCommitted:
    return RevisionCommitted(0, revision, f"~terms/{LEASE}", None if is_deleted else b"x", b"x", by)


async def test_terms_that_follow_each_other_are_right():
    await check(
        OneActingLeader(),
        [
            acquired(5),
            asks(1, "PUT", who="first", term=f"{LEASE}=5"),
            put(6, "a", by=1),
            asks(2, "PUT", who="first", term=f"{LEASE}=5"),  # It is under way when the term ends.
            acquired(7),
            answer(2, 409),
            asks(3, "PUT", who="second", term=f"{LEASE}=7"),
            put(8, "a", by=3),
            asks(4, "PUT", who="second", term=f"{LEASE}=7"),  # Giving the lease up is still an act of its holder.
            acquired(9, by=4),
            put(9, "lease", by=4),
        ],
    )


@pytest.mark.parametrize(
    ("events", "message"),
    [
        ([acquired(7), put(8, "a", by=1)], "a write of term 5 of default/lead was committed in term 7"),
        ([acquired(7, is_deleted=True), put(8, "a", by=1)], "was committed while the lease was vacant"),
        (
            [acquired(7), put(8, "a", by=2), put(9, "a", by=1)],
            "a write of term 5 of default/lead was committed after one of term 7",
        ),
        ([put(6, "a", by=1), put(7, "a", by=3)], "first and third both write under term 5"),
        ([answer(1, 409), put(6, "a", by=1)], "a rejected write was committed"),
    ],
)
async def test_a_leader_that_acts_out_of_its_term_is_found(events: list[Event], message: str):
    asked = [
        asks(1, "PUT", who="first", term=f"{LEASE}=5"),
        asks(2, "PUT", who="second", term=f"{LEASE}=7"),
        asks(3, "PUT", who="third", term=f"{LEASE}=5"),
    ]

    await must_fail(OneActingLeader(), [acquired(5), *asked, *events], message)


# Rest


async def test_writing_may_go_on_until_the_time_is_over_and_heartbeats_for_ever():
    node = "core/nodes/n1"
    await check(
        Quiescence(timedelta(seconds=10)),
        [
            put(2, "a", at_s=100),
            FaultsHealed(100 * SECOND),
            put(3, "a", at_s=109),
            RevisionCommitted(200 * SECOND, 4, "coordination.k8s.io/leases/default/lead", b"{}", b"{}", None),
            RevisionCommitted(200 * SECOND, 5, "~terms/default/lead", b"{}", b"{}", None),
            RevisionCommitted(200 * SECOND, 6, "mainstay.dev/componentstates/c", b"{}", b"{}", None),
            asks(1, "PATCH", "/api/v1/nodes/n1/status"),
            RevisionCommitted(200 * SECOND, 7, node, b"{}", b"{}", 1),
        ],
    )


async def test_a_hot_loop_is_named_by_who_writes_what():
    writes: list[Event] = [
        FaultsHealed(0),
        asks(1, "PUT", f"{PATH}/a", who="busy"),
        asks(2, "PUT", f"{PATH}/b", who="calm"),
    ]
    writes += [put(10 + second, "a", by=1, at_s=second) for second in range(10)]
    writes += [put(20, "b", by=2, at_s=10), put(21, "a", by=1, at_s=11)]

    await must_fail(
        Quiescence(timedelta(seconds=10)),
        writes,
        "10 s after healing, writes still go on: in the last 11 s busy: PUT core/configmaps/default/a (11 times),"
        " calm: PUT core/configmaps/default/b (1 times)",
    )


async def test_the_spec_of_a_node_is_no_heartbeat():
    events: list[Event] = [
        FaultsHealed(0),
        asks(1, "PATCH", "/api/v1/nodes/n1"),
        RevisionCommitted(99 * SECOND, 7, "core/nodes/n1", b"", b"", 1),
    ]

    await must_fail(Quiescence(timedelta(seconds=10)), events, "PATCH core/nodes/n1")


def test_quiet_is_when_nothing_was_written_for_so_long():
    checker = Quiescence()
    checker.saw(put(2, "a", at_s=7))

    assert not checker.is_quiet_since(timedelta(seconds=5), 11 * SECOND)
    assert checker.is_quiet_since(timedelta(seconds=5), 12 * SECOND)


# Addresses


@pytest.mark.parametrize(
    ("path", "address"),
    [
        ("/api/v1/namespaces/default/pods/p%31?x=y", StoreAddress("core/pods/default/", "p1", "")),
        ("/api/v1/namespaces/default/pods/p/status", StoreAddress("core/pods/default/", "p", "status")),
        ("/apis/apps/v1/deployments", StoreAddress("apps/deployments/", "", "")),
        ("/api/v1/namespaces/default", StoreAddress("core/namespaces/", "default", "")),
        ("/api/v1/namespaces/default/status", StoreAddress("core/namespaces/", "default", "status")),
        ("/api/v1/nodes/n/status", StoreAddress("core/nodes/", "n", "status")),
        ("/version", None),
    ],
)
def test_a_path_leads_to_a_key(path: str, address: StoreAddress | None):
    assert parse_address(path) == address
