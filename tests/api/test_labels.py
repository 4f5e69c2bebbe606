"""Label selectors, in both of their forms."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api import labels
from mainstay.api.errors import CauseType, StatusCause, StatusError
from mainstay.api.labels import EVERYTHING, LabelSelector, Operator, Requirement, parse


def refusal_of(text: str) -> str:
    with pytest.raises(StatusError) as refusal:
        parse(text)
    assert (refusal.value.code, refusal.value.reason) == (400, "BadRequest")
    return refusal.value.message


@pytest.mark.parametrize(
    ("text", "requirements"),
    [
        ("", []),
        ("  ", []),
        ("a=b", [Requirement("a", Operator.EQUALS, ("b",))]),
        ("a==b", [Requirement("a", Operator.DOUBLE_EQUALS, ("b",))]),
        ("a != b", [Requirement("a", Operator.NOT_EQUALS, ("b",))]),
        ("a=", [Requirement("a", Operator.EQUALS, ("",))]),
        ("a=,b", [Requirement("a", Operator.EQUALS, ("",)), Requirement("b", Operator.EXISTS)]),
        ("a", [Requirement("a", Operator.EXISTS)]),
        ("!a", [Requirement("a", Operator.DOES_NOT_EXIST)]),
        ("! a", [Requirement("a", Operator.DOES_NOT_EXIST)]),
        ("a in (y,x,x)", [Requirement("a", Operator.IN, ("x", "y"))]),
        ("a\tnotin( x , y )", [Requirement("a", Operator.NOT_IN, ("x", "y"))]),
        ("a in ()", [Requirement("a", Operator.IN, ("",))]),
        ("a in (,x)", [Requirement("a", Operator.IN, ("", "x"))]),
        ("a in (x,,y,)", [Requirement("a", Operator.IN, ("", "x", "y"))]),
        ("a>3", [Requirement("a", Operator.GREATER, ("3",))]),
        ("a<30", [Requirement("a", Operator.LESS, ("30",))]),
        ("in in (in,notin)", [Requirement("in", Operator.IN, ("in", "notin"))]),
        ("z,a=1", [Requirement("a", Operator.EQUALS, ("1",)), Requirement("z", Operator.EXISTS)]),
        ("x.io/a=b", [Requirement("x.io/a", Operator.EQUALS, ("b",))]),
    ],
)
def test_the_text_form_is_read(text, requirements):
    assert parse(text) == LabelSelector(tuple(requirements))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a===b", "unable to parse requirement: found '=', expected: identifier"),
        ("a=b=c", "found '=', expected: ',' or 'end of string'"),
        ("a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
        ("a,", "found '', expected: identifier after ','"),
        (",a", "found ',', expected: !, identifier, or 'end of string'"),
        ("=a", "found '=', expected: !, identifier, or 'end of string'"),
        ("!", "unable to parse requirement: found '', expected: identifier"),
        ("!a=b", "found '=', expected: ',' or 'end of string'"),
        ("a in x", "unable to parse requirement: found 'x' expected: '('"),
        ("a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
        ("a in (", "unable to parse requirement: found '', expected: ',', ')' or identifier"),
        ("a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'"),
        ("a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_known_words(text, message):
    assert refusal_of(text) == message


def test_keys_and_values_must_be_possible():
    assert refusal_of("-a=b").startswith(
        'unable to parse requirement: <nil>: Invalid value: "-a": name part must consist'
    )
    assert refusal_of("a=-b").startswith(
        'unable to parse requirement: values[0][a]: Invalid value: "-b": a valid label'
    )
    assert refusal_of("a>x") == (
        "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an "
        "integer"
    )
    assert refusal_of("a in (-b,-c)").startswith('unable to parse requirement: [values[0][a]: Invalid value: "-b"')


@pytest.mark.parametrize(
    ("text", "matching", "others"),
    [
        ("", [{}, {"a": "b"}], []),
        ("a=b", [{"a": "b"}, {"a": "b", "c": ""}], [{}, {"a": ""}]),
        ("a!=b", [{}, {"a": "c"}], [{"a": "b"}]),
        ("a in (b,c)", [{"a": "b"}, {"a": "c"}], [{}, {"a": "d"}]),
        ("a notin (b,c)", [{}, {"a": "d"}], [{"a": "b"}, {"a": "c"}]),
        ("a", [{"a": ""}], [{}]),
        ("!a", [{}], [{"a": ""}]),
        ("a=", [{"a": ""}], [{}, {"a": "b"}]),
        ("a>2", [{"a": "3"}, {"a": "+10"}], [{"a": "2"}, {}, {"a": "x"}, {"a": "99999999999999999999"}]),
        ("a<2", [{"a": "-1"}], [{"a": "2"}, {}]),
        ("a=1,b", [{"a": "1", "b": "x"}], [{"a": "1"}, {"b": "x"}]),
    ],
)
def test_all_requirements_must_hold(text, matching, others):
    selector = parse(text)

    assert all(selector.matches(each) for each in matching)
    assert not any(selector.matches(each) for each in others)


def test_the_object_form_means_the_same():
    selector = {
        "matchLabels": {"b": "1", "a": "2"},
        "matchExpressions": [
            {"key": "c", "operator": "In", "values": ["y", "x"]},
            {"key": "d", "operator": "NotIn", "values": ["z"]},
            {"key": "e", "operator": "Exists"},
            {"key": "f", "operator": "DoesNotExist", "values": None},
        ],
    }

    assert labels.problems_of_selector(selector, "spec.selector") == []
    assert str(labels.from_object(selector)) == "a=2,b=1,c in (x,y),d notin (z),e,!f"
    assert labels.from_object({"matchLabels": {"a": "b"}}) == parse("a=b") == labels.from_labels({"a": "b"})


@pytest.mark.parametrize("selector", [None, {}, {"matchLabels": None, "matchExpressions": []}])
def test_an_empty_object_matches_everything(selector):
    assert labels.from_object(selector) is EVERYTHING
    assert labels.problems_of_selector(selector, "spec.selector") == []
    assert EVERYTHING.is_empty


def test_problems_of_an_object_are_told_with_their_place():
    selector = {
        "matchLabels": {"-": "-"},
        "matchExpressions": [
            {"key": "a", "operator": "In"},
            {"key": "a", "operator": "Exists", "values": ["x"]},
            {"key": "a", "operator": "in", "values": ["-"]},
            {},
        ],
    }

    causes = labels.problems_of_selector(selector, "spec.selector")

    assert [(cause.type, cause.field) for cause in causes] == [
        (CauseType.INVALID, "spec.selector.matchLabels"),
        (CauseType.INVALID, "spec.selector.matchLabels"),
        (CauseType.REQUIRED, "spec.selector.matchExpressions[0].values"),
        (CauseType.FORBIDDEN, "spec.selector.matchExpressions[1].values"),
        (CauseType.INVALID, "spec.selector.matchExpressions[2].operator"),
        (CauseType.INVALID, "spec.selector.matchExpressions[2].values[0]"),
        (CauseType.INVALID, "spec.selector.matchExpressions[3].operator"),
        (CauseType.INVALID, "spec.selector.matchExpressions[3].key"),
        (CauseType.INVALID, "spec.selector.matchExpressions[3].key"),
    ]
    assert causes[2] == StatusCause(
        CauseType.REQUIRED,
        "spec.selector.matchExpressions[0].values",
        "Required value: must be specified when `operator` is 'In' or 'NotIn'",
    )
    assert causes[4].message == 'Invalid value: "in": not a valid selector operator'


def test_an_invalid_object_is_no_selector():
    with pytest.raises(StatusError, match='"Near" is not a valid label selector operator'):
        labels.from_object({"matchExpressions": [{"key": "a", "operator": "Near"}]})


def test_an_index_can_ask_for_the_one_value_that_is_required():
    assert parse("a=b,c").required_value("a") == "b"
    assert parse("a in (b)").required_value("a") == "b"
    assert parse("a in (b,c)").required_value("a") is None
    assert parse("a!=b").required_value("a") is None


KEYS = st.sampled_from(["a", "b", "x.io/c"])
VALUES = st.sampled_from(["", "1", "2", "30", "x", "in"])


def requirements() -> st.SearchStrategy[Requirement]:
    several = st.lists(VALUES, min_size=1, max_size=3).map(lambda values: tuple(sorted(set(values))))
    return st.one_of(
        st.builds(Requirement, KEYS, st.sampled_from([Operator.IN, Operator.NOT_IN]), several),
        st.builds(
            Requirement,
            KEYS,
            st.sampled_from([Operator.EQUALS, Operator.DOUBLE_EQUALS, Operator.NOT_EQUALS]),
            st.tuples(VALUES),
        ),
        st.builds(Requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
        st.builds(
            Requirement,
            KEYS,
            st.sampled_from([Operator.GREATER, Operator.LESS]),
            st.tuples(st.integers(0, 40).map(str)),
        ),
    )


def holds(requirement: Requirement, labelled: dict[str, str]) -> bool:
    """The meaning once more, without a thought for speed."""
    key, values = requirement.key, requirement.values
    match requirement.operator:
        case Operator.IN | Operator.EQUALS | Operator.DOUBLE_EQUALS:
            return any(labelled.get(key) == value for value in values)
        case Operator.NOT_IN | Operator.NOT_EQUALS:
            return all(labelled.get(key) != value for value in values)
        case Operator.EXISTS:
            return key in labelled
        case Operator.DOES_NOT_EXIST:
            return key not in labelled
    is_number = labelled.get(key, "").isdigit()
    sign = 1 if requirement.operator is Operator.GREATER else -1
    return is_number and (int(labelled[key]) - int(values[0])) * sign > 0


@given(st.lists(requirements(), max_size=4), st.dictionaries(KEYS, VALUES))
def test_a_selector_matches_what_it_says(wanted, labelled):
    selector = labels.build_selector(wanted)

    assert selector.matches(labelled) == all(holds(each, labelled) for each in wanted)


@given(st.lists(requirements(), min_size=1, max_size=30), st.dictionaries(KEYS, VALUES))
def test_a_long_selector_matches_what_it_says(wanted, labelled):
    held = [each for each in wanted if holds(each, labelled)] * 10
    failed = [each for each in wanted if not holds(each, labelled)]

    assert labels.build_selector(held).matches(labelled)
    assert not any(labels.build_selector([*held, each] * 10).matches(labelled) for each in failed)


@pytest.mark.parametrize(
    "term", ["k{}!=v", "app!=v{}", "!k{}", "app>{}", "app in (1000,v{})", "app notin (a{0},b{0},c{0})"]
)
def test_what_a_selector_costs_does_not_grow_with_its_terms(term):
    class Counted(dict[str, str]):
        looks = 0

        def get(self, key: str, default: Any = None) -> Any:
            Counted.looks += 1
            return super().get(key, default)

    selector = parse(",".join(term.format(number) for number in range(350)))

    assert selector.matches(Counted(app="1000", other="x"))
    assert Counted.looks <= 2


@given(st.lists(requirements(), max_size=4))
def test_the_text_of_a_selector_is_read_as_the_same_selector(wanted):
    selector = labels.build_selector(wanted)

    assert parse(str(selector)) == selector
    assert hash(parse(str(selector))) == hash(selector)


@given(st.text(alphabet="ab=!<>(), in\tot\x00é", max_size=20))
def test_any_text_is_read_or_refused(text):
    try:
        selector = parse(text)
    except StatusError:
        assert refusal_of(text)
    else:
        assert parse(str(selector)) == selector
