"""What is held stays as it is: judged by commits and requests, not by reports.

A Hold binds those who have seen it. They are given `MOMENTS` for that, which is more than a watch takes that no fault
keeps back; from then on, until it is removed or its time is over, it must be kept.
"""

from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from mainstay.api.annotations import DESIRED_REPLICAS
from mainstay.api.holds import ParsedHold, freezing, holding_controller, holding_rollout, parse_hold
from mainstay.api.kind import Object
from mainstay.api.well_known_labels import UNREACHABLE_TAINT
from mainstay.sim.checkers import Violated
from mainstay.sim.checkers.decoded import decode_commit
from mainstay.sim.cluster.history import Event, RequestReceived, RevisionCommitted
from mainstay.sim.loop.clock import EPOCH

if TYPE_CHECKING:
    from mainstay.sim.cluster.world import World

MOMENTS: Final = timedelta(seconds=10)
_HOLDS: Final = "mainstay.dev/holds/"
_PODS: Final = "core/pods/"
_NODES: Final = "core/nodes/"
_SETS: Final = "apps/replicasets/"
_DEPLOYMENTS: Final = "apps/deployments/"
_RELEASED: Final = (UNREACHABLE_TAINT, "NoExecute")
_UID_LENGTH: Final = 36


class HoldsThere:
    """The Holds in the store, and since when."""

    def __init__(self) -> None:
        self._there: dict[str, tuple[ParsedHold, int]] = {}

    def saw(self, event: RevisionCommitted) -> None:
        if not event.key.startswith(_HOLDS):
            return
        held = None if event.value is None else parse_hold(decode_commit(event.value))
        since_ns = event.at_ns
        before = self._there.pop(event.key, None)
        if before is not None and before[0].is_in_force(_wall(event.at_ns)):
            since_ns = before[1]  # It was made longer or shorter. One that was over begins again.
        if held is not None:
            self._there[event.key] = (held, since_ns)

    def binding(self, at_ns: int) -> list[ParsedHold]:
        """Those that everybody must know of by now."""
        return [
            held
            for held, since_ns in self._there.values()
            if at_ns - since_ns > _ns(MOMENTS) and held.is_in_force(_wall(at_ns))
        ]


class ControllersHeld:
    """A controller that is held changes nothing: nothing is committed for a decision of it. (It may ask again for what
    was done before, and whose answer was lost.)"""

    name = "controllers held"

    def __init__(self) -> None:
        self._holds = HoldsThere()
        self._asked: dict[int, RequestReceived] = {}

    def saw(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            if event.is_write and event.decision:
                self._asked[event.request] = event
        elif isinstance(event, RevisionCommitted):
            self._holds.saw(event)
            asked = self._asked.get(event.request or 0)
            if asked is None:
                return
            controller = asked.decision[: -_UID_LENGTH - 1]
            held = holding_controller(self._holds.binding(event.at_ns), controller)
            if held is not None:
                raise Violated(self.name, f"{controller} wrote although {held.words}", [asked, event])

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""


class RolloutsHeld:
    """No set is made for a Deployment that is held, and none of its sets gets another size for the same number of
    replicas. While that number is being shared out among them, each may."""

    name = "rollouts held"

    def __init__(self) -> None:
        self._holds = HoldsThere()
        self._wanted: dict[str, dict[int, int]] = {}
        """Of each Deployment, the numbers of replicas, and when each was last wanted; the present one comes last."""
        self._shared_at: dict[str, int] = {}
        """Of each Deployment, when one of its sets was last sized for another number of replicas."""

    def saw(self, event: Event) -> None:
        if not isinstance(event, RevisionCommitted):
            return
        self._holds.saw(event)
        if event.key.startswith(_DEPLOYMENTS) and event.value is not None:
            name = event.key.removeprefix(_DEPLOYMENTS)
            times = self._wanted.setdefault(name, {})
            for number in (event.previous, event.value):
                if number is not None:
                    replicas = int(decode_commit(number)["spec"]["replicas"])
                    times.pop(replicas, None)
                    times[replicas] = event.at_ns
        elif event.key.startswith(_SETS) and event.value is not None:
            self._saw_set(
                event, decode_commit(event.value), None if event.previous is None else decode_commit(event.previous)
            )

    def _saw_set(self, event: RevisionCommitted, new: Object, old: Object | None) -> None:
        owner = next((each["name"] for each in new["metadata"].get("ownerReferences") or ()), "")
        namespace, name = new["metadata"]["namespace"], new["metadata"]["name"]
        if old is not None and _made_for(old) != _made_for(new):
            self._shared_at[f"{namespace}/{owner}"] = event.at_ns
        held = holding_rollout(self._holds.binding(event.at_ns), namespace, owner)
        if held is None:
            return
        if old is None:
            raise Violated(self.name, f"{name} was created although {held.words}", [event])
        before, after = old["spec"]["replicas"], new["spec"]["replicas"]
        if before == after:
            return
        # It was made for a number of replicas. If no user has asked for another one, this is the rollout going on.
        times = self._wanted.get(f"{namespace}/{owner}", {})
        lately = [number for number, at_ns in times.items() if event.at_ns - at_ns < _ns(MOMENTS)]
        is_shared = event.at_ns - self._shared_at.get(f"{namespace}/{owner}", -_ns(MOMENTS)) < _ns(MOMENTS)
        if not is_shared and not any(number != _made_for(old) for number in [*lately, *list(times)[-1:]]):
            raise Violated(self.name, f"{name} was scaled from {before} to {after} although {held.words}", [event])

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""


def _made_for(replica_set: Object) -> int:
    """The number of replicas of its Deployment when it was last sized."""
    return int(replica_set["metadata"].get("annotations", {}).get(DESIRED_REPLICAS, -1))


class EvictionsHeld:
    """While evictions are held only users and agents delete pods, and no node is released."""

    name = "evictions held"

    def __init__(self, *programs: str) -> None:
        """Those who must not."""
        self._programs = programs
        self._holds = HoldsThere()
        self._who: dict[int, str] = {}

    def saw(self, event: Event) -> None:
        if isinstance(event, RequestReceived):
            if event.is_write:
                self._who[event.request] = event.who
        elif isinstance(event, RevisionCommitted):
            self._holds.saw(event)
            if self._who.get(event.request or 0) not in self._programs or event.previous is None:
                return
            if event.key.startswith(_PODS):
                self._saw_pod(event, decode_commit(event.previous))
            elif event.key.startswith(_NODES) and event.value is not None:
                self._saw_node(event, decode_commit(event.previous), decode_commit(event.value))

    def _saw_pod(self, event: RevisionCommitted, old: Object) -> None:
        is_told = event.value is None or "deletionTimestamp" in decode_commit(event.value)["metadata"]
        was_told = "deletionTimestamp" in old["metadata"]
        held = freezing(self._holds.binding(event.at_ns), old["metadata"]["namespace"])
        if held is not None and (event.value is None or (is_told and not was_told)):
            raise Violated(self.name, f"{event.key} was evicted although {held.words}", [event])

    def _saw_node(self, event: RevisionCommitted, old: Object, new: Object) -> None:
        held = freezing(self._holds.binding(event.at_ns), "")
        if held is not None and _is_released(new) and not _is_released(old):
            raise Violated(self.name, f"{event.key} was released although {held.words}", [event])

    async def at_end(self, world: "World") -> None:
        """Everything was told while it happened."""


def _is_released(node: Object) -> bool:
    taints = (node.get("spec") or {}).get("taints") or ()
    return any((each.get("key"), each.get("effect")) == _RELEASED for each in taints)


def _wall(at_ns: int) -> datetime:
    return EPOCH + timedelta(microseconds=at_ns // 1000)


def _ns(duration: timedelta) -> int:
    return duration // timedelta(microseconds=1) * 1000
