"""What a reflector does next, whatever happens to it. Nothing here waits, asks or draws."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import ChangeType
from mainstay.client.reflector import (
    BEHIND_MAX,
    IN_VAIN_MAX,
    LASTING,
    LIST_AGAIN,
    NOTHING,
    RESUME,
    REWIND_AFTER,
    ApplyChange,
    List,
    OpenWatch,
    Reached,
    Reflector,
    ReflectorFault,
    ReflectorPhase,
    ReplaceAll,
    WaitFor,
)
from tests.client.objects import an_entry, key

AT_ONCE = timedelta(0)
ADDED, MODIFIED, DELETED = ChangeType.ADDED, ChangeType.MODIFIED, ChangeType.DELETED


def a_reflector(known: dict[ObjectKey, int] | None = None, *, streams_state: bool = True) -> Reflector:
    """One that knows of these keys, and when something last happened to them."""
    held = known if known is not None else {}
    return Reflector(lambda key: held.get(key, 0), streams_state=streams_state, page_limit=2)


def watching(revision: int, known: dict[ObjectKey, int] | None = None) -> Reflector:
    """One that holds everything up to a revision, and follows what comes after."""
    reflector = a_reflector(known)
    reflector.start()
    reflector.bookmark(revision, ends_state=True)
    return reflector


# Reading everything there is.


def test_it_begins_with_a_watch_that_sends_the_state():
    assert a_reflector().start() == (OpenWatch(None),)


def test_nothing_counts_before_the_state_is_complete():
    reflector = a_reflector()
    reflector.start()

    assert reflector.event(ADDED, an_entry("a", 7)) == NOTHING
    assert reflector.event(ADDED, an_entry("b", 3)) == NOTHING
    assert reflector.event(DELETED, an_entry("a", 8)) == NOTHING
    assert reflector.event(MODIFIED, an_entry("b", 9)) == NOTHING
    assert reflector.bookmark(9) == NOTHING  # Not the one that ends the state.
    assert reflector.revision == 0

    assert reflector.bookmark(10, ends_state=True) == (ReplaceAll((an_entry("b", 9),), 10),)
    assert (reflector.revision, reflector.phase) == (10, ReflectorPhase.WATCHING)


@pytest.mark.parametrize("fault", [ReflectorFault.UNSUPPORTED, ReflectorFault.SILENT])
def test_a_server_that_cannot_stream_its_state_is_asked_for_lists_from_then_on(fault: ReflectorFault):
    reflector = a_reflector()
    reflector.start()

    assert reflector.failed(fault) == (List("", 2),)
    reflector.failed(ReflectorFault.UNAVAILABLE)
    assert reflector.waited() == (List("", 2),)


def test_a_list_is_gathered_page_by_page_and_watched_from_its_revision():
    reflector = a_reflector(streams_state=False)

    assert reflector.start() == (List("", 2),)
    assert reflector.page([an_entry("a", 4), an_entry("b", 5)], 10, "next") == (List("next", 2),)
    entries = (an_entry("a", 4), an_entry("b", 5), an_entry("c", 6))
    assert reflector.page([an_entry("c", 6)], 10, "") == (ReplaceAll(entries, 10), OpenWatch(10))


def test_a_list_whose_pages_have_expired_starts_over_all_at_once():
    reflector = a_reflector(streams_state=False)
    reflector.start()
    reflector.page([an_entry("a")], 10, "next")

    assert reflector.failed(ReflectorFault.EXPIRED) == (WaitFor(LIST_AGAIN, 1),)
    assert reflector.waited() == (List("", None),)
    assert reflector.page([an_entry("b")], 12, "") == (ReplaceAll((an_entry("b"),), 12), OpenWatch(12))


def test_pages_of_two_states_are_not_put_together():
    reflector = a_reflector(streams_state=False)
    reflector.start()
    reflector.page([an_entry("a")], 10, "next")

    assert reflector.page([an_entry("b")], 11, "") == (WaitFor(LIST_AGAIN, 1),)
    assert (reflector.revision, reflector.counters.refused) == (0, 1)


def test_half_a_state_is_forgotten():
    reflector = a_reflector()
    reflector.start()
    reflector.event(ADDED, an_entry("gone-meanwhile"))

    assert reflector.ended(AT_ONCE) == (WaitFor(LIST_AGAIN, 1),)
    assert reflector.waited() == (OpenWatch(None),)
    assert reflector.bookmark(9, ends_state=True) == (ReplaceAll((), 9),)


# Following.


def test_each_change_is_applied_and_brings_it_to_its_revision():
    reflector = watching(10)

    assert reflector.event(ADDED, an_entry("a", 11)) == (ApplyChange(an_entry("a", 11), False),)
    assert reflector.event(DELETED, an_entry("a", 15)) == (ApplyChange(an_entry("a", 15), True),)
    assert (reflector.revision, reflector.counters.events) == (15, 2)


def test_a_bookmark_moves_it_on_though_nothing_happened():
    reflector = watching(10)

    assert reflector.bookmark(20) == (Reached(20),)
    assert reflector.bookmark(20) == NOTHING
    assert reflector.failed(ReflectorFault.UNAVAILABLE) == (WaitFor(RESUME, 1),)
    assert reflector.waited() == (OpenWatch(20),)


def test_a_stream_that_ends_after_news_is_opened_again_at_once_where_it_was():
    reflector = watching(10)
    reflector.event(MODIFIED, an_entry("a", 12))

    assert reflector.ended(AT_ONCE) == (OpenWatch(12),)


def test_streams_that_bring_nothing_are_opened_ever_more_rarely():
    reflector = watching(10)
    waits: list[Any] = []
    for _ in range(12):
        waits += reflector.ended(AT_ONCE)
        assert reflector.waited() == (OpenWatch(10),)

    assert waits == [WaitFor(RESUME, number) for number in range(1, 13)]
    assert waits[-1].delay(0) == RESUME.delay_max


def test_a_watch_cut_off_by_the_server_is_listed_again():
    reflector = watching(10)
    for _ in range(IN_VAIN_MAX):
        reflector.failed(ReflectorFault.UNAVAILABLE)  # A server that is away for long is another thing.
        assert reflector.waited() == (OpenWatch(10),)
    for number in range(1, IN_VAIN_MAX + 1):
        reflector.opened()
        reflector.failed(ReflectorFault.UNAVAILABLE)
        assert reflector.waited() == (OpenWatch(10) if number < IN_VAIN_MAX else OpenWatch(None),)


@pytest.mark.parametrize("fault", [ReflectorFault.UNAVAILABLE, ReflectorFault.SILENT])
def test_in_an_idle_cluster_it_stays_quick(fault: ReflectorFault):
    reflector = watching(10)
    for _ in range(20):
        reflector.opened()
        assert reflector.failed(fault, lasted=LASTING) == (WaitFor(RESUME, 1),)
        assert reflector.waited() == (OpenWatch(10),)
        reflector.opened()
        assert reflector.ended(LASTING) == (WaitFor(RESUME, 1),)
        assert reflector.waited() == (OpenWatch(10),)


def test_news_make_it_patient_again():
    reflector = watching(10)
    for _ in range(5):
        reflector.failed(ReflectorFault.UNAVAILABLE)
        reflector.waited()
    reflector.event(ADDED, an_entry("a", 11))

    assert reflector.failed(ReflectorFault.UNAVAILABLE) == (WaitFor(RESUME, 1),)
    assert reflector.counters.disconnects == 6


def test_an_expired_watch_lists_everything_again():
    reflector = watching(10)

    assert reflector.failed(ReflectorFault.EXPIRED) == (WaitFor(LIST_AGAIN, 1),)
    assert reflector.waited() == (OpenWatch(None),)
    assert reflector.bookmark(90, ends_state=True) == (ReplaceAll((), 90),)
    assert (reflector.counters.expired, reflector.counters.relists) == (1, 1)


def test_a_server_whose_every_watch_has_expired_is_not_listed_in_a_circle():
    reflector = watching(10)
    waits: list[Any] = []
    for revision in range(20, 30):
        waits += reflector.failed(ReflectorFault.EXPIRED)
        reflector.waited()
        reflector.bookmark(revision, ends_state=True)

    assert waits == [WaitFor(LIST_AGAIN, number) for number in range(1, 11)]
    assert waits[-1].delay(0) == LIST_AGAIN.delay_max


def test_a_server_that_wants_to_be_left_alone_is():
    reflector = watching(10)

    (wait,) = reflector.failed(ReflectorFault.UNAVAILABLE, least=timedelta(seconds=7))

    assert isinstance(wait, WaitFor)
    assert wait.delay(0.9) == timedelta(seconds=7)


@given(st.floats(0, 1), st.integers(1, 10**6))
def test_a_wait_has_a_bound_and_leaves_some_of_it_to_chance(jitter: float, failures: int):
    most = WaitFor(RESUME, failures).delay(0)

    assert most / 2 <= WaitFor(RESUME, failures).delay(jitter) <= most <= RESUME.delay_max


# What is not to be believed.


def test_what_is_known_already_is_dropped():
    known = {key("same"): 8, key("newer"): 10}
    reflector = watching(10, known)

    assert reflector.event(ADDED, an_entry("same", 8)) == NOTHING
    assert reflector.event(MODIFIED, an_entry("newer", 3)) == NOTHING
    assert reflector.event(DELETED, an_entry("gone-long-ago", 4)) == NOTHING
    assert (reflector.revision, reflector.counters.dropped, reflector.counters.refused) == (10, 3, 0)


@pytest.mark.parametrize(
    ("change", "known"),
    [
        (MODIFIED, {key("a"): 7}),  # It changed at 9, and here it has not.
        (ADDED, {}),  # It was there at 9, and here it neither is nor was.
        (DELETED, {key("a"): 7}),  # It went away at 9, and here it is.
    ],
)
def test_an_old_change_that_is_not_known_means_that_something_was_missed(
    change: ChangeType, known: dict[ObjectKey, int]
):
    reflector = watching(10, known)

    assert reflector.event(change, an_entry("a", 9)) == (WaitFor(LIST_AGAIN, 1),)
    assert reflector.waited() == (OpenWatch(None),)
    assert (reflector.counters.dropped, reflector.counters.refused) == (0, 1)


def test_a_server_that_is_behind_is_asked_again_and_then_for_everything():
    reflector = watching(10)

    for _ in range(BEHIND_MAX - 1):
        (wait,) = reflector.bookmark(8)
        assert isinstance(wait, WaitFor)
        assert reflector.waited() == (OpenWatch(10),)
    reflector.failed(ReflectorFault.BEHIND)
    assert reflector.waited() == (OpenWatch(None),)
    assert reflector.counters.behind == BEHIND_MAX


def test_a_server_that_was_behind_and_has_caught_up_is_not_held_to_it():
    reflector = watching(10)
    for revision in range(11, 30):
        reflector.bookmark(8)
        assert reflector.waited() == (OpenWatch(revision - 1),)
        assert reflector.bookmark(revision) == (Reached(revision),)

    assert reflector.counters.relists == 0


def test_a_state_older_than_what_is_held_is_refused():
    reflector = watching(10)
    reflector.failed(ReflectorFault.EXPIRED)
    reflector.waited()
    reflector.event(ADDED, an_entry("ghost", 5))

    (wait,) = reflector.bookmark(9, ends_state=True)

    assert isinstance(wait, WaitFor)
    assert reflector.revision == 10
    assert reflector.waited() == (OpenWatch(None),)
    assert reflector.bookmark(10, ends_state=True) == (ReplaceAll((), 10, is_doubtful=True),)


def test_a_store_that_stays_behind_has_gone_back_and_is_believed():
    reflector = watching(10)
    reflector.failed(ReflectorFault.EXPIRED)
    for _ in range(REWIND_AFTER):
        reflector.waited()
        reflector.bookmark(4, ends_state=True)
        assert reflector.revision == 10
    reflector.waited()

    assert reflector.bookmark(5, ends_state=True) == (ReplaceAll((), 5, is_rewind=True),)
    assert (reflector.revision, reflector.counters.rewinds) == (5, 1)


def test_it_says_of_which_store_its_revision_is():
    reflector = a_reflector()
    reflector.start()
    reflector.bookmark(10, ends_state=True, opening="first")
    reflector.failed(ReflectorFault.UNAVAILABLE)
    assert reflector.waited() == (OpenWatch(10, "first"),)

    reflector.bookmark(10, opening="second")
    reflector.bookmark(12)
    reflector.failed(ReflectorFault.UNAVAILABLE)
    assert reflector.waited() == (OpenWatch(12, "second"),)


def test_nothing_is_known_of_a_store_that_was_put_back_though_it_has_come_further():
    reflector = watching(10)

    assert reflector.failed(ReflectorFault.PUT_BACK) == (WaitFor(LIST_AGAIN, 1),)
    assert reflector.waited() == (OpenWatch(None),)
    assert reflector.failed(ReflectorFault.UNAVAILABLE) == (WaitFor(LIST_AGAIN, 2),)
    assert reflector.waited() == (OpenWatch(None),)
    assert reflector.bookmark(30, ends_state=True, opening="new") == (ReplaceAll((), 30, is_doubtful=True),)
    assert (reflector.revision, reflector.counters.expired) == (30, 1)

    reflector.failed(ReflectorFault.EXPIRED)
    reflector.waited()
    assert reflector.bookmark(40, ends_state=True) == (ReplaceAll((), 40),)


def test_a_restored_store_is_listed_again_soon():
    reflector = watching(10)
    for _ in range(7):
        reflector.failed(ReflectorFault.UNAVAILABLE)
        reflector.waited()

    assert reflector.failed(ReflectorFault.PUT_BACK) == (WaitFor(LIST_AGAIN, 1),)


def test_an_old_server_does_not_take_it_back_because_the_store_was_put_back():
    reflector = watching(10)
    reflector.failed(ReflectorFault.PUT_BACK)
    reflector.waited()

    assert reflector.bookmark(9, ends_state=True, opening="old") == (WaitFor(LIST_AGAIN, 2),)
    assert reflector.revision == 10


def test_what_cannot_be_understood_ends_the_stream_and_not_the_reflector():
    reflector = watching(10)

    assert reflector.malformed() == (WaitFor(RESUME, 1),)
    assert reflector.waited() == (OpenWatch(10),)


def test_what_cannot_happen_is_a_bug():
    with pytest.raises(RuntimeError, match="WATCHING"):
        watching(10).page([], 11, "")
    with pytest.raises(RuntimeError, match="WATCHING"):
        watching(10).waited()


INPUTS = ("old", "news", "bookmark", "back", "ended", "expired", "put back", "broken", "behind", "state", "old state")


@given(st.lists(st.sampled_from(INPUTS), max_size=60))
def test_whatever_comes_the_revision_never_goes_back_unless_the_store_did(inputs: list[str]):
    reflector = a_reflector({key("a"): 10**9})
    instructions = reflector.start()
    for what in inputs:
        before = reflector.revision
        if reflector.phase in (ReflectorPhase.WAITING_TO_LIST, ReflectorPhase.WAITING_TO_RESUME):
            instructions = reflector.waited()
        elif what in ("state", "old state"):
            if reflector.phase is ReflectorPhase.STREAMING_STATE:
                instructions = reflector.bookmark(max(0, before + (3 if what == "state" else -3)), ends_state=True)
        elif what in ("old", "news"):
            instructions = reflector.event(MODIFIED, an_entry("a", before + (1 if what == "news" else -1)))
        elif what in ("bookmark", "back"):
            instructions = reflector.bookmark(before + (2 if what == "bookmark" else -2))
        elif what == "ended":
            instructions = reflector.ended(AT_ONCE)
        else:
            faults = {
                "expired": ReflectorFault.EXPIRED,
                "put back": ReflectorFault.PUT_BACK,
                "broken": ReflectorFault.UNAVAILABLE,
                "behind": ReflectorFault.BEHIND,
            }
            instructions = reflector.failed(faults[what])
        if reflector.revision < before:
            assert isinstance(instructions[0], ReplaceAll)
            assert instructions[0].is_rewind
        for instruction in instructions[:-1]:
            assert not isinstance(instruction, List | OpenWatch | WaitFor)
        for instruction in instructions:
            if isinstance(instruction, OpenWatch):
                assert instruction.revision in (None, reflector.revision)
