"""How fast nodes of a zone may be released: a bucket of permits for each zone, by its own monotonic time.

To *release* a node is to let its pods be replaced. One at a time, and then the next when a permit has grown again: a
fault that looks like many dead nodes is mostly another one, and who goes slowly has time to find out. While most of a
zone is silent permits grow ten times as slowly (`Pace.SLOW`); while we may be deaf ourselves none is given at all
(loop/evidence.py), and none grow.

Buckets begin empty. So a leader that restarts, however often, never releases more than one that goes on.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from mainstay.loop.evidence import Pace, ZoneSilence

PER_S: Final[Mapping[Pace, int]] = MappingProxyType({Pace.USUAL: 100, Pace.SLOW: 10})
"""Thousandths of a permit that grow in a second. As in Kubernetes: a node in ten seconds, or in a hundred."""
PERMIT: Final = 1_000_000_000_000
"""One permit, in the unit in which they are counted: thousandths, times nanoseconds."""


@dataclass(frozen=True, slots=True)
class Bucket:
    amount: int
    """At most one permit."""
    at_ns: int
    """When that was."""
    pace: Pace = Pace.USUAL
    """At which it grows since then."""
    is_stopped: bool = False


def grown(bucket: Bucket, now_ns: int) -> Bucket:
    """The bucket at a later time."""
    if bucket.is_stopped:
        return replace(bucket, at_ns=now_ns)
    amount = min(PERMIT, bucket.amount + max(0, now_ns - bucket.at_ns) * PER_S[bucket.pace])
    return replace(bucket, amount=amount, at_ns=now_ns)


def has_permit(bucket: Bucket) -> bool:
    return bucket.amount >= PERMIT


def taken(bucket: Bucket) -> Bucket:
    """After one permit was used. There must be one."""
    if not has_permit(bucket):
        raise ValueError("there is no permit")
    return replace(bucket, amount=bucket.amount - PERMIT)


def looked_at(
    buckets: Mapping[str, Bucket], silences: Iterable[ZoneSilence], now_ns: int, *, is_stopped: bool
) -> dict[str, Bucket]:
    """All buckets now, one for each zone that has nodes. How they go on from here depends on what is heard now."""
    found = {}
    for zone in silences:
        before = buckets.get(zone.zone) or Bucket(0, now_ns)
        pace = Pace.SLOW if zone.is_mostly_silent else Pace.USUAL
        found[zone.zone] = replace(grown(before, now_ns), pace=pace, is_stopped=is_stopped)
    return found
