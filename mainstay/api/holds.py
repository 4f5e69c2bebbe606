"""Break glass: what a Hold holds, for how long, and whom it concerns. Plain functions over its object.

An operator who sees something go wrong pauses a part of the cluster. There are three things that can be held:

    Controller   the one of that name takes nothing; what is to be done waits, and is done afterwards
    Evictions    no pod is removed because of its node or by request; everywhere, or in one namespace
    Rollout      a Deployment stays between two templates as it is; it can still be scaled

Each Hold names its owner, a reason and when it ends. It ends by the clock alone: nothing has to be written, and no
process has to be there. So a forgotten one does no more harm than its time allows, which is `LONGEST` at most.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

from mainstay.api.kind import Object
from mainstay.api.times import format_time, parse_time

LONGEST: Final = timedelta(days=7)
"""From now, whenever it is created or changed. To hold longer, extend it."""
KEPT_FOR: Final = timedelta(days=1)
"""How long one that is over stays to be looked at."""
SCHEDULER: Final = "scheduler"
"""What a Hold calls the scheduler, which is no controller and can be held as one."""


class HoldScope(StrEnum):
    """What can be held. Shown to users: only add."""

    CONTROLLER = "Controller"
    EVICTIONS = "Evictions"
    ROLLOUT = "Rollout"


class HoldReason(StrEnum):
    """The words for being held, in conditions, Events, refusals and the journal. Shown to users: only add."""

    HELD = "Held"
    """Of a controller: it is paused."""
    RESUMED = "Resumed"
    """Of a controller: it resumes, and processes what is queued."""
    EVICTIONS_FROZEN = "EvictionsFrozen"
    EVICTIONS_THAWED = "EvictionsThawed"
    ROLLOUT_HELD = "RolloutHeld"
    ROLLOUT_RESUMED = "RolloutResumed"
    IN_FORCE = "InForce"
    """Of a Hold: it has not expired."""
    EXPIRED = "Expired"
    TARGET_FOUND = "TargetFound"
    NO_SUCH_CONTROLLER = "NoSuchController"
    NO_SUCH_NAMESPACE = "NoSuchNamespace"
    NO_SUCH_DEPLOYMENT = "NoSuchDeployment"


class HoldPhase(StrEnum):
    """What has become of a Hold. Shown to users: only add."""

    ACTIVE = "Active"
    EXPIRED = "Expired"


@dataclass(frozen=True, slots=True)
class ParsedHold:
    """A Hold, as it was read."""

    name: str
    uid: str
    what: HoldScope
    namespace: str
    """Of the target; empty for a controller, and for evictions everywhere."""
    target: str
    """The name of the controller or of the Deployment; empty for evictions."""
    owner: str
    reason: str
    expires_at: datetime
    generation: int = 0
    is_leaving: bool = False
    """It is being deleted, and waits for finalizers. It holds nothing any more."""

    def is_in_force(self, now: datetime) -> bool:
        return now < self.expires_at and not self.is_leaving

    @property
    def until(self) -> str:
        return format_time(self.expires_at)

    @property
    def target_text(self) -> str:
        """As it is shown: `deployment`, `every namespace`, `shop/web`."""
        match self.what:
            case HoldScope.CONTROLLER:
                return self.target
            case HoldScope.EVICTIONS:
                return self.namespace or "every namespace"
            case HoldScope.ROLLOUT:
                return f"{self.namespace}/{self.target}"

    @property
    def words(self) -> str:
        """Who, until when and why: `anna holds it until 2026-01-01T12:00:00Z: a node flaps`."""
        return f"{self.owner} holds it until {self.until}: {self.reason}"


def parse_hold(hold: Object) -> ParsedHold | None:
    """None if it makes no sense, which the server does not let pass: then it holds nothing."""
    spec, metadata = hold.get("spec"), hold.get("metadata")
    if not isinstance(spec, dict) or not isinstance(metadata, dict):
        return None
    target = read_target(spec)
    try:
        return ParsedHold(
            name=str(metadata.get("name") or ""),
            uid=str(metadata.get("uid") or ""),
            what=HoldScope(spec.get("what", "")),
            namespace=str(target.get("namespace") or ""),
            target=str(target.get("name") or ""),
            owner=str(spec.get("owner") or ""),
            reason=str(spec.get("reason") or ""),
            expires_at=parse_time(str(spec.get("expiresAt") or "")),
            generation=metadata.get("generation") or 0,
            is_leaving="deletionTimestamp" in metadata,
        )
    except ValueError:
        return None


def read_target(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    found = spec.get("target")
    return found if isinstance(found, dict) else {}


def in_force(holds: Iterable[Object], now: datetime) -> list[ParsedHold]:
    """Those whose time is not over. Of several on the same thing, the one that lasts longest comes first."""
    found = [held for each in holds if (held := parse_hold(each)) is not None and held.is_in_force(now)]
    return longest_first(found)


def longest_first(holds: Iterable[ParsedHold]) -> list[ParsedHold]:
    return sorted(sorted(holds, key=lambda held: held.name), key=lambda held: held.expires_at, reverse=True)


def holding_controller(holds: Iterable[ParsedHold], name: str) -> ParsedHold | None:
    """Why a controller takes nothing; None if it may work."""
    return next((held for held in holds if held.what is HoldScope.CONTROLLER and held.target == name), None)


def freezing(holds: Iterable[ParsedHold], namespace: str) -> ParsedHold | None:
    """Why no pod of a namespace may be removed; None if they may."""
    return next(
        (held for held in holds if held.what is HoldScope.EVICTIONS and held.namespace in ("", namespace)), None
    )


def holding_rollout(holds: Iterable[ParsedHold], namespace: str, name: str) -> ParsedHold | None:
    """Why the rollout of a Deployment does not go on; None if it may."""
    wanted = (HoldScope.ROLLOUT, namespace, name)
    return next((held for held in holds if (held.what, held.namespace, held.target) == wanted), None)


def held_rollouts(spec: Any) -> Sequence[str]:
    """Which Deployment a Hold with this spec holds: `shop/web`; none if it holds something else. For an index."""
    if not isinstance(spec, dict) or spec.get("what") != HoldScope.ROLLOUT:
        return ()
    target = read_target(spec)
    return (f"{target.get('namespace')}/{target.get('name')}",)


def build_hold_name(what: HoldScope, target: str = "", namespace: str = "") -> str:
    """What a Hold is called by those who have no better idea: so two that hold the same meet.

    `controller.deployment`, `evictions`, `evictions.shop`, `rollout.shop.web`.
    """
    return ".".join(part for part in (what.value.lower(), namespace, target) if part)
