"""Which Holds keep something from happening to an object, at a moment.

A Hold rarely names the object that the question is about: a pod does not appear because the controller of its
ReplicaSet is held, and does not go because evictions are. So the owners are looked at, too, and the controllers of
their kinds.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from mainstay.api.holds import SCHEDULER, HoldScope, ParsedHold, in_force
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEPLOYMENTS, HOLDS, NODES, PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.workloads import find_owner_kind
from mainstay.explain.moment import Moment

if TYPE_CHECKING:
    from mainstay.explain.registry import Rooms

_OWNERS_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class HoldFound:
    """A Hold that concerns the object that was asked about."""

    name: str
    what: HoldScope
    owner: str
    reason: str
    since: str
    """When it was made, as it says itself."""
    expires_at: datetime
    target: str
    """As it is shown: a controller's name, `shop/web`, `every namespace`."""
    effect: str
    """What does not happen meanwhile, in a sentence without its full stop."""
    subject: str = ""
    """Whom that concerns, if it is an owner of the object: `Deployment shop/web`."""
    uid: str = ""
    revision: int = 0

    @property
    def words(self) -> str:
        """All of it: for people."""
        until = self.expires_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        return f"{self.effect}: {self.owner} holds it until {until}: {self.reason}"


async def holds_on(
    moment: Moment, rooms: "Rooms", kind: KindName, name: str, namespace: str = "", *, now: datetime | None = None
) -> tuple[HoldFound, ...]:
    """The Holds in force at a moment that concern an object, or one that should be there and is not.

    Those that concern it most directly come first. `now` is by which clock they are in force; by default it is the
    moment's.
    """
    holds = await moment.all(HOLDS)
    active = in_force(holds, now or moment.at)
    if not active:
        return ()
    made = {each["metadata"]["name"]: each["metadata"] for each in holds}
    chain = await _with_owners(moment, kind, name, namespace)
    found: dict[str, HoldFound] = {}
    for depth, (each_kind, key, obj) in enumerate(chain):
        whose = f"{each_kind.kind} {key}" if depth else ""
        for held, effect in _concerning(active, rooms.workers(each_kind), each_kind, key, obj):
            metadata = made[held.name]
            found.setdefault(
                held.name,
                HoldFound(
                    name=held.name,
                    what=held.what,
                    owner=held.owner,
                    reason=held.reason,
                    since=metadata.get("creationTimestamp", ""),
                    expires_at=held.expires_at,
                    target=held.target_text,
                    effect=effect,
                    subject=whose,
                    uid=held.uid,
                    revision=int(metadata.get("resourceVersion") or 0),
                ),
            )
    return tuple(found.values())


_Chain = list[tuple[KindName, ObjectKey, Object | None]]


async def _with_owners(moment: Moment, kind: KindName, name: str, namespace: str) -> _Chain:
    """The object, and those who look after it."""
    obj = await moment.get(kind, name, namespace)
    chain: _Chain = [(kind, ObjectKey(namespace, name), obj)]
    while obj is not None and len(chain) < _OWNERS_MAX:
        references = obj["metadata"].get("ownerReferences") or ()
        reference = next((each for each in references if each.get("controller")), None)
        if reference is None:
            break
        owner = find_owner_kind(reference)
        if owner is None:
            break
        obj = await moment.get(owner, reference["name"], namespace)
        chain.append((owner, ObjectKey(namespace, reference["name"]), obj))
    return chain


def _concerning(
    active: Iterable[ParsedHold], workers: Collection[str], kind: KindName, key: ObjectKey, obj: Object | None
) -> list[tuple[ParsedHold, str]]:
    is_placed = obj is not None and bool((obj.get("spec") or {}).get("nodeName"))
    first, second, third = [], [], []
    for held in active:
        match held.what:
            case HoldScope.ROLLOUT if kind == DEPLOYMENTS and (held.namespace, held.target) == (
                key.namespace,
                key.name,
            ):
                first.append((held, "its rollout is paused"))
            case HoldScope.CONTROLLER if held.target == SCHEDULER and kind == PODS and not is_placed:
                first.append((held, "the scheduler is paused"))
            case HoldScope.CONTROLLER if held.target in workers:
                second.append((held, f"the controller {held.target} is paused"))
            case HoldScope.EVICTIONS if kind == NODES and not held.namespace:
                third.append((held, "evictions are paused in all namespaces"))
            case HoldScope.EVICTIONS if kind == PODS and held.namespace in ("", key.namespace):
                third.append((held, "evictions are paused"))
            case _:
                pass
    return [*first, *second, *third]
