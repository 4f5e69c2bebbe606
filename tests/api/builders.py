"""Objects for tests, as a client would send them: valid ones, of which a test mentions only what matters to it."""

from typing import Any

Object = dict[str, Any]


def a_container(name: str = "c", image: str = "x:1", **fields: Any) -> Object:
    return {"name": name, "image": image, **fields}


def a_pod(
    name: str = "p",
    *,
    containers: list[Object] | None = None,
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    **spec: Any,
) -> Object:
    """A pod with one container. What else is named becomes part of its spec."""
    return {
        "metadata": {"name": name, "namespace": namespace, **({"labels": labels} if labels else {})},
        "spec": {"containers": containers or [a_container()], **spec},
    }


def a_template(labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A template of pods."""
    return {
        "metadata": {"labels": labels or {"a": "b"}},
        "spec": {"containers": [{"name": "c", "image": "x"}], **spec},
    }


def a_deployment(name: str = "d", *, labels: dict[str, str] | None = None, **spec: Any) -> Object:
    """A deployment whose selector fits its template."""
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": a_template(labels), **spec},
    }


def a_job(name: str = "j", *, restart_policy: str = "Never", **spec: Any) -> Object:
    """A job as `kubectl create job` sends it, with the uid that the server has given it."""
    return {
        "metadata": {"name": name, "namespace": "default", "uid": "u-1"},
        "spec": {
            "template": {"spec": {"containers": [{"name": "c", "image": "x"}], "restartPolicy": restart_policy}},
            **spec,
        },
    }


def a_node(name: str = "n", *, cpu: str = "4", memory: str = "8Gi", **spec: Any) -> Object:
    """A node as an agent registers it."""
    return {
        "metadata": {"name": name},
        "spec": spec,
        "status": {"capacity": {"cpu": cpu, "memory": memory, "pods": "110"}},
    }


def a_service(name: str = "s", **spec: Any) -> Object:
    return {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"ports": [{"port": 80}], "selector": {"a": "b"}, **spec},
    }


def a_definition(**spec: Any) -> Object:
    """A definition of the custom kind `Foo`."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    return {
        "metadata": {"name": "foos.d.example.com"},
        "spec": {
            "group": "d.example.com",
            "names": {"plural": "foos", "kind": "Foo"},
            "scope": "Namespaced",
            "versions": [version],
            **spec,
        },
    }
