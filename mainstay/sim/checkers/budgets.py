"""Evictions never take more than a disruption budget has: of those that it needs so many stay, as far as they can help.

A budget pays for what is asked for, not for accidents. So a pod counts as one that stays from when it is ready for the
first time until it is evicted, or until a while after it was lost in another way: by then the count that evictions are
judged by must know. At each eviction of a pod that is ready, so many must stay as the budget needs.

Judged by what was committed and asked for. Budgets here say how many they need at least, as a number.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Final

from mainstay.api.kind import Object
from mainstay.api.labels import from_object
from mainstay.api.pod_state import is_active, is_leaving, is_ready
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit, decode_current
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

WHILE: Final = timedelta(seconds=150)
"""How long it may take until everybody knows of a loss: controllers may be away for a while, and hear late."""
_PODS: Final = "core/pods/"
_BUDGETS: Final = "policy/poddisruptionbudgets/"
_STAYS: Final = 1 << 62


@dataclass(slots=True)
class _Pod:
    obj: Object
    commit: RevisionCommitted
    counts_until_ns: int = _STAYS


class BudgetChecker:
    name = "budgets"

    def __init__(self) -> None:
        self._evictions: dict[int, RequestReceived] = {}
        self._budgets: dict[str, Object] = {}
        self._pods: dict[str, _Pod] = {}  # By uid: those that have been ready.

    def saw(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            if event.method == "POST" and event.path.partition("?")[0].endswith("/eviction"):
                self._evictions[event.request] = event
        elif isinstance(event, RevisionCommitted):
            if event.key.startswith(_PODS):
                self._pod(event)
            elif event.key.startswith(_BUDGETS):
                if event.value is None:
                    self._budgets.pop(event.key, None)
                else:
                    self._budgets[event.key] = decode_commit(event.value)

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    def _pod(self, event: RevisionCommitted) -> None:
        now, before = decode_current(event.value), decode_current(event.previous)
        shown = now or before or {}
        uid = shown["metadata"]["uid"]
        if now is not None and is_active(now):
            if is_ready(now) and uid not in self._pods:
                self._pods[uid] = _Pod(now, event)
            elif uid in self._pods:
                self._pods[uid].obj = now
            return
        known = self._pods.get(uid)
        if known is None:
            return
        asked = self._evictions.get(event.request or 0)
        is_told = before is not None and not is_leaving(before) and (now is None or is_leaving(now))
        if asked is not None and is_told and before is not None:
            del self._pods[uid]
            if is_ready(before):
                self._require_enough(before, asked, event)
        elif known.counts_until_ns == _STAYS:
            known.counts_until_ns = event.at_ns + WHILE // timedelta(microseconds=1) * 1000

    def _require_enough(self, pod: Object, asked: RequestReceived, event: RevisionCommitted) -> None:
        for key, budget in self._budgets.items():
            spec, namespace = budget["spec"], budget["metadata"]["namespace"]
            least = spec.get("minAvailable")
            if not isinstance(least, int) or not _is_covered(budget, pod):
                continue
            stay = [
                each.commit
                for each in self._pods.values()
                if each.counts_until_ns > event.at_ns and _is_covered(budget, each.obj)
            ]
            if len(stay) < least:
                text = f"{event.key} was evicted in {namespace}: {len(stay)} pods remain, but {key} requires {least}"
                raise Violated(self.name, text, [asked, event, *stay])


def _is_covered(budget: Object, pod: Object) -> bool:
    if pod["metadata"]["namespace"] != budget["metadata"]["namespace"]:
        return False
    return from_object(budget["spec"].get("selector")).matches(pod["metadata"].get("labels") or {})
