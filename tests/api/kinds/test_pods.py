"""What a pod may say, and what may change about it."""

from typing import Any

import pytest

from tests.api.builders import a_container, a_pod
from tests.api.kinds.steps import kind_of, problems

POD = kind_of("v1", "Pod")
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
FIXED = (
    "spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,"
    "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing "
    "tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)\n"
)


def wrong(container: dict[str, Any] | None = None, **spec: Any) -> list[str]:
    """What is wrong with a pod that has these fields, in the pod or in its container."""
    return problems(POD, a_pod(containers=[a_container(**container)] if container else None, **spec))


def test_a_plain_pod_is_valid():
    assert wrong() == []


def test_the_words_are_those_of_the_real_server():
    pod = {"metadata": {"name": "bad"}, "spec": {"containers": [{"name": "C_", "image": ""}], "restartPolicy": "Zed"}}

    assert problems(POD, pod) == [
        f'spec.containers[0].name: Invalid value: "C_": {LABEL}',
        "spec.containers[0].image: Required value",
        'spec.restartPolicy: Unsupported value: "Zed": supported values: "Always", "OnFailure", "Never"',
    ]


def test_a_pod_needs_a_container():
    assert problems(POD, {"metadata": {"name": "p"}, "spec": {}}) == ["spec.containers: Required value"]


def test_a_container_for_looking_around_comes_later():
    assert wrong(ephemeralContainers=[a_container("debug")]) == [
        "spec.ephemeralContainers: Forbidden: cannot be set on create"
    ]


def test_no_two_containers_have_the_same_name_not_even_one_that_comes_first():
    pod = a_pod(containers=[a_container("a"), a_container("a")], initContainers=[a_container("a")])

    assert problems(POD, pod) == [
        'spec.containers[1].name: Duplicate value: "a"',
        'spec.initContainers[0].name: Duplicate value: "a"',
    ]


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        ({"ports": [{"name": "http"}]}, ["ports[0].containerPort: Required value"]),
        (
            {"ports": [{"containerPort": 70000}]},
            ["ports[0].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive"],
        ),
        (
            {"ports": [{"containerPort": 1, "name": "a"}, {"containerPort": 2, "name": "a"}]},
            ['ports[1].name: Duplicate value: "a"'],
        ),
        (
            {"ports": [{"containerPort": 1, "name": "--1"}]},
            [
                'ports[0].name: Invalid value: "--1": must contain at least one letter (a-z)',
                'ports[0].name: Invalid value: "--1": must not contain consecutive hyphens',
                'ports[0].name: Invalid value: "--1": must not begin or end with a hyphen',
            ],
        ),
        (
            {"ports": [{"containerPort": 1, "protocol": "ICMP"}]},
            ['ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"'],
        ),
        ({"env": [{"value": "1"}]}, ["env[0].name: Required value"]),
        (
            {"env": [{"name": "A", "valueFrom": {}}]},
            [
                'env[0].valueFrom: Invalid value: "": must specify one of: `fieldRef`, `resourceFieldRef`, '
                "`configMapKeyRef` or `secretKeyRef`"
            ],
        ),
        (
            {"env": [{"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
            ['env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty'],
        ),
        (
            {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.color"}}}]},
            [
                'env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.color": '
                "error converting fieldPath: field label not supported: spec.color"
            ],
        ),
        ({"volumeMounts": [{"name": "v", "mountPath": "/v"}]}, ['volumeMounts[0].name: Not found: "v"']),
        (
            {"imagePullPolicy": "Perhaps"},
            ['imagePullPolicy: Unsupported value: "Perhaps": supported values: "Always", "IfNotPresent", "Never"'],
        ),
        ({"livenessProbe": {}}, ["livenessProbe: Required value: must specify a handler type"]),
        (
            {"livenessProbe": {"exec": {"command": ["a"]}, "tcpSocket": {"port": 1}}},
            ["livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
        ),
        (
            {"livenessProbe": {"exec": {"command": ["a"]}, "successThreshold": 2}},
            ["livenessProbe.successThreshold: Invalid value: 2: must be 1"],
        ),
        (
            {"readinessProbe": {"httpGet": {"port": 0}, "periodSeconds": -1}},
            [
                "readinessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                "readinessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}},
            ['resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'],
        ),
        (
            {"resources": {"requests": {"cpu": "-1"}}},
            ['resources.requests[cpu]: Invalid value: "-1": must be greater than or equal to 0'],
        ),
        (
            {"resources": {"requests": {"warp": "1"}, "limits": {"warp": "1"}}},
            [
                'resources.limits[warp]: Invalid value: "warp": must be a standard resource for containers',
                'resources.requests[warp]: Invalid value: "warp": must be a standard resource for containers',
            ],
        ),
        (
            {"resources": {"requests": {"example.com/gpu": "1"}}},
            ["resources.limits: Required value: Limit must be set for non overcommitable resources"],
        ),
        (
            {"resources": {"limits": {"example.com/gpu": "500m"}}},
            [
                'resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer',
                'resources.requests[example.com/gpu]: Invalid value: "500m": must be an integer',
            ],
        ),
    ],
)
def test_containers_are_looked_at(container, expected):
    assert wrong(container) == [f"spec.containers[0].{each}" for each in expected]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (
            {"dnsPolicy": "Maybe"},
            [
                'dnsPolicy: Unsupported value: "Maybe": supported values: "ClusterFirstWithHostNet", '
                '"ClusterFirst", "Default", "None"'
            ],
        ),
        (
            {"nodeSelector": {"a": "b c"}},
            [
                'nodeSelector: Invalid value: "b c": a valid label must be an empty string or '
                "consist of alphanumeric characters, '-', '_' or '.', and must start and end "
                "with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', "
                "regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            ],
        ),
        (
            {"activeDeadlineSeconds": 0},
            ["activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        ({"hostname": "a.b"}, ['hostname: Invalid value: "a.b": must not contain dots']),
        ({"volumes": [{"name": "v"}, {"name": "v"}]}, ['volumes[1].name: Duplicate value: "v"']),
        ({"volumes": [{"name": "v", "secret": {}}]}, ["volumes[0].secret.secretName: Required value"]),
        (
            {"volumes": [{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}]},
            ["volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            {"tolerations": [{"operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 1}]},
            [
                'tolerations[0].effect: Invalid value: "NoSchedule": '
                "effect must be 'NoExecute' when `tolerationSeconds` is set"
            ],
        ),
        (
            {"tolerations": [{"key": "a", "effect": "Sometimes"}]},
            [
                'tolerations[0].effect: Unsupported value: "Sometimes": supported values: "NoSchedule", '
                '"PreferNoSchedule", "NoExecute"'
            ],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "Cry"}]},
            [
                "topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                'topologySpreadConstraints[0].whenUnsatisfiable: Unsupported value: "Cry": supported values: '
                '"DoNotSchedule", "ScheduleAnyway"',
            ],
        ),
        (
            {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {}}}},
            [
                "affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: "
                "Required value: must have at least one node selector term"
            ],
        ),
        (
            {
                "affinity": {
                    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"labelSelector": {}}]}
                }
            },
            [
                "affinity.podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].topologyKey: "
                "Required value: can not be empty"
            ],
        ),
        (
            {"schedulingGates": [{"name": "a"}], "nodeName": "n"},
            ["nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"],
        ),
    ],
)
def test_the_rest_of_a_pod_is_looked_at(spec, expected):
    assert wrong(**spec) == [f"spec.{each}" for each in expected]


def test_the_image_the_deadline_and_further_tolerations_may_change():
    old = a_pod(activeDeadlineSeconds=20)
    new = a_pod(
        containers=[a_container(image="x:2", imagePullPolicy="IfNotPresent")],
        activeDeadlineSeconds=10,
        tolerations=[
            {
                "key": "node.kubernetes.io/not-ready",
                "operator": "Exists",
                "effect": "NoExecute",
                "tolerationSeconds": 9,
            },
            {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
            {"key": "more", "operator": "Exists"},
        ],
    )

    assert problems(POD, new, old) == []


def test_nothing_else_of_a_pod_may_change():
    kept = {"key": "a", "operator": "Exists", "effect": "NoExecute"}
    everything = {"operator": "Exists"}
    old = a_pod(schedulerName="none", tolerations=[kept, everything])
    new = a_pod(schedulerName="x", tolerations=[kept, everything])

    assert problems(POD, new, old) == [FIXED + '- "schedulerName": "none",\n+ "schedulerName": "x",\n']


def test_a_pod_is_not_put_on_a_node_by_writing_so_into_it():
    tolerant = [{"operator": "Exists"}]

    found = problems(POD, a_pod(nodeName="n", tolerations=tolerant), a_pod(tolerations=tolerant))

    assert found == [FIXED + '- "nodeName": null,\n+ "nodeName": "n",\n']


def test_a_toleration_may_not_be_taken_away():
    old = a_pod(tolerations=[{"key": "a", "operator": "Exists"}, {"operator": "Exists"}])
    new = a_pod(tolerations=[{"operator": "Exists"}])

    assert problems(POD, new, old) == [
        "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"
    ]


def test_containers_may_neither_come_nor_go():
    tolerant = [{"operator": "Exists"}]
    new = a_pod(containers=[a_container("a"), a_container("b")], tolerations=tolerant)
    old = a_pod(containers=[a_container("a")], tolerations=tolerant)

    assert problems(POD, new, old) == ["spec.containers: Forbidden: pod updates may not add or remove containers"]


def test_gates_may_only_be_opened_and_until_then_the_pod_may_be_directed():
    tolerant = [{"operator": "Exists"}]
    gated = a_pod(schedulingGates=[{"name": "a"}, {"name": "b"}], tolerations=tolerant)

    opened = a_pod(schedulingGates=[{"name": "a"}], nodeSelector={"zone": "z"}, tolerations=tolerant)
    closed = a_pod(schedulingGates=[{"name": "a"}, {"name": "b"}, {"name": "c"}], tolerations=tolerant)

    assert problems(POD, opened, gated) == []
    assert problems(POD, closed, gated) == [
        "spec.schedulingGates[2].name: Forbidden: only deletion is allowed, but found new scheduling gate 'c'"
    ]


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("/etc/passwd", "must be a relative path"),
        ("../../x", "must not contain '..'"),
        ("a/../../x", "must not contain '..'"),
        ("..", "must not contain '..'"),
        ("..data/x", "must not start with '..'"),
        ("..2026_11_18", "must not start with '..'"),
    ],
)
def test_the_files_of_a_volume_stay_in_it_and_have_names_of_their_own(path, why):
    item = {"key": "k", "path": path}
    field = {"path": path, "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    volumes = [
        {"name": "a", "configMap": {"name": "m", "items": [item]}},
        {"name": "b", "secret": {"secretName": "s", "items": [item]}},
        {"name": "c", "downwardAPI": {"items": [field]}},
        {
            "name": "d",
            "projected": {
                "sources": [
                    {"configMap": {"name": "m", "items": [item]}},
                    {"secret": {"name": "m", "items": [item]}},
                    {"downwardAPI": {"items": [field]}},
                    {"serviceAccountToken": {"path": path, "expirationSeconds": 3600}},
                ]
            },
        },
    ]
    places = [
        "[0].configMap.items[0]",
        "[1].secret.items[0]",
        "[2].downwardAPI.items[0]",
        "[3].projected.sources[0].configMap.items[0]",
        "[3].projected.sources[1].secret.items[0]",
        "[3].projected.sources[2].downwardAPI.items[0]",
        "[3].projected.sources[3].serviceAccountToken",
    ]

    assert wrong(volumes=volumes) == [f'spec.volumes{each}.path: Invalid value: "{path}": {why}' for each in places]


def test_the_files_of_a_volume_may_be_in_directories():
    items = [{"key": "k", "path": "a/b..c/.hidden"}]

    assert wrong(volumes=[{"name": "a", "configMap": {"name": "m", "items": items}}]) == []


def test_a_sub_path_by_variables_stays_in_its_volume():
    mounts = [{"name": "a", "mountPath": "/a", "subPathExpr": "../$(X)"}]

    assert wrong({"volumeMounts": mounts}, volumes=[{"name": "a", "emptyDir": {}}]) == [
        """spec.containers[0].volumeMounts[0].subPathExpr: Invalid value: "../$(X)": must not contain '..'"""
    ]


def test_a_pod_for_another_system_asks_for_nothing_that_only_linux_has():
    context = {"seccompProfile": {"type": "Unconfined"}}
    container = {"securityContext": {"privileged": True, **context}}

    assert wrong(container, os={"name": "windows"}, hostPID=True, securityContext=context) == [
        "spec.hostPID: Forbidden: cannot be set for a windows pod",
        "spec.securityContext.seccompProfile: Forbidden: cannot be set for a windows pod",
        "spec.containers[0].securityContext.seccompProfile: Forbidden: cannot be set for a windows pod",
        "spec.containers[0].securityContext.privileged: Forbidden: cannot be set for a windows pod",
    ]
    options = {"windowsOptions": {"hostProcess": False}}
    assert wrong(os={"name": "linux"}, securityContext=options) == [
        "spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"
    ]
    assert wrong(os={"name": "plan9"}) == [
        'spec.os.name: Unsupported value: "plan9": supported values: "linux", "windows"'
    ]
