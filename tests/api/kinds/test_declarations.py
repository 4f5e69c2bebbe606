"""What is declared about the kinds that are always there."""

import pytest

from mainstay.api import schema
from mainstay.api.kind import Kind, Propagation
from mainstay.api.kinds import BUILTIN, REVIEWS
from tests.api.kinds.steps import copy, kind_of

# As the discovery of the real server has them: path, kind, scope, short names, categories, subresources.
DISCOVERED = """\
v1/configmaps ConfigMap Namespaced cm - -
v1/endpoints Endpoints Namespaced ep - -
v1/events Event Namespaced ev - -
v1/limitranges LimitRange Namespaced limits - -
v1/namespaces Namespace Cluster ns - finalize:update,status:get/patch/update
v1/nodes Node Cluster no - proxy:create/delete/get/patch/update,status:get/patch/update
v1/persistentvolumeclaims PersistentVolumeClaim Namespaced pvc - status:get/patch/update
v1/persistentvolumes PersistentVolume Cluster pv - status:get/patch/update
v1/podtemplates PodTemplate Namespaced - - -
v1/replicationcontrollers ReplicationController Namespaced rc all scale:get/patch/update,status:get/patch/update
v1/resourcequotas ResourceQuota Namespaced quota - status:get/patch/update
v1/secrets Secret Namespaced - - -
v1/serviceaccounts ServiceAccount Namespaced sa - token:create
v1/services Service Namespaced svc all proxy:create/delete/get/patch/update,status:get/patch/update
apps/v1/controllerrevisions ControllerRevision Namespaced - - -
apps/v1/daemonsets DaemonSet Namespaced ds all status:get/patch/update
apps/v1/deployments Deployment Namespaced deploy all scale:get/patch/update,status:get/patch/update
apps/v1/replicasets ReplicaSet Namespaced rs all scale:get/patch/update,status:get/patch/update
apps/v1/statefulsets StatefulSet Namespaced sts all scale:get/patch/update,status:get/patch/update
events.k8s.io/v1/events Event Namespaced ev - -
autoscaling/v2/horizontalpodautoscalers HorizontalPodAutoscaler Namespaced hpa all status:get/patch/update
autoscaling/v1/horizontalpodautoscalers HorizontalPodAutoscaler Namespaced hpa all status:get/patch/update
batch/v1/cronjobs CronJob Namespaced cj all status:get/patch/update
batch/v1/jobs Job Namespaced - all status:get/patch/update
policy/v1/poddisruptionbudgets PodDisruptionBudget Namespaced pdb - status:get/patch/update
rbac.authorization.k8s.io/v1/roles Role Namespaced - - -
storage.k8s.io/v1/storageclasses StorageClass Cluster sc - -
apiextensions.k8s.io/v1/customresourcedefinitions CustomResourceDefinition Cluster crd,crds api-extensions \
status:get/patch/update
scheduling.k8s.io/v1/priorityclasses PriorityClass Cluster pc - -
coordination.k8s.io/v1/leases Lease Namespaced - - -
discovery.k8s.io/v1/endpointslices EndpointSlice Namespaced - - -
"""


def _line(kind: Kind) -> str:
    theirs = [each for each in kind.subresources if each.group != "mainstay.dev"]  # We may have more than they.
    parts = [f"{each.name}:{'/'.join(each.verbs)}" for each in theirs]
    scope = "Namespaced" if kind.namespaced else "Cluster"
    listed = (",".join(each) or "-" for each in (kind.short_names, kind.categories, parts))
    return f"{kind.group_version}/{kind.plural} {kind.kind} {scope} {' '.join(listed)}"


def test_names_scope_and_subresources_are_those_of_the_real_server():
    declared = {_line(kind) for kind in BUILTIN}

    assert sorted(set(DISCOVERED.splitlines()) - declared) == []


def test_a_pod_has_all_the_addresses_that_clients_look_for():
    pod = kind_of("v1", "Pod")

    assert [(each.name, each.verbs, each.group, each.kind) for each in pod.subresources] == [
        ("attach", ("create", "get"), "", "PodAttachOptions"),
        ("binding", ("create",), "", "Binding"),
        ("ephemeralcontainers", ("get", "patch", "update"), "", ""),
        ("eviction", ("create",), "policy", "Eviction"),
        ("exec", ("create", "get"), "", "PodExecOptions"),
        ("log", ("get",), "", ""),
        ("portforward", ("create", "get"), "", "PodPortForwardOptions"),
        ("proxy", ("create", "delete", "get", "patch", "update"), "", "PodProxyOptions"),
        ("resize", ("get", "patch", "update"), "", ""),
        ("status", ("get", "patch", "update"), "", ""),
    ]


def test_every_kubernetes_kind_has_the_message_that_describes_it():
    kubernetes = [kind for kind in (*BUILTIN, *REVIEWS) if kind.group != "mainstay.dev"]

    assert [kind.message for kind in kubernetes] == [
        schema.find_message(kind.group, kind.version, kind.kind) or "none" for kind in kubernetes
    ]


def test_no_two_kinds_have_the_same_address():
    addresses = [(kind.group_version, kind.plural) for kind in (*BUILTIN, *REVIEWS)]

    assert sorted(addresses) == sorted(set(addresses))


def test_a_category_that_kubectl_shows_as_all_has_the_kinds_it_always_had():
    assert sorted({kind.plural for kind in BUILTIN if "all" in kind.categories}) == [
        "cronjobs",
        "daemonsets",
        "deployments",
        "horizontalpodautoscalers",
        "jobs",
        "pods",
        "replicasets",
        "replicationcontrollers",
        "services",
        "statefulsets",
    ]


def test_only_a_job_and_a_replication_controller_leave_their_pods_behind():
    assert [kind.kind for kind in BUILTIN if kind.default_propagation is not Propagation.BACKGROUND] == [
        "ReplicationController",
        "Job",
    ]


def test_kinds_without_a_generation_are_those_that_have_none_in_kubernetes():
    counted = {kind.kind for kind in BUILTIN if kind.has_generation}

    assert counted & {"ConfigMap", "Secret", "Namespace", "Node", "Lease", "Event", "Service", "ResourceQuota"} == set()
    assert counted >= {
        "Pod",
        "Deployment",
        "ReplicaSet",
        "Job",
        "PodDisruptionBudget",
        "PriorityClass",
        "EndpointSlice",
    }


def test_a_put_makes_a_lease_and_needs_a_version_for_one_that_is_there():
    assert {"Lease", "Service", "Event"} <= {kind.kind for kind in BUILTIN if kind.put_creates}
    assert {"Lease", "PodDisruptionBudget", "CustomResourceDefinition"} <= {
        kind.kind for kind in BUILTIN if kind.put_needs_version
    }


def test_every_kind_has_a_table_with_a_cell_for_each_column():
    assert [kind.kind for kind in BUILTIN if not kind.columns or kind.cells is None] == []


@pytest.mark.parametrize("kind", BUILTIN, ids=lambda kind: f"{kind.group_version}/{kind.kind}")
def test_an_object_with_nothing_in_it_is_filled_in_twice_with_the_same_result(kind):
    bare = {"metadata": {"name": "x", "uid": "u-1", **({"namespace": "default"} if kind.namespaced else {})}}
    kind.defaults(bare)
    kind.prepare(bare, None)
    once = copy(bare)

    kind.defaults(bare)
    kind.prepare(bare, None)

    assert bare == once
    assert kind.validate(bare, None) is not None


def test_fields_can_be_selected_that_clients_select_by():
    pod = {
        "spec": {"nodeName": "n1", "schedulerName": "s", "hostNetwork": True},
        "status": {"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]},
    }
    selectable = kind_of("v1", "Pod").selectable

    assert selectable is not None
    assert {name: read(pod) for name, read in selectable.items()} == {
        "spec.nodeName": "n1",
        "spec.host": "n1",
        "spec.restartPolicy": "",
        "spec.schedulerName": "s",
        "spec.serviceAccountName": "",
        "spec.hostNetwork": "true",
        "status.phase": "Running",
        "status.podIP": "",
        "status.podIPs": "10.0.0.1,fd00::1",
        "status.nominatedNodeName": "",
    }


def test_a_job_is_selected_by_how_often_it_succeeded():
    selectable = kind_of("batch/v1", "Job").selectable

    assert selectable is not None
    assert [selectable["status.successful"](job) for job in ({}, {"status": {"succeeded": 2}})] == ["0", "2"]
