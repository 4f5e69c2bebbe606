"""Metrics that pods serve themselves, in the text format of Prometheus: for autoscalers.

    GET /podmetrics/NAMESPACE?metric=NAME&selector=TEXT&pod=A&pod=B

A pod takes part by annotations, as users of Prometheus know them: `prometheus.io/scrape: "true"`, `prometheus.io/port`
(else the first port that it declares), `prometheus.io/path` (else `/metrics`). It is asked at its own address alone, by
plain HTTP, without following redirects; a pod on the network of its host is not asked, for its address is the node's.

Pods are asked when an API server wants to know, each at most every `SCRAPED_EVERY` for one metric. The value is the
sum of the series of that name that the selector matches, of a gauge or of no type: what a counter, a histogram or
a summary says only means something over time. A pod that does not answer, or has no such series, is left out.
"""

import asyncio
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final
from urllib.parse import quote

from prometheus_client.parser import text_string_to_metric_families

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.labels import LabelSelector
from mainstay.env import Clock, tasks
from mainstay.http.outgoing import Exchange, ExchangeBroken, connect

SCRAPED_EVERY: Final = timedelta(seconds=5)
SCRAPED_WITHIN: Final = timedelta(seconds=1)
"""Connecting, the head and the body of the answer, each."""
SCRAPED_AT_ONCE: Final = 32
PODS_MAX: Final = 200
"""In one request."""
ANSWER_BYTES_MAX: Final = 1024 * 1024
LINES_MAX: Final = 2_000
"""Of one metric of one pod."""
VALUE_MAX: Final = 1e12
KEPT_MAX: Final = 10_000

_SCRAPE: Final = "prometheus.io/scrape"
_PORT: Final = "prometheus.io/port"
_PATH: Final = "prometheus.io/path"
_TYPES: Final = ("gauge", "unknown", "untyped")
_SUFFIXES: Final = ("_total", "_bucket", "_sum", "_count")  # Of the series of a counter, a histogram, a summary.
_Key = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class PodMetric:
    at: str
    milli: int
    """The value, in thousandths."""


class PodScraper:
    """Asks pods, and remembers for a while what they said."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free = asyncio.Semaphore(SCRAPED_AT_ONCE)
        self._kept: dict[_Key, tuple[int, PodMetric | None]] = {}

    async def scrape(self, pods: Iterable[Object], metric: str, selector: LabelSelector) -> dict[str, PodMetric]:
        """What each pod says of a metric, by its name; those that say nothing are left out."""
        found: dict[str, PodMetric] = {}

        async def ask(pod: Object) -> None:
            async with self._free:
                said = await self._ask(pod, metric, selector)
            if said is not None:
                found[pod["metadata"]["name"]] = said

        await tasks.together([ask(pod) for pod in pods], name="scrape pods")
        return dict(sorted(found.items()))

    async def _ask(self, pod: Object, metric: str, selector: LabelSelector) -> PodMetric | None:
        endpoint = find_endpoint(pod)
        if endpoint is None:
            return None
        key, now_ns = (pod["metadata"]["uid"], metric, str(selector)), self._clock.monotonic_ns()
        known = self._kept.get(key)
        if known is not None and now_ns - known[0] < SCRAPED_EVERY // timedelta(microseconds=1) * 1000:
            return known[1]
        text = await _fetch(*endpoint)
        value = None if text is None else find_value(text, metric, selector)
        said = None if value is None else PodMetric(times.format_micro_time(self._clock.wall()), value)
        if len(self._kept) >= KEPT_MAX:
            self._kept.clear()
        self._kept[key] = (now_ns, said)
        return said


def find_endpoint(pod: Object) -> tuple[str, int, str] | None:
    """Where a pod serves its metrics: address, port and path. None: it does not, or not where it may be asked."""
    annotations = pod["metadata"].get("annotations") or {}
    spec, address = pod.get("spec") or {}, (pod.get("status") or {}).get("podIP") or ""
    if annotations.get(_SCRAPE) != "true" or not address or spec.get("hostNetwork"):
        return None
    port = annotations.get(_PORT) or str(_find_first_port(spec.get("containers") or ()))
    path = annotations.get(_PATH) or "/metrics"
    if not port.isascii() or not port.isdigit() or not 0 < int(port[:6]) < 2**16:
        return None
    return address, int(port), path if path.startswith("/") else f"/{path}"


def _find_first_port(containers: Sequence[Any]) -> int:
    ports = [port["containerPort"] for each in containers for port in each.get("ports") or ()]
    return int(ports[0]) if ports else 0


async def _fetch(address: str, port: int, path: str) -> str | None:
    lines = [
        f"GET {quote(path, safe='/?&=%')} HTTP/1.1",
        f"host: {address}:{port}",
        "user-agent: mainstay-agent",
        "accept: text/plain;version=0.0.4",
        "connection: close",
        "",
        "",
    ]
    try:
        exchange = await connect(Exchange, address, port, SCRAPED_WITHIN)
        try:
            head = await exchange.ask("\r\n".join(lines).encode(), SCRAPED_WITHIN)
            body = await exchange.read_all(ANSWER_BYTES_MAX, SCRAPED_WITHIN)
        finally:
            exchange.close()
    except (OSError, ExchangeBroken):
        return None
    return body.decode(errors="replace") if head.status == 200 else None


def find_value(text: str, metric: str, selector: LabelSelector) -> int | None:
    """The sum of the series of a metric, in thousandths. None if there is none that can be used."""
    lines = [line for line in text.splitlines() if _is_about(line, metric)][:LINES_MAX]
    values: list[float] = []
    try:
        for family in text_string_to_metric_families("\n".join(lines) + "\n"):
            if family.type not in _TYPES:
                continue
            values += [each.value for each in family.samples if each.name == metric and selector.matches(each.labels)]
    except (ValueError, KeyError, IndexError):
        return None  # It is not in the format.
    total = math.fsum(values) if all(map(math.isfinite, values)) else math.inf
    if not values or abs(total) > VALUE_MAX:
        return None
    return round(total * 1000)


def _is_about(line: str, metric: str) -> bool:
    """Whether a line is a series of a metric, or says the type of it or of what it is a part of."""
    if line.startswith("# TYPE "):
        return line.split()[2:3] in [[metric], *([metric.removesuffix(each)] for each in _SUFFIXES)]
    rest = line.removeprefix(metric)
    return rest != line and rest[:1] in ("{", " ", "\t")
