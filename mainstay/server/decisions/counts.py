"""Figures about the decisions that came in: how many, of whom, how they ended, by which rule they were kept, how large.

Why some were not kept, or not whole (`decision_records_dropped_total`):

    sampled     a rule of sampling left them out
    overload    a component had no room for them while no server took them
    detail      the same, and what they were about and led to was kept
    disk        this server had no room for them while its disk did not take them
    refusals    there were too many different refusals at once
    busy        none is lost: a component was told to send a batch again later

Label values come from components, so how many different ones there can be is bounded here: what is beyond is `other`.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily, Metric

from mainstay.journal.record import Ending, LostRecord, Record, SampledRecord

BOUNDS_BYTES: Final = (128, 256, 384, 512, 768, 1024, 2048, 4096, 8192, 16384, 65536)
LABELS_MAX: Final = 500
OTHER: Final = ("other", "other", "other")


class DecisionCounts:
    def __init__(self) -> None:
        self._kept: dict[tuple[str, str, str], int] = {}
        self._dropped: dict[str, int] = {}
        self._elsewhere: dict[str, Callable[[], int]] = {}
        self._sizes = [0] * (len(BOUNDS_BYTES) + 1)
        self._bytes = 0

    def kept(self, component: str, ending: Ending, by: str, sizes: Sequence[int]) -> None:
        """Some decisions with these in common were kept, by a rule. `sizes` is how large each is."""
        labels = (component, str(ending), by)
        if labels not in self._kept and len(self._kept) >= LABELS_MAX:
            labels = OTHER
        self._kept[labels] = self._kept.get(labels, 0) + len(sizes)
        for size in sizes:
            self._sizes[bisect_left(BOUNDS_BYTES, size)] += 1
        self._bytes += sum(sizes)

    def dropped(self, why: str, count: int = 1) -> None:
        if count:
            self._dropped[why] = self._dropped.get(why, 0) + count

    def dropped_elsewhere(self, why: str, read: Callable[[], int]) -> None:
        """What another module counts, read when a client reads the metrics."""
        self._elsewhere[why] = read

    def told(self, record: Record) -> None:
        """What a component tells of its own losses."""
        match record:
            case LostRecord(records=records, details=details):
                self.dropped("overload", records)
                self.dropped("detail", details)
            case SampledRecord(records=records):
                self.dropped("sampled", records)
            case _:
                pass

    def collect(self) -> Iterator[Metric]:
        kept = CounterMetricFamily(
            "decision_records_total",
            "Records of decisions that were kept, and by which rule of sampling.",
            labels=("component", "outcome", "kept"),
        )
        for labels, count in sorted(self._kept.items()):
            kept.add_metric(labels, count)
        yield kept
        dropped = CounterMetricFamily(
            "decision_records_dropped_total",
            "Decision records that were dropped or shortened, by reason.",
            labels=("why",),
        )
        counted = self._dropped | {why: read() for why, read in self._elsewhere.items()}
        for why, count in sorted(counted.items()):
            dropped.add_metric((why,), count)
        yield dropped
        sizes = HistogramMetricFamily("decision_record_bytes", "How large they are, before compression.")
        total = 0
        buckets: list[tuple[str, float]] = []
        for bound, count in zip((*map(str, BOUNDS_BYTES), "+Inf"), self._sizes, strict=True):
            total += count
            buckets.append((bound, total))
        sizes.add_metric((), buckets, self._bytes)
        yield sizes
