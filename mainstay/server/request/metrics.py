"""Numbers about the server, in the form and under the names that those who watch Kubernetes already use.

What a request adds to is a plain number in a dict, found by what the request was about; the Prometheus library is asked
only when a client reads them. All is counted on the loop's thread, so nothing is locked; what is rendered is a copy
(`prepare`), because with many custom kinds that takes long, and is done on another thread. How many different label
values there can be is bounded: they come from kinds, verbs and a short list of paths, never from what a client made up.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate
from typing import Final, cast

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import generate_latest

from mainstay.env import Clock
from mainstay.env.invariants import broken
from mainstay.server.request.target import RequestTarget, Verb
from mainstay.server.watch.feed import EventTally

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"

# The bounds of Kubernetes, so that dashboards fit; the first ones are ours, because most requests take no longer.
BOUNDS_S: Final = (
    0.0005, 0.001, 0.0025,
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip

_BOUND_TEXTS: Final = (*map(str, BOUNDS_S), "+Inf")
_REQUEST_LABELS: Final = ("verb", "group", "version", "resource", "subresource", "scope")
_Labels = tuple[str, str, str, str, str, str]
_PATHS: Final = frozenset({"/healthz", "/livez", "/readyz", "/version", "/metrics", "/api", "/apis", "/openapi/v3"})
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_VERBS: Final = {Verb.CREATE: "POST", Verb.UPDATE: "PUT"}


class _Durations:
    """How often each bound was not exceeded, and the sum."""

    __slots__ = ("counts", "sum_s")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS_S) + 1)
        self.sum_s = 0.0


def _collect_requests(
    totals: Mapping[tuple[_Labels, int], int], durations: Mapping[_Labels, tuple[list[int], float]]
) -> Iterator[Metric]:
    answered = CounterMetricFamily("apiserver_request_total", "Requests answered.", labels=(*_REQUEST_LABELS, "code"))
    for (labels, code), count in totals.items():
        answered.add_metric((*labels, str(code)), count)
    yield answered
    took = HistogramMetricFamily(
        "apiserver_request_duration_seconds", "Duration of requests, without streams.", labels=_REQUEST_LABELS
    )
    for labels, (counts, sum_s) in durations.items():
        took.add_metric(labels, list(zip(_BOUND_TEXTS, accumulate(counts), strict=True)), sum_s)
    yield took


class _Collected:
    """As much of a `CollectorRegistry` as it takes to render what was collected."""

    def __init__(self, families: Iterable[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        return self._families


class Metrics:
    """All of them. `process` adds what the operating system knows of this process, which no simulation has."""

    def __init__(self, clock: Clock, *, process: bool = False) -> None:
        self._started_at = clock.wall().timestamp()
        self._process = ProcessCollector(registry=None) if process else None
        self._totals: dict[tuple[_Labels, int], int] = {}
        self._durations: dict[_Labels, _Durations] = {}
        self._inflight = {"mutating": 0, "readOnly": 0}
        self._long: dict[_Labels, int] = {}
        self._watched: Mapping[tuple[str, str, str], EventTally] = {}
        self._readings: list[tuple[type[CounterMetricFamily] | type[GaugeMetricFamily], str, str, _Reading]] = []
        self._more: list[Callable[[], Iterator[Metric]]] = []

    def begun(self, method: str) -> None:
        """A request is being answered. Each `begun` needs one `answered`, or `stream_begun`, with the same method."""
        self._inflight["readOnly" if method in ("GET", "HEAD") else "mutating"] += 1

    def answered(self, method: str, path: str, target: RequestTarget | None, code: int, seconds: float) -> None:
        """A request was answered."""
        self._inflight["readOnly" if method in ("GET", "HEAD") else "mutating"] -= 1
        labels = _labels(method, path, target)
        key = (labels, code)
        self._totals[key] = self._totals.get(key, 0) + 1
        durations = self._durations.get(labels)
        if durations is None:
            durations = self._durations[labels] = _Durations()
        durations.counts[bisect_left(BOUNDS_S, seconds)] += 1
        durations.sum_s += seconds

    def stream_begun(self, method: str, path: str, target: RequestTarget | None) -> None:
        """A request goes on as a watch or another stream, and is not in flight any more. Needs one `stream_ended`."""
        self._inflight["readOnly" if method in ("GET", "HEAD") else "mutating"] -= 1
        labels = _labels(method, path, target)
        self._long[labels] = self._long.get(labels, 0) + 1

    def stream_ended(self, method: str, path: str, target: RequestTarget | None, code: int) -> None:
        labels = _labels(method, path, target)
        self._long[labels] = left = self._long.get(labels, 0) - 1
        if left < 0:
            raise broken("a stream ends once, after it began", f"{method} {path}", streams=left)
        self._totals[labels, code] = self._totals.get((labels, code), 0) + 1

    def watched(self, tallies: Mapping[tuple[str, str, str], EventTally]) -> None:
        """Show how many events went out to watchers: by group, version and resource, as the feed counts them."""
        self._watched = tallies

    def gauge(self, name: str, meaning: str, read: "_Reading") -> None:
        """Show a number that is read when a client reads the metrics."""
        self._readings.append((GaugeMetricFamily, name, meaning, read))

    def counter(self, name: str, meaning: str, read: "_Reading") -> None:
        """The same for one that only grows. Its name ends with `_total`."""
        self._readings.append((CounterMetricFamily, name, meaning, read))

    def more(self, collect: Callable[[], Iterator[Metric]]) -> None:
        """Show what another module counts."""
        self._more.append(collect)

    def render(self) -> bytes:
        """All of them, as `CONTENT_TYPE`."""
        return self.prepare()()

    def prepare(self) -> Callable[[], bytes]:
        """What renders them as they are now, on any thread."""
        totals = dict(self._totals)
        durations = {labels: (measured.counts.copy(), measured.sum_s) for labels, measured in self._durations.items()}
        rest = list(self._collect_rest())

        def render() -> bytes:
            of_process = () if self._process is None else self._process.collect()
            families = _Collected([*_collect_requests(totals, durations), *rest, *of_process])
            return generate_latest(cast(CollectorRegistry, families))

        return render

    def _collect_rest(self) -> Iterator[Metric]:
        """All but those of which there are many."""
        inflight = GaugeMetricFamily(
            "apiserver_current_inflight_requests", "Requests being answered, without streams.", labels=["request_kind"]
        )
        for kind, count in self._inflight.items():
            if count < 0:
                raise broken("a request is answered once, after it began", f"{kind} requests", in_flight=count)
            inflight.add_metric((kind,), count)
        yield inflight
        long = GaugeMetricFamily(
            "apiserver_longrunning_requests", "Watches and other streams that are open.", labels=_REQUEST_LABELS
        )
        for labels, count in self._long.items():
            long.add_metric(labels, count)
        yield long
        events = CounterMetricFamily(
            "apiserver_watch_events_total", "Events sent to watchers.", labels=("group", "version", "resource")
        )
        for watched, tally in self._watched.items():
            events.add_metric(watched, tally.events)
        yield events
        for family, name, meaning, read in self._readings:
            yield family(name, meaning, value=read())
        for collect in self._more:
            yield from collect()
        if self._process is None:
            started = "When the process started, in seconds since 1970."
            yield GaugeMetricFamily("process_start_time_seconds", started, value=self._started_at)


_Reading = Callable[[], float]


def _labels(method: str, path: str, target: RequestTarget | None) -> _Labels:
    if target is None:
        known = path if path in _PATHS else ""
        return (method if method in _METHODS else "OTHER", "", "", "", known, "")
    kind, verb = target.kind, target.verb
    scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
    return (_VERBS.get(verb) or _UPPER[verb], kind.group, kind.version, kind.plural, target.subresource, scope)


_UPPER: Final = {verb: str(verb).upper() for verb in Verb}
