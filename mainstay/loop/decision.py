"""What a decision is: the actions to take, what to say about the object, and when to look again.

    return Decision(
        actions=(Create(DEPLOYMENTS, wanted),),
        conditions=(Condition("Ready", Truth.FALSE, "Creating", "the deployment is being made"),),
    )

Actions are *ensure* verbs: carried out twice, after a timeout or a crash, they find their own earlier work. So each
names its object for good (a name made from the owner, never a random one), and changes or removes only the object that
the decision has seen, by its uid. What changes or removes an object declares whether it may act on a view that is old
(freshness.py).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from mainstay.api.kind import Object, Propagation
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.loop.conditions import Condition
from mainstay.loop.freshness import Freshness, require_version


@dataclass(frozen=True, slots=True)
class Create:
    """There should be such an object. If one of that name is there and has the same owner, that is it."""

    kind: KindName
    object: Object
    freshness: Freshness = field(kw_only=True, default=Freshness.MAY_BE_STALE)

    def __post_init__(self) -> None:
        if self.freshness is Freshness.SEEN_VERSION:
            raise ValueError("what is to be created has no version; declare MayBeStale or FreshRead")


@dataclass(frozen=True, slots=True)
class Apply:
    """These fields should have these values (server-side apply, as the controller's own manager)."""

    kind: KindName
    object: Object
    force: bool = False
    """Take fields over from other managers, instead of failing with a conflict."""
    freshness: Freshness = field(kw_only=True)

    def __post_init__(self) -> None:
        require_version(self.freshness, (self.object.get("metadata") or {}).get("resourceVersion", ""))


@dataclass(frozen=True, slots=True)
class Patch:
    """These fields of this very object should have these values (a merge patch: null removes)."""

    kind: KindName
    key: ObjectKey
    uid: str
    body: Object
    subresource: str = ""
    resource_version: str = ""
    """If given, only if the object is still in this version."""
    freshness: Freshness = field(kw_only=True)

    def __post_init__(self) -> None:
        require_version(self.freshness, self.resource_version)


@dataclass(frozen=True, slots=True)
class Delete:
    """This very object should go."""

    kind: KindName
    key: ObjectKey
    uid: str
    propagation: Propagation | None = None
    resource_version: str = ""
    freshness: Freshness = field(kw_only=True)

    def __post_init__(self) -> None:
        require_version(self.freshness, self.resource_version)


Action = Create | Apply | Patch | Delete


@dataclass(frozen=True, slots=True)
class Tell:
    """People should be told, as an Event about the object of the decision. Best effort (events.py)."""

    reason: str
    """One word, as `kubectl events` shows it."""
    message: str
    is_warning: bool = False
    after: Action | None = None
    """Only once this very action of the decision has succeeded; None: in any case."""


@dataclass(frozen=True, slots=True)
class Done:
    """All is as it should be, once the actions are done. Look again when something changes."""


@dataclass(frozen=True, slots=True)
class WakeAt:
    """The same, but look again at this time at the latest."""

    at: datetime
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Retry:
    """It cannot be done now. Look again after a backoff; after too many of them the object is given up."""

    reason: str
    """One word, for programs: what it waits for."""
    message: str = ""


@dataclass(frozen=True, slots=True)
class GiveUp:
    """No retry can help until the object changes. Shown in the object's status as condition `Stalled`."""

    reason: str
    message: str = ""


Result = Done | WakeAt | Retry | GiveUp

DONE: Final = Done()


@dataclass(frozen=True, slots=True)
class Decision:
    actions: tuple[Action, ...] = ()
    """Carried out in order, up to the first that fails."""
    result: Result = DONE
    status: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the object's status, as they should be. Written after the actions, and only if they differ."""
    conditions: tuple[Condition, ...] = ()
    """Conditions in the status, as they should be."""
    memory: Any = None
    """What `decide` is given the next time for the same object. A frozen value; None: there is nothing to remember."""
    reasons: tuple[str, ...] = ()
    """Why, in words. They are recorded, and shown by `mainstay why`."""
    events: tuple[Tell, ...] = ()
    """What people should be told. Not said again if the decision is the same again: those who decide see to that, by
    telling only of what they do."""
    at_once: bool = False
    """The actions do not depend on each other. They are sent several at a time: one, then two, then four …, as long as
    none fails. So if all of them are bound to fail, few are tried."""
