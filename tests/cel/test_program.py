"""Compile and evaluate expressions, and what an expression may cost."""

import contextlib
import subprocess
import sys
import time
from typing import Any

import pytest

from mainstay.cel.errors import BadExpression, CostExceeded, EvaluationFailed
from mainstay.cel.program import COST_MAX_NS, LENGTH_MAX, Budget, Language
from mainstay.cel.size import VALUES_MAX, Size, measure
from mainstay.cel.syntax_tree import LoopNode, NameNode, walk

CPU_S_MAX = 0.020
LANGUAGE = Language(("object", "other", "variables"))


def evaluate(source: str, **values: Any) -> Any:
    return LANGUAGE.compile(source).evaluate(LANGUAGE.bind(values, Budget()))


def a_workload(containers: int) -> dict[str, Any]:
    listed = [
        {"name": f"c{n}", "image": f"x/image-{n}:1", "env": [{"name": "A", "value": "b"}]} for n in range(containers)
    ]
    return {"metadata": {"name": "web", "labels": {"app": "web"}}, "spec": {"replicas": 3, "containers": listed}}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("object.spec.replicas <= 5", True),
        ("object.spec.replicas == 3.0", True),
        ("object.spec.containers.all(c, c.image.startsWith('x/'))", True),
        ("object.spec.containers.exists_one(c, c.name == 'c1')", True),
        ("object.spec.containers.map(c, c.name)", ["c0", "c1", "c2"]),
        ("object.spec.containers.filter(c, c.name != 'c1').size()", 2),
        ("object.spec.containers.all(c, c.env.all(e, e.name != 'B'))", True),
        ("has(object.spec.paused)", False),
        ("object.?spec.?paused.orValue(false)", False),
        ("object.metadata.?labels[?'app'].orValue('') == 'web'", True),
        ("'%s has %d'.format([object.metadata.name, size(object.spec.containers)])", "web has 3"),
        ("object.metadata.name.matches('^[a-z]{1,63}$')", True),
        ("cel.bind(n, object.spec.replicas, n * n)", 9),
        ("{'a': [1, null, 2.5, 'x', true]}", {"a": [1, None, 2.5, "x", True]}),
        ("duration('1h') > duration('5m')", True),
        ("other == null", True),
        ("object == object", True),
    ],
)
def test_an_expression_has_the_value_that_cel_says(source, value):
    assert evaluate(source, object=a_workload(3), other=None) == value


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("object.spec.replicas <=", "line 1, column 24: Syntax error"),
        ("true &&\n  nosuch", "line 2, column 3: undeclared reference to 'nosuch'"),
        ("1 + 'a'", "line 1, column 3: found no matching overload"),
        ("nosuch(1)", "line 1, column 7: undeclared reference to 'nosuch'"),
        ("(" * 3000, "recursion limit"),
        ("object" + ".a" * 4000, "recursion depth"),
        ("[" * 40 + "]" * 40, "recursion limit"),
        ("'" + "x" * LENGTH_MAX + "'", "too long"),
        ("'%.100000000f'.format([1.0])", "precision"),
        ("'\ud800'", ""),
        ("", "Syntax error"),
    ],
)
def test_what_does_not_compile_is_refused_with_its_position(source, said):
    with pytest.raises(BadExpression) as refused:
        LANGUAGE.compile(source)

    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("object.nosuch", "Key not found in map"),
        ("1 / (object.zero)", "divide by zero"),
        ("object.big + 9223372036854775807", "overflow"),
        ("optional.of(1)", "Python type"),
        ("other", "other"),
        ("variables.huge", "out of range"),
    ],
)
def test_what_has_no_value_fails(source, said):
    with pytest.raises(EvaluationFailed) as failed:
        evaluate(source, object={"zero": 0, "big": 1}, variables={"huge": 2**70})

    assert said in str(failed.value)


LONG = "x" * 100_000
MANY = list(range(9_000))
HOSTILE: list[tuple[str, dict[str, Any]]] = [
    ("object.all(a, object.all(b, object.all(c, a + b + c >= 0)))", {"object": MANY}),
    ("object.map(a, object.map(b, b)).size() > 0", {"object": MANY}),
    ("object.map(a, a).size() > 0", {"object": MANY}),
    ("object.map(a, other + other).size() > 0", {"object": MANY, "other": LONG}),
    ("object.all(a, other == other)", {"object": MANY, "other": MANY}),
    ("object.all(a, a in object)", {"object": MANY}),
    ("object.all(a, other.contains('xxxxxxxxxxxxxxxy') || true)", {"object": MANY, "other": LONG}),
    ("object.all(a, other.matches('(x|xx)*y$') || true)", {"object": MANY, "other": LONG}),
    ("other.matches('(.*a.{0,200}b){3}c')", {"other": "ab" * 50_000}),
    ("other.matches('\\\\pL{1000}')", {"other": "x"}),
    ("other.matches('(abcdefghijabcdefghijabcdefghijabcdefghij){1000}')", {"other": "x"}),
    ("'a'.matches(other)", {"other": "(abcdefghijabcdefghijabcdefghijabcdefghij){1000}"}),
    ("other.contains(object)", {"other": "x" * 1_000_000, "object": "x" * 500_000 + "y"}),
    ("other.replace('x', 'yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy').size() > 0", {"other": "x" * 1_000_000}),
    ("other.split('').size() > 0", {"other": "x" * 1_000_000}),
    (
        "cel.bind(a, other + other, cel.bind(b, a + a + a + a + a + a, cel.bind(c, b + b + b + b, size(c))))",
        {"other": LONG},
    ),
    ("object.map(a, other).join(other).size() > 0", {"object": MANY[:400], "other": LONG}),
    ("'%s%s%s'.format([object, object, object]).size() > 0", {"object": [LONG] * 90}),
    ("other.lowerAscii().upperAscii().reverse().size() > 0", {"other": "x" * 3_000_000}),
    ("object == other", {"object": [[n] for n in range(4_900)], "other": [[n] for n in range(4_900)]}),
    ("object.a == 1", {"object": {"a": 1, "b": list(range(100_000))}}),
]


@pytest.mark.parametrize(("source", "values"), HOSTILE)
def test_a_hostile_expression_takes_a_bounded_time(source, values):
    """It is refused, or it is fast; best of three, because the machine may be busy."""
    taken = []
    for _ in range(3):
        begun = time.process_time()
        with contextlib.suppress(EvaluationFailed):
            evaluate(source, **values)
        taken.append(time.process_time() - begun)

    assert min(taken) < CPU_S_MAX


@pytest.mark.parametrize("containers", [1, 10, 100])
def test_ordinary_rules_are_not_refused_for_their_cost(containers):
    for source in (
        "object.spec.containers.all(c, c.image.startsWith('x/'))",
        "object.spec.containers.all(c, c.image.matches('^x/[a-z0-9-]+:.*$'))",
        "object.spec.containers.all(c, c.env.all(e, e.name != 'B'))",
        "object.spec.containers.map(c, c.name).join(',') != ''",
        "object.spec.containers.filter(c, !c.image.startsWith('y/')).size() > 0",
        "object == object",
    ):
        assert evaluate(source, object=a_workload(containers)) is True


def test_all_evaluations_with_one_budget_share_it():
    program = LANGUAGE.compile("object.map(a, a).size() > 0")
    inputs = LANGUAGE.bind({"object": list(range(300))}, Budget(COST_MAX_NS))

    with pytest.raises(CostExceeded, match="together"):
        for _ in range(10):
            program.evaluate(inputs)


def test_an_object_with_too_many_values_is_not_handed_over():
    with pytest.raises(CostExceeded, match=f"more than {VALUES_MAX} values"):
        evaluate("object.a", object={"a": list(range(VALUES_MAX))})


def test_a_value_is_measured_in_all_its_parts():
    assert measure({"ab": ["c", "def", {"g": 1}], "h": None}) == Size(7, 8, 3, 3)


def test_a_tree_shows_what_an_expression_reads():
    program = LANGUAGE.compile("variables.a + variables.b > 1 && object.all(x, x == other)")

    assert program.find_selected("variables") == ("a", "b")
    assert {"object", "other", "variables"} <= set(program.names)
    assert any(isinstance(each, LoopNode) and each.over == NameNode("object") for each in walk(program.tree))


def test_the_library_is_imported_with_the_first_language_only():
    source = (
        "import sys, mainstay.server.request.app;"
        "assert not any(each.startswith('cel_expr_python') for each in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", source], check=True)
