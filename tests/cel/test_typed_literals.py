"""Literals of Object and JSONPatch: what they become, and where an error is reported."""

from typing import Any

import pytest

from mainstay.cel.errors import BadExpression
from mainstay.cel.program import Budget, Language
from mainstay.cel.typed_literals import NESTED_MAX, rewrite_literals

LANGUAGE = Language(("object",), has_literals=True)
OBJECT = {"yes": True, "name": "a/b~c", "items": [{"n": 1}, {"n": 2}]}


def evaluate(source: str) -> Any:
    return LANGUAGE.compile(source).evaluate(LANGUAGE.bind({"object": OBJECT}, Budget()))


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("Object{}", {}),
        ("Object{spec: Object.spec{replicas: 2, paused: object.yes}}", {"spec": {"replicas": 2, "paused": True}}),
        ("Object{a: object.yes ? 1 : 2, b: 'x'}", {"a": 1, "b": "x"}),
        ("object.yes ? Object{a: 1} : Object{b: 'x'}", {"a": 1}),
        ("Object{?a: object.?none, ?b: object.?yes}", {"b": True}),
        ("Object{l: object.items.map(i, Object.l{n: i.n})}", {"l": [{"n": 1}, {"n": 2}]}),
        ("Object{m: {'k': [1, 2]}}.m.k[1]", 2),
        ("has(Object{a: 1}.a) && !has(Object{}.a)", True),
        ("[JSONPatch{op: 'add', path: '/x', value: Object.x{y: 1}}]", [{"op": "add", "path": "/x", "value": {"y": 1}}]),
        ("jsonpatch.escapeKey(object.name)", "a~1b~0c"),
        ("Object{a: 'Object{b: 1}', // , Object{\n b: \"}\"}", {"a": "Object{b: 1}", "b": "}"}),
        ("Object{a: '''\n'}''', b: 1}", {"a": "\n'}", "b": 1}),
        ("Object {\n  a : 1\n}", {"a": 1}),
    ],
)
def test_a_literal_has_the_value_of_its_fields(source, value):
    assert evaluate(source) == value


def test_the_fields_of_a_value_are_in_order():
    assert list(evaluate("Object{c: 1, a: 2, b: 3}")) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("Object{spec: Object.spek{}}", 'column 25: unexpected type name "Object.spek", expected "Object.spec"'),
        ("Object{'a': 1}", "line 1, column 8: the name of a field is expected in Object{…}, not \"'a'\""),
        ("[JSONPatch{opp: 'a'}]", "line 1, column 12: undefined field 'opp' of JSONPatch"),
        ("Object{spec:\n  Object.spec{a: nope}}", "line 2, column 18: undeclared reference to 'nope'"),
        ("Object{a: Object.a{b: 1}, c: nope}", "line 1, column 30: undeclared reference to 'nope'"),
        ("jsonpatch.escapeKey(1)", "no matching overload"),
        ("Object", "line 1, column 1: undeclared reference to 'Object'"),
        ("Object{a: 1", "line 1, column 12: Syntax error"),
        ("[" * (NESTED_MAX + 1), "brackets within each other"),
    ],
)
def test_what_is_wrong_is_said_with_its_place_in_the_source(source, said):
    with pytest.raises(BadExpression) as error:
        LANGUAGE.compile(source)
    assert said in str(error.value)


def test_what_has_no_such_literal_stays_as_it_is():
    source = "object.spec.all(x, x.Object == 'Object' || {'a': 1}[\"a\"] == 2) // JSONPatch"
    assert rewrite_literals(source).text == source
