"""How long does it take to decode a pod of 2 KB from the body of a request, looking at every field?"""

import json
from collections.abc import Iterable
from typing import Any, Final

from bench.measure import Figure, Stopwatch, main
from mainstay.api.decode import decode_body
from mainstay.api.kind import Kind

GOAL: Final = "≥ 16000"

POD: Final = Kind(
    group="",
    version="v1",
    kind="Pod",
    plural="pods",
    singular="pod",
    namespaced=True,
    message="k8s.io.api.core.v1.Pod",
)

PROBE: Final = {"httpGet": {"path": "/ready", "port": "http", "scheme": "HTTP"}, "periodSeconds": 5}
CONTAINER: Final = {
    "name": "web",
    "image": "registry.example.com/shop/web:1.42.0",
    "imagePullPolicy": "IfNotPresent",
    "args": ["--listen=:8080", "--metrics=:9090"],
    "ports": [{"name": "http", "containerPort": 8080, "protocol": "TCP"}, {"name": "metrics", "containerPort": 9090}],
    "env": [
        {"name": "POD_NAME", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}},
        {"name": "LOG_LEVEL", "value": "info"},
    ],
    "resources": {"requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"cpu": "1", "memory": "512Mi"}},
    "readinessProbe": PROBE | {"failureThreshold": 3},
    "livenessProbe": PROBE | {"initialDelaySeconds": 10},
    "volumeMounts": [
        {"name": "config", "mountPath": "/etc/web", "readOnly": True},
        {"name": "cache", "mountPath": "/var/cache/web"},
    ],
    "securityContext": {
        "runAsNonRoot": True,
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    },
}
OBJECT: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {
        "generateName": "web-6d4b75cb6d-",
        "namespace": "shop",
        "labels": {"app.kubernetes.io/name": "web", "tier": "front", "pod-template-hash": "6d4b75cb6d"},
        "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "9090"},
        "ownerReferences": [
            {
                "apiVersion": "apps/v1",
                "kind": "ReplicaSet",
                "name": "web-6d4b75cb6d",
                "uid": "48f72da9-69ed-4a7e-a7b2-76194cbf7cef",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    },
    "spec": {
        "serviceAccountName": "web",
        "terminationGracePeriodSeconds": 30,
        "priorityClassName": "high",
        "nodeSelector": {"kubernetes.io/os": "linux"},
        "containers": [CONTAINER],
        "volumes": [
            {"name": "config", "configMap": {"name": "web-config", "defaultMode": 420}},
            {"name": "cache", "emptyDir": {"sizeLimit": "1Gi"}},
        ],
        "tolerations": [{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "tolerationSeconds": 300}],
    },
}


def measure(quick: bool) -> Iterable[Figure]:
    body = json.dumps(OBJECT).encode()
    if not 1900 <= len(body) <= 2100:
        raise AssertionError(f"the pod has {len(body)} bytes")
    unknown = json.dumps(OBJECT | {"foo": 1}).encode()
    operations = 5_000 if quick else 50_000
    yield _figure("decode a 2 KB pod, Strict", body, "Strict", operations, GOAL)
    yield _figure("the same, Ignore", body, "Ignore", operations, GOAL)
    yield _figure("the same, with a field it does not have, Warn", unknown, "Warn", operations)


def _figure(name: str, body: bytes, validation: str, operations: int, goal: str = "") -> Figure:
    decode_body(None, body, POD, validation=validation)  # The tables are read when they are first needed.
    with Stopwatch() as watch:
        for _ in range(operations):
            decode_body(None, body, POD, validation=validation)
    return watch.rate(name, operations, goal=goal)


if __name__ == "__main__":
    main(measure)
