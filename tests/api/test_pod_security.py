"""Every check of the levels baseline and restricted: a pod that it allows, one that it refuses, and what it says."""

from collections.abc import Mapping
from typing import Any

import pytest

from mainstay.api.kinds import BUILTIN
from mainstay.api.pod_security import (
    LATEST_MINOR,
    TEMPLATE_PATHS,
    SecurityPolicy,
    _select,
    describe,
    evaluate,
    find_template,
    parse_labels,
    summarize,
)
from mainstay.api.pod_security_checks import BASELINE_CHECKS, RESTRICTED_CHECKS, SecurityLevel
from mainstay.api.schema import find_fields

PRIVILEGED, BASELINE, RESTRICTED = SecurityLevel
Spec = dict[str, Any]

# What a container of a restricted namespace must say at least.
STRICT: Mapping[str, Any] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}


def container(name: str = "a", **fields: Any) -> Spec:
    return {"name": name, "image": "x:1", **fields}


def secured(name: str = "a", **context: Any) -> Spec:
    return container(name, securityContext=context)


def pod(*containers: Spec, annotations: Mapping[str, str] | None = None, **spec: Any) -> Spec:
    found: Spec = {"metadata": {"name": "p"}, "spec": {"containers": list(containers) or [container()], **spec}}
    if annotations:
        found["metadata"]["annotations"] = dict(annotations)
    return found


def strict_pod(*containers: Spec, **spec: Any) -> Spec:
    """Keeps to `restricted` but for what is given."""
    return pod(*(containers or [secured(**STRICT)]), **spec)


def strict_but(**context: Any) -> Spec:
    return strict_pod(secured(**{**STRICT, **context}))


def check(level: SecurityLevel, given: Spec, minor: int | None = None) -> str:
    return describe(evaluate(SecurityPolicy(level, minor), given["metadata"], given["spec"]))


APPARMOR = "container.apparmor.security.beta.kubernetes.io/a"

# id of the check, level, a pod that it allows, one that it refuses, and what is said of that.
CASES: list[tuple[str, SecurityLevel, Spec, Spec, str]] = [
    (
        "appArmorProfile",
        BASELINE,
        pod(secured(appArmorProfile={"type": "Localhost", "localhostProfile": "x"})),
        pod(secured(appArmorProfile={"type": "Unconfined"})),
        'forbidden AppArmor profile (container "a" must not set AppArmor profile type to "Unconfined")',
    ),
    (
        "appArmorProfile",
        BASELINE,
        pod(annotations={APPARMOR: "runtime/default"}),
        pod(annotations={APPARMOR: "unconfined"}, securityContext={"appArmorProfile": {"type": "Unconfined"}}),
        "forbidden AppArmor profiles (pod and annotation must not set AppArmor profile type to "
        f'"Unconfined", "{APPARMOR}="unconfined"")',
    ),
    (
        "capabilities_baseline",
        BASELINE,
        pod(secured(capabilities={"add": ["NET_BIND_SERVICE", "CHOWN"], "drop": ["KILL"]})),
        pod(
            secured(capabilities={"add": ["SYS_ADMIN", "NET_RAW", "CHOWN"]}),
            secured("b", capabilities={"add": ["BPF"]}),
        ),
        'non-default capabilities (containers "a", "b" must not include "BPF", "NET_RAW", "SYS_ADMIN" in '
        "securityContext.capabilities.add)",
    ),
    (
        "hostNamespaces",
        BASELINE,
        pod(hostNetwork=False, hostPID=False, hostIPC=False),
        pod(hostNetwork=True, hostPID=True, hostIPC=True),
        "host namespaces (hostNetwork=true, hostPID=true, hostIPC=true)",
    ),
    (
        "hostPathVolumes",
        BASELINE,
        pod(volumes=[{"name": "v", "emptyDir": {}}]),
        pod(volumes=[{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "hostPath": {"path": "/etc"}}]),
        'hostPath volumes (volumes "v", "w")',
    ),
    (
        "hostPorts",
        BASELINE,
        pod(container(ports=[{"containerPort": 80}, {"containerPort": 81, "hostPort": 0}])),
        pod(container(ports=[{"containerPort": 80, "hostPort": 8080}, {"containerPort": 81, "hostPort": 9090}])),
        'hostPort (container "a" uses hostPorts 8080, 9090)',
    ),
    (
        "hostProbesAndHostLifecycle",
        BASELINE,
        pod(container(livenessProbe={"httpGet": {"port": 80}}, lifecycle={"preStop": {"sleep": {"seconds": 1}}})),
        pod(
            container(readinessProbe={"tcpSocket": {"port": 80, "host": "10.0.0.1"}}),
            container("b", lifecycle={"postStart": {"httpGet": {"port": 80, "host": "meta.data"}}}),
        ),
        'probe or lifecycle host (containers "a", "b" use probe or lifecycle hosts "10.0.0.1", "meta.data")',
    ),
    (
        "privileged",
        BASELINE,
        pod(secured(privileged=False)),
        pod(secured(privileged=True)),
        'privileged (container "a" must not set securityContext.privileged=true)',
    ),
    (
        "procMount",
        BASELINE,
        pod(secured(procMount="Unmasked"), hostUsers=False),
        pod(secured(procMount="Unmasked")),
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        "seLinuxOptions",
        BASELINE,
        pod(secured(seLinuxOptions={"type": "container_engine_t", "level": "s0"})),
        pod(secured(seLinuxOptions={"type": "spc_t", "role": "r"}), securityContext={"seLinuxOptions": {"user": "u"}}),
        'seLinuxOptions (pod and container "a" set forbidden securityContext.seLinuxOptions: type "spc_t"; '
        "user may not be set; role may not be set)",
    ),
    (
        "seccompProfile_baseline",
        BASELINE,
        pod(secured(seccompProfile={"type": "Localhost", "localhostProfile": "x"})),
        pod(secured(seccompProfile={"type": "Unconfined"}), securityContext={"seccompProfile": {"type": "Unconfined"}}),
        'seccompProfile (pod and container "a" must not set securityContext.seccompProfile.type to "Unconfined")',
    ),
    (
        "sysctls",
        BASELINE,
        pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_wmem", "value": "1"}]}),
        pod(
            securityContext={
                "sysctls": [{"name": "kernel.msgmax", "value": "1"}, {"name": "vm.swappiness", "value": "1"}]
            }
        ),
        "forbidden sysctls (kernel.msgmax, vm.swappiness)",
    ),
    (
        "windowsHostProcess",
        BASELINE,
        pod(secured(windowsOptions={"hostProcess": False})),
        pod(secured(windowsOptions={"hostProcess": True})),
        'hostProcess (container "a" must not set securityContext.windowsOptions.hostProcess=true)',
    ),
    (
        "allowPrivilegeEscalation",
        RESTRICTED,
        strict_pod(),
        strict_pod(secured(**STRICT), secured("b", **{**STRICT, "allowPrivilegeEscalation": True})),
        'allowPrivilegeEscalation != false (container "b" must set securityContext.allowPrivilegeEscalation=false)',
    ),
    (
        "capabilities_restricted",
        RESTRICTED,
        strict_but(capabilities={"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
        strict_but(capabilities={"drop": ["KILL"], "add": ["CHOWN"]}),
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]; '
        'container "a" must not include "CHOWN" in securityContext.capabilities.add)',
    ),
    (
        "procMount_restricted",
        RESTRICTED,
        strict_but(procMount="Default"),
        strict_pod(secured(**STRICT, procMount="Unmasked"), hostUsers=False),
        'procMount (container "a" must not set securityContext.procMount to "Unmasked")',
    ),
    (
        "restrictedVolumes",
        RESTRICTED,
        strict_pod(
            volumes=[
                {"name": name, name: {}}
                for name in (
                    *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image"),
                    *("persistentVolumeClaim", "projected", "secret"),
                )
            ]
        ),
        strict_pod(volumes=[{"name": "v", "nfs": {}}, {"name": "w", "hostPath": {"path": "/"}}]),
        'restricted volume types (volumes "v", "w" use restricted volume types "hostPath", "nfs")',
    ),
    (
        "runAsNonRoot",
        RESTRICTED,
        strict_pod(secured(**{**STRICT, "runAsNonRoot": None}), securityContext={"runAsNonRoot": True}),
        strict_but(runAsNonRoot=None),
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true)',
    ),
    (
        "runAsNonRoot",
        RESTRICTED,
        strict_pod(secured(**{**STRICT, "runAsNonRoot": False}), hostUsers=False),
        strict_pod(secured(**{**STRICT, "runAsNonRoot": False}), securityContext={"runAsNonRoot": False}),
        'runAsNonRoot != true (pod and container "a" must not set securityContext.runAsNonRoot=false)',
    ),
    (
        "runAsUser",
        RESTRICTED,
        strict_but(runAsUser=1000),
        strict_pod(secured(**STRICT, runAsUser=0), securityContext={"runAsUser": 0}),
        'runAsUser=0 (pod and container "a" must not set runAsUser=0)',
    ),
    (
        "seccompProfile_restricted",
        RESTRICTED,
        strict_pod(
            secured(**{**STRICT, "seccompProfile": None}),
            securityContext={"seccompProfile": {"type": "RuntimeDefault"}},
        ),
        strict_but(seccompProfile=None),
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")',
    ),
]


@pytest.mark.parametrize(("name", "level", "allowed", "refused", "said"), CASES, ids=[case[0] for case in CASES])
def test_each_check_allows_one_pod_and_refuses_another(name, level, allowed, refused, said):
    assert check(level, allowed) == ""
    assert check(level, refused) == said
    assert check(PRIVILEGED, refused) == ""


def test_every_check_has_a_case():
    assert {case[0] for case in CASES} == {each.id for each in (*BASELINE_CHECKS, *RESTRICTED_CHECKS)}


@pytest.mark.parametrize("where", ["initContainers", "ephemeralContainers"])
@pytest.mark.parametrize("case", CASES, ids=[case[0] for case in CASES])
def test_init_and_ephemeral_containers_are_checked_like_others(case, where):
    _, level, allowed, refused, _ = case
    first = refused["spec"]["containers"]
    moved = {**refused["spec"], "containers": allowed["spec"]["containers"], where: first}
    assert check(level, {"metadata": refused["metadata"], "spec": moved})


def test_the_usual_pod_keeps_to_baseline_and_not_to_restricted():
    assert check(BASELINE, pod()) == ""
    assert check(RESTRICTED, pod()) == (
        'allowPrivilegeEscalation != false (container "a" must set securityContext.allowPrivilegeEscalation=false), '
        'unrestricted capabilities (container "a" must set securityContext.capabilities.drop=["ALL"]), '
        'runAsNonRoot != true (pod or container "a" must set securityContext.runAsNonRoot=true), '
        'seccompProfile (pod or container "a" must set securityContext.seccompProfile.type to '
        '"RuntimeDefault" or "Localhost")'
    )


def test_restricted_includes_baseline():
    refused = pod(secured(privileged=True), hostPID=True)
    found = evaluate(SecurityPolicy(RESTRICTED), refused["metadata"], refused["spec"])
    assert summarize(found).startswith("host namespaces, privileged, allowPrivilegeEscalation != false")


@pytest.mark.parametrize(
    ("level", "given", "minor", "is_allowed"),
    [
        (BASELINE, pod(container(livenessProbe={"tcpSocket": {"port": 1, "host": "h"}})), 33, True),
        (BASELINE, pod(container(livenessProbe={"tcpSocket": {"port": 1, "host": "h"}})), 34, False),
        (BASELINE, pod(secured(procMount="Unmasked"), hostUsers=False), 34, False),
        (BASELINE, pod(secured(seLinuxOptions={"type": "container_engine_t"})), 30, False),
        (BASELINE, pod(secured(seccompProfile={"type": "Unconfined"})), 18, True),
        (BASELINE, pod(annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}), 18, False),
        (BASELINE, pod(annotations={"seccomp.security.alpha.kubernetes.io/pod": "unconfined"}), 19, True),
        (BASELINE, pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_rmem", "value": "1"}]}), 31, False),
        (BASELINE, pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "1"}]}), 28, False),
        (BASELINE, pod(securityContext={"sysctls": [{"name": "net.ipv4.tcp_fin_timeout", "value": "1"}]}), 29, True),
        (
            BASELINE,
            pod(securityContext={"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports", "value": "1"}]}),
            26,
            False,
        ),
        (RESTRICTED, strict_but(allowPrivilegeEscalation=None), 7, True),
        (RESTRICTED, strict_but(capabilities=None), 21, True),
        (RESTRICTED, strict_but(capabilities={"add": ["BPF"]}), 21, False),
        (RESTRICTED, strict_but(runAsUser=0), 22, True),
        (RESTRICTED, strict_pod(secured(runAsNonRoot=True), os={"name": "windows"}), 24, False),
        (RESTRICTED, strict_pod(secured(runAsNonRoot=True), os={"name": "windows"}), 25, True),
        (RESTRICTED, strict_pod(secured(**STRICT, runAsUser=0), hostUsers=False), 34, False),
        (RESTRICTED, strict_pod(secured(**STRICT, runAsUser=0), hostUsers=False), 35, True),
        (BASELINE, pod(hostPID=True), 999, False),
    ],
)
def test_a_version_has_the_checks_of_its_time(level, given, minor, is_allowed):
    assert (check(level, given, minor) == "") is is_allowed


def test_every_version_has_the_checks_that_restricted_adds_to_baseline():
    for minor in range(LATEST_MINOR + 1):
        assert len(_select(RESTRICTED, minor)) >= len(_select(BASELINE, minor)) >= 10


# Labels.


def labels(**levels: str) -> dict[str, str]:
    return {f"pod-security.kubernetes.io/{mode.replace('_', '-')}": level for mode, level in levels.items()}


@pytest.mark.parametrize(
    ("given", "policies"),
    [
        ({}, ("baseline:latest", "privileged:latest", "baseline:latest")),
        (labels(enforce="privileged"), ("privileged:latest", "privileged:latest", "privileged:latest")),
        (
            labels(enforce="restricted", warn_version="v1.20"),
            ("restricted:latest", "privileged:latest", "restricted:v1.20"),
        ),
        (labels(enforce="restricted"), ("restricted:latest", "privileged:latest", "restricted:latest")),
        (
            labels(enforce="restricted", enforce_version="v1.24"),
            ("restricted:v1.24", "privileged:latest", "restricted:v1.24"),
        ),
        (
            labels(enforce="privileged", warn="restricted"),
            ("privileged:latest", "privileged:latest", "restricted:latest"),
        ),
        (labels(enforce="restricted", warn="baseline"), ("restricted:latest", "privileged:latest", "baseline:latest")),
        (labels(audit="baseline", audit_version="latest"), ("baseline:latest", "baseline:latest", "baseline:latest")),
    ],
)
def test_labels_choose_the_policies(given, policies):
    found = parse_labels(given, BASELINE)
    assert (str(found.enforce), str(found.audit), str(found.warn), found.problems) == (*policies, ())


def test_labels_that_make_no_sense_are_named_and_taken_for_the_strictest():
    found = parse_labels(
        labels(enforce="strict", enforce_version="1.24", audit="all", warn="x", warn_version="v2.0"), BASELINE
    )
    assert (str(found.enforce), str(found.audit), str(found.warn)) == (
        "restricted:latest",
        "privileged:latest",
        "privileged:latest",
    )
    assert [each.message for each in found.problems] == [
        'Invalid value: "strict": must be one of privileged, baseline, restricted',
        'Invalid value: "1.24": must be "latest" or "v1.x"',
        'Invalid value: "all": must be one of privileged, baseline, restricted',
        'Invalid value: "x": must be one of privileged, baseline, restricted',
        'Invalid value: "v2.0": must be "latest" or "v1.x"',
    ]
    assert found.problems[0].field == "metadata.labels[pod-security.kubernetes.io/enforce]"


def test_every_kind_with_a_pod_template_is_known():
    """A kind whose message leads to a PodTemplateSpec, by whatever way."""
    template = "k8s.io.api.core.v1.PodTemplateSpec"

    def leads_there(message: str, seen: frozenset[str] = frozenset()) -> bool:
        types = {field.type for field in find_fields(message).values()} - seen
        return template in types or any(leads_there(each, seen | types) for each in sorted(types))

    made = {(kind.group, kind.plural) for kind in BUILTIN if kind.message and leads_there(kind.message)}
    assert made == set(TEMPLATE_PATHS)
    assert find_template("batch", "cronjobs", {"spec": {"jobTemplate": {"spec": {"template": {"a": 1}}}}}) == {"a": 1}
    assert find_template("", "replicationcontrollers", {"spec": {}}) is None
