"""What flow control counts, under the names that Kubernetes has for it.

Requests that are exempt are counted when they begin, and not while they run. What each priority level has executing is
its seats; how long requests were executed is in `apiserver_request_duration_seconds`.
"""

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from mainstay.server.flow.scheduler import FlowLevel

WAIT_BOUNDS_S: Final = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_LABELS: Final = ("priority_level", "flow_schema")


class FlowCounts:
    """Of one FlowSchema."""

    __slots__ = ("dispatched", "executing", "level", "rejected", "schema", "seats", "wait_s_sum", "waited", "waiting")

    def __init__(self, level: str, schema: str) -> None:
        self.level = level
        self.schema = schema
        self.dispatched = 0
        self.executing = 0
        self.seats = 0
        self.waiting = 0
        self.rejected: dict[str, int] = {}
        self.waited = {"true": [0] * (len(WAIT_BOUNDS_S) + 1), "false": [0] * (len(WAIT_BOUNDS_S) + 1)}
        self.wait_s_sum = {"true": 0.0, "false": 0.0}

    def note_wait(self, seconds: float, *, executes: bool) -> None:
        """A request has waited so long, and was executed or not."""
        key = "true" if executes else "false"
        self.waited[key][bisect_left(WAIT_BOUNDS_S, seconds)] += 1
        self.wait_s_sum[key] += seconds

    def note_rejection(self, reason: str) -> None:
        self.rejected[reason] = self.rejected.get(reason, 0) + 1


def collect(counts: Iterable[FlowCounts], levels: Iterable[FlowLevel]) -> Iterator[Metric]:
    """All of it, for the Prometheus library."""
    prefix = "apiserver_flowcontrol_"
    dispatched = CounterMetricFamily(f"{prefix}dispatched_requests_total", "Requests begun.", labels=_LABELS)
    rejected = CounterMetricFamily(f"{prefix}rejected_requests_total", "Answered 429.", labels=(*_LABELS, "reason"))
    waiting = GaugeMetricFamily(f"{prefix}current_inqueue_requests", "Requests that wait.", labels=_LABELS)
    executing = GaugeMetricFamily(f"{prefix}current_executing_requests", "Requests under way.", labels=_LABELS)
    seats = GaugeMetricFamily(f"{prefix}current_executing_seats", "Seats in use.", labels=_LABELS)
    waits = HistogramMetricFamily(
        f"{prefix}request_wait_duration_seconds", "Time in a queue.", labels=(*_LABELS, "execute")
    )
    for each in counts:
        labels = (each.level, each.schema)
        dispatched.add_metric(labels, each.dispatched)
        waiting.add_metric(labels, each.waiting)
        executing.add_metric(labels, each.executing)
        seats.add_metric(labels, each.seats)
        for reason, count in each.rejected.items():
            rejected.add_metric((*labels, reason), count)
        for execute, found in each.waited.items():
            if any(found):
                waits.add_metric((*labels, execute), _buckets(found), each.wait_s_sum[execute])
    yield from (dispatched, rejected, waiting, executing, seats, waits)
    nominal = GaugeMetricFamily(f"{prefix}nominal_limit_seats", "Seats by its shares.", labels=_LABELS[:1])
    lower = GaugeMetricFamily(f"{prefix}lower_limit_seats", "Seats that it does not lend.", labels=_LABELS[:1])
    upper = GaugeMetricFamily(f"{prefix}upper_limit_seats", "Seats with what it may borrow.", labels=_LABELS[:1])
    for level in levels:
        label = (level.settings.name,)
        nominal.add_metric(label, level.seats.nominal)
        lower.add_metric(label, level.seats.nominal - level.seats.lendable)
        upper.add_metric(label, level.seats.nominal + level.seats.borrowing_max)
    yield from (nominal, lower, upper)


def _buckets(found: list[int]) -> list[tuple[str, float]]:
    total, buckets = 0, []
    for bound, count in zip((*map(str, WAIT_BOUNDS_S), "+Inf"), found, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
