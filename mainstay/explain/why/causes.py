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
    """A user or a policy does not allow it, or not now: a taint, a Hold, an admission rule, a budget."""
    QUOTA = "quota"
    """A quota is exhausted."""
    CAPACITY = "capacity"
    """There are not enough resources."""
    TOPOLOGY = "topology"
    """There are resources, but not where the pod may run."""
    HEALTH = "health"
    """Something that should work does not: a node, a container, a part of the control plane."""
    IN_PROGRESS = "in progress"
    """It is in progress, and nothing is known to block it."""
    SATISFIED = "satisfied"
    """There is nothing to be done."""
    UNKNOWN = "unknown"
    """The records that would explain it are missing."""


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
    REFERENCE_MISSING = "ReferenceMissing"

    # A user or a policy does not allow it.
    ADMISSION_REFUSED = "AdmissionRefused"
    FORBIDDEN = "Forbidden"
    CONTROLLER_HELD = "ControllerHeld"
    ROLLOUT_HELD = "RolloutHeld"
    ROLLOUT_PAUSED = "RolloutPaused"
    POLICY_ROLLED_BACK = "PolicyRolledBack"
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
    POLICY_SPREAD = "PolicySpread"
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
    METRICS_MISSING = "MetricsMissing"
    EXPANSION_PAUSED = "ExpansionPaused"
    OBJECTIVE_MISSED = "ObjectiveMissed"
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
        (Cause.INVALID, "The object is invalid.", "Correct the field that the message names."),
        (
            Cause.SELECTOR_MISMATCH,
            "A selector does not match the labels of the pods that it is meant for.",
            "Make the labels and the selector agree.",
        ),
        (
            Cause.OTHER_SCHEDULER,
            "No running scheduler has the name in `spec.schedulerName` of the pod.",
            "Correct `spec.schedulerName`, or start that scheduler.",
        ),
        (
            Cause.IMAGE_UNAVAILABLE,
            "The image cannot be pulled: its name is wrong, it does not exist, or access is denied.",
            "Correct the image name, or the credentials for its registry.",
        ),
        (
            Cause.CONFIG_MISSING,
            "A Secret, a ConfigMap, or a key in one, does not exist.",
            "Create it, correct the name, or mark the reference as optional.",
        ),
        (
            Cause.COMMAND_MISSING,
            "The container has no command, and the runner of its node takes none from images.",
            "Set `command` in the pod template.",
        ),
        (
            Cause.CONTAINER_CANNOT_START,
            "The node cannot start the container as specified.",
            "Read the message: it comes from the operating system or the runner.",
        ),
        (Cause.NODE_DOES_NOT_EXIST, "The node that the pod names does not exist.", "Correct the name of the node."),
        (Cause.NAMESPACE_MISSING, "The namespace does not exist.", "Create it, or correct the name."),
        (
            Cause.NOTHING_SELECTED,
            "A Service or a budget selects no pod at all.",
            "Make the labels and the selector agree, or create the pods.",
        ),
        (
            Cause.NO_SUCH_OBJECT,
            "The object does not exist, and the journal has no record of it.",
            "Check the type, the name and the namespace.",
        ),
        (
            Cause.REFERENCE_MISSING,
            "An object that this one refers to does not exist.",
            "Create it, or correct the name in the reference.",
        ),
    ),
    **_all(
        Tier.POLICY,
        (
            Cause.ADMISSION_REFUSED,
            "The API server rejected the object at admission.",
            "Read the message: it names the rule.",
        ),
        (
            Cause.FORBIDDEN,
            "The user has no permission for the request.",
            "Use an account that has the permission, or grant it.",
        ),
        (
            Cause.CONTROLLER_HELD,
            "A Hold pauses the controller that would act.",
            "Release it, or wait until it expires: `mainstay get holds`.",
        ),
        (
            Cause.ROLLOUT_HELD,
            "A Hold pauses the rollout.",
            "Release it, or wait until it expires: `mainstay get holds`.",
        ),
        (Cause.ROLLOUT_PAUSED, "The rollout is paused.", "Set `spec.paused` to false."),
        (
            Cause.POLICY_ROLLED_BACK,
            "The rollout of a placement policy went back to the previous one: a regression, a deadline, or an abort.",
            "Read `status.gate` of the PolicyRollout, correct the policy, and roll out another version.",
        ),
        (
            Cause.EVICTIONS_FROZEN,
            "A Hold freezes evictions.",
            "Release it, or wait until it expires: `mainstay get holds`.",
        ),
        (Cause.SUSPENDED, "The Job is suspended.", "Set `spec.suspend` to false."),
        (
            Cause.SCHEDULING_GATED,
            "The pod has scheduling gates and is not scheduled until all of them are removed.",
            "Remove the gates, or check the controller that set them.",
        ),
        (
            Cause.UNTOLERATED_TAINT,
            "Nodes that could take the pod have a taint that it does not tolerate.",
            "Tolerate the taint, or remove it.",
        ),
        (
            Cause.NODE_CORDONED,
            "Nodes that could take the pod are cordoned.",
            "Uncordon a node when its maintenance is over.",
        ),
        (
            Cause.BUDGET_EXHAUSTED,
            "A PodDisruptionBudget does not allow another eviction.",
            "Wait until its other pods are ready, or change the budget.",
        ),
        (
            Cause.NAMESPACE_TERMINATING,
            "The namespace is terminating: nothing can be created in it.",
            "Wait until it is gone, or use another one.",
        ),
        (
            Cause.FINALIZER_WAITING,
            "The object was deleted and is blocked by a finalizer that its owner has not removed.",
            "Check the controller that owns the finalizer. Removing it by hand skips its cleanup.",
        ),
        (
            Cause.DEADLINE_EXCEEDED,
            "The deadline has passed.",
            "Find out what took so long; then raise the deadline or start it again.",
        ),
        (Cause.SCALED_DOWN, "It was deleted because its workload was scaled down.", "Nothing, if that is intended."),
        (Cause.SCALED_TO_ZERO, "The workload is scaled to 0.", "Scale it up if that is not intended."),
        (Cause.ROLLED_OVER, "It was replaced by a pod of a newer template.", "Nothing, if that is intended."),
        (Cause.EVICTED, "It was evicted through the API.", "The record names the user."),
        (
            Cause.EVICTED_BY_TAINT,
            "It was evicted because it does not tolerate a taint of its node.",
            "Tolerate the taint, or check the node.",
        ),
        (Cause.DELETED, "A user deleted it.", "The record names the user."),
        (Cause.OWNER_DELETED, "It was deleted because its owner no longer exists.", "Nothing, if that is intended."),
    ),
    **_all(
        Tier.QUOTA,
        (
            Cause.QUOTA_EXCEEDED,
            "A ResourceQuota of the namespace is exceeded.",
            "Raise the quota, or free some of it.",
        ),
        (
            Cause.ZONE_QUOTA_EXCEEDED,
            "A ZoneQuota is exceeded in the zones that have room.",
            "Raise the quota, or free some of it in that zone.",
        ),
    ),
    **_all(
        Tier.CAPACITY,
        (Cause.NO_NODES, "There are no nodes.", "Start one: `mainstay up --nodes`, `mainstay agent`."),
        (
            Cause.INSUFFICIENT_RESOURCES,
            "No eligible node has enough free resources for the requests of the pod.",
            "Add a node, free resources, or request less.",
        ),
        (
            Cause.FRAGMENTATION,
            "The eligible nodes together have enough free resources, but no single node has.",
            "Consolidate pods, request less, or add a node.",
        ),
        (
            Cause.NODE_TOO_SMALL,
            "The pod requests more than any node has, even when empty.",
            "Request less, or add a larger node.",
        ),
        (
            Cause.PORT_TAKEN,
            "The host port is in use on every eligible node.",
            "Use another port, or add a node.",
        ),
        (
            Cause.HELD_BY_GHOSTS,
            "Resources are held for force-deleted pods that may still run.",
            "Recover their node, or delete its Node object to confirm that it is gone for good.",
        ),
        (
            Cause.RESERVED_ELSEWHERE,
            "The pod has a Reservation on another node, or the resources are reserved for another pod.",
            "Wait for the reservation, or release it.",
        ),
        (
            Cause.AGENT_REFUSED,
            "The agent of the node rejected the pod: it did not fit.",
            "Its owner creates another one; if it happens again, compare the node's allocatable with its ledger.",
        ),
        (Cause.NODE_FULL, "The node is full.", "Nothing, unless more has to fit there."),
    ),
    **_all(
        Tier.TOPOLOGY,
        (
            Cause.NODE_AFFINITY,
            "No node matches the node selector or affinity of the pod.",
            "Correct the selector or affinity, or label a node.",
        ),
        (
            Cause.TOPOLOGY_SPREAD,
            "On every node with room, the pod would exceed maxSkew of its topology spread constraint.",
            "Free resources in the domain that has too few pods, or raise maxSkew.",
        ),
        (
            Cause.POLICY_SPREAD,
            "On every node with room, the pod would exceed maxZoneSkew of the PlacementPolicy that applies to it.",
            "Free resources in the zone with too few pods of the workload, or activate a policy with a larger bound.",
        ),
        (
            Cause.TOPOLOGY_LABEL_MISSING,
            "Nodes do not have the label of the topology spread constraint.",
            "Label the nodes, or spread by another label.",
        ),
        (
            Cause.CONSTRAINTS_COMBINED,
            "Each constraint is met by some node, but no node meets all of them.",
            "Relax one of the constraints, as proposed.",
        ),
    ),
    **_all(
        Tier.HEALTH,
        (Cause.API_UNAVAILABLE, "The API server does not answer.", "Check the API server and its store."),
        (
            Cause.NO_SCHEDULER,
            "No scheduler is running, so no pods are scheduled.",
            "Start it, and check its log: `mainstay status`.",
        ),
        (
            Cause.NO_CONTROLLER,
            "The controller that would act is not running.",
            "Start it, and check its log: `mainstay status`.",
        ),
        (
            Cause.LEADER_LOST,
            "A component has lost its leader, and no other instance has taken over yet.",
            "Wait for the lease to expire; if no other instance takes over, check the others.",
        ),
        (
            Cause.STALE_VIEW,
            "The decision was made on a stale view: a change that would have altered it was not observed yet.",
            "Wait until the component has caught up; if it does not, check its watch.",
        ),
        (
            Cause.CONFLICTS,
            "Updates keep failing with conflicts because another writer changes the same object.",
            "Find the other writer: `mainstay coupling`.",
        ),
        (
            Cause.FIGHTING_WRITERS,
            "Several writers keep overwriting the same field with different values.",
            "Let only one of them own the field: `mainstay coupling`, `mainstay blame`.",
        ),
        (
            Cause.BINDING_REFUSED,
            "The scheduler finds a node, but the API server rejects the binding.",
            "Read the cause in the message: the scheduler has not observed yet what the ledger has.",
        ),
        (
            Cause.CONTROLLER_FAILING,
            "The controller keeps failing, or has stopped retrying.",
            "Read the message of its last decision.",
        ),
        (
            Cause.NODE_LOST,
            "The node has stopped sending heartbeats.",
            "Recover it. Otherwise its pods are evicted once it is released and their tolerations expire.",
        ),
        (Cause.NODE_NOT_READY, "The node reports that it is not ready.", "Read the conditions of the node."),
        (
            Cause.NODE_FENCED,
            "The node could not renew its lease and has stopped the pods that must not run twice.",
            "Check its connection to the API server.",
        ),
        (
            Cause.AGENT_SILENT,
            "The pod is bound, but the agent of its node has not acknowledged it.",
            "Check the agent and its connection to the API server.",
        ),
        (
            Cause.METRICS_MISSING,
            "An autoscaler does not get the metrics that it scales by.",
            "Check that pods of its target are ready, and what agents measure of them: `kubectl top pods`.",
        ),
        (
            Cause.EXPANSION_PAUSED,
            "A rollout does not go on, because there is evidence against its next step.",
            "`mainstay debug deployment/NAME` lists the evidence; the rollout goes on by itself when it is gone.",
        ),
        (
            Cause.OBJECTIVE_MISSED,
            "The error budget of a ServiceLevelObjective burns faster than it lasts.",
            "Look at the target: `mainstay why`; roll back if the new template is the cause.",
        ),
        (
            Cause.CRASH_LOOP,
            "A container keeps exiting soon after it starts.",
            "Read its log: `mainstay logs POD -c CONTAINER -n NAMESPACE --previous`.",
        ),
        (Cause.CONTAINER_FAILED, "A container failed.", "Read its log."),
        (
            Cause.READINESS_PROBE_FAILING,
            "The pod is running, but its readiness probe fails.",
            "Run the probe by hand; correct the probe or the application.",
        ),
        (
            Cause.LIVENESS_PROBE_FAILING,
            "A container is restarted because its liveness probe fails.",
            "Run the probe by hand; correct the probe or the application.",
        ),
        (
            Cause.STARTUP_PROBE_FAILING,
            "A container has not passed its startup probe.",
            "Give it more time, or correct the probe.",
        ),
        (
            Cause.BACKOFF_LIMIT_EXCEEDED,
            "More pods of the Job have failed than its backoff limit allows.",
            "Read the log of a failed pod; then recreate the Job.",
        ),
        (
            Cause.STOP_NOT_CONFIRMED,
            "The pod was deleted, but its node has not confirmed that it terminated.",
            "Check the node; force-delete the pod only if the node is known to be off.",
        ),
    ),
    **_all(
        Tier.IN_PROGRESS,
        (Cause.NOT_OBSERVED_YET, "The controller has not observed this generation yet.", "Wait a moment."),
        (Cause.QUEUED, "The pod is in the scheduling queue.", "Wait a moment."),
        (Cause.BEING_BOUND, "The scheduler chose a node and is binding the pod to it.", "Wait a moment."),
        (Cause.STARTING, "Its node is starting it.", "Wait a moment."),
        (Cause.NOT_READY_YET, "It is running but not ready yet.", "Wait a moment."),
        (Cause.RESTARTING, "A container is being restarted.", "Wait a moment."),
        (Cause.ROLLING_OUT, "A rollout is in progress.", "Wait a moment."),
        (Cause.SCALING, "Replicas are being created or deleted.", "Wait a moment."),
        (Cause.RUNNING, "The Job is running.", "Wait until it is done."),
        (Cause.TERMINATING, "It is terminating, within its grace period.", "Wait a moment."),
    ),
    **_all(
        Tier.SATISFIED,
        (Cause.SATISFIED, "No problem was found.", "Nothing."),
        (Cause.COMPLETED, "It completed successfully.", "Nothing."),
    ),
    **_all(
        Tier.UNKNOWN,
        (
            Cause.NOT_RECORDED,
            "The records that would tell are missing: lost, pruned, sampled, or never made.",
            "Check what is reported as missing; enable the journal, or raise its retention.",
        ),
    ),
}

_ORDER: Final = tuple(Tier)


def gravity(cause: Cause) -> int:
    """Smaller is graver."""
    return _ORDER.index(cause.tier)
