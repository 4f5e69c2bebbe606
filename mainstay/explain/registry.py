"""What the frame asks of those who know: the shapes that rooms hand over, and the table that holds them.

explain/ has the frame: moments, cases, chains, stories, plans. What is known about a kind lives beside its controller
(controllers/<noun>/why.py, plan.py, debug.py), beside the scheduler (scheduler/why/) and the agent (agent/pod/why/).
mainstay/registry.py lists them all; each is loaded when a question needs it. So `why` about a Service does not load the
scheduler, and running a controller does not load explain/.

    REGISTRY.analyser(DEPLOYMENTS)      who says why a Deployment is as it is
    REGISTRY.remover("job")             who says why the Job controller removed an object
    REGISTRY.nodes()                    what is wrong with a node

A room asks about another object through its case (`case.rooms`), and imports no other room.
"""

from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.journal.record import DecisionRecord

if TYPE_CHECKING:
    from mainstay.explain.debug.view import AutoscalerView, CacheSeen, Pending, RepairView, Rollback
    from mainstay.explain.declared import Declared
    from mainstay.explain.moment import Moment
    from mainstay.explain.plan.values import WaitingPods
    from mainstay.explain.story.lines import Stale, StoryLink
    from mainstay.explain.story.scope import FollowedObject
    from mainstay.explain.why.answer import ChainLink
    from mainstay.explain.why.case import Case
    from mainstay.explain.why.found import Finding
    from mainstay.explain.why.removal import Removal
    from mainstay.explain.why.trouble import Trouble
    from mainstay.explain.writers import JournalLookup, Version
    from mainstay.loop.controller import Controller

    Analyser = Callable[[Case, Object], Awaitable[Finding]]
    """Says why an object is as it is."""
    HoldUp = Callable[[Case, Object, str, str], Awaitable[Finding | None]]
    """Says why an object has not all its pods ready, in the words of its owner; None: it has. The last two: whose pods
    they are, and what there is of former templates, in words."""
    Remover = Callable[[Case, Version, ChainLink], Awaitable[Removal]]
    """Says why its controller deleted an object: from the version in which that was asked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyRoom:
    """What a `why.py` knows. A room of a kind has an `analyser`; one of a controller that deletes, a `remover`."""

    analyser: "Analyser | None" = None
    hold_up: "HoldUp | None" = None
    remover: "Remover | None" = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRoom:
    """How a kind of workload takes part in a plan: its controller decides, on objects in memory."""

    controller: "Controller"
    wanted: Callable[[Object], int]
    """How many pods it wants."""
    is_current: Callable[[Object, Sequence[Object], Object], bool] = lambda workload, owned, pod: True
    """Whether a pod is made from the template that is wanted, given the objects of kind `owns` that are its own."""
    owns: KindName | None = None
    """What it owns between itself and its pods."""
    notes: Callable[[Object], Sequence[str]] = lambda workload: ()
    ignores_deadlines: bool = False
    """Its wake-ups mean something only for pods that end, and in a plan none does."""


class DebugRoom(Protocol):
    """What a `debug.py` of a kind adds to the debug view."""

    def rollbacks(self, kind: KindName, workload: Object, versions: "Sequence[Version]") -> "list[Rollback]":
        """Whether it went back to an earlier template, and who has seen that."""
        ...

    def find_current_set(self, workload: Object, sets: Sequence[Object]) -> Object | None:
        """Of the ReplicaSets of a workload, the one of its present template."""
        ...


class NodeRoom(Protocol):
    """controllers/node_health/why.py."""

    async def find_trouble(self, case: "Case", name: str) -> "Trouble | None": ...
    async def in_trouble(self, case: "Case", names: Iterable[str]) -> frozenset[str]: ...
    async def last_heard(self, case: "Case", names: Iterable[str]) -> dict[str, datetime]: ...
    def stays_until(self, node: Object, pod: Object, now: datetime) -> str: ...


class ContainerRoom(Protocol):
    """agent/pod/why/containers.py: a pod that has its node."""

    def not_taken_on(self, pod: Object, since: datetime | None, now: datetime) -> "Finding": ...
    async def not_started(self, case: "Case", pod: Object) -> "Finding | None": ...
    async def not_ready(self, case: "Case", pod: Object) -> "Finding": ...
    async def restarted_lately(self, case: "Case", pod: Object) -> "Finding | None": ...
    def was_restarted_lately(self, pod: Object, now: datetime) -> bool: ...
    async def failed(self, case: "Case", pod: Object) -> "Finding": ...


class PlacementRoom(Protocol):
    """scheduler/why/pods.py."""

    async def unplaced(self, case: "Case", pod: Object) -> "Finding":
        """Why a pod has no node."""
        ...

    async def placed(self, case: "Case", pod: Object) -> "tuple[ChainLink, ...]":
        """How a pod came to its node."""
        ...


class EvictionRoom(Protocol):
    """controllers/budget/why.py."""

    async def eviction_refused(self, case: "Case", pod: Object, who: str) -> "Finding | None":
        """That an eviction of a healthy pod was refused, if one was."""
        ...


class PlacementStory(Protocol):
    """What mattered to the placements of one story (scheduler/why/relevance.py)."""

    related: "dict[int, Version]"

    async def policies(self, begins: int, records: Iterable[DecisionRecord]) -> None: ...
    async def refusals(self, record: DecisionRecord) -> tuple[str, ...]: ...
    async def stale(self, record: DecisionRecord, *, is_refusal: bool) -> "tuple[Stale, ...]": ...
    async def turned(self, refused: DecisionRecord, record: DecisionRecord) -> "list[StoryLink]": ...


class PlacementDebug(Protocol):
    """Pods without a node, in one debug view (scheduler/why/debug.py)."""

    async def pending(
        self, pod: Object, who: "FollowedObject", records: Sequence[DecisionRecord]
    ) -> "tuple[Pending, list[CacheSeen]]": ...
    async def policies(self, namespace: str, pods: Sequence[Object]) -> "list[Rollback]": ...


class PlacementModel(Protocol):
    """A scheduler in memory (scheduler/why/plan.py)."""

    @property
    def waiting(self) -> Collection[str]:
        """The uids of the pods that all nodes refuse."""
        ...

    def changed(self, kind: KindName, key: ObjectKey, old: Object | None, new: Object | None) -> None: ...
    def place(self) -> list[tuple[ObjectKey, str]]:
        """One round: which pod gets which node."""
        ...

    def waits(self, pods: Sequence[Object], objects: Mapping[KindName, Sequence[Object]]) -> "tuple[WaitingPods, ...]":
        """Why some of `waiting` wait, the most first, with cures that were tried on these objects."""
        ...


class PlacementPlan(Protocol):
    """What the scheduler goes by at a moment: makes a model for each run of a plan."""

    def model(self, seed: str) -> PlacementModel: ...


class StoryRoom(Protocol):
    """scheduler/why/relevance.py."""

    def find_relevance(self, known: "JournalLookup", records: Sequence[DecisionRecord]) -> PlacementStory: ...


class PendingRoom(Protocol):
    """scheduler/why/debug.py."""

    def find_pending(
        self, moment: "Moment", known: "JournalLookup", states: Mapping[str, Object]
    ) -> PlacementDebug: ...


class PlacementPlanRoom(Protocol):
    """scheduler/why/plan.py."""

    async def placement_plan(self, moment: "Moment") -> PlacementPlan: ...


class AutoscalerRoom(Protocol):
    """controllers/autoscaler/debug.py."""

    def find_autoscalers(
        self, autoscalers: Sequence[Object], kind: KindName, who: "FollowedObject"
    ) -> "list[AutoscalerView]": ...


class RepairRoom(Protocol):
    """controllers/repair/debug.py."""

    def find_repair(
        self, states: Mapping[str, Object], kind: KindName, who: "FollowedObject", generation: int
    ) -> "RepairView | None": ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryEntry:
    """One line of the table: a controller, the kind that it is about, and how to load what it knows."""

    component: str
    """As its records name it; empty if no controller acts on the kind."""
    kind: KindName | None = None
    works_on: tuple[KindName, ...] = ()
    """Kinds that a loop works on, besides those of controllers that declare their kind."""
    why: Callable[[], WhyRoom]
    plan: Callable[[], PlanRoom] | None = None
    debug: Callable[[], DebugRoom] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rooms:
    """The table, and those of whom there is one. Every value loads its module when it is called."""

    entries: tuple[RegistryEntry, ...]
    nodes: Callable[[], NodeRoom]
    containers: Callable[[], ContainerRoom]
    placements: Callable[[], PlacementRoom]
    evictions: Callable[[], EvictionRoom]
    story: Callable[[], StoryRoom]
    pending: Callable[[], PendingRoom]
    repair: Callable[[], RepairRoom]
    autoscalers: Callable[[], AutoscalerRoom]
    placement_plan: Callable[[], PlacementPlanRoom]
    controllers: Callable[[KindName], tuple[str, ...]]
    """The names of the controllers of a kind."""
    declared: "Callable[[], Mapping[str, Declared]]"
    """What each component declares to read and to write."""

    def analyser(self, kind: str) -> "Analyser | None":
        entry = next((each for each in self.entries if each.kind is not None and each.kind.text == kind), None)
        return None if entry is None else entry.why().analyser

    def hold_up(self, kind: KindName) -> "HoldUp | None":
        entry = next((each for each in self.entries if each.kind == kind), None)
        return None if entry is None else entry.why().hold_up

    def remover(self, component: str) -> "Remover | None":
        entry = next((each for each in self.entries if component and each.component == component), None)
        return None if entry is None else entry.why().remover

    def workers(self, kind: KindName) -> tuple[str, ...]:
        """Who works on objects of a kind: a Hold of one of them concerns these objects."""
        return (*self.controllers(kind), *(each.component for each in self.entries if kind in each.works_on))

    def plans(self) -> dict[KindName, PlanRoom]:
        """The kinds of workloads that a plan models, owners before what they own."""
        return {each.kind: each.plan() for each in self.entries if each.kind is not None and each.plan is not None}

    def debug(self, kind: KindName) -> DebugRoom | None:
        entry = next((each for each in self.entries if each.kind == kind and each.debug is not None), None)
        return None if entry is None or entry.debug is None else entry.debug()
