"""Move the pods of a Deployment from one template to the next, a few at a time, and keep their number.

Each template has a ReplicaSet (revisions.py); a Deployment only says how many pods each of its sets should have, and
the sets see to it. One look takes one step: make the new set or let it grow, else let old sets shrink, and look again
when a set says what came of it. How many is plain arithmetic (rolling.py). So a crash between any two writes loses
nothing: the sets are as they are, and the next step follows from that alone.

An old set is made smaller only in the very version that was looked at: if it has lost a pod meanwhile, the sum would be
wrong. A rollout stops where it is when there is evidence against the next step (expansion.py), such as a deadline that
has passed while its new pods do not work: it neither grows nor takes more of what is old. It is never undone by itself.

While a Hold holds the rollout (api/holds.py) the sets stay as they are between the templates. Another number of
replicas is shared out among them, and the sets replace pods that end.

Not handled here: pods, and which of them go (controllers/replicaset/controller.py, loop/deletion_order.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from mainstay.api import pod_state
from mainstay.api.annotations import DESIRED_REPLICAS
from mainstay.api.holds import ParsedHold
from mainstay.api.kind import Object
from mainstay.api.kind_names import COMPONENT_STATES, DEPLOYMENTS, NODES, PODS, REPLICASETS
from mainstay.api.object_key import ObjectKey
from mainstay.client.errors import ApiError, Conflict, Throttled, Unavailable
from mainstay.client.indexes import NAMESPACE, OWNER, ZONE
from mainstay.controllers.deployment import holds as rollout_holds
from mainstay.controllers.deployment import revisions, rolling
from mainstay.controllers.deployment import status as rollout_status
from mainstay.controllers.deployment.expansion import (
    EXPANSION_PAUSED,
    LOOK_AGAIN,
    ExpansionPause,
    RolloutMemory,
    collect_about_controllers,
    collect_about_sets,
    find_growth_limit,
    find_pause,
    remember_unobserved,
    say_pause,
)
from mainstay.controllers.deployment.revisions import REVISION
from mainstay.controllers.deployment.rolling import Bounds, SetSize
from mainstay.controllers.objectives import targets as objective_targets
from mainstay.controllers.objectives.targets import find_objectives
from mainstay.controllers.pods.adoption import ORPHANS, claim, selecting_orphans
from mainstay.controllers.pods.urgency import rank_workload
from mainstay.loop import deletion_order
from mainstay.loop.conditions import Condition, Truth
from mainstay.loop.controller import Controller, Reads, owner
from mainstay.loop.decision import DONE, Action, Create, Decision, Delete, Patch, Result, Tell, WakeAt
from mainstay.loop.deletion_order import find_zones
from mainstay.loop.evidence import Evidence, EvidenceResponse, Signal, allowed
from mainstay.loop.freshness import Freshness
from mainstay.loop.queue.items import Priority
from mainstay.loop.signals import collect_rollout_deadline, collect_slo_burn
from mainstay.loop.view import View

COLLISIONS_MAX: Final = 1000
_MESSAGE_LENGTH_MAX: Final = 1000


@dataclass(frozen=True, slots=True)
class Rollout:
    """A Deployment and its sets, as they were seen."""

    deployment: Object
    new: Object | None
    old: tuple[Object, ...]
    """Oldest first."""
    bounds: Bounds
    evidence: tuple[Evidence, ...] = ()
    """Against going on."""

    @property
    def sets(self) -> list[Object]:
        return [*self.old, *([] if self.new is None else [self.new])]

    @property
    def revision(self) -> int:
        """What the new set's is, or is going to be."""
        others = max((revisions.parse_revision(each) for each in self.old), default=0)
        return max(others + 1, 0 if self.new is None else revisions.parse_revision(self.new))


@dataclass(frozen=True, slots=True)
class RolloutStep:
    """What to do next."""

    sizes: Mapping[str, int]
    """Of the sets that should have another size, by name."""
    creates: int | None = None
    """A new set, with so many pods."""
    tidies: bool = False
    """Sets beyond the history limit may go when all is done."""
    is_rolling: bool = True
    why: str = ""
    waits_for_status: bool = False
    """Of a set that has not observed its size."""
    pause: ExpansionPause | None = None
    """The evidence for which nothing is done."""


class Deployments(Controller):
    name = "deployment"
    kind = DEPLOYMENTS
    indexes = (NAMESPACE,)
    reads = (
        Reads(
            REPLICASETS, wakes=owner(DEPLOYMENTS), wakes_among=selecting_orphans(), indexes=(OWNER, ORPHANS, NAMESPACE)
        ),
        Reads(PODS, indexes=(OWNER,)),
        Reads(NODES, indexes=(ZONE,)),
        Reads(COMPONENT_STATES),
        rollout_holds.READS,
        objective_targets.READS,
    )
    writes = (REPLICASETS,)
    conditions_have_generation = False

    def priority(self, obj: Object) -> Priority:
        return rank_workload(obj)

    def decide(self, view: View, key: ObjectKey, memory: RolloutMemory | None) -> Decision:
        deployment = view.get(DEPLOYMENTS, key)
        if deployment is None:
            return Decision()
        claimed = claim(view, REPLICASETS, deployment, DEPLOYMENTS)
        new = revisions.new_set(deployment, claimed.mine)
        old = tuple([each for each in revisions.by_age(claimed.mine) if each is not new])
        rollout = Rollout(deployment, new, old, rolling.compute_bounds(deployment))
        held = rollout_holds.hold_on(view, key)
        collisions = int((deployment.get("status") or {}).get("collisionCount") or 0)
        if claimed.patches or pod_state.is_leaving(deployment):
            said = rollout_status.said(
                deployment, new, old, rollout.bounds, view.now, collisions=collisions, is_rolling=False, held=held
            )
            return Decision(claimed.patches, status=said.status)

        memory = remember_unobserved(rollout.sets, memory, view.now)
        rollout = replace(rollout, evidence=_collect_evidence(rollout, view, memory))
        step = next_step(rollout, view) if held is None else held_step(rollout, held)
        actions: list[Action] = []
        created = ""
        if step.creates is not None:
            collisions, suffix = _free_hash(rollout, view, collisions)
            made = revisions.made_set(deployment, suffix, step.creates, rollout.bounds.most, rollout.revision)
            created = made["metadata"]["name"]
            actions.append(Create(REPLICASETS, made))
        said = rollout_status.said(
            deployment,
            new,
            old,
            rollout.bounds,
            view.now,
            collisions=collisions,
            is_rolling=step.is_rolling,
            created=created,
            held=held,
        )
        actions += _sized(rollout, step.sizes)
        if new is not None or created:
            actions += _numbered(rollout, key)
        if step.tidies and (said.is_complete or deployment["spec"].get("paused")):
            actions += [_forget(each) for each in revisions.forgotten(deployment, old)]
        result: Result = DONE if said.wake_at is None else WakeAt(said.wake_at, "the progress deadline")
        if held is not None:
            result = WakeAt(held.expires_at, rollout_status.HELD)
        elif step.pause is not None or step.waits_for_status:
            result = WakeAt(min(said.wake_at or view.now + LOOK_AGAIN, view.now + LOOK_AGAIN), EXPANSION_PAUSED)
        return Decision(
            tuple(actions),
            result,
            say_pause(said.status, step.pause, view.now),
            memory=memory,
            reasons=(step.why,) if step.why else (),
            events=(*rollout_holds.told_of_hold(deployment, held), *_told(rollout, actions)),
        )

    def after_failure(self, decision: Decision, action: Action, error: ApiError) -> Decision:
        """A set that may not be made is said to be why nothing moves."""
        if not isinstance(action, Create) or isinstance(error, Unavailable | Throttled | Conflict):
            return decision
        text = f'Failed to create new replica set "{action.object["metadata"]["name"]}": {error}'
        told = Tell(rollout_status.CREATE_FAILED, text[:_MESSAGE_LENGTH_MAX], is_warning=True)
        decision = replace(decision, events=(*decision.events, told))
        if not any(each["type"] == rollout_status.PROGRESSING for each in decision.status.get("conditions") or ()):
            return decision  # It has no deadline, and so nothing is said about progress.
        failed = Condition(
            rollout_status.PROGRESSING,
            Truth.FALSE,
            rollout_status.CREATE_FAILED,
            text[:_MESSAGE_LENGTH_MAX],
            error.cause,
        )
        return replace(decision, conditions=(failed,))


# Which step.


def held_step(rollout: Rollout, held: ParsedHold) -> RolloutStep:
    """Nothing, but what another number of replicas takes: who scales does not mean the template."""
    why = f"held by Hold {held.name}: {held.words}"
    active = [each for each in rollout.sets if read_size(each).wanted]
    # All of them may be empty because they were scaled to nothing, or because the rollout has just come that far.
    counting = active or rollout.sets[-1:]
    wanted = rollout.bounds.replicas
    is_rescaled = any(
        DESIRED_REPLICAS in revisions.get_annotations(each) and revisions.number_in(each, DESIRED_REPLICAS) != wanted
        for each in counting
    )
    return RolloutStep(rescaled(rollout) if is_rescaled else {}, is_rolling=False, why=why)


def next_step(rollout: Rollout, view: View) -> RolloutStep:
    """What to do next about a Deployment that is there to stay."""
    spec = rollout.deployment["spec"]
    if spec.get("paused"):
        return RolloutStep(rescaled(rollout), tidies=True, is_rolling=False, why="paused")
    if (spec.get("strategy") or {}).get("type") == "Recreate":
        return recreated(rollout)
    if _was_rescaled(rollout):
        sizes, why = rescaled(rollout), f"scaling to {rollout.bounds.replicas} replicas"
        if len(sizes) > 1 and _shrinks(rollout, sizes) and (unsaid := _unsaid(rollout)):
            return RolloutStep({}, is_rolling=False, why=f"{why}, waiting for the status of {unsaid[0]}")
        return RolloutStep(sizes, is_rolling=False, why=why)
    return rolled(rollout, view)


def rolled(rollout: Rollout, view: View) -> RolloutStep:
    bounds, new = rollout.bounds, rollout.new
    old = [read_size(each) for each in rollout.old]
    pause = find_pause(rollout.evidence)
    if new is None:
        size = 0 if pause is not None else rolling.grown(bounds, SetSize("", 0, 0), old)
        return RolloutStep({}, creates=size, why="no ReplicaSet has this template", pause=pause)
    step = _next_size(rollout, new, view)
    is_expansion = any(step.sizes.get(each.name, each.wanted) < each.wanted for each in old) or (
        step.sizes.get(new["metadata"]["name"], 0) > read_size(new).wanted
    )
    if pause is not None and (is_expansion or step.waits_for_status):
        return RolloutStep({}, why=pause.message, pause=pause)
    return step


def _next_size(rollout: Rollout, new: Object, view: View) -> RolloutStep:
    """The next step of the arithmetic."""
    bounds, size = rollout.bounds, read_size(new)
    old = [read_size(each) for each in rollout.old]
    grown = rolling.grown(bounds, size, old)
    limit = find_growth_limit(new) if grown > size.wanted else None
    if grown != size.wanted and limit is None:
        return RolloutStep({size.name: grown}, why=f"scaling the new ReplicaSet from {size.wanted} to {grown}")
    if rolling.shrunk(bounds, size, old):
        if unsaid := _unsaid(rollout):
            return RolloutStep({}, why=f"waiting for the status of {unsaid[0]}", waits_for_status=True)
        shrunk = rolling.shrunk(bounds, size, _with_spares(rollout, old, view))
        if not shrunk:
            return RolloutStep({}, why="keeping old pods that are the last in their failure domain")
        return RolloutStep(shrunk, why="scaling down old ReplicaSets")
    if limit is not None:
        return RolloutStep({}, why=f"the new ReplicaSet does not grow: {limit.words}")
    return RolloutStep({}, tidies=True)


def recreated(rollout: Rollout) -> RolloutStep:
    """All of the old, then all of the new."""
    running = {each["metadata"]["name"]: 0 for each in rollout.old if read_size(each).wanted}
    if running:
        return RolloutStep(running, why="deleting the old pods first")
    if not all(revisions.is_at_rest(each) for each in rollout.old):
        return RolloutStep({}, why="waiting for the old pods to terminate")
    wanted = rollout.bounds.replicas
    if rollout.new is None:
        return RolloutStep({}, creates=wanted, why="the old pods have terminated")
    size = read_size(rollout.new)
    return RolloutStep({} if size.wanted == wanted else {size.name: wanted}, tidies=True)


def _was_rescaled(rollout: Rollout) -> bool:
    """Whether the number of replicas has changed since the sets that have pods were sized."""
    wanted = rollout.bounds.replicas
    return any(
        read_size(each).wanted
        and DESIRED_REPLICAS in revisions.get_annotations(each)
        and revisions.number_in(each, DESIRED_REPLICAS) != wanted
        for each in rollout.sets
    )


def _shrinks(rollout: Rollout, sizes: Mapping[str, int]) -> bool:
    return any(sizes.get(size.name, size.wanted) < size.wanted for size in map(read_size, rollout.sets))


def rescaled(rollout: Rollout) -> dict[str, int]:
    """How large each set should be for the number of replicas that is wanted now, without going on with a rollout."""
    bounds, new = rollout.bounds, rollout.new
    active = [each for each in rollout.sets if read_size(each).wanted]
    only = active[0] if len(active) == 1 else (rollout.sets[-1] if not active and rollout.sets else None)
    if only is not None:
        return {only["metadata"]["name"]: bounds.replicas}
    if new is not None and _is_saturated(new, bounds.replicas):
        return {new["metadata"]["name"]: bounds.replicas} | {
            each["metadata"]["name"]: 0 for each in rollout.old if read_size(each).wanted
        }
    if (rollout.deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
        return {}
    newest_first = [read_size(each) for each in reversed(revisions.by_age(active))]
    replicas = int((rollout.deployment.get("status") or {}).get("replicas") or 0)
    return rolling.rescaled(bounds, newest_first, replicas)


def _is_saturated(new: Object, replicas: int) -> bool:
    available = int((new.get("status") or {}).get("availableReplicas") or 0)
    desired = revisions.number_in(new, DESIRED_REPLICAS)
    return read_size(new).wanted == desired == available == replicas


def read_size(replica_set: Object) -> SetSize:
    wanted = int(replica_set["spec"].get("replicas", 1))
    available = int((replica_set.get("status") or {}).get("availableReplicas") or 0)
    # What it was last told to give up still counts as available until it says so. It does not for us.
    most = revisions.number_in(replica_set, revisions.MOST)
    return SetSize(replica_set["metadata"]["name"], wanted, min(available, wanted), most_before=most)


def _unsaid(rollout: Rollout) -> list[str]:
    """Sets that have said nothing since they were last sized. One that was larger before, and grows again, would seem
    to have pods that it has just been told to give up. So even a hint of that means to read their status again."""
    unobserved = [each for each in rollout.evidence if each.signal is Signal.GENERATION_NOT_OBSERVED]
    return [each.name for each in unobserved if EvidenceResponse.READ_AGAIN in allowed((each,))]


def _collect_evidence(rollout: Rollout, view: View, memory: RolloutMemory | None) -> tuple[Evidence, ...]:
    """Against the next step. What speaks against a rollout says nothing about a Deployment that has no old pods."""
    active = [each for each in rollout.sets if read_size(each).wanted]
    new, found = rollout.new, collect_about_sets(active, memory, view.now)
    if new is not None and rollout_status.is_timed_out(rollout.deployment, new):
        size = read_size(new)
        if size.available < size.wanted:
            found += collect_rollout_deadline(rollout.deployment)
    if any(read_size(each).wanted for each in rollout.old):
        found += collect_about_controllers(view.all(COMPONENT_STATES), view.now)
        if new is not None:
            found += collect_slo_burn(find_objectives(view, rollout.deployment), new["metadata"]["uid"])
    return found


def _with_spares(rollout: Rollout, sizes: Sequence[SetSize], view: View) -> list[SetSize]:
    """The same, and how many of each can go before a failure domain is without a ready pod."""
    assert rollout.new is not None
    successors = view.owned_by(PODS, rollout.new["metadata"]["uid"])
    found = []
    for each, size in zip(rollout.old, sizes, strict=True):
        if size.wanted:
            pods = view.owned_by(PODS, each["metadata"]["uid"])
            last = deletion_order.last_of_domain(pods, successors, find_zones(view, [*pods, *successors]))
            size = replace(size, spare=max(0, size.available - len(last)))
        found.append(size)
    return found


# What that takes.


def _sized(rollout: Rollout, sizes: Mapping[str, int]) -> list[Action]:
    """The sets as they should be: their sizes, and what the new one copies from the Deployment. It comes first."""
    actions: list[Action] = []
    for each in [*([] if rollout.new is None else [rollout.new]), *rollout.old]:
        metadata, before = each["metadata"], read_size(each).wanted
        body: dict[str, Any] = {}
        if each is rollout.new:
            body = revisions.changes_to_new(rollout.deployment, each, rollout.old)
        after = sizes.get(metadata["name"])
        if after is not None:
            noted = revisions.sized(rollout.bounds.replicas, rollout.bounds.most)
            noted = {name: text for name, text in noted.items() if revisions.get_annotations(each).get(name) != text}
            if noted:
                annotations = {**(body.get("metadata") or {}).get("annotations", {}), **noted}
                body["metadata"] = {"annotations": annotations}
            if after != before:
                body["spec"] = {**(body.get("spec") or {}), "replicas": after}
        if body:
            key = ObjectKey(metadata["namespace"], metadata["name"])
            version, freshness = "", Freshness.MAY_BE_STALE
            if after is not None and after < before:
                version, freshness = metadata["resourceVersion"], Freshness.SEEN_VERSION
            uid = metadata["uid"]
            actions.append(Patch(REPLICASETS, key, uid, body, resource_version=version, freshness=freshness))
    return actions


def _told(rollout: Rollout, actions: Sequence[Action]) -> list[Tell]:
    """Each change of a set's size, in upstream's words."""
    before = {each["metadata"]["name"]: read_size(each).wanted for each in rollout.sets}
    found = []
    for action in actions:
        match action:
            case Create(object=made):
                name, old, new = made["metadata"]["name"], 0, int(made["spec"]["replicas"])
            case Patch(kind=kind, key=key, body=body) if kind == REPLICASETS and "replicas" in (body.get("spec") or {}):
                name, old, new = key.name, before[key.name], int(body["spec"]["replicas"])
            case _:
                continue
        if old != new:
            way = "up" if new > old else "down"
            message = f"Scaled {way} replica set {name} from {old} to {new}"
            found.append(Tell("ScalingReplicaSet", message, after=action))
    return found


def _numbered(rollout: Rollout, key: ObjectKey) -> list[Action]:
    """The Deployment says which revision it is at."""
    revision = str(rollout.revision)
    if revisions.get_annotations(rollout.deployment).get(REVISION) == revision:
        return []
    body = {"metadata": {"annotations": {REVISION: revision}}}
    return [Patch(DEPLOYMENTS, key, rollout.deployment["metadata"]["uid"], body, freshness=Freshness.MAY_BE_STALE)]


def _forget(replica_set: Object) -> Delete:
    metadata = replica_set["metadata"]
    key = ObjectKey(metadata["namespace"], metadata["name"])
    version = metadata["resourceVersion"]
    return Delete(REPLICASETS, key, metadata["uid"], resource_version=version, freshness=Freshness.FRESH_READ)


def _free_hash(rollout: Rollout, view: View, collisions: int) -> tuple[int, str]:
    """The hash for a new set whose name is free, and the number of collisions that led to it."""
    deployment = rollout.deployment
    for number in range(collisions, collisions + COLLISIONS_MAX):
        suffix = revisions.compute_hash(deployment["spec"]["template"], number)
        key = ObjectKey(deployment["metadata"]["namespace"], revisions.build_set_name(deployment, suffix))
        if view.get(REPLICASETS, key) is None:
            return number, suffix
    raise AssertionError(f"{COLLISIONS_MAX} names for a set of {deployment['metadata']['name']} are all taken")
