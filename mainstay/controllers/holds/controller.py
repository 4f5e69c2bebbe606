"""What becomes of Holds: each says whether it is in force and whether there is what it holds; old ones go.

A Hold works without this (api/holds.py): a held controller goes by the Hold itself and by the clock. This says so for
people, and removes a Hold a day after its time was over. Until then it shows what was held, by whom and why.

A controller that we do not know may be a user's own, which is held all the same if it is run by our runtime. So a
name that is not in our table is said to be unknown, and nothing more.
"""

from collections.abc import Collection, Iterable
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.holds import KEPT_FOR, HoldPhase, HoldReason, HoldScope, ParsedHold, parse_hold
from mainstay.api.kind import Object
from mainstay.api.kind_names import DEPLOYMENTS, HOLDS, NAMESPACES
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.entry import Change
from mainstay.client.indexes import Index
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.controller import Controller, Reads, WakesAmong
from mainstay.loop.decision import Decision, Delete, Tell, WakeAt
from mainstay.loop.freshness import Freshness
from mainstay.loop.view import View

ACTIVE: Final = "Active"
"""A condition: it holds what it names."""
FOUND: Final = "TargetFound"
"""A condition: there is what it names."""
_A_LITTLE_LATER: Final = timedelta(milliseconds=1)


def _targets(spec: object) -> Iterable[str]:
    """What a Hold needs to be there: `shop` is a namespace, `shop/web` a Deployment."""
    target = spec.get("target") if isinstance(spec, dict) else None
    if not isinstance(spec, dict) or not isinstance(target, dict):
        return ()
    match spec.get("what"):
        case HoldScope.EVICTIONS if target.get("namespace"):
            return (str(target["namespace"]),)
        case HoldScope.ROLLOUT:
            return (f"{target.get('namespace')}/{target.get('name')}",)
    return ()


TARGET: Final = Index("target", ("spec",), _targets)


def _naming() -> WakesAmong:
    """Wakes the Holds of what has come or gone."""

    def wakes(change: Change, holds: Cache) -> Iterable[ObjectKey]:
        if change.old is not None and change.new is not None:
            return ()
        return holds.by(TARGET.name, str(change.key))

    return wakes


class HoldController(Controller):
    """Made with the names of the controllers that can be held."""

    name = "holds"
    kind = HOLDS
    indexes = (TARGET,)
    reads = (Reads(DEPLOYMENTS, wakes_among=_naming()), Reads(NAMESPACES, wakes_among=_naming()))
    writes = (HOLDS,)

    def __init__(self, names: Collection[str] = ()) -> None:
        self._names = frozenset(names)

    def decide(self, view: View, key: ObjectKey, memory: None) -> Decision:
        hold = view.get(HOLDS, key)
        held = None if hold is None else parse_hold(hold)
        if hold is None or held is None or pod_state.is_leaving(hold):
            return Decision()
        if held.is_in_force(view.now):
            found = self._found(view, held)
            return Decision(
                result=WakeAt(held.expires_at + _A_LITTLE_LATER, HoldReason.IN_FORCE),
                status={"phase": str(HoldPhase.ACTIVE)},
                conditions=(Condition(ACTIVE, Truth.TRUE, HoldReason.IN_FORCE, held.words), found),
                events=_told(hold, found),
            )
        gone_at = held.expires_at + KEPT_FOR
        if view.now >= gone_at:
            version = hold["metadata"]["resourceVersion"]
            return Decision(
                (Delete(HOLDS, key, held.uid, resource_version=version, freshness=Freshness.SEEN_VERSION),),
                reasons=(f"it expired at {held.until}, and its retention is over",),
            )
        is_news = (hold.get("status") or {}).get("phase") != HoldPhase.EXPIRED
        text = f"it expired at {held.until}: what {held.owner} held resumes"
        return Decision(
            result=WakeAt(gone_at + _A_LITTLE_LATER, HoldReason.EXPIRED),
            status={"phase": str(HoldPhase.EXPIRED)},
            conditions=(Condition(ACTIVE, Truth.FALSE, HoldReason.EXPIRED, text),),
            events=(Tell(HoldReason.EXPIRED, text),) if is_news else (),
        )

    def _found(self, view: View, held: ParsedHold) -> Condition:
        """Whether there is what it holds."""
        match held.what:
            case HoldScope.CONTROLLER if self._names and held.target not in self._names:
                known = ", ".join(sorted(self._names))
                text = f"controller {held.target!r} is not one of Mainstay's: {known}"
                return Condition(FOUND, Truth.FALSE, HoldReason.NO_SUCH_CONTROLLER, text)
            case HoldScope.EVICTIONS if held.namespace and view.get(NAMESPACES, ObjectKey("", held.namespace)) is None:
                text = f"namespace {held.namespace} not found"
                return Condition(FOUND, Truth.FALSE, HoldReason.NO_SUCH_NAMESPACE, text)
            case HoldScope.ROLLOUT if view.get(DEPLOYMENTS, ObjectKey(held.namespace, held.target)) is None:
                text = f"Deployment {held.target_text} not found; it will be held once it exists"
                return Condition(FOUND, Truth.FALSE, HoldReason.NO_SUCH_DEPLOYMENT, text)
        return Condition(FOUND, Truth.TRUE, HoldReason.TARGET_FOUND, held.target_text)


def _told(hold: Object, found: Condition) -> tuple[Tell, ...]:
    """That it holds nothing, once: what was said last is in the condition."""
    before = pod_state.find_condition(hold, FOUND) or {}
    if found.status is not Truth.FALSE or before.get("reason") == found.reason:
        return ()
    return (Tell(found.reason, found.message, is_warning=True),)
