"""Points in time, ages and durations."""

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.times import (
    SECONDS_MAX,
    age,
    canonical_micro_time,
    canonical_time,
    format_micro_time,
    format_time,
    human_duration,
    parse_duration,
    parse_time,
    to_duration,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "time", "micro_time"),
    [
        ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z"),
        ("2026-01-01t00:00:00z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000000Z"),
        ("2026-01-01T00:00:00.5+01:00", "2025-12-31T23:00:00Z", "2025-12-31T23:00:00.500000Z"),
        ("2026-01-01T00:00:00.123456789-05:30", "2026-01-01T05:30:00Z", "2026-01-01T05:30:00.123456Z"),
        ("2026-01-01T00:00:00.999999999Z", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.999999Z"),
        ("2026-01-01T00:00:00.000001+00:00", "2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000001Z"),
        ("0001-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000000Z"),
    ],
)
def test_a_time_is_stored_in_utc_and_cut_off(text, time, micro_time):
    assert canonical_time(text) == time
    assert canonical_micro_time(text) == micro_time


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-01-01",
        "2026-01-01 00:00:00Z",
        "2026-01-01T00:00:00",
        "2026-13-01T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-01-01T24:00:00Z",
        "2026-01-01T00:00:60Z",
        "2026-01-01T00:00:00+24:00",
        "2026-01-01T00:00:00+0100",
        "0001-01-01T00:00:00+01:00",
        "٢٠٢٦-01-01T00:00:00Z",
        "2026-01-01T00:00:00Z\n",
    ],
)
def test_what_is_no_time_is_refused_in_the_words_of_go(text):
    with pytest.raises(ValueError, match=r"^parsing time ") as refusal:
        parse_time(text)

    assert text in str(refusal.value)


def test_a_moment_without_offset_is_refused():
    with pytest.raises(ValueError, match="offset"):
        format_time(datetime(2026, 1, 1))


@given(
    st.datetimes(
        min_value=datetime(1, 1, 3),
        max_value=datetime(9999, 12, 29),
        timezones=st.integers(-1439, 1439).map(lambda minutes: timezone(timedelta(minutes=minutes))),
    )
)
def test_a_written_time_is_read_back(moment):
    assert parse_time(format_micro_time(moment)) == moment
    assert parse_time(format_time(moment)) == moment.replace(microsecond=0)


@pytest.mark.parametrize(
    ("duration", "words"),
    [
        (timedelta(seconds=-2), "<invalid>"),
        (timedelta(seconds=-1.9), "0s"),
        (timedelta(0), "0s"),
        (timedelta(seconds=5.9), "5s"),
        (timedelta(seconds=119), "119s"),
        (timedelta(minutes=2), "2m"),
        (timedelta(minutes=2, seconds=3), "2m3s"),
        (timedelta(minutes=9, seconds=59), "9m59s"),
        (timedelta(minutes=10, seconds=59), "10m"),
        (timedelta(minutes=179, seconds=59), "179m"),
        (timedelta(hours=3), "3h"),
        (timedelta(hours=3, minutes=5), "3h5m"),
        (timedelta(hours=7, minutes=59), "7h59m"),
        (timedelta(hours=8, minutes=59), "8h"),
        (timedelta(hours=47, minutes=59), "47h"),
        (timedelta(hours=48), "2d"),
        (timedelta(days=3, hours=4), "3d4h"),
        (timedelta(days=7, hours=23), "7d23h"),
        (timedelta(days=8, hours=23), "8d"),
        (timedelta(days=729, hours=23), "729d"),
        (timedelta(days=730), "2y"),
        (timedelta(days=800), "2y70d"),
        (timedelta(days=8 * 365 - 1), "7y364d"),
        (timedelta(days=8 * 365), "8y"),
        (timedelta(days=40 * 365 + 5), "40y"),
    ],
)
def test_an_age_is_told_coarser_the_longer_it_is(duration, words):
    assert human_duration(duration) == words
    assert age(NOON, NOON - duration) == words


def test_the_age_of_what_has_no_time_is_unknown():
    assert age(NOON, None) == "<unknown>"


@pytest.mark.parametrize(
    ("text", "duration"),
    [
        ("0", timedelta(0)),
        ("32s", timedelta(seconds=32)),
        ("1m30s", timedelta(seconds=90)),
        ("1.5h", timedelta(minutes=90)),
        ("-1m", timedelta(minutes=-1)),
        ("+.5s", timedelta(seconds=0.5)),
        ("1.s", timedelta(seconds=1)),
        ("100ms", timedelta(milliseconds=100)),
        ("3us", timedelta(microseconds=3)),
        ("3µs", timedelta(microseconds=3)),
        ("3μs", timedelta(microseconds=3)),
        ("1999ns", timedelta(microseconds=1)),
        ("1h1h", timedelta(hours=2)),
    ],
)
def test_durations_are_those_of_go(text, duration):
    assert parse_duration(text) == duration


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", 'time: invalid duration ""'),
        ("-", 'time: invalid duration "-"'),
        (".s", 'time: invalid duration ".s"'),
        ("s", 'time: invalid duration "s"'),
        ("5", 'time: missing unit in duration "5"'),
        ("1m5", 'time: missing unit in duration "1m5"'),
        ("1d", 'time: unknown unit "d" in duration "1d"'),
        ("1m x", 'time: unknown unit "m x" in duration "1m x"'),
        ("9999999h", 'time: invalid duration "9999999h"'),
    ],
)
def test_what_is_no_duration_is_refused_in_the_words_of_go(text, message):
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        parse_duration(text)


def test_a_very_long_duration_costs_nothing():
    with pytest.raises(ValueError, match="invalid duration"):
        parse_duration("1" * 1_000_000 + "s")


@pytest.mark.parametrize("seconds", [2**63 - 1, -(2**63), 2**31])
def test_a_number_of_seconds_beyond_a_lifetime_is_one(seconds: int):
    assert abs(to_duration(seconds)) == timedelta(seconds=SECONDS_MAX)
    assert to_duration(300) == timedelta(minutes=5)
