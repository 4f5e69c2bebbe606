"""How long things took, in buckets; with the last thing that fell into each, so that a figure leads to an example.

An exemplar names a decision, by whose id the other signals are found. Prometheus shows exemplars to those who ask for
OpenMetrics; a figure itself never has the name of an object, of which there are too many.
"""

from bisect import bisect_left

from prometheus_client.samples import Exemplar

from mainstay.journal.trace_id import derive_trace_id

Bucket = tuple[str, float] | tuple[str, float, Exemplar]


class Histogram:
    __slots__ = ("bounds", "buckets", "count", "examples", "total_s")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """`bounds` are upper ones, in seconds."""
        self.bounds = bounds
        self.buckets = [0] * (len(bounds) + 1)
        self.examples: list[tuple[str, float] | None] = [None] * (len(bounds) + 1)
        """For each bucket a decision, and how long it took."""
        self.count = 0
        self.total_s = 0.0

    def add(self, duration_ns: int, decision: str = "") -> None:
        seconds = duration_ns / 1e9
        number = bisect_left(self.bounds, seconds)
        self.buckets[number] += 1
        if decision:
            self.examples[number] = decision, seconds
        self.count += 1
        self.total_s += seconds

    def cumulated(self) -> list[Bucket]:
        """As Prometheus has them: up to each bound, and in the end all."""
        found: list[Bucket] = []
        sum_so_far = 0
        for number, bound in enumerate(self.bounds):
            sum_so_far += self.buckets[number]
            found.append(self._bucket(number, repr(bound), sum_so_far))
        return [*found, self._bucket(len(self.bounds), "+Inf", self.count)]

    def _bucket(self, number: int, bound: str, count: int) -> Bucket:
        example = self.examples[number]
        if example is None:
            return bound, float(count)
        decision, seconds = example
        return bound, float(count), Exemplar({"decision_id": decision, "trace_id": derive_trace_id(decision)}, seconds)
