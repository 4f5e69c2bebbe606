"""Numbers about a component: its queues, its caches, its client and its loops. Upstream's names where they exist.

Nothing is counted here: what the parts have counted is asked for when the metrics are read, so being measured
costs a component nothing. The same figures are for `mainstay top queues`.
"""

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_open
from prometheus_client.registry import Collector

from mainstay.client.breaker import BreakerState
from mainstay.client.client import Client
from mainstay.client.informer import Informers
from mainstay.loop.holds import Holding
from mainstay.loop.kernel import Loop
from mainstay.loop.queue.items import Durations, Figures
from mainstay.loop.record_shipper import Shipper
from mainstay.loop.term import Term

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
OPEN_METRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"

# Powers of two in nanoseconds that are near the bounds upstream uses, from a microsecond to a quarter of an hour.
_BUCKET_BITS: Final = (10, 14, 17, 20, 24, 27, 30, 34, 37, 40)
_CONDITIONS: Final = {BreakerState.CLOSED: 0, BreakerState.PROBING: 1, BreakerState.OPEN: 2}


class MeasuredComponent(Protocol):
    """What is read of a component. The scheduler has no loops, and is one all the same."""

    @property
    def name(self) -> str: ...
    @property
    def loops(self) -> Sequence[Loop]: ...
    @property
    def informers(self) -> Informers: ...
    @property
    def client(self) -> Client: ...
    @property
    def term(self) -> Term | None: ...
    @property
    def holding(self) -> Holding: ...


class ComponentMetrics(Collector):
    """Reads one component. `render` gives all of it as `CONTENT_TYPE`."""

    def __init__(self, component: MeasuredComponent) -> None:
        self.shipper: Shipper | None = None
        """If its decisions are recorded."""
        self._component = component
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def render(self) -> bytes:
        return generate_latest(self._registry)

    def render_open(self) -> bytes:
        """As `OPEN_METRICS`, which has exemplars."""
        shown: bytes = generate_open(self._registry)  # type: ignore[no-untyped-call]
        return shown

    def collect(self) -> Iterator[Metric]:
        yield from self._queues()
        yield from self._caches()
        yield from self._loops()
        yield from self._client()
        yield from self._decisions()

    def _queues(self) -> Iterator[Metric]:
        with_queues = [loop.kernel.queue for loop in self._component.loops]
        queues = [(queue.name, queue.figures()) for queue in with_queues if queue is not None]
        for name, meaning, value in (
            ("workqueue_depth", "Keys in the queue.", lambda figures: figures.ready),
            ("workqueue_unfinished_work_seconds", "Age of the oldest key being processed.", _processing_s),
            ("mainstay_workqueue_oldest_seconds", "Age of the oldest key in the queue.", _oldest_s),
            ("mainstay_workqueue_backing_off", "Keys that wait for their next attempt.", lambda each: each.backing_off),
            (
                "mainstay_workqueue_given_up",
                "Terminal keys: not retried until they change.",
                lambda each: each.terminal,
            ),
        ):
            gauge = GaugeMetricFamily(name, meaning, labels=("name",))
            for queue, figures in queues:
                gauge.add_metric((queue,), value(figures))
            yield gauge
        for name, meaning, value in (
            ("workqueue_adds", "Keys added.", lambda figures: figures.added),
            ("workqueue_retries", "Attempts after a failure.", lambda figures: figures.retries),
            ("mainstay_workqueue_merged", "Adds of keys that were already queued.", lambda figures: figures.merged),
            (
                "mainstay_workqueue_gave_up",
                "Times a key became terminal.",
                lambda figures: figures.became_terminal,
            ),
        ):
            counter = CounterMetricFamily(name, meaning, labels=("name",))
            for queue, figures in queues:
                counter.add_metric((queue,), value(figures))
            yield counter
        waits = HistogramMetricFamily("workqueue_queue_duration_seconds", "Time in the queue.", labels=("name",))
        works = HistogramMetricFamily("workqueue_work_duration_seconds", "Processing time.", labels=("name",))
        for queue, figures in queues:
            for family, durations in ((waits, figures.wait), (works, figures.work)):
                family.add_metric((queue,), _buckets(durations), durations.total.total_seconds())
        yield waits
        yield works

    def _caches(self) -> Iterator[Metric]:
        informers = [(informer.collection.kind.text, informer) for informer in self._component.informers.all()]
        lag = GaugeMetricFamily("mainstay_cache_lag_revisions", "Revisions that a cache is behind.", labels=("kind",))
        reached = GaugeMetricFamily("mainstay_cache_revision", "Latest revision in a cache.", labels=("kind",))
        objects = GaugeMetricFamily("mainstay_cache_objects", "Objects in a cache.", labels=("kind",))
        for kind, informer in informers:
            lag.add_metric((kind,), informer.lag)
            reached.add_metric((kind,), informer.cache.revision)
            objects.add_metric((kind,), len(informer.cache))
        yield from (lag, reached, objects)
        # Its watches say something at least every second, so what was said last tells how old the picture may be.
        age = GaugeMetricFamily(
            "controller_cache_lag_seconds", "Maximum age of the data in a cache.", labels=("component", "resource")
        )
        for kind, informer in informers:
            if (silence := informer.silent_for) is not None:
                age.add_metric((self._component.name, kind), silence.total_seconds())
        yield age
        for name, meaning in (
            ("lists", "Lists of all objects."),
            ("relists", "Of these, with a cache that was not empty."),
            ("disconnects", "Watches that failed."),
            ("events", "Changes applied."),
            ("dropped", "Events that were already applied."),
        ):
            counter = CounterMetricFamily(f"mainstay_reflector_{name}", meaning, labels=("kind",))
            for kind, informer in informers:
                counter.add_metric((kind,), getattr(informer.counters, name))
            yield counter

    def _loops(self) -> Iterator[Metric]:
        for name, meaning in (
            ("decisions", "Decisions made."),
            ("actions", "Writes that succeeded."),
            ("failures", "Writes that failed."),
            ("bugs", "Decisions that raised."),
            ("late_own_writes", "Times that a cache was slow to show the component's own writes."),
        ):
            counter = CounterMetricFamily(f"mainstay_controller_{name}", meaning, labels=("controller",))
            for loop in self._component.loops:
                counter.add_metric((loop.kernel.name,), getattr(loop.kernel.counters, name))
            yield counter
        held = GaugeMetricFamily("mainstay_controller_held", "Whether a Hold pauses it.", labels=("controller",))
        for name, hold in sorted(self._component.holding.gates.items()):
            held.add_metric((name,), 0 if hold is None else 1)
        yield held
        leads = GaugeMetricFamily("leader_election_master_status", "Whether it leads.", labels=("name",))
        leads.add_metric((self._component.name,), 1 if self._component.term is not None else 0)
        yield leads

    def _client(self) -> Iterator[Metric]:
        counts = self._component.client.counts
        for name, meaning in (
            ("requests", "Requests sent."),
            ("repeats", "Of these, retries."),
            ("unanswered", "Requests without an answer."),
            ("unsent", "Requests without a connection."),
        ):
            yield CounterMetricFamily(f"mainstay_client_{name}", meaning, getattr(counts, name))
        breakers = GaugeMetricFamily("mainstay_client_breaker", "0 closed, 1 probing, 2 open.", labels=("server",))
        for server in self._component.client.servers():
            breakers.add_metric((server.address,), _CONDITIONS[server.condition])
        yield breakers

    def _decisions(self) -> Iterator[Metric]:
        if (shipper := self.shipper) is None:
            return
        for name, meaning, value in (
            ("recorded", "Decisions recorded for the journal.", shipper.recorded),
            ("dropped", "Of these, dropped because the buffer was full.", shipper.dropped),
            (
                "details_dropped",
                "Decisions recorded without detail because the buffer was nearly full.",
                shipper.details_dropped,
            ),
            ("shipping_failures", "Failed attempts to send decisions to the server.", shipper.failures),
        ):
            yield CounterMetricFamily(f"mainstay_decision_records_{name}", meaning, value)
        yield GaugeMetricFamily(
            "mainstay_decision_records_waiting_bytes", "Bytes not sent to the server yet.", shipper.waiting_bytes
        )
        yield GaugeMetricFamily(
            "mainstay_decision_records_local",
            "1 if the server has no journal and this component keeps its own.",
            shipper.is_local,
        )


def _oldest_s(figures: Figures) -> float:
    return figures.oldest_age.total_seconds()


def _processing_s(figures: Figures) -> float:
    return figures.oldest_processing_age.total_seconds()


def _buckets(durations: Durations) -> list[tuple[str, float]]:
    result: list[tuple[str, float]] = []
    for bits in _BUCKET_BITS:
        result.append((repr((1 << bits) / 1e9), float(sum(durations.buckets[: bits + 1]))))
    return [*result, ("+Inf", float(durations.count))]
