"""Tables for kinds that users define."""

from typing import Any

import pytest

from mainstay.api.kind import Column, Object
from mainstay.api.tables import custom_table
from mainstay.api.tables.jsonpath import compile_path
from tests.api.table_rows import NOW, ago, an_object


def cell(path: str, found: Object, holds: str = "string") -> Any:
    table = custom_table([{"name": "X", "type": holds, "jsonPath": path}])
    return table.cells(found, NOW)[1]


def test_a_table_shows_the_name_and_then_the_columns_that_were_asked_for():
    table = custom_table(
        [
            {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "description": "How many.", "priority": 0},
            {"name": "Node", "type": "string", "format": "name", "jsonPath": ".status.node", "priority": 1},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ]
    )

    assert [(each.name, each.format) for each in table.columns[:1]] == [("Name", "name")]
    assert table.columns[1:] == (
        Column("Count", "integer", "", "How many.", 0),
        Column("Node", "string", "name", "The value at .status.node.", 1),
        Column("Age", "date", "", "The value at .metadata.creationTimestamp.", 0),
    )
    assert table.cells(an_object("mine", spec={"count": 3}), NOW) == ["mine", 3, None, "5m"]


OBJECT = an_object(
    metadata={"labels": {"app.kubernetes.io/name": "web", "app": "w"}},
    spec={"rules": [{"host": "a", "port": 80}, {"host": "b", "port": 443}, {"port": 8080}], "*": "star", "empty": []},
    status={
        "conditions": [
            {"type": "Available", "status": "True", "reason": "Fine", "seen": 1},
            {"type": "Ready", "status": "False", "reason": "it's (not)"},
        ]
    },
)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (".metadata.name", "web"),
        ("metadata.name", "web"),
        ("$.metadata.name", "web"),
        (".metadata.labels.app", "w"),
        (r".metadata.labels.app\.kubernetes\.io/name", "web"),
        (".metadata.labels['app.kubernetes.io/name']", "web"),
        (".spec['rules'][1].host", "b"),
        (".spec.rules[0].host", "a"),
        (".spec.rules[-2].host", "b"),
        (".spec.rules[1:].host", "b"),
        (".spec.rules[0:2:1].host", "a"),
        (".spec.rules[*].host", "a"),
        (".spec.rules[2].host", None),
        (".spec.rules[3].host", None),
        (".spec.rules[-4].host", None),
        (".spec.empty[0]", None),
        (".spec.empty[*]", None),
        (".spec.rules.host", None),
        (".spec.nothing.at.all", None),
        (".metadata.name[0]", None),
        ('.status.conditions[?(@.type=="Ready")].status', "False"),
        (".status.conditions[?(@.type=='Ready')].status", "False"),
        ('.status.conditions[?(@.type == "Ready")].reason', "it's (not)"),
        ('.status.conditions[?(@.reason=="it\'s (not)")].type', "Ready"),
        ('.status.conditions[?(@.type!="Ready")].type', "Available"),
        ('.status.conditions[?(@.type=="Gone")].status', None),
        (".status.conditions[?(@.seen)].type", "Available"),
        (".status.conditions[?(@.seen==1)].type", "Available"),
        (".spec.rules[?(@.port>80)].host", "b"),
        (".spec.rules[?(@.port<=80)].host", "a"),
        (".spec.rules[?(@['port']>=443)].port", "443"),
        ('.spec.rules[?(@.port=="80")].host', None),
        ('.metadata[?(@.name=="web")]', None),
    ],
)
def test_a_path_leads_to_the_first_value_it_finds(path: str, value: str | None):
    assert cell(path, OBJECT) == value


@pytest.mark.parametrize(
    "path",
    [
        "",
        "..name",
        ".a..b",
        ".a[",
        ".a[]",
        ".a[x]",
        ".a[1,2]",
        ".a[?(1==1)]",
        ".a[?()]",
        ".a[::0]",
        ".a b",
        ".a[-]",
        "x" * 1001,
    ],
)
def test_a_path_that_makes_no_sense_shows_nothing(path: str):
    if path:
        assert compile_path(path) is None
    assert cell(path, {"a": [1], "name": "web"}, "integer") is None


@pytest.mark.parametrize(
    ("holds", "value", "shown"),
    [
        ("string", "text", "text"),
        ("string", "", ""),
        ("string", 3, "3"),
        ("string", 1.5, "1.5"),
        ("string", 2.0, "2"),
        ("string", 1e20, "100000000000000000000"),
        ("string", 1e-7, "1e-07"),
        ("string", True, "true"),
        ("string", None, "<no value>"),
        ("string", {"b": [1, "<x>"], "a": None}, '{"a":null,"b":[1,"\\u003cx\\u003e"]}'),
        ("string", ["é"], '["é"]'),
        ("string", 2**64, None),
        ("integer", 3, 3),
        ("integer", 3.9, 3),
        ("integer", "3", None),
        ("integer", True, None),
        ("integer", float("inf"), None),
        ("integer", 2**64, None),
        ("number", 3, 3.0),
        ("number", 1.5, 1.5),
        ("number", 10**400, None),
        ("number", "1.5", None),
        ("boolean", False, False),
        ("boolean", "false", None),
        ("boolean", 0, None),
        ("date", ago(minutes=15), "15m"),
        ("date", ago(hours=-1), "<invalid>"),
        ("date", "yesterday", "<invalid>"),
        ("date", "", "<unknown>"),
        ("date", "0001-01-01T00:00:00Z", "<unknown>"),
        ("date", 5, None),
        ("integer", None, None),
        ("object", {}, None),
    ],
)
def test_a_value_is_shown_if_it_is_of_the_type_that_the_column_promises(holds: str, value: Any, shown: Any):
    found = cell(".value", {"value": value}, holds)

    assert (type(found), found) == (type(shown), shown)


def test_a_value_of_any_depth_does_no_harm():
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]

    assert cell(".value", {"value": deep}) is None


def test_a_number_too_long_to_be_written_is_not_shown():
    found = {"value": 10**5000, "within": [10**5000]}

    assert (cell(".value", found), cell(".within", found), cell(".value", found, "integer")) == (None, None, None)
