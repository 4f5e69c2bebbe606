import subprocess
import sys

import pytest

from mainstay.api import schema
from mainstay.api.schema import MessageField, find_fields, find_wire_fields

CORE = "k8s.io.api.core.v1."


def test_a_message_has_its_fields_with_numbers_and_types():
    assert find_fields(CORE + "ConfigMap")["data"] == MessageField("data", 2, "string", repeated=False, is_map=True)
    assert find_fields(CORE + "PodSpec")["containers"] == MessageField(
        "containers", 2, CORE + "Container", True, False, True
    )
    assert find_fields(CORE + "Pod")["metadata"].type == schema.OBJECT_META
    assert find_fields("k8s.io.api.apps.v1.DeploymentSpec")["replicas"].keeps_zero


def test_an_unknown_message_has_no_fields():
    assert dict(find_fields("k8s.io.api.core.v1.Unheard")) == {}
    assert dict(find_fields("x")) == {}


def test_what_go_embeds_is_flat_in_json_and_nested_on_the_wire():
    assert {"name", "emptyDir", "configMap"} <= find_fields(CORE + "Volume").keys()
    assert list(find_wire_fields(CORE + "Volume")) == ["name", "volumeSource"]
    assert "httpGet" in find_fields(CORE + "Probe")
    assert "apiGroups" in find_fields("k8s.io.api.admissionregistration.v1.NamedRuleWithOperations")


def test_objects_say_what_they_are_and_templates_do_not():
    assert {"kind", "apiVersion"} <= find_fields(CORE + "PersistentVolumeClaim").keys()
    assert {"kind", "apiVersion"} <= find_fields("k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions").keys()
    assert not {"kind", "apiVersion"} & find_fields(CORE + "PodTemplateSpec").keys()


def test_names_are_those_of_json():
    assert {"$ref", "x-kubernetes-preserve-unknown-fields"} <= find_fields(schema.SCHEMA).keys()
    assert "uid" in find_fields("k8s.io.api.authentication.v1.BoundObjectReference")
    admission = "k8s.io.api.admissionregistration.v1."
    assert "webhooks" in find_fields(admission + "MutatingWebhookConfiguration")
    assert "webhooks" in find_fields(admission + "ValidatingWebhookConfiguration")
    assert "expression" in find_fields(admission + "Validation")
    assert {"name", "expression"} == find_fields(admission + "Variable").keys()
    assert "Port" in find_fields(CORE + "DaemonEndpoint")


@pytest.mark.parametrize("kind", ["Pod", "ConfigMap", "Node"])
def test_the_message_of_a_kind_is_found_by_group_and_version(kind: str):
    assert schema.find_message("", "v1", kind) == CORE + kind
    assert schema.find_message("rbac.authorization.k8s.io", "v1", "Role") == "k8s.io.api.rbac.v1.Role"
    assert schema.find_message("example.com", "v1", kind) == ""


def test_every_type_that_a_field_has_is_known():
    seen = 0
    for short in schema._texts():
        package = schema._LONG_NAMES.get(short) or f"k8s.io.api.{short}"
        for fields in schema._package(package).values():
            for field in fields.values():
                seen += 1
                assert field.type in schema.SCALARS or schema.is_message(field.type), field
    assert seen > 2000


def test_importing_it_reads_no_table():
    program = "from mainstay.api import kinds, schema; print(schema._texts.cache_info().currsize)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout.strip() == b"0"
