"""Pod Security Standards: which level a namespace asks for, and whether a pod keeps to it. Pure functions.

A namespace says with labels `pod-security.kubernetes.io/MODE` and `…/MODE-version` which level its pods must keep
(`enforce`), which one the audit log notes (`audit`) and which one users are warned about (`warn`). `parse_labels` reads
them. `evaluate` checks a pod, or the template of one, against a level. The checks of the two levels are in
pod_security_checks.py; admission, which reads namespaces, is server/storage/pod_security.py.

Levels, checks, versions and wording are those of Kubernetes. Only the level of namespaces without labels differs, which
is given as `default` (docs/decisions/0013-pods-are-baseline.md).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from re import compile as compile_pattern
from typing import Any, Final

from mainstay.api.errors import StatusCause, invalid_value
from mainstay.api.kind import Object
from mainstay.api.pod_security_checks import (
    BASELINE_CHECKS,
    RESTRICTED_CHECKS,
    PodCheck,
    SecurityLevel,
    VersionedCheck,
    Violation,
    list_containers,
)

PREFIX: Final = "pod-security.kubernetes.io/"
ENFORCE: Final = f"{PREFIX}enforce"
AUDIT: Final = f"{PREFIX}audit"
WARN: Final = f"{PREFIX}warn"
LATEST_MINOR: Final = 36
"""The version of Kubernetes that the server speaks. A label that names a later one means this one."""

TEMPLATE_PATHS: Final[Mapping[tuple[str, str], tuple[str, ...]]] = {
    ("", "podtemplates"): ("template",),
    ("", "replicationcontrollers"): ("spec", "template"),
    ("apps", "deployments"): ("spec", "template"),
    ("apps", "replicasets"): ("spec", "template"),
    ("apps", "statefulsets"): ("spec", "template"),
    ("apps", "daemonsets"): ("spec", "template"),
    ("batch", "jobs"): ("spec", "template"),
    ("batch", "cronjobs"): ("spec", "jobTemplate", "spec", "template"),
}
"""Where kinds that make pods have their pod template, by group and plural."""

_NOTHING: Final[Mapping[str, Any]] = {}
_ANNOTATED: Final = ("container.apparmor.", "seccomp.", "container.seccomp.")
_HANDLERS: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_HARMLESS: Final = frozenset(
    {"runAsUser", "runAsGroup", "runAsNonRoot", "allowPrivilegeEscalation", "readOnlyRootFilesystem"}
    | {"fsGroup", "fsGroupChangePolicy", "supplementalGroups", "supplementalGroupsPolicy"}
)
"""Of a security context: what `baseline` says nothing about."""
_OF_HOST: Final = frozenset({"hostNetwork", "hostPID", "hostIPC", "ephemeralContainers"})
"""What a pod seldom says anything about."""
_STRICTNESS: Final = tuple(SecurityLevel)
_VERSION: Final = compile_pattern(r"v1\.(0|[1-9][0-9]{0,8})")


@dataclass(frozen=True, slots=True)
class SecurityPolicy:
    """A level as of a version of Kubernetes. `minor` is None for the latest."""

    level: SecurityLevel
    minor: int | None = None

    def __str__(self) -> str:
        return f"{self.level}:{'latest' if self.minor is None else f'v1.{self.minor}'}"

    def is_stricter_than(self, other: "SecurityPolicy") -> bool:
        return _STRICTNESS.index(self.level) > _STRICTNESS.index(other.level)


@dataclass(frozen=True, slots=True)
class NamespaceSecurity:
    """What a namespace asks for of its pods."""

    enforce: SecurityPolicy
    audit: SecurityPolicy
    warn: SecurityPolicy
    problems: tuple[StatusCause, ...] = ()
    """Labels that make no sense. Pods are then held to `restricted`, and neither audited nor warned about."""
    shown: str = field(init=False)
    """The level to enforce, in words."""
    advises_templates: bool = field(init=False)
    """Whether there is anything to audit or to warn about."""
    advises_pods: bool = field(init=False)
    """The same, besides what is enforced."""

    def __post_init__(self) -> None:
        # Once for many pods: to make text of it costs as much as a look at the usual pod.
        object.__setattr__(self, "shown", str(self.enforce))
        is_audited = self.audit.level is not SecurityLevel.PRIVILEGED or bool(self.problems)
        is_warned = self.warn.level is not SecurityLevel.PRIVILEGED
        object.__setattr__(self, "advises_templates", is_audited or is_warned)
        object.__setattr__(self, "advises_pods", is_audited or (is_warned and self.warn != self.enforce))


def parse_labels(labels: Mapping[str, str], default: SecurityLevel) -> NamespaceSecurity:
    """What these labels of a namespace ask for. `default` is the level to enforce where no label says so.

    Without a label for it, the level to warn about is the one that is enforced.
    """
    problems: list[StatusCause] = []
    privileged = SecurityLevel.PRIVILEGED
    enforce = _parse(labels, ENFORCE, SecurityPolicy(default), SecurityLevel.RESTRICTED, problems)
    # Authors of Deployments are warned of what is enforced, though only pods are refused.
    warned = SecurityPolicy(privileged) if problems else enforce
    audit = _parse(labels, AUDIT, SecurityPolicy(privileged), privileged, problems)
    warn = _parse(labels, WARN, warned if WARN not in labels else SecurityPolicy(privileged), privileged, problems)
    return NamespaceSecurity(enforce, audit, warn, tuple(problems))


def _parse(
    labels: Mapping[str, str], label: str, default: SecurityPolicy, if_wrong: SecurityLevel, problems: list[StatusCause]
) -> SecurityPolicy:
    level, minor = default.level, default.minor
    if (said := labels.get(label)) is not None:
        try:
            level = SecurityLevel(said)
        except ValueError:
            level = if_wrong
            detail = f"must be one of {', '.join(SecurityLevel)}"
            problems.append(invalid_value(f"metadata.labels[{label}]", said, detail))
    if (said := labels.get(f"{label}-version")) is not None:
        found = _VERSION.fullmatch(said)
        minor = int(found[1]) if found else None
        if found is None and said != "latest":
            detail = 'must be "latest" or "v1.x"'
            problems.append(invalid_value(f"metadata.labels[{label}-version]", said, detail))
    return SecurityPolicy(level, minor)


def find_template(group: str, plural: str, obj: Object) -> Object | None:
    """The pod template of an object, if its kind has one and it has it."""
    path = TEMPLATE_PATHS.get((group, plural))
    if path is None:
        return None
    found: Any = obj
    for step in path:
        found = (found or _NOTHING).get(step)
    return found if isinstance(found, dict) else None


def evaluate(policy: SecurityPolicy, metadata: Mapping[str, Any], spec: Object) -> list[Violation]:
    """What a pod does that its level does not allow; empty if nothing."""
    if policy.level is SecurityLevel.PRIVILEGED:
        return []
    if policy.level is SecurityLevel.BASELINE and _is_plain(metadata, spec):
        return []
    containers = list_containers(spec)
    checks = _select(policy.level, LATEST_MINOR if policy.minor is None else min(policy.minor, LATEST_MINOR))
    results = (check(metadata, spec, containers) for check in checks)
    return [violation for violation in results if violation is not None]


def _is_plain(metadata: Mapping[str, Any], spec: Object) -> bool:
    """Whether a pod has nothing that a check of `baseline` could mind: most pods, found out in a few microseconds."""
    if not _OF_HOST.isdisjoint(spec):
        return False
    context = spec.get("securityContext")
    if context and not _HARMLESS.issuperset(context):
        return False
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        if not _is_plain_container(container):
            return False
    for volume in spec.get("volumes") or ():
        if "hostPath" in volume:
            return False
    return not any(name.startswith(_ANNOTATED) for name in metadata.get("annotations") or ())


def _is_plain_container(container: Object) -> bool:
    if container.get("lifecycle"):
        return False
    for name, value in (container.get("securityContext") or _NOTHING).items():
        if name not in _HARMLESS and not (name == "capabilities" and not value.get("add")):
            return False
    for port in container.get("ports") or ():
        if "hostPort" in port:
            return False
    for name in _HANDLERS:
        probe = container.get(name)
        if probe and ("host" in probe.get("httpGet", _NOTHING) or "host" in probe.get("tcpSocket", _NOTHING)):
            return False
    return True


@lru_cache(maxsize=2 * (LATEST_MINOR + 1))
def _select(level: SecurityLevel, minor: int) -> Sequence[PodCheck]:
    """The checks of a level as of a version: those of `baseline` first, without those that a stricter one replaces."""
    is_restricted = level is SecurityLevel.RESTRICTED
    restricted = [found for each in RESTRICTED_CHECKS if (found := _find_check(each, minor))] if is_restricted else []
    replaced = {each.replaces for each in RESTRICTED_CHECKS if is_restricted and _find_check(each, minor)}
    baseline = [found for each in BASELINE_CHECKS if each.id not in replaced and (found := _find_check(each, minor))]
    return (*baseline, *restricted)


def _find_check(check: VersionedCheck, minor: int) -> PodCheck | None:
    found = [function for since, function in check.versions if since <= minor]
    return found[-1] if found else None


def describe(violations: Sequence[Violation]) -> str:
    """All of it, for the user who wrote the pod."""
    return ", ".join(f"{each.reason} ({each.detail})" if each.detail else each.reason for each in violations)


def summarize(violations: Sequence[Violation]) -> str:
    """Only the reasons, for many pods at once."""
    return ", ".join(each.reason for each in violations)
