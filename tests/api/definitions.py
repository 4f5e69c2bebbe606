"""Definitions for tests: a small one, of which a test says only what matters."""

from typing import Any

from mainstay.api.custom import defaults_for_crd
from mainstay.api.kind import Object

NOON = "2026-01-01T12:00:00Z"


def a_version(
    name: str = "v1", *, storage: bool = True, served: bool = True, spec: Object | None = None, **rest: Any
) -> Object:
    """`spec` is the schema of that field."""
    fields = {"spec": spec or {"type": "object", "properties": {"size": {"type": "integer"}}}}
    fields["status"] = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": fields}}
    return {"name": name, "served": served, "storage": storage, "schema": schema, **rest}


def a_crd(
    plural: str = "foos",
    kind: str = "Foo",
    *versions: Object,
    group: str = "example.com",
    scope: str = "Namespaced",
    **names: Any,
) -> Object:
    crd = {
        "kind": "CustomResourceDefinition",
        "apiVersion": "apiextensions.k8s.io/v1",
        "metadata": {"name": f"{plural}.{group}", "uid": f"uid-{plural}", "generation": 1},
        "spec": {
            "group": group,
            "scope": scope,
            "names": {"plural": plural, "kind": kind, **names},
            "versions": list(versions) or [a_version()],
        },
    }
    defaults_for_crd(crd)
    return crd
