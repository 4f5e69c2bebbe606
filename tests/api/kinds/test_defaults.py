"""What objects look like after they were created, compared with what the real server made of the same requests."""

from typing import Any

import pytest

from mainstay.api.kinds.pods import qos_class
from tests.api.builders import a_container, a_definition, a_deployment, a_job, a_node, a_pod, a_service, a_template
from tests.api.kinds.steps import kind_of, stored

# What the real server says of a container that says nothing but its name and an image without a tag.
CONTAINER = {
    "name": "c",
    "image": "x",
    "resources": {},
    "terminationMessagePath": "/dev/termination-log",
    "terminationMessagePolicy": "File",
    "imagePullPolicy": "Always",
}
TEMPLATE_SPEC = {
    "containers": [CONTAINER],
    "restartPolicy": "Always",
    "terminationGracePeriodSeconds": 30,
    "dnsPolicy": "ClusterFirst",
    "securityContext": {},
    "schedulerName": "default-scheduler",
}
TEMPLATE = {"metadata": {"labels": {"a": "b"}}, "spec": TEMPLATE_SPEC}
PATIENCE = [
    {"key": f"node.kubernetes.io/{what}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 300}
    for what in ("not-ready", "unreachable")
]


def made(group_version: str, kind: str, obj: dict[str, Any]) -> dict[str, Any]:
    """Everything but the metadata of the object after it was created."""
    result = stored(kind_of(group_version, kind), obj)
    return {key: value for key, value in result.items() if key != "metadata"}


def test_a_pod_is_filled_in():
    container = a_container(
        ports=[{"containerPort": 80}],
        resources={"limits": {"cpu": "1", "memory": "1Gi"}},
        readinessProbe={"httpGet": {"port": 80}},
    )

    assert made("v1", "Pod", a_pod(containers=[container], schedulerName="none")) == {
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "x:1",
                    "ports": [{"containerPort": 80, "protocol": "TCP"}],
                    "resources": {
                        "limits": {"cpu": "1", "memory": "1Gi"},
                        "requests": {"cpu": "1", "memory": "1Gi"},
                    },
                    "readinessProbe": {
                        "httpGet": {"path": "/", "port": 80, "scheme": "HTTP"},
                        "timeoutSeconds": 1,
                        "periodSeconds": 10,
                        "successThreshold": 1,
                        "failureThreshold": 3,
                    },
                    "terminationMessagePath": "/dev/termination-log",
                    "terminationMessagePolicy": "File",
                    "imagePullPolicy": "IfNotPresent",
                }
            ],
            "restartPolicy": "Always",
            "terminationGracePeriodSeconds": 30,
            "dnsPolicy": "ClusterFirst",
            "securityContext": {},
            "schedulerName": "none",
            "tolerations": PATIENCE,
            "enableServiceLinks": True,
        },
        "status": {"phase": "Pending", "qosClass": "Guaranteed"},
    }


def test_a_pod_that_tolerates_everything_gets_no_further_tolerations():
    pod = made("v1", "Pod", a_pod(tolerations=[{"operator": "Exists"}]))

    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("registry:5000/nginx", "Always"),
        ("registry:5000/nginx:1.2", "IfNotPresent"),
        ("nginx@sha256:0123", "IfNotPresent"),
    ],
)
def test_an_image_is_pulled_again_if_its_name_may_mean_something_else_tomorrow(image, policy):
    pod = made("v1", "Pod", a_pod(containers=[a_container(image=image)]))

    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_volumes_and_references_to_fields_are_filled_in():
    volumes = [
        {"name": "a"},
        {"name": "b", "configMap": {"name": "b"}},
        {"name": "c", "hostPath": {"path": "/c"}},
        {"name": "d", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
    ]
    env = [{"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}]
    spec = made("v1", "Pod", a_pod(volumes=volumes, containers=[a_container(env=env)]))["spec"]

    assert spec["volumes"] == [
        {"name": "a", "emptyDir": {}},
        {"name": "b", "configMap": {"name": "b", "defaultMode": 420}},
        {"name": "c", "hostPath": {"path": "/c", "type": ""}},
        {
            "name": "d",
            "projected": {
                "sources": [{"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}}],
                "defaultMode": 420,
            },
        },
    ]
    assert spec["containers"][0]["env"] == [
        {"name": "IP", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "status.podIP"}}}
    ]


def test_a_service_account_is_answered_under_both_of_its_names():
    spec = made("v1", "Pod", a_pod(serviceAccount="robot"))["spec"]

    assert (spec["serviceAccountName"], spec["serviceAccount"]) == ("robot", "robot")


def test_a_pod_on_the_network_of_its_node_takes_the_port_there_too():
    spec = made("v1", "Pod", a_pod(hostNetwork=True, containers=[a_container(ports=[{"containerPort": 80}])]))["spec"]

    assert spec["containers"][0]["ports"] == [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}]


def test_a_pod_that_is_held_back_says_so_from_the_beginning():
    assert made("v1", "Pod", a_pod(schedulingGates=[{"name": "example.com/wait"}]))["status"] == {
        "phase": "Pending",
        "qosClass": "BestEffort",
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ],
    }


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}, "BestEffort"),
        ({"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1024Mi"}}, "Guaranteed"),
        ({"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}}, "Burstable"),
    ],
)
def test_the_quality_of_service_follows_from_requests_and_limits(resources, quality):
    assert qos_class({"containers": [{"resources": resources}]}) == quality


def test_a_deployment_is_filled_in():
    assert made("apps/v1", "Deployment", a_deployment(replicas=0)) == {
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"a": "b"}},
            "template": TEMPLATE,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}},
            "revisionHistoryLimit": 10,
            "progressDeadlineSeconds": 600,
        },
        "status": {},
    }


def test_a_template_is_not_yet_a_pod_and_asks_for_no_more_than_it_says():
    deployment = a_deployment()
    deployment["spec"]["template"]["spec"]["containers"][0]["resources"] = {"limits": {"cpu": "1"}}

    container = made("apps/v1", "Deployment", deployment)["spec"]["template"]["spec"]["containers"][0]

    assert container["resources"] == {"limits": {"cpu": "1"}}


def test_a_replica_set_is_filled_in():
    assert made("apps/v1", "ReplicaSet", a_deployment(replicas=0)) == {
        "spec": {"replicas": 0, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE},
        "status": {"replicas": 0},
    }


def test_a_stateful_set_is_filled_in():
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}

    assert made("apps/v1", "StatefulSet", a_deployment(serviceName="s", volumeClaimTemplates=[claim])) == {
        "spec": {
            "replicas": 1,
            "serviceName": "s",
            "selector": {"matchLabels": {"a": "b"}},
            "template": TEMPLATE,
            "podManagementPolicy": "OrderedReady",
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 0}},
            "revisionHistoryLimit": 10,
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Retain", "whenScaled": "Retain"},
            "volumeClaimTemplates": [
                {
                    "kind": "PersistentVolumeClaim",
                    "apiVersion": "v1",
                    "metadata": {"name": "data"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {}, "volumeMode": "Filesystem"},
                    "status": {"phase": "Pending"},
                }
            ],
        },
        "status": {"replicas": 0, "availableReplicas": 0},
    }


def test_a_daemon_set_is_filled_in():
    assert made("apps/v1", "DaemonSet", a_deployment()) == {
        "spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": TEMPLATE,
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}},
            "revisionHistoryLimit": 10,
        },
        "status": {
            "currentNumberScheduled": 0,
            "numberMisscheduled": 0,
            "desiredNumberScheduled": 0,
            "numberReady": 0,
        },
    }


def test_a_replication_controller_takes_its_selector_and_labels_from_its_template():
    controller = {"metadata": {"name": "rc"}, "spec": {"template": a_template()}}

    assert stored(kind_of("v1", "ReplicationController"), controller) == {
        "metadata": {"name": "rc", "labels": {"a": "b"}},
        "spec": {"replicas": 1, "selector": {"a": "b"}, "template": TEMPLATE},
        "status": {"replicas": 0},
    }


def test_a_job_is_filled_in_and_selects_by_its_own_uid():
    labels = {
        "batch.kubernetes.io/controller-uid": "u-1",
        "batch.kubernetes.io/job-name": "djob",
        "controller-uid": "u-1",
        "job-name": "djob",
    }

    assert stored(kind_of("batch/v1", "Job"), a_job("djob", suspend=True)) == {
        "metadata": {"name": "djob", "namespace": "default", "uid": "u-1", "labels": labels},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 6,
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u-1"}},
            "manualSelector": False,
            "template": {"metadata": {"labels": labels}, "spec": {**TEMPLATE_SPEC, "restartPolicy": "Never"}},
            "completionMode": "NonIndexed",
            "suspend": True,
            "podReplacementPolicy": "TerminatingOrFailed",
        },
        "status": {},
    }


def test_a_job_whose_generated_name_was_taken_carries_the_name_it_got_in_the_end():
    kind = kind_of("batch/v1", "Job")
    job = stored(kind, a_job("first"))
    job["metadata"]["name"] = "second"

    again = stored(kind, job)

    assert again["metadata"]["labels"]["job-name"] == "second"
    assert again["spec"]["template"]["metadata"]["labels"]["batch.kubernetes.io/job-name"] == "second"


def test_a_job_that_only_says_how_many_at_a_time_has_no_wanted_completions():
    spec = made("batch/v1", "Job", a_job(parallelism=3))["spec"]

    assert (spec["parallelism"], spec.get("completions")) == (3, None)


def test_a_cron_job_is_filled_in():
    job = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": "Never"}}}}

    assert made(
        "batch/v1", "CronJob", {"metadata": {"name": "c"}, "spec": {"schedule": "@daily", "jobTemplate": job}}
    ) == {
        "spec": {
            "schedule": "@daily",
            "concurrencyPolicy": "Allow",
            "suspend": False,
            "successfulJobsHistoryLimit": 3,
            "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "metadata": {},
                "spec": {"template": {"metadata": {}, "spec": {**TEMPLATE_SPEC, "restartPolicy": "Never"}}},
            },
        },
        "status": {},
    }


def test_a_node_gets_no_pods_before_it_was_seen_ready():
    assert made("v1", "Node", {"metadata": {"name": "dnode"}}) == {
        "spec": {"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": {
                "machineID": "",
                "systemUUID": "",
                "bootID": "",
                "kernelVersion": "",
                "osImage": "",
                "containerRuntimeVersion": "",
                "kubeletVersion": "",
                "kubeProxyVersion": "",
                "operatingSystem": "",
                "architecture": "",
            },
        },
    }


def test_a_node_can_give_all_it_has_if_it_does_not_say_otherwise():
    status = made("v1", "Node", a_node(cpu="4000m", memory="8Gi"))["status"]

    assert status["allocatable"] == {"cpu": "4", "memory": "8Gi", "pods": "110"}


def test_a_service_is_filled_in_but_for_its_address():
    assert made("v1", "Service", a_service()) == {
        "spec": {
            "ports": [{"protocol": "TCP", "port": 80, "targetPort": 80}],
            "selector": {"a": "b"},
            "type": "ClusterIP",
            "sessionAffinity": "None",
            "ipFamilies": ["IPv4"],
            "ipFamilyPolicy": "SingleStack",
            "internalTrafficPolicy": "Cluster",
        },
        "status": {"loadBalancer": {}},
    }


def test_a_namespace_is_filled_in():
    assert stored(kind_of("v1", "Namespace"), {"metadata": {"name": "gold"}}) == {
        "metadata": {"name": "gold", "labels": {"kubernetes.io/metadata.name": "gold"}},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def test_what_is_plain_text_in_a_secret_is_kept_as_its_data():
    secret = {"metadata": {"name": "dsec"}, "stringData": {"a": "b"}, "data": {"c": "ZA=="}}

    assert made("v1", "Secret", secret) == {"data": {"a": "Yg==", "c": "ZA=="}, "type": "Opaque"}


@pytest.mark.parametrize(
    ("group_version", "kind", "sent", "kept"),
    [
        (
            "scheduling.k8s.io/v1",
            "PriorityClass",
            {"value": 5},
            {"value": 5, "preemptionPolicy": "PreemptLowerPriority"},
        ),
        (
            "policy/v1",
            "PodDisruptionBudget",
            {"spec": {"selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": 1}},
            {
                "spec": {"selector": {"matchLabels": {"a": "b"}}, "maxUnavailable": 1},
                "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
            },
        ),
        (
            "autoscaling/v2",
            "HorizontalPodAutoscaler",
            {
                "spec": {
                    "scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"},
                    "maxReplicas": 3,
                }
            },
            {
                "spec": {
                    "scaleTargetRef": {"kind": "Deployment", "name": "x", "apiVersion": "apps/v1"},
                    "minReplicas": 1,
                    "maxReplicas": 3,
                    "metrics": [
                        {
                            "type": "Resource",
                            "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
                        }
                    ],
                },
                "status": {"desiredReplicas": 0, "currentMetrics": None},
            },
        ),
        (
            "v1",
            "ResourceQuota",
            {"spec": {"hard": {"pods": "1000", "requests.cpu": "1000"}}},
            {"spec": {"hard": {"pods": "1k", "requests.cpu": "1k"}}, "status": {}},
        ),
        (
            "coordination.k8s.io/v1",
            "Lease",
            {"spec": {"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.123456Z"}},
            {"spec": {"holderIdentity": "x", "renewTime": "2026-01-01T00:00:00.123456Z"}},
        ),
        (
            "discovery.k8s.io/v1",
            "EndpointSlice",
            {"addressType": "IPv4", "endpoints": [{"addresses": ["10.0.0.9"]}], "ports": [{"port": 80}]},
            {
                "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.9"], "conditions": {}}],
                "ports": [{"name": "", "protocol": "TCP", "port": 80}],
            },
        ),
        (
            "v1",
            "Event",
            {
                "involvedObject": {"kind": "Pod", "namespace": "default", "name": "x"},
                "reason": "R",
                "message": "m",
                "firstTimestamp": "2026-01-01T00:00:00.5+01:00",
                "type": "Normal",
            },
            {
                "involvedObject": {"kind": "Pod", "namespace": "default", "name": "x"},
                "reason": "R",
                "message": "m",
                "source": {},
                "firstTimestamp": "2025-12-31T23:00:00Z",
                "lastTimestamp": None,
                "type": "Normal",
                "eventTime": None,
                "reportingComponent": "",
                "reportingInstance": "",
            },
        ),
        (
            "storage.k8s.io/v1",
            "StorageClass",
            {"provisioner": "p"},
            {"provisioner": "p", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
        ),
        (
            "networking.k8s.io/v1",
            "NetworkPolicy",
            {"spec": {"egress": [{"ports": [{"port": 53}]}]}},
            {
                "spec": {
                    "podSelector": {},
                    "policyTypes": ["Ingress", "Egress"],
                    "egress": [{"ports": [{"port": 53, "protocol": "TCP"}]}],
                }
            },
        ),
        (
            "rbac.authorization.k8s.io/v1",
            "RoleBinding",
            {"roleRef": {"kind": "Role", "name": "r"}, "subjects": [{"kind": "User", "name": "u"}]},
            {
                "roleRef": {"kind": "Role", "name": "r", "apiGroup": "rbac.authorization.k8s.io"},
                "subjects": [{"kind": "User", "name": "u", "apiGroup": "rbac.authorization.k8s.io"}],
            },
        ),
        (
            "v1",
            "LimitRange",
            {"spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "0.1"}}]}},
            {
                "spec": {
                    "limits": [
                        {
                            "type": "Container",
                            "max": {"cpu": "2"},
                            "min": {"cpu": "100m"},
                            "default": {"cpu": "2"},
                            "defaultRequest": {"cpu": "100m"},
                        }
                    ]
                }
            },
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_other_kinds_are_filled_in(group_version, kind, sent, kept):
    assert made(group_version, kind, {"metadata": {"name": "x", "namespace": "default"}, **sent}) == kept


def test_a_definition_is_filled_in():
    names = {"plural": "dfoos", "kind": "DFoo"}

    made_spec = made("apiextensions.k8s.io/v1", "CustomResourceDefinition", a_definition(names=names))

    assert made_spec["spec"]["names"] == {"plural": "dfoos", "singular": "dfoo", "kind": "DFoo", "listKind": "DFooList"}
    assert made_spec["spec"]["conversion"] == {"strategy": "None"}
    assert made_spec["status"] == {
        "conditions": None,
        "acceptedNames": {"plural": "", "kind": ""},
        "storedVersions": ["v1"],
    }


SAMPLES = [
    ("v1", "Pod", a_pod(volumes=[{"name": "v", "hostPath": {"path": "/x"}}], hostNetwork=True)),
    ("v1", "Node", a_node()),
    ("v1", "Service", a_service(type="LoadBalancer", sessionAffinity="ClientIP")),
    ("v1", "Namespace", {"metadata": {"name": "x"}}),
    ("v1", "Event", {"metadata": {"name": "x", "namespace": "default"}}),
    ("apps/v1", "Deployment", a_deployment()),
    ("apps/v1", "ReplicaSet", a_deployment()),
    ("apps/v1", "StatefulSet", a_deployment(volumeClaimTemplates=[{"metadata": {"name": "v"}}])),
    ("apps/v1", "DaemonSet", a_deployment()),
    ("batch/v1", "Job", a_job()),
    ("policy/v1", "PodDisruptionBudget", {"metadata": {"name": "x"}}),
    ("autoscaling/v2", "HorizontalPodAutoscaler", {"metadata": {"name": "x"}, "spec": {"behavior": {}}}),
    ("discovery.k8s.io/v1", "EndpointSlice", {"metadata": {"name": "x"}}),
    ("events.k8s.io/v1", "Event", {"metadata": {"name": "x"}}),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition", a_definition()),
    ("storage.k8s.io/v1", "CSIDriver", {"metadata": {"name": "x"}}),
]


@pytest.mark.parametrize(("group_version", "kind", "sent"), SAMPLES, ids=[f"{g}/{k}" for g, k, _ in SAMPLES])
def test_what_is_stored_and_sent_back_unchanged_is_still_the_same(group_version, kind, sent):
    declared = kind_of(group_version, kind)
    first = stored(declared, sent)

    assert stored(declared, first, first) == first


@pytest.mark.parametrize("kind", ["Pod", "Service", "Namespace", "Node"])
def test_the_status_is_not_changed_by_a_write_to_the_object(kind):
    declared = kind_of("v1", kind)
    sent = {"Pod": a_pod(), "Service": a_service(), "Namespace": {"metadata": {"name": "n"}}, "Node": a_node()}[kind]
    old = stored(declared, sent)
    new = {**old, "status": {"phase": "Failed"}}

    assert stored(declared, new, old) == old


def test_a_namespace_keeps_what_it_waits_for():
    kind = kind_of("v1", "Namespace")
    old = stored(kind, {"metadata": {"name": "n"}})

    assert stored(kind, {**old, "spec": {}}, old) == old
