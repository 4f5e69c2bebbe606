"""How fast nodes of a zone may be released."""

import itertools
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mainstay.controllers.node_health.zones import PERMIT, Bucket, grown, has_permit, looked_at, taken
from mainstay.loop.evidence import Pace, ZoneSilence

SECOND = 1_000_000_000


def test_a_permit_grows_in_ten_seconds_and_ten_times_as_slowly_where_most_is_silent():
    assert not has_permit(grown(Bucket(0, 0), 10 * SECOND - 1))
    assert has_permit(grown(Bucket(0, 0), 10 * SECOND))
    assert not has_permit(grown(Bucket(0, 0, Pace.SLOW), 100 * SECOND - 1))
    assert has_permit(grown(Bucket(0, 0, Pace.SLOW), 100 * SECOND))


def test_there_is_never_more_than_one_permit():
    assert grown(Bucket(0, 0), 3_600 * SECOND).amount == PERMIT


def test_nothing_grows_while_it_is_stopped():
    stopped = Bucket(0, 0, is_stopped=True)

    assert grown(stopped, 3_600 * SECOND).amount == 0


def test_a_new_zone_begins_with_nothing_and_one_without_nodes_is_forgotten():
    buckets = looked_at({"b": Bucket(PERMIT, 0)}, [ZoneSilence("a", 3, 0)], 5 * SECOND, is_stopped=False)

    assert buckets == {"a": Bucket(0, 5 * SECOND)}


def test_what_is_heard_now_counts_from_now_on():
    silent = [ZoneSilence("a", 3, 2)]

    buckets = looked_at({"a": Bucket(0, 0)}, silent, 10 * SECOND, is_stopped=False)

    assert buckets == {"a": Bucket(PERMIT, 10 * SECOND, Pace.SLOW)}


@given(
    st.lists(
        st.tuples(st.integers(0, 30 * SECOND), st.sampled_from((0, 1, 3)), st.booleans(), st.booleans()), max_size=60
    )
)
def test_no_more_are_released_than_the_rate_allows_over_any_time(looks):
    now_ns = 0
    buckets: dict[str, Any] = {}
    at: list[int] = []
    for wait_ns, silent, is_stopped, wants in looks:
        now_ns += wait_ns
        buckets = looked_at(buckets, [ZoneSilence("a", 3, silent)], now_ns, is_stopped=is_stopped)
        if wants and not is_stopped and has_permit(buckets["a"]):
            buckets["a"] = taken(buckets["a"])
            at.append(now_ns)

    assert all(later - earlier >= 10 * SECOND for earlier, later in itertools.pairwise(at))
