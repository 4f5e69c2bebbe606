"""A rollout, forward or back, never removes the capacity that others would have to recover with.

When the pods of a Deployment are made fewer by the control plane itself, those that are healthy go only if so many
others are: all that are wanted, less what may be unavailable, and never the last one. Evictions and lost nodes are
others' business (budgets.py), and so is what users delete by hand.

Judged by what was committed. Who decides may know of a pod's end only later, so one that was ready a while ago counts;
and a Deployment counts as it was when it wanted the least in that while. For so long after the store was put back to a
backup nothing is judged: what was wanted and is undone may still be acted upon.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final

from mainstay.api.kind import Object
from mainstay.api.pod_state import is_active, is_leaving, is_ready
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit, decode_current
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted, StoreRestored

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

WHILE: Final = timedelta(seconds=90)
"""Longer than any delay that faults make."""
_PODS: Final = "core/pods/"
_SETS: Final = "apps/replicasets/"
_APPS: Final = "apps/deployments/"
_DECISION: Final = "replicaset-"
_ALWAYS: Final = 1 << 62


@dataclass(slots=True)
class _Pod:
    owner: str
    commit: RevisionCommitted
    ready_until_ns: int = -_ALWAYS
    """When it was last ready; `_ALWAYS` while it is, and before all times if it never was."""


@dataclass(slots=True)
class _App:
    key: str
    needed: list[tuple[int, int]]
    """Since when, and how many have to be available at least."""


class Recovery:
    name = "recovery"

    def __init__(self) -> None:
        self._asked: dict[int, RequestReceived] = {}
        self._apps: dict[str, _App] = {}  # By uid.
        self._app_of: dict[str, str] = {}  # By uid of the set.
        self._pods: dict[str, _Pod] = {}  # By uid: those of sets, active or until lately so.
        self._judges_from_ns = 0

    def saw(self, event: Event) -> None:
        if isinstance(event, StoreRestored):
            self._judges_from_ns = event.at_ns + _ns(WHILE)
        elif isinstance(event, RequestReceived):
            if event.method == "DELETE" and event.decision.startswith(_DECISION):
                self._asked[event.request] = event
        elif isinstance(event, RevisionCommitted):
            if event.key.startswith(_PODS):
                self._pod(event)
            elif event.key.startswith(_SETS) and event.value is not None:
                obj = decode_commit(event.value)
                self._app_of[obj["metadata"]["uid"]] = read_owner(obj)
            elif event.key.startswith(_APPS):
                self._app(event)

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""

    def _app(self, event: RevisionCommitted) -> None:
        obj = decode_current(event.value) or decode_current(event.previous) or {}
        is_wanted = event.value is not None and not is_leaving(obj)
        known = self._apps.setdefault(obj["metadata"]["uid"], _App(event.key, []))
        needed = _needed_by(obj) if is_wanted else 0
        if not known.needed or known.needed[-1][1] != needed:
            known.needed.append((event.at_ns, needed))

    def _pod(self, event: RevisionCommitted) -> None:
        now, before = decode_current(event.value), decode_current(event.previous)
        shown = now or before or {}
        uid, owner = shown["metadata"]["uid"], read_owner(shown)
        if owner not in self._app_of:
            self._pods.pop(uid, None)  # Its owner has released it.
            return
        known = self._pods.setdefault(uid, _Pod(owner, event))
        was_ready = known.ready_until_ns == _ALWAYS
        if now is not None and is_active(now) and is_ready(now):
            known.ready_until_ns = _ALWAYS
        elif was_ready:
            known.ready_until_ns = event.at_ns
        known.commit = event
        goes = before is not None and is_active(before) and (now is None or is_leaving(now))
        asked = self._asked.get(event.request or 0)
        if goes and asked is not None:
            del self._pods[uid]  # Who has told it to go knows that.
            if was_ready and event.at_ns >= self._judges_from_ns:
                self._require_others(owner, asked, event)

    def _require_others(self, owner: str, asked: RequestReceived, event: RevisionCommitted) -> None:
        app = self._apps.get(self._app_of[owner])
        if app is None:
            return
        since_ns = event.at_ns - _ns(WHILE)
        lately = [
            number
            for place, (_, number) in enumerate(app.needed)
            if place == len(app.needed) - 1 or app.needed[place + 1][0] > since_ns
        ]
        needed = min(lately)
        uid = self._app_of[owner]
        others = [
            each
            for each in self._pods.values()
            if self._app_of.get(each.owner) == uid and each.ready_until_ns >= since_ns
        ]
        if len(others) < needed:
            text = f"{event.key} was deleted while healthy: {app.key} has {len(others)} others and needs {needed}"
            raise Violated(self.name, text, [asked, event, *(each.commit for each in others)])


def _needed_by(app: Object) -> int:
    wanted = int(app["spec"].get("replicas", 1))
    strategy: Any = app["spec"].get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return 0
    most = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", "25%")
    unavailable = wanted * int(most[:-1]) // 100 if isinstance(most, str) else int(most)
    return max(wanted - unavailable, min(wanted, 1))


def read_owner(obj: Object) -> str:
    references = (obj.get("metadata") or {}).get("ownerReferences") or ()
    return next((str(each["uid"]) for each in references if each.get("controller")), "")


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
