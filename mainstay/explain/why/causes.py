"""The causes that `why` can name: codes that scripts and dashboards may rely on, each with a tier and a meaning.

A tier says how near to the root a cause is, and who has to act. Of several things that are wrong with one object the
one of the gravest tier is told first: it makes no sense to wait for room for a pod whose image does not exist.

    misconfigured > policy > quota > capacity > topology > health > in progress > satisfied

Codes are only ever added. docs/reasons.md is made from here (docs.py).
"""

from enum import StrEnum
from typing import Final, NamedTuple


class Tier(StrEnum):
    """How near to the root a cause is, gravest first. Shown to users: only add."""

    MISCONFIGURED = "misconfigured"
    """What is asked for cannot work, whatever the cluster is like. Its author has to change it."""
    POLICY = "policy"
    """A user or a policy does not allow it, or not now: a taint, a hold, an admission rule, a budget."""
    QUOTA = "quota"
    """A limit on how much may be used is reached."""
    CAPACITY = "capacity"
    """There is not enough room."""
    TOPOLOGY = "topology"
    """There is room, and not where it may be used."""
    HEALTH = "health"
    """Something that should work does not: a node, a container, a part of the control plane."""
    IN_PROGRESS = "in progress"
    """It is under way, and nothing stands in its way that is known of."""
    SATISFIED = "satisfied"
    """There is nothing to be done."""
    UNKNOWN = "unknown"
    """The records that would say so are not there."""


class Cause(StrEnum):
    """Why an object is as it is. Shown to users: only add."""

    # What is asked for cannot work.
    INVALID = "Invalid"
    SELECTOR_MISMATCH = "SelectorMismatch"
    OTHER_SCHEDULER = "OtherScheduler"
    IMAGE_UNAVAILABLE = "ImageUnavailable"
    CONFIG_MISSING = "ConfigMissing"
    COMMAND_MISSING = "CommandMissing"
    CONTAINER_CANNOT_START = "ContainerCannotStart"
    NODE_DOES_NOT_EXIST = "NodeDoesNotExist"
    NAMESPACE_MISSING = "NamespaceMissing"
    NOTHING_SELECTED = "NothingSelected"
    NO_SUCH_OBJECT = "NoSuchObject"

    # A user or a policy does not allow it.
    ADMISSION_REFUSED = "AdmissionRefused"
    FORBIDDEN = "Forbidden"
    CONTROLLER_HELD = "ControllerHeld"
    ROLLOUT_HELD = "RolloutHeld"
    ROLLOUT_PAUSED = "RolloutPaused"
    EVICTIONS_FROZEN = "EvictionsFrozen"
    SUSPENDED = "Suspended"
    SCHEDULING_GATED = "SchedulingGated"
    UNTOLERATED_TAINT = "UntoleratedTaint"
    NODE_CORDONED = "NodeCordoned"
    BUDGET_EXHAUSTED = "BudgetExhausted"
    NAMESPACE_TERMINATING = "NamespaceTerminating"
    FINALIZER_WAITING = "FinalizerWaiting"
    DEADLINE_EXCEEDED = "DeadlineExceeded"
    SCALED_DOWN = "ScaledDown"
    SCALED_TO_ZERO = "ScaledToZero"
    ROLLED_OVER = "RolledOver"
    EVICTED = "Evicted"
    EVICTED_BY_TAINT = "EvictedByTaint"
    DELETED = "Deleted"
    OWNER_DELETED = "OwnerDeleted"

    # A limit on how much may be used.
    QUOTA_EXCEEDED = "QuotaExceeded"
    ZONE_QUOTA_EXCEEDED = "ZoneQuotaExceeded"

    # Not enough room.
    NO_NODES = "NoNodes"
    INSUFFICIENT_RESOURCES = "InsufficientResources"
    FRAGMENTATION = "Fragmentation"
    NODE_TOO_SMALL = "NodeTooSmall"
    PORT_TAKEN = "PortTaken"
    HELD_BY_GHOSTS = "HeldByGhosts"
    RESERVED_ELSEWHERE = "ReservedElsewhere"
    AGENT_REFUSED = "AgentRefused"
    NODE_FULL = "NodeFull"

    # Room, but not where it may be used.
    NODE_AFFINITY = "NodeAffinity"
    TOPOLOGY_SPREAD = "TopologySpread"
    TOPOLOGY_LABEL_MISSING = "TopologyLabelMissing"
    CONSTRAINTS_COMBINED = "ConstraintsCombined"

    # Something that should work does not.
    API_UNAVAILABLE = "APIUnavailable"
    NO_SCHEDULER = "NoScheduler"
    NO_CONTROLLER = "NoController"
    LEADER_LOST = "LeaderLost"
    STALE_VIEW = "StaleView"
    CONFLICTS = "Conflicts"
    FIGHTING_WRITERS = "FightingWriters"
    BINDING_REFUSED = "BindingRefused"
    CONTROLLER_FAILING = "ControllerFailing"
    NODE_LOST = "NodeLost"
    NODE_NOT_READY = "NodeNotReady"
    NODE_FENCED = "NodeFenced"
    AGENT_SILENT = "AgentSilent"
    CRASH_LOOP = "CrashLoop"
    CONTAINER_FAILED = "ContainerFailed"
    READINESS_PROBE_FAILING = "ReadinessProbeFailing"
    LIVENESS_PROBE_FAILING = "LivenessProbeFailing"
    STARTUP_PROBE_FAILING = "StartupProbeFailing"
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded"
    STOP_NOT_CONFIRMED = "StopNotConfirmed"

    # Under way.
    NOT_OBSERVED_YET = "NotObservedYet"
    QUEUED = "Queued"
    BEING_BOUND = "BeingBound"
    STARTING = "Starting"
    NOT_READY_YET = "NotReadyYet"
    RESTARTING = "Restarting"
    ROLLING_OUT = "RollingOut"
    SCALING = "Scaling"
    RUNNING = "Running"
    TERMINATING = "Terminating"

    SATISFIED = "Satisfied"
    COMPLETED = "Completed"
    NOT_RECORDED = "NotRecorded"

    @property
    def tier(self) -> Tier:
        return MEANINGS[self].tier

    @property
    def meaning(self) -> str:
        return MEANINGS[self].text


class Meaning(NamedTuple):
    tier: Tier
    text: str
    """One sentence, for the page of reasons."""
    advice: str
    """What to do about it."""


def _all(tier: Tier, *rows: tuple[Cause, str, str]) -> dict[Cause, Meaning]:
    return {cause: Meaning(tier, text, advice) for cause, text, advice in rows}


MEANINGS: Final[dict[Cause, Meaning]] = {
    **_all(
        Tier.MISCONFIGURED,
        (Cause.INVALID, "What is asked for does not follow the rules of its kind.", "Correct the field that is named."),
        (
            Cause.SELECTOR_MISMATCH,
            "A selector does not select what it is meant to: the labels differ.",
            "Make the labels and the selector agree.",
        ),
        (
            Cause.OTHER_SCHEDULER,
            "The pod asks for a scheduler by a name that none of those at work has.",
            "Correct `spec.schedulerName`, or start that scheduler.",
        ),
        (
            Cause.IMAGE_UNAVAILABLE,
            "The image cannot be had: its name is wrong, it does not exist, or it may not be pulled.",
            "Correct the image, or the credentials for its registry.",
        ),
        (
            Cause.CONFIG_MISSING,
            "A Secret, a ConfigMap, or a key in one, is named and not there.",
            "Create it, correct the name, or mark the reference as optional.",
        ),
        (
            Cause.COMMAND_MISSING,
            "The container names no command, and the runner of its node takes none from images.",
            "Name a command in the pod template.",
        ),
        (
            Cause.CONTAINER_CANNOT_START,
            "The node cannot start the container as it is described.",
            "Read the message: it is that of the operating system or the runner.",
        ),
        (Cause.NODE_DOES_NOT_EXIST, "The pod names a node that there is not.", "Correct the name of the node."),
        (Cause.NAMESPACE_MISSING, "The namespace does not exist.", "Create it, or correct the name."),
        (
            Cause.NOTHING_SELECTED,
            "A Service or a budget selects no pod at all.",
            "Make the labels and the selector agree, or start what it is for.",
        ),
        (
            Cause.NO_SUCH_OBJECT,
            "There is no such object, and the journal knows of none, as far as it goes back.",
            "Check the type, the name and the namespace.",
        ),
    ),
    **_all(
        Tier.POLICY,
        (
            Cause.ADMISSION_REFUSED,
            "The server refused to take the object in.",
            "Read the message: it names the rule.",
        ),
        (
            Cause.FORBIDDEN,
            "The user may not do that.",
            "Use an account with that permission, or grant it.",
        ),
        (
            Cause.CONTROLLER_HELD,
            "The controller that would act is held by a Hold.",
            "Release it, or wait until it expires: `mainstay get holds`.",
        ),
        (
            Cause.ROLLOUT_HELD,
            "The rollout is held by a Hold.",
            "Release it, or wait until it expires: `mainstay get holds`.",
        ),
        (Cause.ROLLOUT_PAUSED, "The Deployment is paused.", "Set `spec.paused` to false."),
        (
            Cause.EVICTIONS_FROZEN,
            "Evictions are frozen by a Hold.",
            "Release it, or wait until it expires: `mainstay get holds`.",
        ),
        (Cause.SUSPENDED, "The Job is suspended.", "Set `spec.suspend` to false."),
        (
            Cause.SCHEDULING_GATED,
            "The pod has scheduling gates, and is not placed before they are all removed.",
            "Remove the gates, or check the controller that set them.",
        ),
        (
            Cause.UNTOLERATED_TAINT,
            "Nodes that could take the pod have a taint that it does not tolerate.",
            "Tolerate the taint, or remove it.",
        ),
        (
            Cause.NODE_CORDONED,
            "Nodes that could take the pod are marked as unschedulable.",
            "Uncordon a node when its maintenance is over.",
        ),
        (
            Cause.BUDGET_EXHAUSTED,
            "A disruption budget does not allow that one more pod is removed.",
            "Wait until its other pods are ready, or change the budget.",
        ),
        (
            Cause.NAMESPACE_TERMINATING,
            "The namespace is being deleted: nothing new is made in it.",
            "Wait until it is gone, or use another one.",
        ),
        (
            Cause.FINALIZER_WAITING,
            "The object is being deleted, and the controller that owns a finalizer has not removed it.",
            "Check the controller that owns the finalizer. Removing it by hand skips its cleanup.",
        ),
        (
            Cause.DEADLINE_EXCEEDED,
            "The time that was given for it is over.",
            "Look at what took so long; then raise the deadline or start it again.",
        ),
        (Cause.SCALED_DOWN, "It was removed because fewer replicas are wanted.", "Nothing, if that is intended."),
        (Cause.SCALED_TO_ZERO, "No replicas are wanted.", "Scale it up if that is not intended."),
        (Cause.ROLLED_OVER, "It was replaced by a pod of a newer template.", "Nothing, if that is intended."),
        (Cause.EVICTED, "It was evicted through the API.", "The record names the user."),
        (
            Cause.EVICTED_BY_TAINT,
            "It was removed from a node because of a taint that it does not tolerate.",
            "Tolerate the taint, or look at the node.",
        ),
        (Cause.DELETED, "A user deleted it.", "The record names the user."),
        (Cause.OWNER_DELETED, "It was deleted because its owner is gone.", "Nothing, if that is intended."),
    ),
    **_all(
        Tier.QUOTA,
        (
            Cause.QUOTA_EXCEEDED,
            "A ResourceQuota of the namespace is used up.",
            "Raise the quota, or free some of it.",
        ),
        (
            Cause.ZONE_QUOTA_EXCEEDED,
            "A ZoneQuota is used up in the zones where there would be room.",
            "Raise the quota, or free some of it in that zone.",
        ),
    ),
    **_all(
        Tier.CAPACITY,
        (Cause.NO_NODES, "There are no nodes.", "Start one: `mainstay up --nodes`, `mainstay agent`."),
        (
            Cause.INSUFFICIENT_RESOURCES,
            "No node that may be used has enough left of what the pod requests.",
            "Add a node, free some room, or request less.",
        ),
        (
            Cause.FRAGMENTATION,
            "Together the nodes have enough left, but none of them has enough by itself.",
            "Move pods together, request less, or add a node.",
        ),
        (
            Cause.NODE_TOO_SMALL,
            "No node could take the pod even with nothing else on it.",
            "Request less, or add a larger node.",
        ),
        (
            Cause.PORT_TAKEN,
            "The host port is taken on every node that may be used.",
            "Use another port, or add a node.",
        ),
        (
            Cause.HELD_BY_GHOSTS,
            "Room is held for pods that were removed by force and may still run.",
            "Bring their node back, or confirm that it is gone for good by deleting its Node.",
        ),
        (
            Cause.RESERVED_ELSEWHERE,
            "The pod has a reservation on another node, or the room is reserved for another pod.",
            "Wait for the reservation, or release it.",
        ),
        (
            Cause.AGENT_REFUSED,
            "The agent of the node did not take the pod: it did not fit when it came.",
            "Its owner makes another one; if it happens again, compare the node's room with its ledger.",
        ),
        (Cause.NODE_FULL, "The node has no room left.", "Nothing, unless more has to fit there."),
    ),
    **_all(
        Tier.TOPOLOGY,
        (
            Cause.NODE_AFFINITY,
            "No node has the labels that the pod asks for.",
            "Correct the selector or affinity, or label a node.",
        ),
        (
            Cause.TOPOLOGY_SPREAD,
            "Wherever there is room, the pod would make the spread more uneven than is allowed.",
            "Make room in the domain that has too few, or allow a larger skew.",
        ),
        (
            Cause.TOPOLOGY_LABEL_MISSING,
            "Nodes lack the label by which pods are to be spread.",
            "Label the nodes, or spread by another label.",
        ),
        (
            Cause.CONSTRAINTS_COMBINED,
            "Each constraint is met by some node, and no node meets all of them.",
            "Change the one whose cure is named.",
        ),
    ),
    **_all(
        Tier.HEALTH,
        (Cause.API_UNAVAILABLE, "The API server does not answer.", "Look at the server and its store."),
        (
            Cause.NO_SCHEDULER,
            "No scheduler is running, so pods are not placed.",
            "Start it, and look at its log: `mainstay status`.",
        ),
        (
            Cause.NO_CONTROLLER,
            "The controller that would act is not at work.",
            "Start it, and look at its log: `mainstay status`.",
        ),
        (
            Cause.LEADER_LOST,
            "The leader of a component is lost, and no other has taken over yet.",
            "Wait for the lease to run out; if no other instance takes over, check the others.",
        ),
        (
            Cause.STALE_VIEW,
            "The decision was made on a view that did not yet have a change that would have altered it.",
            "Wait until the component has caught up; if it does not, look at its watch.",
        ),
        (
            Cause.CONFLICTS,
            "Writes are refused again and again because another writer changes the same object.",
            "Find out who else writes to it: `mainstay coupling`.",
        ),
        (
            Cause.FIGHTING_WRITERS,
            "Several writers set the same field to different values in turn.",
            "Let only one of them own the field: `mainstay coupling`, `mainstay blame`.",
        ),
        (
            Cause.BINDING_REFUSED,
            "The scheduler finds a node, and the server does not let the pod on it.",
            "Read the cause that is named: what the ledger knows, the scheduler does not see yet.",
        ),
        (
            Cause.CONTROLLER_FAILING,
            "The controller fails again and again at what it is to do, or has given up.",
            "Read the message of its last decision.",
        ),
        (
            Cause.NODE_LOST,
            "The node is not heard of any more.",
            "Bring it back. Else its pods are replaced when it is released, and they tolerate that no longer.",
        ),
        (Cause.NODE_NOT_READY, "The node says that it is not ready.", "Read the conditions of the node."),
        (
            Cause.NODE_FENCED,
            "The node could not renew its lease, and has stopped what must not run twice.",
            "Look at its connection to the server.",
        ),
        (
            Cause.AGENT_SILENT,
            "The pod is bound, and the agent of its node has not taken it on.",
            "Look at the agent and its connection to the server.",
        ),
        (
            Cause.CRASH_LOOP,
            "A container ends again and again soon after it is started.",
            "Read its log: `mainstay logs POD -c CONTAINER -n NAMESPACE --previous`.",
        ),
        (Cause.CONTAINER_FAILED, "A container ended with an error.", "Read its log."),
        (
            Cause.READINESS_PROBE_FAILING,
            "The pod runs, and its readiness probe fails.",
            "Ask what the probe asks; correct the probe or what it looks at.",
        ),
        (
            Cause.LIVENESS_PROBE_FAILING,
            "A container is restarted because its liveness probe fails.",
            "Ask what the probe asks; correct the probe or what it looks at.",
        ),
        (
            Cause.STARTUP_PROBE_FAILING,
            "A container has not passed its startup probe.",
            "Give it more time, or correct the probe.",
        ),
        (
            Cause.BACKOFF_LIMIT_EXCEEDED,
            "More pods of the Job have failed than its backoff limit allows.",
            "Read the log of a failed pod; then create the Job again.",
        ),
        (
            Cause.STOP_NOT_CONFIRMED,
            "The pod is being deleted, and its node does not say that it has stopped.",
            "Look at the node; only when it is known to be off, delete the pod by force.",
        ),
    ),
    **_all(
        Tier.IN_PROGRESS,
        (Cause.NOT_OBSERVED_YET, "The controller has not looked at this generation yet.", "Wait a moment."),
        (Cause.QUEUED, "The pod waits for its turn at the scheduler.", "Wait a moment."),
        (Cause.BEING_BOUND, "A node was chosen, and the pod is being bound to it.", "Wait a moment."),
        (Cause.STARTING, "Its node is starting it.", "Wait a moment."),
        (Cause.NOT_READY_YET, "It runs, and is not ready yet.", "Wait a moment."),
        (Cause.RESTARTING, "A container is being started again.", "Wait a moment."),
        (Cause.ROLLING_OUT, "A rollout is under way.", "Wait a moment."),
        (Cause.SCALING, "Replicas are being made or removed.", "Wait a moment."),
        (Cause.RUNNING, "A Job is at work.", "Wait until it is done."),
        (Cause.TERMINATING, "It is being deleted, and has time left to end.", "Wait a moment."),
    ),
    **_all(
        Tier.SATISFIED,
        (Cause.SATISFIED, "It is as it should be.", "Nothing."),
        (Cause.COMPLETED, "It has ended as it should.", "Nothing."),
    ),
    **_all(
        Tier.UNKNOWN,
        (
            Cause.NOT_RECORDED,
            "The records that would say why are not there: lost, forgotten, sampled, or never made.",
            "Look at what is said to be missing; keep the journal on, or keep it longer.",
        ),
    ),
}

_ORDER: Final = tuple(Tier)


def gravity(cause: Cause) -> int:
    """Smaller is graver."""
    return _ORDER.index(cause.tier)
