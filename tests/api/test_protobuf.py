import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api import protobuf, schema
from mainstay.api.conform import conform
from mainstay.api.errors import StatusError
from tests.api.encode_protobuf import encode, envelope, varint

CORE = "k8s.io.api.core.v1."
EXTENSIONS = "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1."
POD = {
    "metadata": {
        "name": "web",
        "creationTimestamp": "2026-01-02T03:04:05Z",
        "labels": {"app": "web"},
        "managedFields": [{"manager": "kubectl", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {}}}],
    },
    "spec": {
        "terminationGracePeriodSeconds": 0,
        "containers": [
            {
                "name": "web",
                "env": [{"name": "A", "valueFrom": {"configMapKeyRef": {"name": "c", "key": "k", "optional": False}}}],
                "resources": {"limits": {"cpu": "500m"}},
                "readinessProbe": {"httpGet": {"path": "/", "port": "http"}, "periodSeconds": 3},
                "livenessProbe": {"tcpSocket": {"port": 0}},
            }
        ],
        "volumes": [{"name": "v", "emptyDir": {}}],
    },
}


def failure(message: str, data: bytes) -> str:
    with pytest.raises(StatusError) as caught:
        protobuf.decode(message, data)
    assert caught.value.code == 400
    return caught.value.message


def test_a_pod_comes_out_as_it_would_be_in_json():
    assert protobuf.decode(CORE + "Pod", encode(CORE + "Pod", POD)) == POD


def test_a_zero_is_left_out_unless_it_means_something():
    data = encode("k8s.io.api.apps.v1.DeploymentSpec", {"replicas": 0, "minReadySeconds": 0, "paused": False})

    assert protobuf.decode("k8s.io.api.apps.v1.DeploymentSpec", data) == {"replicas": 0}


def test_a_time_that_is_not_there_is_absent():
    # Go writes an empty message for it.
    assert protobuf.decode(schema.OBJECT_META, varint(8 << 3 | 2) + varint(0)) == {}


@pytest.mark.parametrize(
    ("message", "value"),
    [
        (CORE + "Secret", {"data": {"a": "AAH/"}, "type": "Opaque"}),
        (CORE + "ServiceSpec", {"ports": [{"port": 80, "targetPort": "http"}, {"port": -1, "targetPort": 8080}]}),
        ("k8s.io.api.coordination.v1.LeaseSpec", {"renewTime": "2026-01-02T03:04:05.000600Z", "leaseTransitions": 0}),
        ("k8s.io.api.authentication.v1.UserInfo", {"username": "u", "extra": {"a": ["b", "c"]}}),
        ("k8s.io.api.apps.v1.ControllerRevision", {"data": {"spec": {"a": [1, None]}}, "revision": -(2**63)}),
        (CORE + "NodeStatus", {"capacity": {"cpu": "4", "memory": "16Gi"}}),
        (schema.SCHEMA, {"default": False, "maximum": 1.5, "enum": ["a", 1, None], "x-kubernetes-list-type": "set"}),
        (schema.SCHEMA, {"items": {"type": "string"}, "additionalProperties": False}),
        (schema.SCHEMA, {"items": [{"type": "string"}, {}], "additionalProperties": {}}),
        (schema.SCHEMA, {"properties": {"a": {"additionalProperties": True}}, "dependencies": {"a": ["b"], "c": {}}}),
        (EXTENSIONS + "CustomResourceSubresources", {"status": {}}),
        ("k8s.io.api.discovery.v1.EndpointConditions", {"ready": False}),
    ],
)
def test_what_differs_in_json_is_written_as_json_has_it(message: str, value: dict[str, Any]):
    assert protobuf.decode(message, encode(message, value)) == value


def test_packed_numbers_are_understood():
    packed = varint(4 << 3 | 2) + varint(3) + varint(1) + varint(300)

    assert protobuf.decode(CORE + "PodSecurityContext", packed) == {"supplementalGroups": [1, 300]}


def test_fields_of_a_newer_client_are_skipped():
    newer = varint(900 << 3) + varint(7) + varint(901 << 3 | 2) + varint(3) + b"abc"
    newer += varint(902 << 3 | 1) + b"\0" * 8 + varint(903 << 3 | 5) + b"\0" * 4

    assert protobuf.decode(CORE + "ConfigMap", newer + encode(CORE + "ConfigMap", {"data": {"a": "b"}})) == {
        "data": {"a": "b"}
    }


def test_a_message_that_comes_in_parts_is_put_together():
    parts = encode(CORE + "Pod", {"spec": {"hostname": "a"}}) + encode(CORE + "Pod", {"spec": {"subdomain": "b"}})

    assert protobuf.decode(CORE + "Pod", parts) == {"spec": {"hostname": "a", "subdomain": "b"}}


def test_the_envelope_says_what_is_in_it():
    assert protobuf.unwrap(envelope("apps/v1", "Deployment", b"xyz")) == ("apps/v1", "Deployment", b"xyz")
    with pytest.raises(StatusError, match="expected prefix"):
        protobuf.unwrap(b"{}")


def test_what_is_not_well_formed_is_said_clearly():
    nested = b""
    for _ in range(500):
        nested = varint(28 << 3 | 2) + varint(len(nested)) + nested

    assert failure(CORE + "Pod", b"\x0a\x05ab") == "unexpected EOF"
    assert failure(CORE + "Pod", b"\xff" * 11) == "proto: integer overflow"
    assert failure(CORE + "Pod", varint(1 << 3) + varint(1)) == "proto: wrong wireType = 0 for field metadata"
    assert failure(schema.OBJECT_META, b"\x0a\x01\xff") == "proto: string field contains invalid UTF-8"
    assert "illegal wireType" in failure(CORE + "Pod", varint(99 << 3 | 3))
    assert "nested too deeply" in failure(schema.SCHEMA, nested)
    assert "out of range" in failure(CORE + "PodStatus", varint(7 << 3 | 2) + varint(10) + b"\x08" + varint(2**62))
    assert "unsupported value" in failure(schema.SCHEMA, encode(schema.SCHEMA, {"maximum": math.inf}))
    assert "unexpected end of JSON" in failure(schema.OBJECT_META, encode_raw_fields(b"{"))


def encode_raw_fields(raw: bytes) -> bytes:
    fields = varint(1 << 3 | 2) + varint(len(raw)) + raw
    entry = varint(7 << 3 | 2) + varint(len(fields)) + fields
    return varint(17 << 3 | 2) + varint(len(entry)) + entry


MESSAGES = st.sampled_from([CORE + "Pod", CORE + "Node", schema.SCHEMA, "k8s.io.api.authentication.v1.TokenReview"])


@given(MESSAGES, st.binary(max_size=60))
def test_random_bytes_are_an_object_or_a_bad_request(message: str, data: bytes):
    assert code_of(message, data) in (200, 400)


@given(st.data())
def test_a_damaged_message_is_an_object_or_a_bad_request(data: st.DataObject):
    body = bytearray(envelope("v1", "Pod", encode(CORE + "Pod", POD)))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(4, len(body) - 1))] = data.draw(st.integers(0, 255))
    del body[data.draw(st.integers(4, len(body))) :]

    assert code_of(CORE + "Pod", bytes(body), in_envelope=True) in (200, 400)


def code_of(message: str, data: bytes, in_envelope: bool = False) -> int:
    try:
        decoded = protobuf.decode(message, protobuf.unwrap(data)[2] if in_envelope else data)
    except StatusError as error:
        return error.code
    json.dumps(decoded, allow_nan=False)
    return 200


TEXT = st.text(max_size=5)


def values_of(type_: str, depth: int) -> st.SearchStrategy[Any]:
    """Values of a type as conform.py leaves them."""
    simple: dict[str, st.SearchStrategy[Any]] = {
        "string": TEXT,
        "bool": st.booleans(),
        "int32": st.integers(-(2**31), 2**31 - 1),
        "int64": st.integers(-(2**63), 2**63 - 1),
        "double": st.floats(allow_nan=False, allow_infinity=False),
        "bytes": st.sampled_from(["", "AA==", "AAH/"]),
        schema.TIME: st.sampled_from(["0001-01-01T00:00:01Z", "2026-01-02T03:04:05Z", "9999-12-31T23:59:59Z"]),
        schema.MICRO_TIME: st.sampled_from(["1969-12-31T23:59:59.999999Z", "2026-01-02T03:04:05.000006Z"]),
        schema.QUANTITY: st.sampled_from(["0", "1", "500m", "16Gi"]),
        schema.INT_OR_STRING: TEXT | st.integers(-(2**31), 2**31 - 1),
        schema.RAW_EXTENSION: st.dictionaries(TEXT, TEXT | st.none(), max_size=2),
        schema.FIELDS_V1: st.just({"f:spec": {}}),
        schema.JSON: st.booleans() | TEXT,
        schema.SCHEMA_OR_BOOL: st.booleans() | st.just({"type": "string"}),
        schema.SCHEMA_OR_ARRAY: st.just({"type": "string"}) | st.just([{"type": "string"}]),
        schema.SCHEMA_OR_STRINGS: st.just({"type": "string"}) | st.lists(TEXT, min_size=1, max_size=2),
    }
    if type_ in simple:
        return simple[type_]
    if type_ in schema.STRING_LISTS:
        return st.lists(TEXT, max_size=2)
    return objects_of(type_, depth - 1)


@st.composite
def objects_of(draw: st.DrawFn, message: str, depth: int) -> dict[str, Any]:
    fields = [field for field in schema.find_fields(message).values() if field.name not in ("kind", "apiVersion")]
    if depth <= 0:
        fields = [field for field in fields if field.type in schema.SCALARS]
    if not fields:
        return {}
    chosen = draw(st.lists(st.sampled_from(fields), max_size=4, unique_by=lambda field: field.name))
    value: dict[str, Any] = {}
    for field in chosen:
        one = values_of(field.type, depth)
        if field.repeated:
            value[field.name] = draw(st.lists(one, min_size=1, max_size=2))
        elif field.is_map:
            value[field.name] = draw(st.dictionaries(TEXT, one, min_size=1, max_size=2))
        else:
            value[field.name] = draw(one)
    return value


@pytest.mark.slow
@given(st.data())
def test_what_is_written_is_read_again(data: st.DataObject):
    message = data.draw(
        st.sampled_from([CORE + "Pod", CORE + "PersistentVolume", CORE + "Node", CORE + "Service", schema.SCHEMA])
        | st.sampled_from(["k8s.io.api.batch.v1.CronJob", "k8s.io.api.resource.v1.ResourceClaim"])
        | st.just("k8s.io.api.admissionregistration.v1.ValidatingAdmissionPolicy")
    )
    value = data.draw(objects_of(message, 4))

    decoded = protobuf.decode(message, encode(message, value))

    # Both go through what every body goes through: empty or absent is one where it means one.
    assert conform(value, message) == conform(decoded, message) == []
    assert without_empty(decoded) == without_empty(value)


def without_empty(value: Any) -> Any:
    """Whether an empty struct is there or not is lost on the wire, where it is no pointer."""
    if isinstance(value, dict):
        return {name: inner for name, each in value.items() if (inner := without_empty(each)) not in ({}, None)}
    return [without_empty(each) for each in value] if isinstance(value, list) else value
