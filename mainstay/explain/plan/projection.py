"""What would come of a state, if time went on: controllers and scheduler run on objects in memory.

    world = Expansion(rooms.plans(), placements, objects, now=moment.at)
    world.put(DEPLOYMENTS, web)             as if it had been applied
    world.settle()
    world.pods, world.waiting, world.told   what there would be, who would wait and why, what happened on the way

The controllers' own `decide` functions say what is made and removed, and the scheduler's own says where: nothing of
that is repeated here. What others do is pretended, and only so far as it matters to them: a pod that is bound becomes
ready after `STARTS_AFTER`, one that is told to end is gone after `ENDS_AFTER`, all in the order of a clock that jumps
from one such event to the next. So a rollout goes through its steps as it would.

Not pretended: pods that fail or complete, probes, nodes that die, autoscaling, budgets of evictions, and whatever other
controllers do. Names and uids of what would be made are not those that it will have.

Bounded: at most `STEPS_MAX` decisions and `HORIZON` of pretended time; `is_settled` says whether that was enough.
"""

import heapq
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final, assert_never

import msgspec

from mainstay.api import pod_state, times
from mainstay.api.causes import QUOTA_CAUSES
from mainstay.api.kind import Kind, Object
from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import (
    HOLDS,
    NODES,
    PODS,
    RESERVATIONS,
    ZONE_QUOTAS,
)
from mainstay.api.kinds import BUILTIN
from mainstay.api.merge_patch import merge_patch
from mainstay.api.object_key import ObjectKey
from mainstay.api.owners import find_controller
from mainstay.api.taints import parse_taints, stays_for
from mainstay.client.cache import Cache
from mainstay.client.entry import Change
from mainstay.client.errors import ApiError, Forbidden
from mainstay.client.indexes import Index
from mainstay.explain.plan.quotas import QuotaBook
from mainstay.explain.registry import PlacementModel, PlanRoom
from mainstay.loop.act import find_key
from mainstay.loop.conditions import with_conditions
from mainstay.loop.controller import Controller
from mainstay.loop.decision import Action, Apply, Create, Decision, Delete, Patch, WakeAt
from mainstay.loop.queue.items import DEFAULT_RETRY, QueueSettings
from mainstay.loop.view import View

STARTS_AFTER: Final = timedelta(seconds=1)
ENDS_AFTER: Final = timedelta(seconds=0.5)
"""Of those that end when they are told to."""
HORIZON: Final = timedelta(minutes=30)
STEPS_MAX: Final = 20_000

KINDS: Final = (PODS, NODES, HOLDS, RESERVATIONS, ZONE_QUOTAS)
"""What has to be known to begin with, besides the workloads."""

Workloads = Mapping[KindName, PlanRoom]
"""The kinds whose controllers make and remove pods, owners before what they own."""

_MIDDLE: Final = 0.5  # Of what is left to chance.
_CHANGED_AFTER_FAILURE: Final = QueueSettings().change_after_failure
_BUILT_IN_PRIORITIES: Final = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_KINDS_BY_NAME: Final[Mapping[KindName, Kind]] = {kind.reference: kind for kind in BUILTIN}
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class ProjectedEvent:
    """Something that happened on the way."""

    after: timedelta
    """From the beginning."""
    kind: KindName
    key: ObjectKey
    """Of the workload it is about."""
    text: str


@dataclass(frozen=True, slots=True)
class RefusedPod:
    """A pod, or a set of them, that was not let in."""

    kind: KindName
    """Of what was to be made."""
    owner: ObjectKey
    owner_kind: KindName
    object: Object
    message: str
    is_by_quota: bool = False


@dataclass(frozen=True, slots=True)
class Removed:
    """A pod that was there and would go."""

    pod: Object
    why: str


@dataclass(frozen=True, slots=True)
class _Failing:
    """A key of which the last decision could not be carried out. It is tried again as the queue would."""

    attempts: int
    at: datetime
    revision: int
    is_parked: bool
    """Nothing has changed between its last two failures: it need not be tried until something is released."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """What could differ without a decision behind it."""

    seed: str = ""
    """Ties are broken by it."""
    is_one_by_one: bool = False
    """Each object is seen to before the next one is applied."""
    is_backwards: bool = False
    """The last one is seen first."""
    takes_turns: bool = False
    """Controllers that make several objects at once make one, then two, then four, and let others in between, as they
    do when answers take their time."""
    ends_after: timedelta = ENDS_AFTER
    """How soon pods end that are told to."""


USUAL: Final = Variant()


class Expansion:
    """Objects, and time that goes on. Give it copies of what must not change: it keeps what it is given."""

    def __init__(
        self,
        workloads: Workloads,
        placing: PlacementModel,
        objects: Mapping[KindName, Iterable[Object]],
        now: datetime,
        *,
        quotas: QuotaBook | None = None,
        priorities: Mapping[str, int] | None = None,
        default_priority: str = "",
        variant: Variant = USUAL,
    ) -> None:
        self.now = self.began = now
        self._batches: dict[tuple[int, ObjectKey], int] | None = {} if variant.takes_turns else None
        self._ends_after = variant.ends_after
        self.told: list[ProjectedEvent] = []
        self.refused: dict[tuple[KindName, ObjectKey], RefusedPod] = {}
        """By who wanted to make it; only of those who still cannot."""
        self.removed: dict[str, Removed] = {}
        """By uid, of the pods that were there from the beginning."""
        self.quotas = quotas if quotas is not None else QuotaBook()
        self.is_settled = False
        self.steps = 0
        self._priorities = {**_BUILT_IN_PRIORITIES, **(priorities or {})}
        self._default_priority = default_priority
        self._seed = variant.seed
        self._revision = 0
        self._made = 0
        self._dirty: dict[tuple[int, ObjectKey], None] = {}
        self._failing: dict[tuple[int, ObjectKey], _Failing] = {}
        self._timers: list[tuple[datetime, int, str, Any]] = []
        self._order = 0
        self.workloads = workloads
        self._controllers = [each.controller for each in workloads.values()]
        self._caches = _caches(self._controllers)
        self._first: dict[str, Object] = {}
        self.placing = placing
        for kind in (*workloads, *KINDS):
            for obj in objects.get(kind, ()):
                self._store(kind, obj, wakes=False)
        for pod in self.all(PODS):
            self._first[pod["metadata"]["uid"]] = pod
            self._pod_timers(pod)
        for number, controller in enumerate(self._controllers):
            self._dirty |= dict.fromkeys((number, entry.key) for entry in self._caches[controller.kind].entries())

    # Looking.

    def get(self, kind: KindName, key: ObjectKey) -> Object | None:
        return self._caches[kind].get(key)

    def all(self, kind: KindName) -> list[Object]:
        return [entry.object() for entry in self._caches[kind].entries()]

    def owned_by(self, kind: KindName, uid: str) -> list[Object]:
        cache = self._caches[kind]
        return [entry.object() for key in cache.by("owner", uid) if (entry := cache.entry(key)) is not None]

    @property
    def pods(self) -> list[Object]:
        return self.all(PODS)

    @property
    def waiting(self) -> Collection[str]:
        """The uids of the pods that no node takes."""
        return self.placing.waiting

    def was_there(self, uid: str) -> bool:
        """Whether a pod was there from the beginning."""
        return uid in self._first

    # Changing.

    def put(self, kind: KindName, obj: Object, before: Object | None = None) -> str:
        """As if it had been applied, as it would be stored: with defaults. Returns why a quota does not allow it.

        `before` is what is there of a kind that is not known here.
        """
        metadata = obj["metadata"]
        key = ObjectKey(metadata.get("namespace") or "", metadata["name"])
        before = self.get(kind, key) if kind in self._caches else before
        refusal = self.quotas.refusal(kind, obj, before)
        if refusal is not None:
            return refusal.message
        if kind not in self._caches:
            self.quotas.change(kind, obj, before)
            return ""
        if before is not None:
            kept = {**before["metadata"], **{name: value for name, value in metadata.items() if value is not None}}
            obj = {**msgspec.to_builtins(obj), "metadata": {**kept, "uid": before["metadata"]["uid"]}}
            if "status" not in obj and "status" in before:
                obj["status"] = before["status"]
            _filled_in(kind, obj)
        else:
            obj = self._begun(kind, obj)
        if kind == PODS and before is None:
            obj["spec"]["priority"] = self.find_priority(obj)
        self._store(kind, obj)
        if kind == NODES:
            self._evict(obj)
        return ""

    def react(self) -> None:
        """Let all decide that have something to, at this moment. What takes time does not happen."""
        while self.steps < STEPS_MAX:
            if self._dirty:
                self.steps += 1
                self._decide(*next(iter(self._dirty)))
            elif not self._place():
                return

    def settle(self) -> None:
        """Let time go on until nothing happens any more."""
        while self.steps < STEPS_MAX:
            self.react()
            if self.steps >= STEPS_MAX:
                break
            if self._timers and self._timers[0][0] - self.began <= HORIZON:
                at, _, what, about = heapq.heappop(self._timers)
                self.now = max(self.now, at)
                self._happen(what, about)
            else:
                self.is_settled = True
                return
        self.is_settled = False

    # Controllers.

    def _decide(self, number: int, key: ObjectKey) -> None:
        del self._dirty[number, key]
        controller = self._controllers[number]
        before = self.get(controller.kind, key)
        view = View(self._caches, self.now, self._seed)
        decision = controller.decide(view, key, None)
        view.close()
        decision = self._act(number, controller, key, decision)
        if before is not None:
            self._say(controller, key, before, decision)
        is_deadline = self.workloads[controller.kind].ignores_deadlines
        if isinstance(decision.result, WakeAt) and (not is_deadline or decision.result.at <= self.now):
            self._at(max(decision.result.at, self.now), "wake", (number, key))

    def _act(self, number: int, controller: Controller, key: ObjectKey, decision: Decision) -> Decision:
        for action in self._turn(number, key, decision):
            try:
                self._carry_out(action)
            except ApiError as error:
                self._refuse(number, controller, key, action, error)
                return controller.after_failure(decision, action, error)
        for reason in decision.reasons if decision.actions else ():
            self.told.append(ProjectedEvent(self.now - self.began, controller.kind, key, reason))
        self._failing.pop((number, key), None)
        if any(isinstance(action, Create) for action in decision.actions):
            self.refused.pop((controller.kind, key), None)
        return decision

    def _turn(self, number: int, key: ObjectKey, decision: Decision) -> tuple[Action, ...]:
        """What is done of a decision before others have their turn. The rest is found again at the next look."""
        if self._batches is None or not decision.at_once:
            return decision.actions
        size = self._batches.get((number, key), 1)
        self._batches[number, key] = size * 2 if len(decision.actions) > size else 1
        if len(decision.actions) > size:
            self._dirty[number, key] = None
        return decision.actions[:size]

    def _refuse(self, number: int, controller: Controller, key: ObjectKey, action: Action, error: ApiError) -> None:
        if isinstance(action, Create):
            made = RefusedPod(action.kind, key, controller.kind, action.object, str(error), error.cause in QUOTA_CAUSES)
            self.refused[controller.kind, key] = made
        before = self._failing.get((number, key))
        attempts = 1 if before is None else before.attempts + 1
        is_parked = before is not None and before.revision == self._revision
        self._failing[number, key] = _Failing(attempts, self.now, self._revision, is_parked)
        if not is_parked:
            self._at(self.now + DEFAULT_RETRY.delay(attempts, _MIDDLE), "retry", (number, key))

    def _carry_out(self, action: Action) -> None:
        kind, key = action.kind, find_key(action)
        there = self.get(kind, key)
        match action:
            case Create(object=wanted) | Apply(object=wanted):
                if there is None:
                    self._store(kind, self._admitted(kind, self._begun(kind, wanted)))
            case Patch(uid=uid, body=body):
                if there is not None and there["metadata"]["uid"] == uid:
                    new = merge_patch(there, body)
                    if "spec" in body and new.get("spec") != there.get("spec"):
                        new["metadata"]["generation"] = int(new["metadata"].get("generation") or 0) + 1
                    self._store(kind, new)
                    self._end_if_over(kind, new)
            case Delete(uid=uid):
                if there is not None and there["metadata"]["uid"] == uid:
                    self._end(kind, there, "no longer needed")
            case _:
                assert_never(action)

    def _say(self, controller: Controller, key: ObjectKey, before: Object, decision: Decision) -> None:
        there = self.get(controller.kind, key)
        if there is None or there["metadata"]["uid"] != before["metadata"]["uid"]:
            return
        status = there.get("status") or {}
        generation = int(there["metadata"].get("generation") or 0) if controller.conditions_have_generation else None
        wanted = with_conditions({**status, **decision.status}, decision.conditions, generation, self.now)
        new = {name: value for name, value in wanted.items() if value is not None}
        if new != {name: value for name, value in status.items() if value is not None}:
            self._store(controller.kind, {**there, "status": new})

    # Objects.

    def _begun(self, kind: KindName, obj: Object) -> Object:
        """With what the server fills in when something is made."""
        self._made += 1
        metadata = {
            "generation": 1,
            **obj["metadata"],
            "uid": f"plan-{times.format_time(self.began)}-{self._made}",
            "creationTimestamp": times.format_time(self.now),
        }
        made = {"apiVersion": kind.group_version, "kind": kind.kind, **msgspec.to_builtins(obj), "metadata": metadata}
        _filled_in(kind, made)
        return made

    def _admitted(self, kind: KindName, obj: Object) -> Object:
        if kind == PODS:
            obj["spec"]["priority"] = self.find_priority(obj)
        refusal = self.quotas.refusal(kind, obj, None)
        if refusal is not None:
            text = f'{kind.plural} "{obj["metadata"]["name"]}" is forbidden: {refusal.message}'
            raise Forbidden(text, status=403, reason="Forbidden", details={"causes": refusal.causes})
        return obj

    def know_priority(self, name: str, value: int) -> None:
        """There is a PriorityClass of this name, from now on."""
        self._priorities[name] = value

    def find_priority(self, pod: Object) -> int:
        """Raises `Forbidden` for a class that is not there, as the server does."""
        name = pod["spec"].get("priorityClassName") or self._default_priority
        if name and name not in self._priorities:
            text = f'pods "{pod["metadata"]["name"]}" is forbidden: no PriorityClass with name {name} was found'
            raise Forbidden(text, status=403, reason="Forbidden")
        return self._priorities.get(name, 0)

    def _store(self, kind: KindName, obj: Object, *, wakes: bool = True) -> None:
        self._revision += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self._revision)}
        cache = self._caches[kind]
        entry = cache.read_item(_encode({**obj, "metadata": metadata}))
        self._changed(kind, cache.apply(entry), wakes=wakes)

    def _gone(self, kind: KindName, key: ObjectKey) -> None:
        cache = self._caches[kind]
        entry = cache.entry(key)
        if entry is None:
            return
        self._revision += 1
        obj = entry.object()
        obj["metadata"]["resourceVersion"] = str(self._revision)
        self._changed(kind, cache.apply(cache.read_item(_encode(obj)), is_deleted=True))

    def _changed(self, kind: KindName, changes: Iterable[Change], *, wakes: bool = True) -> None:
        for change in changes:
            old = change.old.object() if change.old is not None else None
            new = change.new.object() if change.new is not None else None
            self.placing.changed(kind, change.key, old, new)
            if wakes:
                # What was there at the beginning is in what quotas say of themselves.
                if self.quotas.has(change.key.namespace) and self.quotas.change(kind, new, old):
                    self._again(change.key.namespace)
                self._wake(kind, change)

    def _wake(self, kind: KindName, change: Change) -> None:
        for number, controller in enumerate(self._controllers):
            if controller.kind == kind:
                self._touch(number, change.key)
            for reads in controller.reads:
                if reads.kind != kind:
                    continue
                keys = list(reads.wakes(change)) if reads.wakes is not None else []
                if reads.wakes_among is not None:
                    keys += reads.wakes_among(change, self._caches[controller.kind])
                for key in keys:
                    self._touch(number, key)

    def _touch(self, number: int, key: ObjectKey) -> None:
        failing = self._failing.get((number, key))
        if failing is None:
            self._dirty[number, key] = None
        else:
            self._at(max(self.now, failing.at + _CHANGED_AFTER_FAILURE), "retry", (number, key))

    def _again(self, namespace: str) -> None:
        """There is more left of a quota: what was refused finds that out at its next attempt."""
        for (number, key), failing in list(self._failing.items()):
            if failing.is_parked and key.namespace == namespace:
                self._failing[number, key] = replace(failing, is_parked=False)
                self._at(self.now + DEFAULT_RETRY.delay(failing.attempts, _MIDDLE), "retry", (number, key))

    # Pods.

    def _place(self) -> bool:
        """Give nodes to those that wait. True if a pod got one."""
        bound = self.placing.place()
        for key, node in bound:
            pod = self.get(PODS, key)
            if pod is not None:
                new = {**pod, "spec": {**pod["spec"], "nodeName": node}}
                self._store(PODS, new)
                self._pod_timers(new)
        return bool(bound)

    def _pod_timers(self, pod: Object) -> None:
        """What is going to happen to a pod that is bound."""
        if not pod_state.get_node_name(pod) or pod_state.is_over(pod):
            return
        uid = (ObjectKey(pod["metadata"].get("namespace") or "", pod["metadata"]["name"]), pod["metadata"]["uid"])
        if pod_state.is_leaving(pod):
            self._at(self.now + self._ends_after, "gone", uid)
        elif not pod_state.is_ready(pod) and self._is_new(pod):
            self._at(self.now + STARTS_AFTER, "ready", uid)

    def _is_new(self, pod: Object) -> bool:
        """One that was there and is not ready after a minute will not be so because we wait."""
        age = self.now - pod_state.created_at(pod)
        return not self.was_there(pod["metadata"]["uid"]) or age < timedelta(minutes=1)

    def _happen(self, what: str, about: Any) -> None:
        if what in ("wake", "retry"):
            number, key = about
            if self._caches[self._controllers[number].kind].entry(key) is not None:
                self._dirty[number, key] = None
            return
        key, uid = about
        pod = self.get(PODS, key)
        if pod is None or pod["metadata"]["uid"] != uid:
            return
        if what == "ready" and not pod_state.is_leaving(pod):
            self._store(PODS, _made_ready(pod, self.now))
        elif what == "evict" and not pod_state.is_leaving(pod):
            self._end(PODS, pod, f"does not tolerate a taint of {pod_state.get_node_name(pod)}")
        elif what == "gone":
            held = pod["metadata"].get("finalizers")
            if held:
                metadata = {**pod["metadata"], "deletionGracePeriodSeconds": 0}
                status = {**(pod.get("status") or {}), "phase": "Failed"}
                self._store(PODS, {**pod, "metadata": metadata, "status": status})
            else:
                self._gone(PODS, key)

    def _end(self, kind: KindName, obj: Object, why: str) -> None:
        metadata = obj["metadata"]
        key = ObjectKey(metadata.get("namespace") or "", metadata["name"])
        if kind != PODS:
            self._gone(kind, key)
            return
        if pod_state.is_leaving(obj):
            return
        if metadata["uid"] in self._first:
            self.removed[metadata["uid"]] = Removed(self._first[metadata["uid"]], why)
        if (not pod_state.get_node_name(obj) or pod_state.is_over(obj)) and not metadata.get("finalizers"):
            self._gone(kind, key)
            return
        grace = int((obj.get("spec") or {}).get("terminationGracePeriodSeconds") or 30)
        at = times.format_time(self.now + timedelta(seconds=grace))
        leaving = {**metadata, "deletionTimestamp": at, "deletionGracePeriodSeconds": grace}
        self._store(kind, {**obj, "metadata": leaving})
        self._at(self.now + self._ends_after, "gone", (key, metadata["uid"]))

    def _end_if_over(self, kind: KindName, obj: Object) -> None:
        """What is only held by finalizers goes with the last of them."""
        metadata = obj["metadata"]
        if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
            return
        if not metadata.get("deletionGracePeriodSeconds") or not pod_state.get_node_name(obj):
            self._gone(kind, ObjectKey(metadata.get("namespace") or "", metadata["name"]))

    def _evict(self, node: Object) -> None:
        """Whom a taint removes from a node."""
        taints = parse_taints(node)
        for pod in self.all(PODS):
            if pod_state.get_node_name(pod) != node["metadata"]["name"] or not pod_state.is_active(pod):
                continue
            stays = stays_for(pod, taints)
            if stays is not None:
                key = ObjectKey(pod["metadata"].get("namespace") or "", pod["metadata"]["name"])
                self._at(self.now + stays, "evict", (key, pod["metadata"]["uid"]))

    def _at(self, at: datetime, what: str, about: Any) -> None:
        self._order += 1
        heapq.heappush(self._timers, (at, self._order, what, about))


def find_planned_workload(world: Expansion, pod: Object) -> tuple[KindName, ObjectKey] | None:
    """What a pod belongs to in the end; None: to nothing that a plan models."""
    found: tuple[KindName, ObjectKey] | None = None
    obj: Object | None = pod
    while obj is not None and (owner := find_controller(obj)) is not None:
        kind = next((each for each in world.workloads if each.kind == owner["kind"]), None)
        if kind is None:
            break
        found = kind, ObjectKey(pod["metadata"].get("namespace") or "", owner["name"])
        obj = world.get(*found)
    return found


def _caches(controllers: Iterable[Controller]) -> dict[KindName, Cache]:
    indexes: dict[KindName, dict[str, Index]] = {kind: {} for kind in KINDS}
    for controller in controllers:
        indexes.setdefault(controller.kind, {}).update({index.name: index for index in controller.indexes})
        for reads in controller.reads:
            indexes.setdefault(reads.kind, {}).update({index.name: index for index in reads.indexes})
    return {kind: Cache(kind, tuple(found.values())) for kind, found in indexes.items()}


def _filled_in(kind: KindName, obj: Object) -> None:
    """With defaults: two templates that say the same must look the same."""
    known = _KINDS_BY_NAME.get(kind)
    if known is not None:
        known.defaults(obj)


def _made_ready(pod: Object, now: datetime) -> Object:
    at = times.format_time(now)
    status = dict(pod.get("status") or {})
    names = ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    others = [each for each in status.get("conditions") or () if each.get("type") not in names]
    said = [{"type": name, "status": "True", "lastTransitionTime": at} for name in names]
    return {**pod, "status": {**status, "phase": "Running", "startTime": at, "conditions": [*others, *said]}}
