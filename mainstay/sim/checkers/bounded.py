"""A controller with a stale view creates no more than was asked for: lag is not amplified.

A set never has more pods that run, or are going to, than were wanted of it at some moment of the last while; and the
sets of a Deployment together never want more than it did in that while, with its surge. (`WHILE` is longer than any
delay that faults make: who decides may know only what was wanted then.) And a pod that has failed is not replaced again
and again: in any minute at most `FAILED_MAX` fail for each that is wanted. What the autoscaler wants has a bound of its
own (autoscaled.py).

Judged by what was committed. For a while after the store was put back to a backup nothing is: what was wanted and is
undone may still be acted upon.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import timedelta
from math import ceil
from typing import TYPE_CHECKING, Any, Final

from mainstay.api.kind import Object
from mainstay.api.pod_state import is_active, is_leaving
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit, decode_current
from mainstay.sim.cluster.history import Event, RevisionCommitted, StoreRestored

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

WHILE: Final = timedelta(seconds=120)
MINUTE: Final = timedelta(seconds=60)
FAILED_MAX: Final = 6
"""For each pod that is wanted: at once, and then after 5, 10, 20 and 40 seconds."""
_PODS: Final = "core/pods/"
_SETS: Final = "apps/replicasets/"
_APPS: Final = "apps/deployments/"


@dataclass(slots=True)
class _Wanted:
    """What a workload has asked for, and what there is of it."""

    key: str
    owner: str = ""
    sizes: deque[tuple[int, int]] = field(default_factory=deque)
    """Since when, and how many. The first may be from before the last while."""
    active: dict[str, RevisionCommitted] = field(default_factory=dict)
    """By key of the pod."""
    failed: deque[int] = field(default_factory=deque)
    """When pods have failed, in the last minute."""

    @property
    def latest(self) -> int:
        return self.sizes[-1][1] if self.sizes else 0

    def want(self, at_ns: int, size: int) -> None:
        if not self.sizes or self.sizes[-1][1] != size:
            self.sizes.append((at_ns, size))

    def most(self, at_ns: int) -> int:
        """The most that was wanted in the last while."""
        since_ns = at_ns - _ns(WHILE)
        while len(self.sizes) > 1 and self.sizes[1][0] <= since_ns:
            self.sizes.popleft()
        return max((size for _, size in self.sizes), default=0)


class BoundedAmplification:
    name = "bounded"

    def __init__(self) -> None:
        self._sets: dict[str, _Wanted] = {}  # By uid.
        self._apps: dict[str, _Wanted] = {}
        self._judges_from_ns = 0

    def saw(self, event: Event) -> None:
        if isinstance(event, StoreRestored):
            self._judges_from_ns = event.at_ns + _ns(WHILE)
        if not isinstance(event, RevisionCommitted):
            return
        if event.key.startswith(_PODS):
            self._pod(event)
        elif event.key.startswith(_SETS):
            self._set(event)
        elif event.key.startswith(_APPS) and event.value is not None:
            obj = decode_commit(event.value)
            size = obj["spec"].get("replicas", 1)
            known = self._apps.setdefault(obj["metadata"]["uid"], _Wanted(event.key))
            known.want(event.at_ns, size + _compute_surge(obj, size))

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    def _set(self, event: RevisionCommitted) -> None:
        obj = decode_current(event.value) or decode_current(event.previous) or {}
        known = self._sets.setdefault(obj["metadata"]["uid"], _Wanted(event.key))
        before = known.latest
        known.owner = _read_owner(obj)
        known.want(event.at_ns, 0 if event.value is None else obj["spec"].get("replicas", 1))
        app = self._apps.get(known.owner)
        if app is None or known.latest <= before:
            return
        total = sum(each.latest for each in self._sets.values() if each.owner == known.owner)
        most = app.most(event.at_ns)
        if total > most:
            text = f"the sets of {app.key} want {total} pods in total, but at most {most} were wanted recently"
            self._violated(text, [event])

    def _pod(self, event: RevisionCommitted) -> None:
        now, before = decode_current(event.value), decode_current(event.previous)
        owner, owned_by = _read_owner(now or before or {}), _read_owner(before or {})
        if owner != owned_by and owned_by in self._sets:
            self._sets[owned_by].active.pop(event.key, None)  # It was let go, by a set that no longer selects it.
        known = self._sets.get(owner)
        if known is None:
            return
        if now is None or not is_active(now):
            was_active = known.active.pop(event.key, None) is not None
            if was_active and now is not None and not is_leaving(now) and _has_failed(now):
                self._failed(known, event)
            return
        if event.key in known.active:
            return
        known.active[event.key] = event
        if before is not None:
            return  # The set did not create it: it had no owner, and the set adopted it, perhaps to end it.
        most = known.most(event.at_ns)
        if len(known.active) > most:
            text = f"there are {len(known.active)} pods of {known.key}, but at most {most} were wanted recently"
            self._violated(text, list(known.active.values()))

    def _failed(self, known: _Wanted, event: RevisionCommitted) -> None:
        known.failed.append(event.at_ns)
        while known.failed[0] < event.at_ns - _ns(MINUTE):
            known.failed.popleft()
        most = known.most(event.at_ns) * FAILED_MAX
        if len(known.failed) > most:
            text = f"{len(known.failed)} pods of {known.key} failed within a minute, and each was replaced at once"
            self._violated(text, [event])

    def _violated(self, text: str, events: list[RevisionCommitted]) -> None:
        if events[-1].at_ns >= self._judges_from_ns:
            raise Violated(self.name, text, events)


def _read_owner(obj: Object) -> str:
    references = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(each["uid"]) for each in references if each.get("controller")), "")


def _compute_surge(app: Object, size: int) -> int:
    strategy: Any = app["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return 0
    surge = (strategy.get("rollingUpdate") or {}).get("maxSurge", "25%")
    return ceil(size * int(surge[:-1]) / 100) if isinstance(surge, str) else int(surge)


def _has_failed(pod: Object) -> bool:
    return bool((pod.get("status") or {}).get("phase") == "Failed")


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
