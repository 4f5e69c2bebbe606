"""A valid object of every kind that is served, without its name. Mutations begin from these."""

import json
from random import Random
from typing import Any, Final

Object = dict[str, Any]

_LABELS: Final = {"app": "web"}
_TEMPLATE: Final[Object] = {
    "metadata": {"labels": {"app": "web"}, "annotations": {"note": "x"}},
    "spec": {
        "containers": [
            {
                "name": "c",
                "image": "x:1",
                "command": ["run"],
                "env": [{"name": "A", "value": "b"}],
                "ports": [{"containerPort": 80, "name": "http"}],
                "resources": {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
                "livenessProbe": {"httpGet": {"path": "/", "port": 80}, "periodSeconds": 5},
                "volumeMounts": [{"name": "v", "mountPath": "/v"}],
                "securityContext": {"runAsUser": 1000},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
        "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 3}],
        "nodeSelector": {"zone": "a"},
    },
}
_SELECTOR: Final = {"matchLabels": {"app": "web"}, "matchExpressions": [{"key": "app", "operator": "Exists"}]}
_DEVICES: Final = {
    "requests": [{"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1}}]
}
_TARGET: Final = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
_TIME: Final = "2026-01-01T00:00:00Z"
_MICRO: Final = "2026-01-01T00:00:00.000000Z"

WIDGET_SCHEMA: Final[Object] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": {"type": "integer", "minimum": 0, "default": 1},
                "text": {"type": "string", "maxLength": 20, "pattern": "^[a-z]*$"},
                "any": {"x-kubernetes-preserve-unknown-fields": True},
                "port": {"x-kubernetes-int-or-string": True},
                "list": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {"name": {"type": "string"}, "size": {"type": "number", "nullable": True}},
                    },
                },
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "map": {"type": "object", "additionalProperties": {"type": "boolean"}},
                "inner": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
            },
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}


GEAR_SCHEMA: Final[Object] = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "default": {},
            "properties": {
                "mode": {"type": "string", "enum": ["A", "B"], "default": "A"},
                "one": {
                    "type": "object",
                    "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "multipleOf": 3}},
                    "oneOf": [{"required": ["x"]}, {"required": ["y"]}],
                },
                "when": {"type": "string", "format": "date-time", "nullable": True},
                "ip": {"type": "string", "format": "ipv4"},
                "slow": {"type": "string", "pattern": "^(a+)+$"},
                "pairs": {
                    "type": "array",
                    "maxItems": 5,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port", "protocol"],
                    "items": {
                        "type": "object",
                        "required": ["port"],
                        "properties": {
                            "port": {"type": "integer"},
                            "protocol": {"type": "string", "default": "TCP"},
                            "deep": {
                                "type": "object",
                                "additionalProperties": {"type": "array", "items": {"type": "number"}},
                            },
                        },
                    },
                },
                "atom": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "additionalProperties": {"type": "string"},
                },
                "either": {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True},
                "none": {"type": "object", "maxProperties": 2, "not": {"required": ["z"]}},
            },
        },
    },
}
_SCHEMA_WORDS: Final[tuple[tuple[str, tuple[Any, ...]], ...]] = (
    ("type", ("object", "string", "integer", "number", "array", "boolean", "null", "x", "", 5, None)),
    ("default", (1, "x", {}, [], None, {"a": 1}, True, 1.5)),
    ("enum", ([], ["a"], [1, "a", None], "x", [{}])),
    ("pattern", ("^a$", "(", "(?P<x>a)", "^(a+)+$", "\\\\p{L}", "(?i)a", "[[:alpha:]]", "a" * 5000)),
    ("format", ("date-time", "byte", "int32", "int64", "uuid", "x", "duration", "ipv6", "uri")),
    ("minimum", (0, -1, 1.5, "x", 10**30)),
    ("multipleOf", (0, -1, 0.1, 3)),
    ("maxLength", (0, -1, 2**63, "x")),
    ("required", ([], ["a"], ["a", "a"], "a", [1])),
    ("properties", ({}, {"": {"type": "string"}}, {"a": {}}, {"metadata": {"type": "string"}}, [], None)),
    ("additionalProperties", (True, False, {}, {"type": "string"}, "x")),
    ("items", ({"type": "string"}, {}, [{"type": "string"}], None, {"type": "array", "items": {"type": "object"}})),
    ("nullable", (True, False, "x")),
    ("$ref", ("#/definitions/x", "#", "")),
    ("oneOf", ([], [{"type": "string"}], [{"properties": {"a": {"type": "x"}}}], {})),
    ("not", ({}, {"required": ["a"]}, None)),
    ("x-kubernetes-list-type", ("set", "map", "atomic", "x")),
    ("x-kubernetes-list-map-keys", (["name"], [], ["a", "a"], "x")),
    ("x-kubernetes-map-type", ("atomic", "granular", "x")),
    ("x-kubernetes-embedded-resource", (True, "x")),
    ("x-kubernetes-preserve-unknown-fields", (True, False, None)),
    ("x-kubernetes-int-or-string", (True, False)),
    ("x-kubernetes-validations", ([], [{"rule": "self.a > 1"}], [{"rule": "(", "message": "x"}], [{"rule": ""}], [1])),
    ("x-kubernetes-y", ("x",)),
    ("description", ("x" * 10_000, 5)),
    ("uniqueItems", (True, False)),
)


def _crd(plural: str, kind: str, schema: Object, **version: Any) -> Object:
    versions = [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}, **version}]
    versions.append({**versions[0], "name": "v2", "storage": False})
    return {
        "metadata": {"name": f"{plural}.fuzz.dev"},
        "spec": {
            "group": "fuzz.dev",
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": versions,
        },
    }


CRDS: Final = (
    _crd(
        "widgets",
        "Widget",
        WIDGET_SCHEMA,
        subresources={
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.replicas",
                "statusReplicasPath": ".status.replicas",
                "labelSelectorPath": ".status.selector",
            },
        },
        additionalPrinterColumns=[
            {"name": "Text", "type": "string", "jsonPath": ".spec.text"},
            {"name": "Size", "type": "integer", "jsonPath": ".spec.list[0].size"},
            {"name": "Since", "type": "date", "jsonPath": ".status.since"},
        ],
        selectableFields=[{"jsonPath": ".spec.text"}],
    ),
    _crd("blobs", "Blob", {"type": "object", "x-kubernetes-preserve-unknown-fields": True}),
    _crd("gears", "Gear", GEAR_SCHEMA),
)


def odd_schema(chance: Random, crd: Object) -> Object:
    """The definition with something else in its schema, which may or may not be allowed."""
    new: Object = json.loads(json.dumps(crd))
    for version in new["spec"]["versions"]:
        place = version["schema"]["openAPIV3Schema"]
        while chance.random() < 0.6 and isinstance(place.get("properties"), dict) and place["properties"]:
            place = place["properties"][chance.choice(sorted(place["properties"]))]
        for _ in range(chance.choice((1, 1, 2))):
            name, values = chance.choice(_SCHEMA_WORDS)
            place[name] = chance.choice(values)
        if chance.random() < 0.5:
            break
    return new


SAMPLES: Final[dict[tuple[str, str], Object]] = {
    ("", "bindings"): {"target": {"kind": "Node", "name": "node-a"}},
    ("", "configmaps"): {"data": {"a": "b"}, "binaryData": {"c": "ZGF0YQ=="}, "immutable": False},
    ("", "endpoints"): {"subsets": [{"addresses": [{"ip": "10.0.0.1"}], "ports": [{"port": 80}]}]},
    ("", "events"): {
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "a"},
        "reason": "Seen",
        "message": "x",
        "type": "Normal",
        "firstTimestamp": _TIME,
        "lastTimestamp": _TIME,
        "count": 1,
        "source": {"component": "fuzz"},
    },
    ("", "limitranges"): {"spec": {"limits": [{"type": "Container", "default": {"cpu": "1"}, "max": {"cpu": "2"}}]}},
    ("", "namespaces"): {"spec": {}},
    ("", "nodes"): {
        "spec": {"taints": [{"key": "a", "value": "b", "effect": "NoSchedule"}], "unschedulable": False},
        "status": {
            "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "capacity": {"cpu": "4", "memory": "8Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": _TIME}],
            "addresses": [{"type": "InternalIP", "address": "10.0.0.2"}],
        },
    },
    ("", "persistentvolumeclaims"): {
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "s",
        }
    },
    ("", "persistentvolumes"): {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": "/tmp/x"},
            "persistentVolumeReclaimPolicy": "Retain",
        }
    },
    ("", "pods"): {
        "metadata": {"labels": _LABELS},
        "spec": _TEMPLATE["spec"],
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": _TIME}],
            "containerStatuses": [
                {
                    "name": "c",
                    "image": "x:1",
                    "imageID": "",
                    "ready": True,
                    "restartCount": 1,
                    "state": {"running": {"startedAt": _TIME}},
                }
            ],
            "podIP": "10.0.0.3",
            "startTime": _TIME,
        },
    },
    ("", "podtemplates"): {"template": _TEMPLATE},
    ("", "replicationcontrollers"): {"spec": {"replicas": 1, "selector": _LABELS, "template": _TEMPLATE}},
    ("", "resourcequotas"): {"spec": {"hard": {"pods": "100", "requests.cpu": "50", "count/secrets": "100"}}},
    ("", "secrets"): {"type": "Opaque", "data": {"a": "Yg=="}, "stringData": {"c": "d"}},
    ("", "serviceaccounts"): {"automountServiceAccountToken": True, "secrets": [{"name": "a"}]},
    ("", "services"): {
        "spec": {
            "selector": _LABELS,
            "ports": [{"port": 80, "targetPort": "http", "protocol": "TCP"}],
            "type": "ClusterIP",
        }
    },
    ("apps", "controllerrevisions"): {"revision": 1, "data": {"spec": {"a": 1}}},
    ("apps", "daemonsets"): {"spec": {"selector": _SELECTOR, "template": _TEMPLATE}},
    ("apps", "deployments"): {
        "spec": {
            "replicas": 2,
            "selector": _SELECTOR,
            "template": _TEMPLATE,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 1}},
            "progressDeadlineSeconds": 60,
        },
        "status": {"replicas": 2, "conditions": [{"type": "Available", "status": "True"}]},
    },
    ("apps", "replicasets"): {
        "spec": {"replicas": 1, "selector": _SELECTOR, "template": _TEMPLATE},
        "status": {"replicas": 1},
    },
    ("apps", "statefulsets"): {
        "spec": {"replicas": 1, "serviceName": "web", "selector": _SELECTOR, "template": _TEMPLATE}
    },
    ("authentication.k8s.io", "selfsubjectreviews"): {},
    ("authentication.k8s.io", "tokenreviews"): {"spec": {"token": "admin", "audiences": ["api"]}},
    ("authorization.k8s.io", "localsubjectaccessreviews"): {
        "spec": {"user": "bob", "resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods"}}
    },
    ("authorization.k8s.io", "selfsubjectaccessreviews"): {
        "spec": {
            "resourceAttributes": {"namespace": "default", "verb": "get", "group": "apps", "resource": "deployments"}
        }
    },
    ("admissionregistration.k8s.io", "validatingadmissionpolicies"): {
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "failurePolicy": "Fail",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["", "apps"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE", "DELETE"],
                        "resources": ["configmaps", "secrets", "pods", "deployments"],
                        "scope": "*",
                    }
                ],
                "excludeResourceRules": [
                    {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods/*"]}
                ],
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}},
                "objectSelector": {"matchExpressions": [{"key": "a", "operator": "NotIn", "values": ["b"]}]},
                "matchPolicy": "Equivalent",
            },
            "matchConditions": [{"name": "mine", "expression": "request.userInfo.username != 'x'"}],
            "variables": [{"name": "labels", "expression": "object.?metadata.?labels.orValue({})"}],
            "validations": [
                {
                    "expression": "variables.labels.all(k, k.startsWith('a') || k.size() < 60)",
                    "message": "no",
                    "messageExpression": "'%s is bad'.format([object.metadata.name])",
                    "reason": "Forbidden",
                }
            ],
            "auditAnnotations": [{"key": "who", "valueExpression": "request.userInfo.username"}],
        }
    },
    ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"): {
        "spec": {
            "policyName": "a",
            "validationActions": ["Deny", "Audit"],
            "paramRef": {"name": "a", "namespace": "default", "parameterNotFoundAction": "Allow"},
            "matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}},
        }
    },
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies"): {
        "spec": {
            "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
            "failurePolicy": "Ignore",
            "reinvocationPolicy": "IfNeeded",
            "matchConstraints": {
                "resourceRules": [
                    {
                        "apiGroups": ["", "apps"],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE", "UPDATE"],
                        "resources": ["configmaps", "secrets", "pods", "deployments"],
                    }
                ],
            },
            "matchConditions": [{"name": "mine", "expression": "request.userInfo.username != 'x'"}],
            "variables": [{"name": "value", "expression": "object.metadata.name"}],
            "mutations": [
                {
                    "patchType": "ApplyConfiguration",
                    "applyConfiguration": {
                        "expression": "Object{metadata: Object.metadata{labels: {'fuzz': variables.value}}}"
                    },
                },
                {
                    "patchType": "JSONPatch",
                    "jsonPatch": {
                        "expression": "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'a': 'b'}}]"
                    },
                },
            ],
        }
    },
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"): {
        "spec": {
            "policyName": "a",
            "paramRef": {"name": "a", "namespace": "default", "parameterNotFoundAction": "Allow"},
            "matchResources": {"objectSelector": {"matchLabels": {"a": "b"}}},
        }
    },
    ("authorization.k8s.io", "selfsubjectrulesreviews"): {"spec": {"namespace": "default"}},
    ("authorization.k8s.io", "subjectaccessreviews"): {
        "spec": {"user": "bob", "groups": ["devs"], "nonResourceAttributes": {"path": "/metrics", "verb": "get"}}
    },
    ("autoscaling", "horizontalpodautoscalers"): {
        "spec": {"scaleTargetRef": _TARGET, "minReplicas": 1, "maxReplicas": 3}
    },
    ("batch", "cronjobs"): {
        "spec": {
            "schedule": "*/5 * * * *",
            "jobTemplate": {
                "spec": {"template": {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}}}
            },
        }
    },
    ("batch", "jobs"): {
        "spec": {
            "parallelism": 1,
            "completions": 2,
            "backoffLimit": 3,
            "template": {**_TEMPLATE, "spec": {**_TEMPLATE["spec"], "restartPolicy": "Never"}},
        }
    },
    ("coordination.k8s.io", "leases"): {
        "spec": {"holderIdentity": "me", "leaseDurationSeconds": 15, "renewTime": _MICRO, "leaseTransitions": 1}
    },
    ("discovery.k8s.io", "endpointslices"): {
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": 80, "protocol": "TCP"}],
    },
    ("events.k8s.io", "events"): {
        "eventTime": _MICRO,
        "reportingController": "fuzz.dev/x",
        "reportingInstance": "x",
        "action": "Do",
        "reason": "Seen",
        "type": "Normal",
        "regarding": {"kind": "Pod", "namespace": "default", "name": "a"},
    },
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): {
        "spec": {
            "priorityLevelConfiguration": {"name": "a"},
            "matchingPrecedence": 1000,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [
                {
                    "subjects": [{"kind": "User", "user": {"name": "carol"}}],
                    "resourceRules": [
                        {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "namespaces": ["default"]}
                    ],
                    "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}],
                }
            ],
        }
    },
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): {
        "spec": {
            "type": "Limited",
            "limited": {
                "nominalConcurrencyShares": 5,
                "limitResponse": {"type": "Queue", "queuing": {"queues": 4, "handSize": 2, "queueLengthLimit": 5}},
            },
        }
    },
    ("mainstay.dev", "bindings"): {
        "items": [
            {"metadata": {"namespace": "default", "name": name}, "target": {"name": "node-a"}, "observed": 5}
            for name in ("a", "b")
        ]
    },
    ("mainstay.dev", "componentstates"): {"status": {"phase": "Running", "seen": 5}},
    ("mainstay.dev", "controllersettings"): {"spec": {"queue": {"resyncSeconds": 60, "tenantWeights": {"shop": 2}}}},
    ("mainstay.dev", "servicelevelobjectives"): {
        "spec": {
            "target": {"kind": "Deployment", "name": "web"},
            "objectives": [{"type": "TimeToReady", "withinSeconds": 30, "percent": 95}],
        }
    },
    ("mainstay.dev", "holds"): {
        "spec": {"what": "Evictions", "owner": "me", "reason": "x", "expiresAt": "2026-01-05T00:00:00Z"}
    },
    ("mainstay.dev", "placementpolicies"): {
        "spec": {"policyVersion": "1", "scope": {"namespaces": ["default"]}, "scores": {"PodTopologySpread": 2}}
    },
    ("mainstay.dev", "policyrollouts"): {
        "spec": {
            "policy": "p",
            "stages": [
                {"name": "shadow", "shadowPercent": 5},
                {"name": "canary", "scope": {"namespaces": ["a"]}},
                {"name": "wider", "percent": 10},
                {"name": "all", "percent": 100},
            ],
            "gate": {"minSamples": 5},
        }
    },
    ("mainstay.dev", "reservations"): {
        "spec": {
            "workload": {"kind": "Deployment", "name": "web", "uid": "u1"},
            "generation": 1,
            "intent": "one",
            "nodeName": "node-a",
            "resources": {"cpu": "1", "memory": "1Gi"},
            "expiresAt": "2030-01-01T00:00:00Z",
        }
    },
    ("mainstay.dev", "samplingpolicies"): {"spec": {"rules": []}},
    ("mainstay.dev", "zonequotas"): {"spec": {"zone": "a", "hard": {"cpu": "10"}}},
    ("networking.k8s.io", "ingressclasses"): {"spec": {"controller": "fuzz.dev/x"}},
    ("networking.k8s.io", "ingresses"): {
        "spec": {
            "rules": [
                {
                    "host": "a.b",
                    "http": {
                        "paths": [
                            {
                                "path": "/",
                                "pathType": "Prefix",
                                "backend": {"service": {"name": "web", "port": {"number": 80}}},
                            }
                        ]
                    },
                }
            ]
        }
    },
    ("networking.k8s.io", "networkpolicies"): {
        "spec": {"podSelector": _SELECTOR, "policyTypes": ["Ingress"], "ingress": [{"ports": [{"port": 80}]}]}
    },
    ("node.k8s.io", "runtimeclasses"): {"handler": "runc"},
    ("policy", "poddisruptionbudgets"): {"spec": {"minAvailable": "50%", "selector": _SELECTOR}},
    ("rbac.authorization.k8s.io", "clusterrolebindings"): {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "a"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "carol"}],
    },
    ("rbac.authorization.k8s.io", "clusterroles"): {
        "rules": [
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]},
            {"nonResourceURLs": ["/x"], "verbs": ["get"]},
        ]
    },
    ("rbac.authorization.k8s.io", "rolebindings"): {
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
        "subjects": [{"kind": "ServiceAccount", "namespace": "default", "name": "default"}],
    },
    ("rbac.authorization.k8s.io", "roles"): {
        "rules": [
            {"apiGroups": ["", "apps"], "resources": ["pods", "deployments"], "verbs": ["*"], "resourceNames": ["a"]}
        ]
    },
    ("resource.k8s.io", "deviceclasses"): {"spec": {"selectors": [{"cel": {"expression": 'device.driver == "x"'}}]}},
    ("resource.k8s.io", "resourceclaims"): {"spec": {"devices": _DEVICES}},
    ("resource.k8s.io", "resourceclaimtemplates"): {"spec": {"spec": {"devices": _DEVICES}}},
    ("resource.k8s.io", "resourceslices"): {
        "spec": {
            "driver": "fuzz.dev",
            "nodeName": "node-a",
            "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "d", "attributes": {"a": {"int": 1}}, "capacity": {"mem": {"value": "1Gi"}}}],
        }
    },
    ("scheduling.k8s.io", "priorityclasses"): {"value": 100, "description": "x", "preemptionPolicy": "Never"},
    ("storage.k8s.io", "csidrivers"): {"spec": {"attachRequired": False}},
    ("storage.k8s.io", "csinodes"): {
        "spec": {"drivers": [{"name": "fuzz.dev", "nodeID": "x", "topologyKeys": ["zone"]}]}
    },
    ("storage.k8s.io", "csistoragecapacities"): {"storageClassName": "s", "capacity": "1Gi"},
    ("storage.k8s.io", "storageclasses"): {"provisioner": "fuzz.dev/x", "parameters": {"a": "b"}},
    ("storage.k8s.io", "volumeattachments"): {
        "spec": {"attacher": "fuzz.dev", "nodeName": "node-a", "source": {"persistentVolumeName": "a"}}
    },
    ("storage.k8s.io", "volumeattributesclasses"): {"driverName": "fuzz.dev", "parameters": {"a": "b"}},
    ("fuzz.dev", "widgets"): {
        "spec": {
            "replicas": 2,
            "text": "abc",
            "port": "http",
            "list": [{"name": "a", "size": 1.5}],
            "set": ["a"],
            "map": {"a": True},
            "any": {"x": [1]},
            "inner": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}},
        },
        "status": {"replicas": 1, "selector": "app=web", "since": _TIME},
    },
    ("fuzz.dev", "gears"): {
        "spec": {
            "mode": "B",
            "one": {"x": 1},
            "when": _TIME,
            "ip": "10.0.0.1",
            "slow": "aaaaaaaaaaaaaaaaaaaaaaaa",
            "pairs": [{"port": 80, "deep": {"a": [1.5, 2]}}, {"port": 80, "protocol": "UDP"}],
            "atom": {"a": "b"},
            "either": "x",
        }
    },
    ("fuzz.dev", "blobs"): {"spec": {"replicas": 1, "deep": {"a": [{"b": 1}]}}, "anything": [1, "a", None]},
}

SUBRESOURCES: Final[dict[str, Object]] = {
    "binding": {"target": {"kind": "Node", "name": "node-a"}, "metadata": {"annotations": {"a": "b"}}},
    "eviction": {"deleteOptions": {"gracePeriodSeconds": 1}},
    "scale": {"spec": {"replicas": 3}},
    "token": {"spec": {"audiences": ["api"], "expirationSeconds": 3600}},
    "ghosts": {"items": [{"uid": "x"}]},
    "recount": {},
}
"""Bodies of subresources that do not look like their object."""
