"""Durations in buckets, each with an example that leads to a decision."""

from mainstay.journal.trace_id import derive_trace_id
from mainstay.loop.histogram import Histogram

MILLISECOND_NS = 1_000_000


def test_buckets_are_cumulated_as_prometheus_has_them():
    histogram = Histogram((0.001, 0.01))
    for duration in (1, 1, 5, 100):
        histogram.add(duration * MILLISECOND_NS)

    assert histogram.cumulated() == [("0.001", 2.0), ("0.01", 3.0), ("+Inf", 4.0)]


def test_a_bucket_leads_to_the_last_decision_in_it():
    histogram = Histogram((0.001, 0.01))
    histogram.add(5 * MILLISECOND_NS, "scheduler-1.7")
    histogram.add(4 * MILLISECOND_NS, "scheduler-1.8")

    first, second, last = histogram.cumulated()

    assert len(first) == 2
    assert len(last) == 2
    assert len(second) == 3
    example = second[2]
    assert example.labels == {"decision_id": "scheduler-1.8", "trace_id": derive_trace_id("scheduler-1.8")}
    assert example.value == 0.004
