"""What a pod's and a container's `securityContext` ask for: as options for the runner, or the reason for a refusal.

What is accepted is enforced, so what this agent cannot do is refused here: SELinux, AppArmor, Windows, sysctls, seccomp
profiles from files, an unmasked /proc, a namespace of processes that containers share. What depends on the machine is
left to the runner, which refuses with the same reason (`CannotRun`). Whether a pod may ask for it at all is decided by
admission, when it is created.

Pure.
"""

from collections.abc import Mapping
from typing import Any, Final

from mainstay.agent.runner import SecurityOptions
from mainstay.api.kind import Object

_NOTHING: Final[Mapping[str, Any]] = {}
_LEAVE_OUT: Final = "leave it out for this node"


class SecurityRefused(Exception):
    """The container cannot be run as it asks. The message says what to change."""


def read_security(spec: Mapping[str, Any], container: Object) -> SecurityOptions:
    """The options of a container of a pod. Raises `SecurityRefused`."""
    of_pod: Mapping[str, Any] = spec.get("securityContext") or _NOTHING
    own: Mapping[str, Any] = container.get("securityContext") or _NOTHING
    said = {**of_pod, **{name: value for name, value in own.items() if value is not None}}
    is_privileged = bool(own.get("privileged"))
    _refuse_unsupported(spec, said)
    _check_host_users(spec, said, is_privileged)
    capabilities = own.get("capabilities") or _NOTHING
    return SecurityOptions(
        is_privileged=is_privileged,
        is_read_only=bool(own.get("readOnlyRootFilesystem")),
        capabilities_added=_read_names(capabilities.get("add")),
        capabilities_dropped=_read_names(capabilities.get("drop")),
        gains_nothing=own.get("allowPrivilegeEscalation") is False,
        seccomp=(said.get("seccompProfile") or _NOTHING).get("type") or "",
        has_host_pids=bool(spec.get("hostPID")),
        has_host_ipc=bool(spec.get("hostIPC")),
        has_host_network=bool(spec.get("hostNetwork")),
        has_own_users=spec.get("hostUsers") is False,
    )


def _refuse_unsupported(spec: Mapping[str, Any], said: Mapping[str, Any]) -> None:
    if spec.get("shareProcessNamespace"):
        raise SecurityRefused(f"shareProcessNamespace is not supported: {_LEAVE_OUT}")
    if sysctls := said.get("sysctls"):
        names = ", ".join(str(each.get("name")) for each in sysctls)
        raise SecurityRefused(f"securityContext.sysctls {names}: pods share the settings of the kernel: {_LEAVE_OUT}")
    for field, what in (("seLinuxOptions", "SELinux"), ("windowsOptions", "Windows")):
        if said.get(field):
            raise SecurityRefused(f"securityContext.{field}: this node has no {what}: {_LEAVE_OUT}")
    profile = (said.get("appArmorProfile") or _NOTHING).get("type") or "Unconfined"
    if profile != "Unconfined":
        raise SecurityRefused(f"securityContext.appArmorProfile {profile}: this node has no AppArmor: {_LEAVE_OUT}")
    seccomp = (said.get("seccompProfile") or _NOTHING).get("type") or ""
    if seccomp not in ("", "RuntimeDefault", "Unconfined"):
        raise SecurityRefused(f"securityContext.seccompProfile {seccomp} is not supported: use RuntimeDefault")
    if (said.get("procMount") or "Default") != "Default":
        raise SecurityRefused(f"securityContext.procMount {said['procMount']} is not supported: use Default")


def _check_host_users(spec: Mapping[str, Any], said: Mapping[str, Any], is_privileged: bool) -> None:
    if is_privileged and spec.get("hostUsers") is False:
        raise SecurityRefused("hostUsers: false: a privileged container has the users of the machine")
    named = [name for name in ("runAsUser", "runAsGroup", "fsGroup", "supplementalGroups") if said.get(name)]
    if spec.get("hostUsers") and named and not is_privileged:
        raise SecurityRefused(
            f"hostUsers: true with {', '.join(named)}: only a privileged container can have users of the machine: "
            "leave out hostUsers, and the pod has ids of its own"
        )


def _read_names(said: Any) -> tuple[str, ...]:
    return tuple(sorted({str(each).upper().removeprefix("CAP_") for each in said or ()}))
