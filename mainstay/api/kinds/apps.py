"""Workloads that keep pods running: the kinds of the apps group, and ReplicationController, which they replaced."""

from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kind import SCALE, STATUS, Object, Propagation
from mainstay.api.kinds.checks import (
    NOT_NEGATIVE,
    check_immutable,
    check_not_negative,
    check_one_of,
    check_percent_at_most_all,
    check_percent_or_count,
    invalid_json,
)
from mainstay.api.kinds.declare import builtin, child, count_at, fill, own_status
from mainstay.api.kinds.pod_defaults import default_claim_spec, default_template
from mainstay.api.kinds.pod_spec import check_template
from mainstay.api.kinds.workloads import check_workload

_REPLICAS = {"status.replicas": count_at("status", "replicas")}
_STATEFUL_FIXED = (
    "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', "
    "'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden"
)
_STATEFUL_FREE = frozenset(
    {"replicas", "ordinals", "template", "updateStrategy", "revisionHistoryLimit", "minReadySeconds"}
    | {"persistentVolumeClaimRetentionPolicy"}
)


def _default_deployment(new: Object) -> None:
    spec = child(new, "spec")
    fill(spec, replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = child(spec, "strategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), maxUnavailable="25%", maxSurge="25%")
    default_template(spec)


def _validate_deployment(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    check_workload(new, old, causes, "deployment")
    spec = new["spec"]
    strategy = spec.get("strategy") or {}
    match strategy.get("type"):
        case "Recreate":
            if strategy.get("rollingUpdate") is not None:
                detail = "may not be specified when strategy `type` is 'Recreate'"
                causes.append(forbidden_value("spec.strategy.rollingUpdate", detail))
        case "RollingUpdate":
            _check_rolling(strategy.get("rollingUpdate") or {}, "spec.strategy.rollingUpdate", causes)
        case other:
            causes.append(not_supported("spec.strategy.type", other, ("Recreate", "RollingUpdate")))
    check_not_negative(spec, "progressDeadlineSeconds", "spec", causes)
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is not None and deadline <= (spec.get("minReadySeconds") or 0):
        causes.append(invalid_value("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds"))
    return causes


def _check_rolling(rolling: Object, path: str, causes: list[StatusCause]) -> None:
    unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
    check_percent_or_count(unavailable, f"{path}.maxUnavailable", causes)
    check_percent_or_count(surge, f"{path}.maxSurge", causes)
    if unavailable in (0, "0%") and surge in (0, "0%"):
        causes.append(invalid_value(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0"))
    check_percent_at_most_all(unavailable, f"{path}.maxUnavailable", causes)


def _default_replica_set(new: Object) -> None:
    spec = child(new, "spec")
    fill(spec, replicas=1)
    default_template(spec)


def _validate_replica_set(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    check_workload(new, old, causes, "deployment")  # So the real server says, of a ReplicaSet too.
    return causes


def _default_stateful_set(new: Object) -> None:
    spec = child(new, "spec")
    fill(spec, replicas=1, revisionHistoryLimit=10, serviceName="")
    if not spec.get("podManagementPolicy"):
        spec["podManagementPolicy"] = "OrderedReady"
    strategy = child(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), partition=0)
    retention = child(spec, "persistentVolumeClaimRetentionPolicy")
    for when in ("whenDeleted", "whenScaled"):
        if not retention.get(when):
            retention[when] = "Retain"
    default_template(spec)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
        child(claim, "metadata")
        default_claim_spec(child(claim, "spec"))
        fill(child(claim, "status"), phase="Pending")


def _validate_stateful_set(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    compared = old
    if old is not None:
        was, now = old.get("spec") or {}, new["spec"]
        if any(now.get(key) != was.get(key) for key in {**now, **was} if key not in _STATEFUL_FREE):
            causes.append(forbidden_value("spec", _STATEFUL_FIXED))
            compared = None  # Said once is enough.
    check_workload(new, compared, causes, "statefulset")
    spec = new["spec"]
    check_one_of(spec, "podManagementPolicy", ("OrderedReady", "Parallel"), "spec", causes)
    strategy = spec.get("updateStrategy") or {}
    check_one_of(strategy, "type", ("RollingUpdate", "OnDelete"), "spec.updateStrategy", causes)
    rolling = strategy.get("rollingUpdate")
    if rolling is not None:
        if strategy.get("type") == "OnDelete":
            detail = "only allowed for updateStrategy 'RollingUpdate'"
            causes.append(invalid_json("spec.updateStrategy.rollingUpdate", rolling, detail))
        check_not_negative(rolling, "partition", "spec.updateStrategy.rollingUpdate", causes)
    retention = spec.get("persistentVolumeClaimRetentionPolicy") or {}
    for when in ("whenDeleted", "whenScaled"):
        check_one_of(retention, when, ("Retain", "Delete"), "spec.persistentVolumeClaimRetentionPolicy", causes)
    return causes


def _default_daemon_set(new: Object) -> None:
    spec = child(new, "spec")
    fill(spec, revisionHistoryLimit=10)
    strategy = child(spec, "updateStrategy")
    if not strategy.get("type"):
        strategy["type"] = "RollingUpdate"
    if strategy["type"] == "RollingUpdate":
        fill(child(strategy, "rollingUpdate"), maxUnavailable=1, maxSurge=0)
    default_template(spec)


def _validate_daemon_set(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    check_workload(new, old, causes, "daemonset")
    strategy = new["spec"].get("updateStrategy") or {}
    path = "spec.updateStrategy"
    check_one_of(strategy, "type", ("RollingUpdate", "OnDelete"), path, causes)
    if strategy.get("type") == "RollingUpdate":
        rolling = strategy.get("rollingUpdate") or {}
        here = f"{path}.rollingUpdate"
        unavailable, surge = rolling.get("maxUnavailable"), rolling.get("maxSurge")
        check_percent_or_count(unavailable, f"{here}.maxUnavailable", causes)
        check_percent_or_count(surge, f"{here}.maxSurge", causes)
        has_unavailable, has_surge = unavailable not in (0, "0%", None), surge not in (0, "0%", None)
        if has_unavailable and has_surge:
            detail = "may not be set when maxUnavailable is non-zero"
            causes.append(invalid_value(f"{here}.maxSurge", surge, detail))
        elif not has_unavailable and not has_surge:
            causes.append(required(f"{here}.maxUnavailable", "cannot be 0 when maxSurge is 0"))
    return causes


def _validate_revision(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    if (new.get("revision") or 0) < 0:
        causes.append(invalid_value("revision", new["revision"], NOT_NEGATIVE))
    if new.get("data") is None:
        causes.append(required("data", "data is mandatory"))
    if old is not None:
        check_immutable(new, old, "data", "", causes)
    return causes


def _default_revision(new: Object) -> None:
    fill(new, revision=0)


def _default_controller(new: Object) -> None:
    spec = child(new, "spec")
    fill(spec, replicas=1)
    default_template(spec)
    labels = spec["template"]["metadata"].get("labels")
    if labels:
        if not spec.get("selector"):
            spec["selector"] = dict(labels)
        metadata = child(new, "metadata")
        if not metadata.get("labels"):
            metadata["labels"] = dict(labels)


def _validate_controller(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    spec = new["spec"]
    check_not_negative(spec, "minReadySeconds", "spec", causes)
    check_not_negative(spec, "replicas", "spec", causes)
    selector = spec.get("selector")
    if not selector:
        causes.append(required("spec.selector"))
    else:
        labels = spec["template"]["metadata"].get("labels") or {}
        if not selector.items() <= labels.items():
            detail = "`selector` does not match template `labels`"
            causes.append(invalid_json("spec.template.metadata.labels", labels, detail))
    check_template(spec, "spec", causes, ("Always",))
    return causes


def _no_replicas() -> Object:
    return {"replicas": 0}


DEPLOYMENT = builtin(
    kind_names.DEPLOYMENTS,
    short_names=("deploy",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    defaults=_default_deployment,
    prepare=own_status(),
    validate=_validate_deployment,
)

REPLICA_SET = builtin(
    kind_names.REPLICASETS,
    short_names=("rs",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    selectable=_REPLICAS,
    defaults=_default_replica_set,
    prepare=own_status(_no_replicas),
    validate=_validate_replica_set,
)

STATEFUL_SET = builtin(
    kind_names.STATEFUL_SETS,
    short_names=("sts",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    defaults=_default_stateful_set,
    prepare=own_status(lambda: {"replicas": 0, "availableReplicas": 0}),
    validate=_validate_stateful_set,
)

DAEMON_SET = builtin(
    kind_names.DAEMON_SETS,
    short_names=("ds",),
    categories=("all",),
    subresources=(STATUS,),
    defaults=_default_daemon_set,
    prepare=own_status(
        lambda: {"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}
    ),
    validate=_validate_daemon_set,
)

CONTROLLER_REVISION = builtin(
    kind_names.CONTROLLER_REVISIONS, defaults=_default_revision, validate=_validate_revision, has_generation=False
)

REPLICATION_CONTROLLER = builtin(
    kind_names.REPLICATION_CONTROLLERS,
    short_names=("rc",),
    categories=("all",),
    subresources=(SCALE, STATUS),
    selectable=_REPLICAS,
    defaults=_default_controller,
    prepare=own_status(_no_replicas),
    validate=_validate_controller,
    default_propagation=Propagation.ORPHAN,
)

KINDS = (DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET, CONTROLLER_REVISION, REPLICATION_CONTROLLER)
