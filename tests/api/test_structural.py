"""Structural schemas: what is refused, dropped and filled in, in the words of Kubernetes."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.errors import StatusCause
from mainstay.api.kind import Object
from mainstay.api.structural import NotStructural, Schema, compile_schema

PRESERVES = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
NUMBER_OR_TEXT = "x-kubernetes-int-or-string"


def a_schema(**properties: Any) -> Schema:
    return compile_schema({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}})


def told(causes: list[StatusCause]) -> list[str]:
    return [f"{cause.type.removeprefix('FieldValue')} {cause.field}: {cause.message}" for cause in causes]


def problems(field: Object, value: Any, old: Any = None) -> list[str]:
    """What is wrong with a value of the field `spec.a`."""
    return told(a_schema(a=field).validate({"spec": {"a": value}}, {"spec": {"a": old}} if old is not None else None))


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        (
            {"type": "integer"},
            "1",
            'TypeInvalid spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"',
        ),
        (
            {"type": "integer"},
            True,
            'TypeInvalid spec.a: Invalid value: "boolean": spec.a in body must be of type integer: "boolean"',
        ),
        (
            {"type": "integer"},
            1.5,
            'TypeInvalid spec.a: Invalid value: "number": spec.a in body must be of type integer: "number"',
        ),
        (
            {"type": "string"},
            None,
            'TypeInvalid spec.a: Invalid value: "null": spec.a in body must be of type string: "null"',
        ),
        (
            {"type": "string", "enum": ["x", "y"]},
            "z",
            'NotSupported spec.a: Unsupported value: "z": supported values: "x", "y"',
        ),
        (
            {"type": "integer", "minimum": 2},
            1,
            "Invalid spec.a: Invalid value: 1: spec.a in body should be greater than or equal to 2",
        ),
        (
            {"type": "integer", "minimum": 1, "exclusiveMinimum": True},
            1,
            "Invalid spec.a: Invalid value: 1: spec.a in body should be greater than 1",
        ),
        (
            {"type": "number", "maximum": 1.5},
            2,
            "Invalid spec.a: Invalid value: 2: spec.a in body should be less than or equal to 1.5",
        ),
        (
            {"type": "number", "maximum": 2.0, "exclusiveMaximum": True},
            2,
            "Invalid spec.a: Invalid value: 2: spec.a in body should be less than 2",
        ),
        (
            {"type": "integer", "multipleOf": 5},
            7,
            "Invalid spec.a: Invalid value: 7: spec.a in body should be a multiple of 5",
        ),
        (
            {"type": "string", "minLength": 2},
            "é",
            'Invalid spec.a: Invalid value: "é": spec.a in body should be at least 2 chars long',
        ),
        ({"type": "string", "maxLength": 2}, "abc", "TooLong spec.a: Too long: may not be more than 2 bytes"),
        (
            {"type": "string", "pattern": "^a+$"},
            "b",
            "Invalid spec.a: Invalid value: \"b\": spec.a in body should match '^a+$'",
        ),
        (
            {"type": "string", "format": "date-time"},
            "today",
            'TypeInvalid spec.a: Invalid value: "today": spec.a in body must be of type date-time: "today"',
        ),
        (
            {"type": "integer", "format": "int32"},
            2**31,
            'Invalid <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec.a',
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "minItems": 2},
            [1],
            "Invalid spec.a: Invalid value: 1: spec.a in body should have at least 2 items",
        ),
        (
            {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
            [1, 2],
            "TooMany spec.a: Too many: 2: must have at most 1 items",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1},
            {},
            "Invalid spec.a: Invalid value: 0: spec.a in body should have at least 1 properties",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}, "maxProperties": 0},
            {"x": "y"},
            "TooMany spec.a: Too many: 1: must have at most 0 items",
        ),
        (
            {"type": "object", "required": ["b"], "properties": {"b": {"type": "string"}}},
            {},
            "Required spec.a.b: Required value",
        ),
        (
            {"type": "array", "items": {"type": "object", "properties": {"b": {"type": "string"}}}},
            [{}, {"b": 1}],
            'TypeInvalid spec.a[1].b: Invalid value: "integer": spec.a[1].b in body must be of type string: "integer"',
        ),
        (
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"key": "x"},
            'TypeInvalid spec.a.key: Invalid value: "string": spec.a.key in body must be of type integer: "string"',
        ),
        (
            {NUMBER_OR_TEXT: True},
            1.5,
            'TypeInvalid spec.a: Invalid value: "number": spec.a in body must be of type integer,string: "number"',
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            ["x", "y", "x", "x"],
            'Duplicate spec.a[2]: Duplicate value: "x"',
        ),
        (
            {"type": "string", "not": {"enum": ["x"]}},
            "x",
            'Invalid <nil>: Invalid value: "": "spec.a" must not validate the schema (not)',
        ),
    ],
)
def test_what_is_wrong_is_said_in_the_words_of_kubernetes(field: Object, value: Any, expected: str):
    assert problems(field, value) == [expected]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ({"type": "integer"}, 1.0),
        ({"type": "number"}, 1),
        ({"type": "string", "nullable": True}, None),
        ({"type": "string", "maxLength": 2}, "éé"),
        ({"type": "string", "format": "missing-knows"}, "x"),
        ({NUMBER_OR_TEXT: True}, "50%"),
        ({NUMBER_OR_TEXT: True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, 5),
        ({"type": "integer", "enum": [1, 2]}, 2.0),
        ({"type": "string", "x-kubernetes-validations": [{"rule": "false"}]}, "rules in CEL are not evaluated"),
        ({PRESERVES: True}, [{"anything": 1}]),
    ],
)
def test_what_is_right_is_taken(field: Object, value: Any):
    assert problems(field, value) == []


@pytest.mark.parametrize(
    ("name", "right", "wrong"),
    [
        ("date-time", "2026-01-01T00:00:00.5+01:00", "2026-01-01"),
        ("date", "2026-02-28", "2026-02-30"),
        ("duration", "1h30m", "soon"),
        ("byte", "aGVsbG8=", "a b"),
        ("ipv4", "10.0.0.1", "10.0.0.256"),
        ("ipv6", "fe80::1", "10.0.0.1"),
        ("cidr", "10.0.0.0/8", "10.0.0.0"),
        ("mac", "00:1b:44:11:3a:b7", "00:1b:44"),
        ("uuid", "123E4567-e89b-12d3-a456-426614174000", "123"),
        ("uuid4", "123e4567-e89b-42d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("hostname", "web.example.com", "a b"),
        ("email", "me@example.com", "me"),
        ("uri", "https://example.com/x", "example"),
        ("quantity", "1Gi", "much"),
        ("k8s-short-name", "web-1", "Web"),
    ],
)
def test_a_text_has_the_format_that_is_asked_for(name: str, right: str, wrong: str):
    field = {"type": "string", "format": name}

    assert problems(field, right) == []
    assert problems(field, wrong) == [
        f'TypeInvalid spec.a: Invalid value: "{wrong}": spec.a in body must be of type {name}: "{wrong}"'
    ]


def test_items_of_a_map_list_differ_in_their_keys():
    item = {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
    }
    field = {
        "type": "array",
        "items": item,
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["name"],
    }

    found = problems(field, [{"name": "a", "port": 1}, {"name": "b"}, {"name": "a", "port": 2}])

    assert found == ['Duplicate spec.a[2]: Duplicate value: {"name":"a"}']


def test_of_any_of_some_schemas_one_must_fit():
    schema = a_schema(
        a={
            "type": "object",
            "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
            "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
        }
    )

    assert told(schema.validate({"spec": {"a": {}}})) == [
        'Invalid <nil>: Invalid value: "": "spec.a" must validate at least one schema (anyOf)',
        "Required spec.a.x: Required value",
    ]
    assert schema.validate({"spec": {"a": {"y": ""}}}) == []


def test_of_one_of_some_schemas_exactly_one_must_fit():
    field = {"type": "integer", "oneOf": [{"minimum": 5}, {"maximum": 10}]}

    assert problems(field, 7) == [
        'Invalid <nil>: Invalid value: "": "spec.a" must validate one and only one schema (oneOf). '
        "Found 2 valid alternatives"
    ]
    assert problems(field, 11) == []


def test_all_of_some_schemas_must_fit():
    assert problems({"type": "integer", "allOf": [{"minimum": 5}, {"maximum": 10}]}, 11) == [
        "Invalid spec.a: Invalid value: 11: spec.a in body should be less than or equal to 10",
        'Invalid <nil>: Invalid value: "": "spec.a" must validate all the schemas (allOf)',
    ]


@pytest.mark.parametrize("metadata", ["x", {"labels": {"a": 1}}, {"finalizers": "x"}])
def test_the_metadata_of_an_embedded_resource_have_the_right_types(metadata):
    schema = a_schema(a={"type": "object", EMBEDDED: True, PRESERVES: True})
    causes = schema.validate({"spec": {"a": {"apiVersion": "v1", "kind": "Pod", "metadata": metadata}}})
    assert [cause.field for cause in causes] == ["spec.a.metadata"]


def test_an_embedded_resource_says_what_it_is():
    field = {"type": "object", EMBEDDED: True, PRESERVES: True}

    assert problems(field, {"kind": "Pod"}) == ["Required spec.a.apiVersion: Required value: must not be empty"]


def test_what_was_wrong_before_and_is_not_touched_is_let_be():
    schema = a_schema(a={"type": "integer", "maximum": 5}, b={"type": "string"})
    old = {"spec": {"a": 9, "b": "x"}}

    assert schema.validate({"spec": {"a": 9, "b": "y"}}, old) == []
    assert len(schema.validate({"spec": {"a": 8, "b": "x"}}, old)) == 1
    assert len(schema.validate({"spec": {"a": 9, "b": 1}}, old)) == 1
    assert len(schema.validate({"spec": {"a": 9, "b": "y"}})) == 1


def test_a_truth_is_not_the_number_that_was_there_before():
    assert len(problems({"type": "integer", "maximum": 0}, True, old=1)) == 1


def test_unknown_fields_are_dropped_and_told():
    schema = a_schema(a={"type": "array", "items": {"type": "object", "properties": {"x": {"type": "string"}}}})
    obj = {
        "apiVersion": "e/v1",
        "kind": "Foo",
        "metadata": {"name": "f", "whatever": {"annotations": 1}},
        "spec": {"a": [{"x": "1", "y": {"z": 2}}], "b": 3},
        "extra": [],
    }

    dropped = schema.prune(obj)

    assert obj == {
        "apiVersion": "e/v1",
        "kind": "Foo",
        "metadata": {"name": "f", "whatever": {"annotations": 1}},
        "spec": {"a": [{"x": "1"}]},
    }
    assert sorted(dropped) == ["extra", "spec.a[0].y", "spec.b"]


def test_below_what_preserves_unknown_fields_only_what_is_specified_is_pruned():
    schema = a_schema(a={"type": "object", PRESERVES: True, "properties": {"known": {"type": "object"}}})
    obj = {"spec": {"a": {"free": {"x": 1}, "known": {"y": 2}}}}

    assert schema.prune(obj) == ["spec.a.known.y"]
    assert obj == {"spec": {"a": {"free": {"x": 1}, "known": {}}}}


def test_the_metadata_of_an_embedded_resource_is_not_pruned():
    schema = a_schema(a={"type": "object", EMBEDDED: True, "properties": {"spec": {"type": "object"}}})
    embedded = {"apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"a": "b"}}, "spec": {"gone": 1}}
    obj = {"spec": {"a": embedded}}

    assert schema.prune(obj) == ["spec.a.spec.gone"]
    assert obj["spec"]["a"]["metadata"] == {"labels": {"a": "b"}}


def test_keys_of_a_map_are_all_known():
    schema = a_schema(
        a={"type": "object", "additionalProperties": {"type": "object", "properties": {"x": {"type": "integer"}}}}
    )
    obj = {"spec": {"a": {"one": {"x": 1, "y": 2}}}}

    assert schema.prune(obj) == ["spec.a.one.y"]


def test_defaults_are_filled_in_at_every_level():
    schema = compile_schema(
        {
            "type": "object",
            "properties": {
                "spec": {
                    "type": "object",
                    "default": {},
                    "properties": {
                        "size": {"type": "integer", "default": 3},
                        "ports": {
                            "type": "array",
                            "items": {
                                "type": "object",
                                "properties": {"protocol": {"type": "string", "default": "TCP"}},
                            },
                        },
                        "by_name": {
                            "type": "object",
                            "additionalProperties": {
                                "type": "object",
                                "properties": {"on": {"type": "boolean", "default": False}},
                            },
                        },
                    },
                }
            },
        }
    )
    empty: Object = {}
    full: Object = {"spec": {"size": 0, "ports": [{}, {"protocol": "UDP"}], "by_name": {"a": {}}}}

    schema.default(empty)
    schema.default(full)

    assert empty == {"spec": {"size": 3}}
    assert full == {
        "spec": {"size": 0, "ports": [{"protocol": "TCP"}, {"protocol": "UDP"}], "by_name": {"a": {"on": False}}}
    }


def test_a_null_that_may_not_be_is_as_if_left_out():
    schema = a_schema(
        a={"type": "string"},
        b={"type": "string", "default": "x"},
        c={"type": "string", "nullable": True, "default": "x"},
    )
    obj = {"spec": {"a": None, "b": None, "c": None}}

    schema.default(obj)

    assert obj == {"spec": {"b": "x", "c": None}}


def test_a_default_is_not_shared_between_objects():
    schema = a_schema(a={"type": "object", "default": {"n": 1}, "properties": {"n": {"type": "integer"}}})
    first: Object = {"spec": {}}
    second: Object = {"spec": {}}

    schema.default(first)
    first["spec"]["a"]["n"] = 2
    schema.default(second)

    assert second == {"spec": {"a": {"n": 1}}}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({}, "s.type: Required value: must not be empty at the root"),
        ({"type": "string"}, 's.type: Invalid value: "string": must be object at the root'),
        (
            {"type": "object", "properties": {"a": {}}},
            "s.properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array", "items": {}}}},
            "s.properties[a].items.type: Required value: must not be empty for specified array items",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "array"}}},
            "s.properties[a].items: Required value: must be specified",
        ),
        (
            {"type": "object", "additionalProperties": {"type": "string"}},
            "s.additionalProperties: Forbidden: must not be used at the root",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "pattern": "(?=x)"}}},
            's.properties[a].pattern: Invalid value: "(?=x)": must be a valid regular expression, but isn\'t: '
            "error parsing regexp: invalid or unsupported Perl syntax: `(?=`",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "string", "anyOf": [{"type": "string"}]}}},
            "s.properties[a].anyOf[0].type: Forbidden: must be empty to be structural",
        ),
        (
            {"type": "object", "properties": {"a": {"type": "object", EMBEDDED: True}}},
            "s.properties[a].properties: Required value: must not be empty if x-kubernetes-embedded-resource is true "
            "without x-kubernetes-preserve-unknown-fields",
        ),
        (
            {
                "type": "object",
                "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}},
            },
            "s.properties[metadata]: Forbidden: must not specify anything other than name and generateName, but "
            "metadata is implicitly specified",
        ),
        (
            {"type": "object", "properties": {"a": {"$ref": "#/x", "type": "object"}}},
            "s.properties[a].$ref: Forbidden: $ref is not supported",
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "object", "oneOf": [{"properties": {"x": {"minimum": 1}}}]}},
            },
            "s.properties[a].properties[x]: Required value: because it is defined in "
            "s.properties[a].oneOf[0].properties[x]",
        ),
        ({"type": "object", "properties": []}, 's.properties: Invalid value: "": must be of type object'),
        ({"type": "object", "properties": {"a": 1}}, 's.properties[a]: Invalid value: "": must be of type object'),
    ],
)
def test_a_schema_that_is_not_structural_is_refused(schema: Object, expected: str):
    with pytest.raises(NotStructural) as refused:
        compile_schema(schema, "s")

    assert str(refused.value) == expected


def test_a_schema_is_not_deeper_than_can_be_followed():
    schema: Object = {"type": "object"}
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": schema}}

    with pytest.raises(NotStructural, match="nested more than"):
        compile_schema(schema)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.text("ab", max_size=2),
    lambda below: (
        st.lists(below, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "spec", "kind", "metadata"]), below, max_size=3)
    ),
    max_leaves=10,
)
_LEAVES: Any = st.sampled_from(
    [
        {"type": "string", "default": "a"},
        {"type": "integer", "minimum": 0},
        {"type": "boolean", "nullable": True},
        {NUMBER_OR_TEXT: True},
        {PRESERVES: True},
    ]
)
SCHEMAS = st.recursive(
    _LEAVES,
    lambda below: (
        st.dictionaries(st.sampled_from("ab"), below, max_size=2).map(
            lambda fields: {"type": "object", "properties": fields}
        )
        | below.map(lambda each: {"type": "object", "additionalProperties": each})
        | below.map(lambda each: {"type": "array", "items": each, "x-kubernetes-list-type": "set"})
    ),
    max_leaves=6,
)


@given(SCHEMAS, st.dictionaries(st.sampled_from(["spec", "kind", "metadata", "x"]), JSON))
def test_whatever_comes_in_is_pruned_and_defaulted_once_and_for_all(field: Object, obj: Object):
    schema = compile_schema({"type": "object", "properties": {"spec": field}})

    schema.prune(obj)
    schema.default(obj)
    schema.validate(obj)
    again = copy.deepcopy(obj)

    assert schema.prune(again) == []
    schema.default(again)
    assert again == obj
    assert schema.validate(obj, obj) == []
