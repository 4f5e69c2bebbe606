"""What the spec of a pod may say, wherever one is written: in a Pod or in a template. See containers.py too."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from mainstay.api.errors import StatusCause, duplicate, forbidden_value, invalid_value, not_supported, required
from mainstay.api.kind import Object
from mainstay.api.kinds.amounts import check_amount, check_amounts, check_resources
from mainstay.api.kinds.checks import check_label, check_labels, check_subdomain
from mainstay.api.kinds.containers import check_containers, check_local_path
from mainstay.api.kinds.placement import check_affinity, check_spread, check_tolerations
from mainstay.api.memo import Memo, encoded

RESTART_POLICIES = ("Always", "OnFailure", "Never")
_DNS_POLICIES = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_PREEMPTION_POLICIES = ("PreemptLowerPriority", "Never")
_SECONDS_MAX = 2**31 - 1
_HOST_PATH_TYPES = frozenset(
    {"", "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice"}
)
# What must be said about a volume of some source.
_REQUIRED_OF_VOLUMES = {
    "secret": ("secretName",),
    "configMap": ("name",),
    "hostPath": ("path",),
    "persistentVolumeClaim": ("claimName",),
    "nfs": ("server", "path"),
    "csi": ("driver",),
    "image": (),
}
_SOURCES_WITH_FILES = ("secret", "configMap", "downwardAPI")
_SOURCES_WITH_A_FILE = ("serviceAccountToken", "clusterTrustBundle")
_SYSTEMS = ("linux", "windows")
_LINUX_ONLY_IN_CONTEXTS = (
    *("appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser"),
    *("runAsGroup", "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy", "capabilities"),
    *("readOnlyRootFilesystem", "privileged", "allowPrivilegeEscalation", "procMount"),
)


def check_template(
    parent: Object,
    path: str,
    causes: list[StatusCause],
    restart_policies: tuple[str, ...] = RESTART_POLICIES,
) -> None:
    """The template of a workload, its spec and its labels."""
    path = f"{path}.template" if path else "template"
    template = parent.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if labels:
        check_labels(labels, f"{path}.metadata.labels", causes)
    check_pod_spec(template.get("spec") or {}, f"{path}.spec", causes, restart_policies)
    if (template.get("spec") or {}).get("ephemeralContainers"):
        detail = "ephemeral containers not allowed in pod template"
        causes.append(forbidden_value(f"{path}.spec.ephemeralContainers", detail))


def check_pod_spec(
    spec: Object,
    path: str,
    causes: list[StatusCause],
    restart_policies: tuple[str, ...] = RESTART_POLICIES,
) -> None:
    """What is wrong with the spec of a pod. One in which nothing was is remembered, and passed when it comes again."""
    valid = _valid[restart_policies]
    key = encoded(spec)
    if valid.get(key):
        return
    before = len(causes)
    _check_spec(spec, path, causes, restart_policies)
    if len(causes) == before:
        valid.put(key, True)


_valid: Final[defaultdict[tuple[str, ...], Memo[bool]]] = defaultdict(Memo)
"""By the restart policies that are allowed where the spec is: few, and written down in the kinds."""


def _check_spec(spec: Object, path: str, causes: list[StatusCause], restart_policies: Sequence[str]) -> None:
    get = spec.get
    volumes = get("volumes")
    volume_names = _check_volumes(volumes, f"{path}.volumes", causes) if volumes else ()
    containers = get("containers")
    names: set[str] = set()
    if not containers:
        causes.append(required(f"{path}.containers"))
    else:
        check_containers(containers, f"{path}.containers", volume_names, causes, names, is_init=False)
    init_containers = get("initContainers")
    if init_containers:
        check_containers(init_containers, f"{path}.initContainers", volume_names, causes, names, is_init=True)
    policy = get("restartPolicy")
    if policy not in restart_policies:
        causes.append(
            not_supported(f"{path}.restartPolicy", policy, restart_policies)
            if policy
            else required(f"{path}.restartPolicy")
        )
    if get("dnsPolicy") not in _DNS_POLICIES:
        causes.append(not_supported(f"{path}.dnsPolicy", get("dnsPolicy"), _DNS_POLICIES))
    if get("affinity"):
        check_affinity(spec["affinity"], f"{path}.affinity", causes)
    if get("topologySpreadConstraints"):
        check_spread(spec["topologySpreadConstraints"], f"{path}.topologySpreadConstraints", causes)
    node_selector = get("nodeSelector")
    if node_selector:
        check_labels(node_selector, f"{path}.nodeSelector", causes)
    tolerations = get("tolerations")
    if tolerations:
        check_tolerations(tolerations, f"{path}.tolerations", causes)
    _check_names(spec, path, causes)
    deadline = get("activeDeadlineSeconds")
    if deadline is not None and not 0 < deadline <= _SECONDS_MAX:
        detail = f"must be between 1 and {_SECONDS_MAX}, inclusive"
        causes.append(invalid_value(f"{path}.activeDeadlineSeconds", deadline, detail))
    if get("preemptionPolicy") and spec["preemptionPolicy"] not in _PREEMPTION_POLICIES:
        causes.append(not_supported(f"{path}.preemptionPolicy", spec["preemptionPolicy"], _PREEMPTION_POLICIES))
    if get("overhead"):
        check_amounts(spec["overhead"], f"{path}.overhead", causes)
    if get("resources"):
        check_resources(spec["resources"], f"{path}.resources", causes)
    if system := (get("os") or {}).get("name"):
        _check_system(spec, system, path, causes)
    gates = get("schedulingGates")
    if gates:
        _check_gates(gates, spec, path, causes)


def _check_names(spec: Object, path: str, causes: list[StatusCause]) -> None:
    get = spec.get
    account = get("serviceAccountName")
    if account and account != "default":
        check_subdomain(account, path, ".serviceAccountName", causes)
    node = get("nodeName")
    if node:
        check_subdomain(node, path, ".nodeName", causes)
    if get("hostname"):
        check_label(spec["hostname"], path, ".hostname", causes)
    if get("subdomain"):
        check_label(spec["subdomain"], path, ".subdomain", causes)
    if get("priorityClassName"):
        check_subdomain(spec["priorityClassName"], path, ".priorityClassName", causes)
    if get("runtimeClassName"):
        check_subdomain(spec["runtimeClassName"], path, ".runtimeClassName", causes)


def _check_gates(gates: Sequence[Object], spec: Object, path: str, causes: list[StatusCause]) -> None:
    seen: set[str] = set()
    for number, gate in enumerate(gates):
        name = gate.get("name") or ""
        check_labels({name: ""}, f"{path}.schedulingGates[{number}]", causes)
        if name in seen:
            causes.append(duplicate(f"{path}.schedulingGates[{number}].name", name))
        seen.add(name)
    if spec.get("nodeName"):
        detail = "cannot be set until all schedulingGates have been cleared"
        causes.append(forbidden_value(f"{path}.nodeName", detail))


def _check_volumes(volumes: Sequence[Object], path: str, causes: list[StatusCause]) -> set[str]:
    names: set[str] = set()
    for number, volume in enumerate(volumes):
        name = volume.get("name")
        if not name:
            causes.append(required(f"{path}[{number}].name"))
        else:
            here = f"{path}[{number}]"
            check_label(name, here, ".name", causes)
            if name in names:
                causes.append(duplicate(f"{here}.name", name))
            names.add(name)
        sources = [key for key in volume if key != "name" and volume[key] is not None]
        for extra in sources[1:]:
            causes.append(forbidden_value(f"{path}[{number}].{extra}", "may not specify more than 1 volume type"))
        if sources:
            _check_volume_source(sources[0], volume[sources[0]], f"{path}[{number}].{sources[0]}", causes)
    return names


def _check_volume_source(kind: str, source: Object, path: str, causes: list[StatusCause]) -> None:
    for field in _REQUIRED_OF_VOLUMES.get(kind, ()):
        if not source.get(field):
            causes.append(required(f"{path}.{field}"))
    _check_mode(source, "defaultMode", path, causes)
    match kind:
        case "hostPath":
            if source.get("type") not in _HOST_PATH_TYPES:
                causes.append(not_supported(f"{path}.type", source.get("type"), sorted(_HOST_PATH_TYPES)))
            if ".." in (source.get("path") or "").split("/"):
                causes.append(invalid_value(f"{path}.path", source["path"], "must not contain '..'"))
        case "nfs":
            if source.get("path") and not source["path"].startswith("/"):
                causes.append(invalid_value(f"{path}.path", source["path"], "must be an absolute path"))
        case "emptyDir":
            if source.get("sizeLimit") is not None:
                check_amount(source["sizeLimit"], f"{path}.sizeLimit", causes)
        case "ephemeral":
            if not source.get("volumeClaimTemplate"):
                causes.append(required(f"{path}.volumeClaimTemplate"))
        case "projected":
            for number, each in enumerate(source.get("sources") or ()):
                for part, said in each.items():
                    if said is not None:
                        _check_files(part, said, f"{path}.sources[{number}].{part}", causes)
    _check_files(kind, source, path, causes)


def _check_files(kind: str, source: Object, path: str, causes: list[StatusCause]) -> None:
    """Which files a source becomes: each is below the volume, and none has a name that the agent writes by."""
    if kind in _SOURCES_WITH_A_FILE and source.get("path"):
        _check_file_path(source["path"], f"{path}.path", causes)
    if kind not in _SOURCES_WITH_FILES:
        return
    for number, item in enumerate(source.get("items") or ()):
        here = f"{path}.items[{number}]"
        if kind != "downwardAPI" and not item.get("key"):
            causes.append(required(f"{here}.key"))
        if not item.get("path"):
            causes.append(required(f"{here}.path"))
        else:
            _check_file_path(item["path"], f"{here}.path", causes)
        _check_mode(item, "mode", here, causes)


def _check_file_path(value: str, path: str, causes: list[StatusCause]) -> None:
    check_local_path(value, path, causes)
    if value.startswith("..") and not value.startswith("../") and value != "..":
        causes.append(invalid_value(path, value, "must not start with '..'"))


def _check_mode(source: Object, field: str, path: str, causes: list[StatusCause]) -> None:
    mode = source.get(field)
    if mode is not None and not 0 <= mode <= 0o777:
        detail = "must be a number between 0 and 0777 (octal), both inclusive"
        causes.append(invalid_value(f"{path}.{field}", mode, detail))


def _check_system(spec: Object, system: str, path: str, causes: list[StatusCause]) -> None:
    """A pod says for which system it is. What that one does not have it must not ask for."""
    if system not in _SYSTEMS:
        causes.append(not_supported(f"{path}.os.name", system, _SYSTEMS))
        return
    containers = [
        (f"{path}.{field}[{number}]", each)
        for field in ("containers", "initContainers")
        for number, each in enumerate(spec.get(field) or ())
    ]
    found: list[str] = []
    if system == "windows":
        found += [f"{path}.{field}" for field in ("hostUsers", "shareProcessNamespace") if spec.get(field) is not None]
        found += [f"{path}.{field}" for field in ("hostPID", "hostIPC") if spec.get(field)]
    for here, holder in ((path, spec), *containers):
        context = holder.get("securityContext") or {}
        forbidden = ("windowsOptions",) if system == "linux" else _LINUX_ONLY_IN_CONTEXTS
        found += [f"{here}.securityContext.{field}" for field in forbidden if context.get(field) is not None]
    what = "windows options cannot be set for a linux pod" if system == "linux" else "cannot be set for a windows pod"
    causes.extend(forbidden_value(each, what) for each in found)
