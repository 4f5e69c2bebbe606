"""The real kubectl, over TLS, against a real server process: kinds that a user has defined."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.clients.server_process import unique_name
from tests.processes import eventually
from tests.requirements import needs

pytestmark = [pytest.mark.slow, needs("kubectl")]


@pytest.fixture
def wheels(kubectl) -> Iterator[str]:
    """A kind of this test, by its plural."""
    group = f"{unique_name('wheels')}.example.com"
    size = {"type": "integer", "minimum": 1}
    spec = {"type": "object", "required": ["size"], "properties": {"size": size, "spokes": {"default": 8} | size}}
    status = {"type": "object", "properties": {"ready": {"type": "boolean"}}}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec, "status": status}}},
        "subresources": {"status": {}},
        "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
    }
    names = {"plural": "wheels", "singular": "wheel", "kind": "Wheel", "shortNames": ["wh"]}
    crd = {"group": group, "scope": "Namespaced", "names": names, "versions": [version]}
    body = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"}
    kubectl("create", "-f", "-", stdin=json.dumps(body | {"metadata": {"name": f"wheels.{group}"}, "spec": crd}))
    eventually(lambda: "True" in kubectl("get", "crd", f"wheels.{group}", "-o", "jsonpath={.status.conditions}"))
    yield f"wheels.{group}"
    kubectl("delete", "crd", f"wheels.{group}")


def a_wheel(wheels: str, **spec: Any) -> str:
    group = wheels.partition(".")[2]
    return json.dumps({"apiVersion": f"{group}/v1", "kind": "Wheel", "metadata": {"name": "front"}, "spec": spec})


def test_custom_resources_are_handled_like_others(kubectl, wheels):
    front = f"wheel.{wheels.partition('.')[2]}/front"
    assert kubectl("apply", "-f", "-", stdin=a_wheel(wheels, size=26)) == f"{front} created\n"
    assert kubectl("apply", "-f", "-", stdin=a_wheel(wheels, size=26)) == f"{front} unchanged\n"
    assert kubectl("apply", "-f", "-", stdin=a_wheel(wheels, size=28)) == f"{front} configured\n"
    assert kubectl.table("get", wheels) == [{"NAME": "front", "SIZE": "28"}]
    kubectl("patch", wheels, "front", "--type=merge", "--subresource=status", "-p", '{"status":{"ready":true}}')
    kubectl("label", wheels, "front", "a=b")

    wheel = kubectl.json("get", wheels, "front")

    assert (wheel["spec"], wheel["status"]) == ({"size": 28, "spokes": 8}, {"ready": True})
    assert wheel["metadata"]["labels"] == {"a": "b"}
    assert kubectl("wait", "--for=jsonpath={.status.ready}=true", f"{wheels}/front") == f"{front} condition met\n"
    assert "Size:    28" in kubectl("describe", wheels, "front")
    kubectl("delete", wheels, "front")
    assert kubectl("get", wheels, "-o", "name") == ""


def test_custom_resources_are_checked_by_their_schema(kubectl, wheels):
    refusal = kubectl.refused("create", "-f", "-", stdin=a_wheel(wheels, size=0))

    assert refusal == (
        'The Wheel "front" is invalid: spec.size: Invalid value: 0: spec.size in body should be greater than or equal '
        "to 1"
    )
