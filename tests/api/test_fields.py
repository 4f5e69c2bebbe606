"""Field selectors."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mainstay.api.errors import StatusError
from mainstay.api.fields import EVERYTHING, FieldSelector, FieldTerm, check_supported, parse


def refusal_of(call: Callable[..., object], *arguments: object) -> str:
    with pytest.raises(StatusError) as refusal:
        call(*arguments)
    assert (refusal.value.code, refusal.value.reason) == (400, "BadRequest")
    return refusal.value.message


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (",,", []),
        ("metadata.name=a", [FieldTerm("metadata.name", "a")]),
        ("metadata.name==a", [FieldTerm("metadata.name", "a")]),
        ("a!=b", [FieldTerm("a", "b", is_equal=False)]),
        ("a=", [FieldTerm("a", "")]),
        ("a!=", [FieldTerm("a", "", is_equal=False)]),
        ("b=1,a!=2,", [FieldTerm("a", "2", is_equal=False), FieldTerm("b", "1")]),
        (r"a=x\,y\=z\\", [FieldTerm("a", "x,y=z\\")]),
        ("=b", [FieldTerm("", "b")]),
        ("a= b ", [FieldTerm("a", " b ")]),
    ],
)
def test_the_text_form_is_read(text, terms):
    assert parse(text) == FieldSelector(tuple(terms))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("xx", "invalid selector: 'xx'; can't understand 'xx'"),
        ("a=b,xx", "invalid selector: 'a=b,xx'; can't understand 'xx'"),
        ("a=b=c", "invalid field selector: unescaped character in value: 61"),
        ("a===b", "invalid field selector: unescaped character in value: 61"),
        (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
        ("a=b\\", "invalid field selector: invalid escape sequence: \\"),
    ],
)
def test_what_cannot_be_read_is_refused_in_the_known_words(text, message):
    assert refusal_of(parse, text) == message


def test_all_terms_must_hold_and_an_absent_field_is_empty():
    selector = parse("spec.nodeName=,status.phase!=Failed")

    assert selector.matches(lambda field: {"status.phase": "Running"}.get(field, ""))
    assert not selector.matches(lambda field: {"status.phase": "Failed"}.get(field, ""))
    assert not selector.matches(lambda field: "n1")
    assert EVERYTHING.matches(lambda field: "")
    assert EVERYTHING.is_empty


def test_a_field_that_a_kind_does_not_offer_is_refused():
    check_supported(parse("metadata.name=a,metadata.namespace=b,status.phase=c"), {"status.phase"})
    check_supported(parse("metadata.name=a"), None)

    assert refusal_of(check_supported, parse("x=1"), {"status.phase"}) == "field label not supported: x"
    assert refusal_of(check_supported, parse("x=1"), ()) == "field label not supported: x"
    assert refusal_of(check_supported, parse("data.k=1"), None) == (
        '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"'
    )


def test_an_index_can_ask_for_the_one_value_that_is_required():
    assert parse("a=b,c!=d").required_value("a") == "b"
    assert parse("a=").required_value("a") == ""
    assert parse("a!=b").required_value("a") is None


FIELDS = st.sampled_from(["metadata.name", "spec.nodeName", "status.phase"])
VALUES = st.text(alphabet="ab,=\\! ", max_size=4)
TERMS = st.lists(st.builds(FieldTerm, FIELDS, VALUES, st.booleans()), max_size=8)


def test_a_field_is_read_once_however_many_terms_name_it():
    selector = parse(",".join(f"metadata.name!=a{number},status.phase!=b{number}" for number in range(350)))
    read: list[str] = []

    def get(field: str) -> str:
        read.append(field)
        return "x"

    assert selector.matches(get)
    assert sorted(read) == ["metadata.name", "status.phase"]


@given(TERMS, st.dictionaries(FIELDS, VALUES))
def test_the_text_of_a_selector_is_read_as_a_selector_that_means_the_same(terms, fields):
    selector = FieldSelector(tuple(terms))
    wanted = all((fields.get(term.field, "") == term.value) == term.is_equal for term in terms)

    assert set(parse(str(selector)).terms) == set(terms)
    assert selector.matches(lambda field: fields.get(field, "")) == wanted


@given(st.text(alphabet="ab=!\\,", max_size=12))
def test_any_text_is_read_or_refused(text):
    try:
        selector = parse(text)
    except StatusError:
        assert refusal_of(parse, text)
    else:
        assert set(parse(str(selector)).terms) == set(selector.terms)
