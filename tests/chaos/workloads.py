"""Workloads as a user writes them who does not want to lose a request: Deployment, Service, budget."""

from typing import Any

from tests.chaos.cluster import Cluster, mount_shared, script_command

REQUESTS = {"requests": {"cpu": "10m", "memory": "20Mi"}}


def a_web_deployment(
    name: str, version: str, *, replicas: int = 6, is_broken: bool = False, deadline_s: int = 60, namespace: str = ""
) -> Any:
    """Serves HTTP. Before a pod is told to end it goes on serving for a second: until everybody has heard that it is
    leaving. In Kubernetes that has to be said, too."""
    env = [{"name": "VERSION", "value": version}]
    if is_broken:
        env.append({"name": "BROKEN", "value": "yes"})
    container = {
        "name": "web",
        "image": "none",
        "command": [*script_command("web.py"), "8080"],
        "env": env,
        "ports": [{"name": "http", "containerPort": 8080}],
        "readinessProbe": {"httpGet": {"path": "/healthz", "port": "http"}, "periodSeconds": 1},
        "lifecycle": {"preStop": {"sleep": {"seconds": 1}}},
        "resources": REQUESTS,
    }
    spread = {
        "topologyKey": "topology.kubernetes.io/zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": name}},
    }
    made = _a_deployment(name, container, {"topologySpreadConstraints": [spread]}, replicas, namespace)
    made["spec"]["strategy"] = {"rollingUpdate": {"maxSurge": 2, "maxUnavailable": 0}}
    made["spec"]["progressDeadlineSeconds"] = deadline_s
    return made


def an_exclusive_deployment(name: str, cluster: Cluster) -> Any:
    """One pod, of which there must never be two."""
    container = {
        "name": "only",
        "image": "none",
        "command": [*script_command("exclusive.py"), str(cluster.shared), name],
        "resources": REQUESTS,
    }
    made = _a_deployment(name, container, {}, 1)
    made["spec"]["template"]["spec"] = mount_shared(made["spec"]["template"]["spec"], cluster.shared)
    made["spec"]["template"]["metadata"]["annotations"] = {"mainstay.dev/at-most-one": "true"}
    return made


def _a_deployment(name: str, container: Any, more: dict[str, Any], replicas: int, namespace: str = "") -> Any:
    # So short, because the lease of a node is short here, too.
    tolerations = [
        {"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 1}
        for key in ("unreachable", "not-ready")
    ]
    spec = {"containers": [container], "terminationGracePeriodSeconds": 5, "tolerations": tolerations, **more}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": spec},
        },
    }


def a_service(name: str, namespace: str = "") -> Any:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, **({"namespace": namespace} if namespace else {})},
        "spec": {"selector": {"app": name}, "ports": [{"name": "http", "port": 80, "targetPort": "http"}]},
    }


def a_budget(name: str, at_least: int) -> Any:
    spec = {"minAvailable": at_least, "selector": {"matchLabels": {"app": name}}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name}, "spec": spec}
