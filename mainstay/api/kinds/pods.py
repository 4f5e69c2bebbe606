"""Pod and PodTemplate. What a pod spec may say is in pod_spec.py and containers.py, what it says by default in
pod_defaults.py, what may change later in pod_update.py."""

from collections.abc import Sequence

from mainstay.api import kind_names
from mainstay.api.errors import StatusCause, forbidden_value, invalid_value
from mainstay.api.ip_addresses import check_pair
from mainstay.api.kind import STATUS, Object, Subresource
from mainstay.api.kinds.declare import at, builtin, flag_at, set_status
from mainstay.api.kinds.pod_defaults import default_pod, default_template
from mainstay.api.kinds.pod_spec import check_pod_spec, check_template
from mainstay.api.kinds.pod_update import check_pod_update
from mainstay.api.quantity import parse
from mainstay.api.well_known_labels import NOT_READY_TAINT, UNREACHABLE_TAINT

_CONNECT = ("create", "get")
_PROXY = ("create", "delete", "get", "patch", "update")
_CHANGE = ("get", "patch", "update")
_SILENT = (NOT_READY_TAINT, UNREACHABLE_TAINT)
_PATIENCE_S = 300
_ADDRESSES = (("podIP", "podIPs"), ("hostIP", "hostIPs"))


def _addresses(pod: Object) -> str:
    listed = (pod.get("status") or {}).get("podIPs") or ()
    return ",".join(each.get("ip", "") for each in listed)


def _prepare_pod(new: Object, old: Object | None) -> None:
    if old is not None:
        set_status(new, old)
        return
    spec = new["spec"]
    _tolerate_silent_nodes(spec)
    status: Object = {"phase": "Pending", "qosClass": qos_class(spec)}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    new["status"] = status


def _tolerate_silent_nodes(spec: Object) -> None:
    """A pod that does not say otherwise stays five minutes on a node that is not ready, or cannot be reached."""
    tolerations = spec.get("tolerations") or []
    missing = [key for key in _SILENT if not any(_tolerates(each, key) for each in tolerations)]
    if missing:
        spec["tolerations"] = tolerations + [
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _PATIENCE_S}
            for key in missing
        ]


def _tolerates(toleration: Object, key: str) -> bool:
    return toleration.get("key") in (key, "", None) and toleration.get("effect") in ("NoExecute", "", None)


def qos_class(spec: Object) -> str:
    """How safe a pod is when its node runs out of memory: Guaranteed, Burstable, BestEffort."""
    asks_for_some = False
    is_guaranteed = True
    whole = spec.get("resources")
    counted = [whole] if whole and (whole.get("requests") or whole.get("limits")) else None
    if counted is None:
        everyone = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
        counted = [container.get("resources") or {} for container in everyone]
    for resources in counted:
        requests, limits = resources.get("requests") or {}, resources.get("limits") or {}
        for name in ("cpu", "memory"):
            limit, request = _nano(limits.get(name)), _nano(requests.get(name))
            asks_for_some = asks_for_some or limit > 0 or request > 0
            if limit == 0 or request != limit:
                is_guaranteed = False
    if not asks_for_some:
        return "BestEffort"
    return "Guaranteed" if is_guaranteed else "Burstable"


def _nano(amount: str | int | float | None) -> int:
    if amount is None:
        return 0
    try:
        return parse(amount).nano
    except ValueError:  # Validation, which comes later, will say so.
        return 0


def _validate_pod(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    if old is not None:
        _check_addresses(new.get("status") or {}, old.get("status") or {}, causes)
        if new["spec"] == old["spec"]:
            return causes  # It was valid once, and rules that came later are not for what is there.
        check_pod_update(new["spec"], old["spec"], causes)
    elif new["spec"].get("ephemeralContainers"):
        causes.append(forbidden_value("spec.ephemeralContainers", "cannot be set on create"))
    check_pod_spec(new["spec"], "spec", causes)
    return causes


def _check_addresses(status: Object, was: Object, causes: list[StatusCause]) -> None:
    """Those that are there stay, whatever they are: a rule that came later does not hold up an agent's reports."""
    for field, listed in _ADDRESSES:
        if status.get(field) != was.get(field) or status.get(listed) != was.get(listed):
            check_pair(status, field, "status", causes)


def validate_resize(new: Object, old: Object) -> Sequence[StatusCause]:
    """What is wrong with a change by `pods/resize`: it gives containers other amounts of CPU and memory."""
    causes: list[StatusCause] = []
    if _but_resources(new["spec"]) != _but_resources(old["spec"]):
        causes.append(forbidden_value("spec", "only cpu and memory resources for containers are mutable"))
        return causes
    check_pod_spec(new["spec"], "spec", causes)
    if not causes and qos_class(new["spec"]) != qos_class(old["spec"]):
        detail = "Pod QOS Class may not change as a result of resizing"
        causes.append(invalid_value("spec", qos_class(new["spec"]), detail))
    return causes


def _but_resources(spec: Object) -> Object:
    """A spec without what a resize may change."""
    return {name: _fixed(value) if name in ("containers", "initContainers") else value for name, value in spec.items()}


def _fixed(containers: Sequence[Object]) -> list[Object]:
    return [{name: value for name, value in each.items() if name != "resources"} for each in containers]


def validate_ephemeral(new: Object, old: Object) -> Sequence[StatusCause]:
    """What is wrong with a change by `pods/ephemeralcontainers`: no agent runs any."""
    if new.get("spec") == old.get("spec"):
        return ()
    text = "ephemeral containers are not supported: use `kubectl exec` instead of `kubectl debug`"
    return [forbidden_value("spec.ephemeralContainers", text)]


def _default_pod_template(new: Object) -> None:
    default_template(new)


def _validate_pod_template(new: Object, old: Object | None) -> Sequence[StatusCause]:
    causes: list[StatusCause] = []
    check_template(new, "", causes)
    return causes


POD = builtin(
    kind_names.PODS,
    short_names=("po",),
    categories=("all",),
    subresources=(
        Subresource("attach", _CONNECT, kind="PodAttachOptions"),
        Subresource("binding", ("create",), kind="Binding"),
        Subresource("ephemeralcontainers", _CHANGE),
        Subresource("eviction", ("create",), "policy", "v1", "Eviction"),
        Subresource("exec", _CONNECT, kind="PodExecOptions"),
        Subresource("log", ("get",)),
        Subresource("portforward", _CONNECT, kind="PodPortForwardOptions"),
        Subresource("proxy", _PROXY, kind="PodProxyOptions"),
        Subresource("resize", _CHANGE),
        STATUS,
    ),
    defaults=default_pod,
    prepare=_prepare_pod,
    validate=_validate_pod,
    delete_returns_object=True,
    selectable={
        "spec.nodeName": at("spec", "nodeName"),
        "spec.host": at("spec", "nodeName"),
        "spec.restartPolicy": at("spec", "restartPolicy"),
        "spec.schedulerName": at("spec", "schedulerName"),
        "spec.serviceAccountName": at("spec", "serviceAccountName"),
        "spec.hostNetwork": flag_at("spec", "hostNetwork"),
        "status.phase": at("status", "phase"),
        "status.podIP": at("status", "podIP"),
        "status.podIPs": _addresses,
        "status.nominatedNodeName": at("status", "nominatedNodeName"),
    },
)

POD_TEMPLATE = builtin(
    kind_names.POD_TEMPLATES,
    defaults=_default_pod_template,
    validate=_validate_pod_template,
    delete_returns_object=True,
)

KINDS = (POD, POD_TEMPLATE)
