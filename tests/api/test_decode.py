import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api import json_body
from mainstay.api.conform import conform
from mainstay.api.decode import DecodedObject, decode_body
from mainstay.api.errors import StatusError
from mainstay.api.kind import Kind
from tests.api.encode_protobuf import encode, envelope


def a_kind(group: str, version: str, kind: str, message: str = "", **rest: Any) -> Kind:
    plural = kind.lower() + "s"
    names: dict[str, Any] = {"kind": kind, "plural": plural, "singular": kind.lower(), "namespaced": True}
    return Kind(group=group, version=version, message=message, **names, **rest)


CONFIG_MAP = a_kind("", "v1", "ConfigMap", "k8s.io.api.core.v1.ConfigMap")
SECRET = a_kind("", "v1", "Secret", "k8s.io.api.core.v1.Secret")
POD = a_kind("", "v1", "Pod", "k8s.io.api.core.v1.Pod")
SERVICE = a_kind("", "v1", "Service", "k8s.io.api.core.v1.Service")
DEPLOYMENT = a_kind("apps", "v1", "Deployment", "k8s.io.api.apps.v1.Deployment")
LEASE = a_kind("coordination.k8s.io", "v1", "Lease", "k8s.io.api.coordination.v1.Lease")
DELETE_OPTIONS = a_kind("meta.k8s.io", "v1", "DeleteOptions", "k8s.io.apimachinery.pkg.apis.meta.v1.DeleteOptions")
DEFINITION = a_kind(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "k8s.io.apiextensions_apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition",
)
WIDGET = a_kind("example.com", "v1", "Widget", is_custom=True)


def decoded(
    body: Any, kind: Kind = CONFIG_MAP, content_type: str | None = None, validation: str = "Warn"
) -> DecodedObject:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    return decode_body(content_type, data, kind, validation=validation)


def refusal(body: Any, kind: Kind = CONFIG_MAP, content_type: str | None = None, validation: str = "Warn") -> str:
    with pytest.raises(StatusError) as caught:
        decoded(body, kind, content_type, validation)
    assert (caught.value.code, caught.value.reason) == (400, "BadRequest")
    return caught.value.message


def spec_of(spec: Any, kind: Kind) -> Any:
    return decoded({"spec": spec}, kind, validation="Strict").object["spec"]


# Formats


def test_a_body_without_a_content_type_is_json_and_what_it_does_not_say_is_filled_in():
    assert decoded({"metadata": {"name": "x"}, "data": {"a": "b"}}) == DecodedObject(
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}, "data": {"a": "b"}}, []
    )


def test_the_same_object_comes_out_of_json_yaml_and_protobuf():
    value = {"metadata": {"name": "x"}, "data": {"a": "b"}}
    raw = encode(CONFIG_MAP.message, value)
    as_yaml = b"metadata: {name: x}\ndata:\n  a: b\n"

    as_json = decoded(value, content_type="application/json; charset=utf-8")
    assert decoded(as_yaml, content_type="application/yaml") == as_json
    assert decoded(envelope("v1", "ConfigMap", raw), content_type="application/vnd.kubernetes.protobuf") == as_json


@pytest.mark.parametrize("content_type", ["text/plain", "application/cbor", "application/jsonx", "x" * 1000])
def test_a_format_that_is_not_understood_is_refused(content_type: str):
    with pytest.raises(StatusError) as caught:
        decoded(b"a: b", content_type=content_type)

    assert (caught.value.code, caught.value.reason) == (415, "UnsupportedMediaType")
    assert caught.value.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json, application/yaml, application/vnd.kubernetes.protobuf"
    )


def test_a_kind_of_a_user_has_no_protobuf():
    with pytest.raises(StatusError) as caught:
        decoded(b"k8s\0", WIDGET, content_type="application/vnd.kubernetes.protobuf")
    assert caught.value.code == 415


# Words of the real server (golden/real-v1.36.4.txt)


def test_a_body_that_is_cut_off_is_shown():
    assert refusal(b'{"a":') == (
        "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; "
        'json parse error: unexpected end of JSON input ({"a":)'
    )


def test_an_object_of_another_kind_is_refused():
    assert refusal({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}}) == (
        'Pod in version "v1" cannot be handled as a ConfigMap: '
        "converting (v1.Pod) to (core.ConfigMap): unknown conversion"
    )
    assert 'no kind "Bird" is registered for version "v1"' in refusal({"apiVersion": "v1", "kind": "Bird"})
    assert refusal({"apiVersion": "apps/v1", "kind": "Scale"}, a_kind("autoscaling", "v1", "Scale", SECRET.message))


def test_an_object_of_another_version_is_refused():
    scale = a_kind("autoscaling", "v2", "HorizontalPodAutoscaler", "k8s.io.api.autoscaling.v2.HorizontalPodAutoscaler")
    assert refusal({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler"}, scale) == (
        "the API version in the data (autoscaling/v1) does not match the expected API version (autoscaling/v2)"
    )
    assert "(example.com/v2)" in refusal({"apiVersion": "example.com/v2", "kind": "Widget"}, WIDGET)


def test_another_kind_than_the_users_is_invalid():
    with pytest.raises(StatusError, match=re.escape('kind: Invalid value: "Gadget": must be Widget')) as caught:
        decoded({"apiVersion": "example.com/v1", "kind": "Gadget"}, WIDGET)
    assert caught.value.code == 422


def test_options_belong_to_every_version():
    body = {"apiVersion": "apps/v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    assert decoded(body, DELETE_OPTIONS, validation="Strict").object == body


def test_a_value_of_a_wrong_type_is_refused():
    assert refusal({"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": 1}}) == (
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
        "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"
    )


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"replicas": "3"}, "string into Go struct field DeploymentSpec.spec.replicas of type int32"),
        ({"replicas": 2**31}, "number 2147483648 into Go struct field DeploymentSpec.spec.replicas of type int32"),
        ({"replicas": 1.5}, "number 1.5 into Go struct field DeploymentSpec.spec.replicas of type int32"),
        ({"paused": 1}, "number into Go struct field DeploymentSpec.spec.paused of type bool"),
        ([], "array into Go struct field Deployment.spec of type v1.DeploymentSpec"),
        (
            {"template": {"spec": {"containers": [{}, {"env": [{"value": True}]}]}}},
            "bool into Go struct field EnvVar.spec.template.spec.containers.env.value of type string",
        ),
        (
            {"template": {"spec": {"containers": {}}}},
            "object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
        ),
        (
            {"selector": {"matchLabels": []}},
            "array into Go struct field LabelSelector.spec.selector.matchLabels of type map[string]string",
        ),
        ({"strategy": {"rollingUpdate": {"maxSurge": {}}}}, "object into Go value of type int32"),
    ],
)
def test_a_wrong_type_is_named_with_its_place(spec: Any, words: str):
    before = 'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal '
    assert refusal({"spec": spec}, DEPLOYMENT) == before + words


def test_an_object_that_is_none_is_refused():
    assert "cannot unmarshal array into Go value of type struct" in refusal(b"[]")
    assert "cannot unmarshal number into Go struct field .kind of type string" in refusal({"kind": 5})
    assert refusal(b"").endswith("unexpected end of JSON input (<empty>)")
    assert refusal(b"x" * 40).endswith("(" + "78" * 30 + " ...)")


# Fields that are not there, or twice


def test_strictly_what_was_sent_in_vain_is_refused():
    before = 'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: '

    assert refusal({"foo": 1, "data": {}}, validation="Strict") == before + 'unknown field "foo"'
    assert refusal(b'{"data":{"a":"1","a":"2"}}', validation="Strict") == before + 'duplicate field "data.a"'
    assert refusal(b'{"foo":{"a":1,"a":2},"data":{"a":"1","a":"2"}}', validation="Strict") == (
        before + 'unknown field "foo", duplicate field "data.a"'
    )


def test_what_was_sent_in_vain_is_a_warning_and_is_gone():
    body = {"spec": {"containers": [{"name": "a", "Image": "b", "volumeMounts": [{"foo": 1}]}], "x": {}}}

    assert decoded(body, POD) == DecodedObject(
        {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "volumeMounts": [{}]}]}},
        [
            'unknown field "spec.containers[0].Image"',
            'unknown field "spec.containers[0].volumeMounts[0].foo"',
            'unknown field "spec.x"',
        ],
    )


def test_or_nothing_is_said():
    assert decoded(b'{"foo":1,"data":{"a":"1","a":"2"}}', validation="Ignore") == DecodedObject(
        {"apiVersion": "v1", "kind": "ConfigMap", "data": {"a": "2"}}, []
    )


def test_not_more_than_a_hundred_problems_are_listed():
    assert len(decoded({f"f{number}": 1 for number in range(1000)}).warnings) == 100


def test_of_a_kind_of_a_user_only_metadata_is_looked_at():
    body = {"metadata": {"name": "x", "foo": 1, "labels": None}, "spec": {"any": [None, {"thing": None}]}}

    assert decoded(body, WIDGET) == DecodedObject(
        {
            "apiVersion": "example.com/v1",
            "kind": "Widget",
            "metadata": {"name": "x"},
            "spec": {"any": [None, {"thing": None}]},
        },
        ['unknown field "metadata.foo"'],
    )
    assert "metadata" in refusal({"metadata": []}, WIDGET)


# One way to write it


def test_null_is_absent():
    body = {"metadata": {"creationTimestamp": None}, "spec": {"containers": None, "hostname": None}, "status": None}
    assert decoded(body, POD, validation="Strict").object == {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {},
        "spec": {},
    }


def test_an_empty_value_is_absent_where_that_is_the_same():
    assert spec_of({"replicas": 0, "minReadySeconds": 0, "paused": False, "strategy": {}}, DEPLOYMENT) == {
        "replicas": 0,
        "strategy": {},
    }
    assert spec_of({"restartPolicy": "", "volumes": [{"name": "v", "emptyDir": {}}], "nodeSelector": {}}, POD) == {
        "volumes": [{"name": "v", "emptyDir": {}}]
    }


def test_times_and_quantities_are_written_as_the_server_writes_them():
    assert spec_of({"renewTime": "2026-01-01T00:00:00.5+01:00"}, LEASE) == {"renewTime": "2025-12-31T23:00:00.500000Z"}
    assert decoded({"metadata": {"creationTimestamp": "2026-01-01T00:00:00.9+01:00"}}).object["metadata"] == {
        "creationTimestamp": "2025-12-31T23:00:00Z"
    }
    containers = [{"resources": {"limits": {"cpu": 0.5, "memory": "1024Mi", "pods": "1000"}}}]
    assert spec_of({"containers": containers}, POD) == {
        "containers": [{"resources": {"limits": {"cpu": "500m", "memory": "1Gi", "pods": "1k"}}}]
    }


def test_a_time_or_quantity_that_is_none_is_refused():
    assert "parsing time" in refusal({"metadata": {"creationTimestamp": "soon"}})
    assert "of type string" in refusal({"metadata": {"creationTimestamp": 5}})
    overhead: list[Any] = ["much", [], {}, True]
    for value in overhead:
        assert "quantities must match" in refusal({"spec": {"overhead": {"cpu": value}}}, POD)


def test_a_port_is_a_number_or_a_name():
    ports = [{"port": 1, "targetPort": 8080}, {"port": 2, "targetPort": "http"}, {"port": 3, "targetPort": 0}]
    assert spec_of({"ports": ports}, SERVICE) == {
        "ports": [{"port": 1, "targetPort": 8080}, {"port": 2, "targetPort": "http"}, {"port": 3}]
    }
    assert "Go value of type int32" in refusal({"spec": {"ports": [{"targetPort": 1.5}]}}, SERVICE)


def test_bytes_are_base64():
    assert decoded({"data": {"a": "AAH\n/", "b": ""}}, SECRET).object["data"] == {"a": "AAH/", "b": ""}
    assert "illegal base64 data at input byte 4" in refusal({"data": {"a": "AAH/A!=="}}, SECRET)
    assert "illegal base64 data" in refusal({"data": {"a": "A"}}, SECRET)
    assert "of type []uint8" in refusal({"data": {"a": 1}}, SECRET)


def test_schemas_have_forms_of_their_own():
    one = {
        "type": "object",
        "default": {"any": None},
        "properties": {"a": {"items": [{"type": "string"}], "additionalProperties": False, "foo": 1}},
        "dependencies": {"a": ["b"], "c": {"bar": 1}},
        "x-kubernetes-preserve-unknown-fields": True,
    }
    body = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": one}, "subresources": {"status": {}}}]}}

    result = decoded(body, DEFINITION)

    path = "spec.versions[0].schema.openAPIV3Schema"
    assert result.warnings == [
        f'unknown field "{path}.properties.a.foo"',
        f'unknown field "{path}.dependencies.c.bar"',
    ]
    kept = result.object["spec"]["versions"][0]
    assert kept["subresources"] == {"status": {}}
    assert kept["schema"]["openAPIV3Schema"]["default"] == {"any": None}
    assert kept["schema"]["openAPIV3Schema"]["dependencies"] == {"a": ["b"], "c": {}}
    assert kept["schema"]["openAPIV3Schema"]["properties"]["a"]["additionalProperties"] is False


def test_conforming_twice_changes_nothing_more():
    body = {"metadata": {"labels": {}}, "spec": {"containers": [{"resources": {"limits": {"cpu": "1000m"}}}]}}
    once = decoded(body, POD).object
    again = json.loads(json.dumps(once))

    assert conform(again, POD.message) == []
    assert again == once


# JSON from anyone


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b'{"a":1} x', "after top-level value"),
        (b'{"a":NaN}', "invalid character 'N' looking for beginning of value"),
        (b'{"a":1e400}', "out of range"),
        (b'{"a":' + b"9" * 10_001 + b"}", "out of range"),
        (b'{"a":9223372036854775808}', "out of range"),
        (b'{"a":"\xff"}', "invalid UTF-8"),
        (b'{"a":"\xed\xa0\x80"}', "invalid UTF-8"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b'{"a":"\\udc00 and more"}', "surrogate"),
        (b'{"a":' + b"[" * 200 + b"]" * 200 + b"}", "nested too deeply"),
        (b'{"a":' + b"[" * 100_000, "nested too deeply"),
        (b"\xef\xbb\xbf{}", "invalid character"),
        (b"{'a':1}", "object keys must be strings"),
    ],
)
def test_unreasonable_json_is_refused(body: bytes, words: str):
    assert words in refusal(body, WIDGET)


def test_long_digits_in_text_are_no_number():
    assert decoded({"data": {"a": "9" * 40}}).object["data"] == {"a": "9" * 40}


@given(st.binary(max_size=40), st.sampled_from([None, "application/yaml", "application/vnd.kubernetes.protobuf"]))
def test_random_bytes_are_an_object_or_a_refusal(body: bytes, content_type: str | None):
    for kind in (CONFIG_MAP, WIDGET):
        assert code_of(content_type, body, kind) in (200, 400, 415)


def code_of(content_type: str | None, body: bytes, kind: Kind) -> int:
    try:
        result = decode_body(content_type, body, kind, validation="Strict")
    except StatusError as error:
        return error.code
    json.dumps(result.object, allow_nan=False)
    return 200


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.booleans())
def test_json_without_duplicates_is_never_found_to_have_any(value: Any, ascii_only: bool):
    body = json.dumps(value, ensure_ascii=ascii_only, indent=1 if ascii_only else None).encode()

    assert json_body.parse(body).value == value
    assert json_body.duplicates(body) == []
    assert not json_body.parse(body).may_have_duplicates or b"\\u003a" in body


@given(st.lists(st.tuples(st.sampled_from(["a", ":", '":', "\\", "b"]), st.text(':"\\ab', max_size=3)), max_size=5))
def test_a_key_that_is_there_twice_is_always_noticed(pairs: list[tuple[str, str]]):
    body = "{" + ",".join(f"{json.dumps(key)} : {json.dumps(value)}" for key, value in pairs) + "}"
    keys = [key for key, _ in pairs]
    twice = {key for key in keys if keys.count(key) > 1}

    assert set(json_body.duplicates(body.encode())) == twice
    assert json_body.parse(body.encode()).may_have_duplicates or not twice


@given(st.sampled_from([CONFIG_MAP, POD, DEPLOYMENT, SECRET, DEFINITION, LEASE]), st.data())
def test_any_value_anywhere_is_taken_or_refused(kind: Kind, data: st.DataObject):
    value = {name: data.draw(JSON) for name in ("metadata", "spec", "data", "status")}

    assert code_of(None, json.dumps(value).encode(), kind) in (200, 400)


# YAML from anyone


def yaml_of(text: str) -> Any:
    return decoded(text.encode(), WIDGET, "application/yaml", "Strict").object["spec"]


def test_words_mean_what_kubernetes_takes_them_for():
    text = """
    spec: [yes, "yes", off, y, ~, null, 010, 0x1F, 1_000, 1e3, 1.5, +3, 2026-01-01, 1:30, .5, !!str 5, "", '1', 0o17, x]
    """
    assert yaml_of(text.strip()) == [
        *(True, "yes", False, True, None, None, 8, 31, 1000, 1000.0, 1.5, 3, "2026-01-01", "1:30", 0.5, "5"),
        *("", "1", 15, "x"),
    ]


def test_keys_become_text():
    assert yaml_of("spec: {1: a, true: b, 1.5: c, on: d}\n".replace("on: d", "off: d")) == {
        "1": "a",
        "true": "b",
        "1.5": "c",
        "false": "d",
    }


def test_aliases_and_merges_are_followed():
    text = "base: &b {a: 1, c: [1]}\nspec:\n  <<: *b\n  a: 2\n  again: *b\n"
    assert yaml_of(text) == {"a": 2, "c": [1], "again": {"a": 1, "c": [1]}}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: b: c", "yaml: line 1: mapping values are not allowed in this context"),
        ("a: &a [*a]", "unknown anchor 'a' referenced"),
        ("a: 1\n---\nb: 2", "more than one document"),
        ("a: .nan", "is not a JSON number"),
        ("a: 99999999999999999999", "out of range"),
        ("a: 1e999", "out of range"),
        ("a: !!python/object:os.system x", "tag"),
        ("? [a]\n: b", "a key must be a string"),
        ("a: " + "[" * 200, "nested too deeply"),
        ("- " * 200, "nested too deeply"),
        ("a: \x01", "yaml:"),
        ('a: "\\ud800"', "yaml:"),
        ("- a", "cannot unmarshal array"),
    ],
)
def test_unreasonable_yaml_is_refused(text: str, words: str):
    assert words in refusal(text.encode(), WIDGET, "application/yaml")


def test_a_document_that_multiplies_itself_is_refused():
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 9)]
    assert "excessive aliasing" in refusal("\n".join(lines).encode(), WIDGET, "application/yaml")


def test_a_key_that_is_in_a_mapping_twice_is_reported():
    text = b"data:\n  a: b\n  a: c\n"
    assert decoded(text, content_type="application/yaml").warnings == ['yaml: line 3: key "a" already set in map']
    assert "already set in map" in refusal(text, content_type="application/yaml", validation="Strict")
