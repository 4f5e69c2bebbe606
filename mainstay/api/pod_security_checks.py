"""The checks of the levels `baseline` and `restricted`, each as of the versions of Kubernetes that changed it.

A check looks at a pod's metadata and spec and at all its containers, and returns a `Violation` or None. Its words are
those of Kubernetes, which users search for. `BASELINE_CHECKS` and `RESTRICTED_CHECKS` are in the order in which
violations are named. Which of them apply is chosen in pod_security.py.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from mainstay.api.kind import Object


class SecurityLevel(StrEnum):
    """From the most permissive to the strictest."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"


@dataclass(frozen=True, slots=True)
class Violation:
    reason: str
    detail: str = ""


PodCheck = Callable[[Mapping[str, Any], Object, Sequence[Object]], Violation | None]


@dataclass(frozen=True, slots=True)
class VersionedCheck:
    id: str
    versions: tuple[tuple[int, PodCheck], ...]
    """From which minor version of Kubernetes on it looks how."""
    replaces: str = ""
    """The check of `baseline` that this one of `restricted` makes superfluous."""


_NOTHING: Final[Mapping[str, Any]] = {}

_APPARMOR: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_OF_POD: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_OF_CONTAINER: Final = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES: Final = ("RuntimeDefault", "Localhost")
_CAPABILITIES: Final = frozenset(
    {"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD"}
    | {"NET_BIND_SERVICE", "SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"}
)
_VOLUMES: Final = frozenset(
    {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"}
    | {"persistentVolumeClaim", "projected", "secret"}
)
_SELINUX_TYPES: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
_SELINUX_TYPES_31: Final = _SELINUX_TYPES | {"container_engine_t"}
_SYSCTLS: Final = frozenset(
    {"kernel.shm_rmid_forced", "net.ipv4.ip_local_port_range", "net.ipv4.tcp_syncookies", "net.ipv4.ping_group_range"}
    | {"net.ipv4.ip_unprivileged_port_start"}
)
_SYSCTLS_27: Final = _SYSCTLS | {"net.ipv4.ip_local_reserved_ports"}
_SYSCTLS_29: Final = _SYSCTLS_27 | {
    "net.ipv4.tcp_keepalive_time",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_keepalive_intvl",
    "net.ipv4.tcp_keepalive_probes",
}
_SYSCTLS_32: Final = _SYSCTLS_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}


def list_containers(spec: Object) -> list[Object]:
    return [each for name in ("initContainers", "containers", "ephemeralContainers") for each in spec.get(name) or ()]


# Baseline.


def _apparmor(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    setters, values = _find_setters(spec, containers, lambda context: _bad_type(context, "appArmorProfile"))
    bad = sorted(values)
    annotations = metadata.get("annotations") or _NOTHING
    wrong = sorted(
        f'{name}="{value}"'
        for name, value in annotations.items()
        if name.startswith(_APPARMOR) and value not in ("", "runtime/default") and not value.startswith("localhost/")
    )
    if wrong:
        bad += wrong
        setters.append(_plural("annotation", wrong))
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(bad)}"
    return Violation(_plural("forbidden AppArmor profile", bad), detail)


def _capabilities(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    names, added = _find_added(containers, _CAPABILITIES)
    if not names:
        return None
    return Violation("non-default capabilities", _describe_added(names, added))


def _host_namespaces(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    shared = [f"{name}=true" for name in ("hostNetwork", "hostPID", "hostIPC") if spec.get(name)]
    return Violation("host namespaces", ", ".join(shared)) if shared else None


def _host_paths(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    names = [each["name"] for each in spec.get("volumes") or () if each.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{_plural('volume', names)} {_quoted(names)}") if names else None


def _host_ports(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    names, ports = [], set()
    for container in containers:
        used = {str(port["hostPort"]) for port in container.get("ports") or () if port.get("hostPort")}
        if used:
            names.append(container["name"])
            ports |= used
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    return Violation("hostPort", f"{_containers(names)} {uses} {_plural('hostPort', ports)} {', '.join(sorted(ports))}")


def _probe_hosts(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    found, hosts = set(), set()
    for container in containers:
        hooks = container.get("lifecycle") or _NOTHING
        asked = [container.get(name) for name in ("livenessProbe", "readinessProbe", "startupProbe")]
        for handler in (*asked, hooks.get("postStart"), hooks.get("preStop")):
            for name in ("httpGet", "tcpSocket"):
                host = ((handler or _NOTHING).get(name) or _NOTHING).get("host")
                if host:
                    found.add(container["name"])
                    hosts.add(host)
    if not found:
        return None
    names, uses = sorted(found), "uses" if len(found) == 1 else "use"
    detail = f"{_containers(names)} {uses} {_plural('probe or lifecycle host', hosts)} {_quoted(sorted(hosts))}"
    return Violation("probe or lifecycle host", detail)


def _privileged(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    names = [each["name"] for each in containers if _context(each).get("privileged")]
    return (
        Violation("privileged", f"{_containers(names)} must not set securityContext.privileged=true") if names else None
    )


def _proc_mount(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    names, values = [], set()
    for container in containers:
        value = _context(container).get("procMount")
        if value is not None and value != "Default":
            names.append(container["name"])
            values.add(value)
    if not names:
        return None
    detail = f"{_containers(names)} must not set securityContext.procMount to {_quoted(sorted(values))}"
    return Violation("procMount", detail)


def _selinux(types: frozenset[str]) -> PodCheck:
    def check(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
        seen: list[Mapping[str, Any]] = []

        def find_bad(context: Mapping[str, Any]) -> list[str] | None:
            options = context.get("seLinuxOptions") or _NOTHING
            type_ = options.get("type") or ""
            if type_ in types and not options.get("user") and not options.get("role"):
                return None
            seen.append(options)
            return [type_] if type_ not in types else []

        setters, bad_types = _find_setters(spec, containers, find_bad)
        if not setters:
            return None
        parts = [f"{_plural('type', bad_types)} {_quoted(sorted(bad_types))}"] if bad_types else []
        parts += [f"{name} may not be set" for name in ("user", "role") if any(each.get(name) for each in seen)]
        detail = f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(parts)}"
        return Violation("seLinuxOptions", detail)

    return check


def _seccomp_annotations(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    annotations = metadata.get("annotations") or _NOTHING
    names = (_SECCOMP_OF_POD, *(f"{_SECCOMP_OF_CONTAINER}{each['name']}" for each in containers))
    wrong = sorted(
        {
            f'{name}="{annotations[name]}"'
            for name in names
            if name in annotations
            and annotations[name] not in ("runtime/default", "docker/default")
            and not annotations[name].startswith("localhost/")
        }
    )
    return (
        Violation("seccompProfile", f"forbidden {_plural('annotation', wrong)} {', '.join(wrong)}") if wrong else None
    )


def _seccomp(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    setters, values = _find_setters(spec, containers, lambda context: _bad_type(context, "seccompProfile"))
    if not setters:
        return None
    detail = f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to {_quoted(sorted(values))}"
    return Violation("seccompProfile", detail)


def _sysctls(allowed: frozenset[str]) -> PodCheck:
    def check(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
        listed = (spec.get("securityContext") or _NOTHING).get("sysctls") or ()
        wrong = [each["name"] for each in listed if each["name"] not in allowed]
        return Violation("forbidden sysctls", ", ".join(wrong)) if wrong else None

    return check


def _host_process(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    def find_bad(context: Mapping[str, Any]) -> list[str] | None:
        return [""] if (context.get("windowsOptions") or _NOTHING).get("hostProcess") else None

    setters, _ = _find_setters(spec, containers, find_bad)
    if not setters:
        return None
    return Violation(
        "hostProcess", f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true"
    )


# Restricted.


def _escalation(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    names = [each["name"] for each in containers if _context(each).get("allowPrivilegeEscalation") is not False]
    if not names:
        return None
    detail = f"{_containers(names)} must set securityContext.allowPrivilegeEscalation=false"
    return Violation("allowPrivilegeEscalation != false", detail)


def _capabilities_dropped(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    keeping = [
        each["name"]
        for each in containers
        if "ALL" not in ((_context(each).get("capabilities") or _NOTHING).get("drop") or ())
    ]
    parts = [f'{_containers(keeping)} must set securityContext.capabilities.drop=["ALL"]'] if keeping else []
    names, added = _find_added(containers, frozenset({"NET_BIND_SERVICE"}))
    if names:
        parts.append(_describe_added(names, added))
    return Violation("unrestricted capabilities", "; ".join(parts)) if parts else None


def _volume_types(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    names, types = [], set()
    for volume in spec.get("volumes") or ():
        sources = [name for name, value in volume.items() if name != "name" and value is not None]
        if not any(name in _VOLUMES for name in sources):
            names.append(volume["name"])
            types.add(sources[0] if sources else "unknown")
    if not names:
        return None
    uses = "uses" if len(names) == 1 else "use"
    listed = f"{_plural('restricted volume type', types)} {_quoted(sorted(types))}"
    return Violation("restricted volume types", f"{_plural('volume', names)} {_quoted(names)} {uses} {listed}")


def _non_root(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    of_pod = (spec.get("securityContext") or _NOTHING).get("runAsNonRoot")
    said = [(each["name"], _context(each).get("runAsNonRoot")) for each in containers]
    wrong = [name for name, value in said if value is False]
    setters = ["pod"] if of_pod is False else []
    setters += [_containers(wrong)] if wrong else []
    if setters:
        detail = f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false"
        return Violation("runAsNonRoot != true", detail)
    silent = [] if of_pod else [name for name, value in said if value is None]
    if not silent:
        return None
    return Violation("runAsNonRoot != true", f"pod or {_containers(silent)} must set securityContext.runAsNonRoot=true")


def _user(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    def find_bad(context: Mapping[str, Any]) -> list[str] | None:
        return [""] if context.get("runAsUser") == 0 else None

    setters, _ = _find_setters(spec, containers, find_bad)
    return Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def _seccomp_required(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
    if (violation := _seccomp(metadata, spec, containers)) is not None:
        return violation
    if (spec.get("securityContext") or _NOTHING).get("seccompProfile") is not None:
        return None
    silent = [each["name"] for each in containers if _context(each).get("seccompProfile") is None]
    if not silent:
        return None
    words = 'must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
    return Violation("seccompProfile", f"pod or {_containers(silent)} {words}")


# Who is not held to a check.


def _but_windows(check: PodCheck) -> PodCheck:
    def checked(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
        is_windows = (spec.get("os") or _NOTHING).get("name") == "windows"
        return None if is_windows else check(metadata, spec, containers)

    return checked


def _but_user_namespaces(check: PodCheck) -> PodCheck:
    def checked(metadata: Mapping[str, Any], spec: Object, containers: Sequence[Object]) -> Violation | None:
        return None if spec.get("hostUsers") is False else check(metadata, spec, containers)

    return checked


# What they share.


def _context(container: Object) -> Mapping[str, Any]:
    return container.get("securityContext") or _NOTHING


def _bad_type(context: Mapping[str, Any], name: str) -> list[str] | None:
    """The type of a profile, if it is one that is not allowed."""
    profile = context.get(name)
    if profile is None or profile.get("type") in _PROFILES:
        return None
    return [profile.get("type") or ""]


def _find_setters(
    spec: Object, containers: Sequence[Object], find_bad: Callable[[Mapping[str, Any]], list[str] | None]
) -> tuple[list[str], set[str]]:
    """Which security contexts have something bad: `pod`, `containers "a", "b"`; and the bad values."""
    values: set[str] = set()
    setters, names = [], []
    if (found := find_bad(spec.get("securityContext") or _NOTHING)) is not None:
        setters.append("pod")
        values.update(found)
    for container in containers:
        if (found := find_bad(_context(container))) is not None:
            names.append(container["name"])
            values.update(found)
    if names:
        setters.append(_containers(names))
    return setters, values


def _find_added(containers: Sequence[Object], allowed: frozenset[str]) -> tuple[list[str], set[str]]:
    """Which containers add capabilities that are not allowed, and which ones."""
    names: list[str] = []
    added: set[str] = set()
    for container in containers:
        listed = (_context(container).get("capabilities") or _NOTHING).get("add") or ()
        if wrong := {name for name in listed if name not in allowed}:
            names.append(container["name"])
            added |= wrong
    return names, added


def _describe_added(names: Sequence[str], added: Iterable[str]) -> str:
    return f"{_containers(names)} must not include {_quoted(sorted(added))} in securityContext.capabilities.add"


def _containers(names: Sequence[str]) -> str:
    return f"{_plural('container', names)} {_quoted(names)}"


def _plural(word: str, counted: Sequence[str] | set[str]) -> str:
    return word if len(counted) == 1 else f"{word}s"


def _quoted(items: Iterable[str]) -> str:
    return ", ".join(f'"{each}"' for each in items)


BASELINE_CHECKS: Final = (
    VersionedCheck("appArmorProfile", ((0, _apparmor),)),
    VersionedCheck("capabilities_baseline", ((0, _capabilities),)),
    VersionedCheck("hostNamespaces", ((0, _host_namespaces),)),
    VersionedCheck("hostPathVolumes", ((0, _host_paths),)),
    VersionedCheck("hostPorts", ((0, _host_ports),)),
    VersionedCheck("hostProbesAndHostLifecycle", ((34, _probe_hosts),)),
    VersionedCheck("privileged", ((0, _privileged),)),
    VersionedCheck("procMount", ((0, _proc_mount), (35, _but_user_namespaces(_proc_mount)))),
    VersionedCheck("seLinuxOptions", ((0, _selinux(_SELINUX_TYPES)), (31, _selinux(_SELINUX_TYPES_31)))),
    VersionedCheck("seccompProfile_baseline", ((0, _seccomp_annotations), (19, _seccomp))),
    VersionedCheck(
        "sysctls",
        (
            (0, _sysctls(_SYSCTLS)),
            (27, _sysctls(_SYSCTLS_27)),
            (29, _sysctls(_SYSCTLS_29)),
            (32, _sysctls(_SYSCTLS_32)),
        ),
    ),
    VersionedCheck("windowsHostProcess", ((0, _host_process),)),
)
RESTRICTED_CHECKS: Final = (
    VersionedCheck("allowPrivilegeEscalation", ((8, _escalation), (25, _but_windows(_escalation)))),
    VersionedCheck(
        "capabilities_restricted",
        ((22, _capabilities_dropped), (25, _but_windows(_capabilities_dropped))),
        replaces="capabilities_baseline",
    ),
    VersionedCheck("procMount_restricted", ((35, _proc_mount),), replaces="procMount"),
    VersionedCheck("restrictedVolumes", ((0, _volume_types),), replaces="hostPathVolumes"),
    VersionedCheck("runAsNonRoot", ((0, _non_root), (35, _but_user_namespaces(_non_root)))),
    VersionedCheck("runAsUser", ((23, _user), (35, _but_user_namespaces(_user)))),
    VersionedCheck(
        "seccompProfile_restricted",
        ((19, _seccomp_required), (25, _but_windows(_seccomp_required))),
        replaces="seccompProfile_baseline",
    ),
)
