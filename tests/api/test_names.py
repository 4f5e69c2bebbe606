"""What names may look like, in the words that clients know."""

import pytest

from mainstay.api import names

SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
LABEL_1035 = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, "
    "and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is "
    "'[a-z]([-a-z0-9]*[a-z0-9])?')"
)
KEY_NAME = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
LABEL_VALUE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("a", []),
        ("example.com", []),
        ("0-9.x", []),
        ("x" * 253, []),
        ("x" * 254, ["must be no more than 253 bytes"]),
        ("", [SUBDOMAIN]),
        ("Bad_Name", [SUBDOMAIN]),
        ("-a", [SUBDOMAIN]),
        ("a-", [SUBDOMAIN]),
        ("a..b", [SUBDOMAIN]),
        ("a\n", [SUBDOMAIN]),
        ("X" * 254, ["must be no more than 253 bytes", SUBDOMAIN]),
    ],
)
def test_most_names_are_subdomains(text, problems):
    assert names.subdomain(text) == problems
    assert names.name_problems("subdomain", text) == problems


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("my-name", []),
        ("123-abc", []),
        ("a.b", ["must not contain dots"]),
        ("A", [LABEL]),
        ("", [LABEL]),
        ("x" * 64, ["must be no more than 63 bytes"]),
    ],
)
def test_labels_of_names_have_no_dots(text, problems):
    assert names.label(text) == problems
    assert names.name_problems("label", text) == problems


@pytest.mark.parametrize(("text", "problems"), [("abc-123", []), ("1a", [LABEL_1035]), ("a.b", [LABEL_1035])])
def test_older_labels_begin_with_a_letter(text, problems):
    assert names.label_1035(text) == problems
    assert names.name_problems("label1035", text) == problems


@pytest.mark.parametrize(
    ("text", "problems"),
    [
        ("system:node", []),
        ("", []),
        (".", ["may not be '.'"]),
        ("..", ["may not be '..'"]),
        ("a/b%", ["may not contain '/'", "may not contain '%'"]),
    ],
)
def test_some_names_are_any_segment_of_a_path(text, problems):
    assert names.path_segment(text) == problems
    assert names.name_problems("path", text) == problems


def test_what_generated_names_begin_with_may_end_with_a_dash():
    assert names.name_problems("subdomain", "web-", is_prefix=True) == []
    assert names.name_problems("subdomain", "web-") == [SUBDOMAIN]
    assert names.name_problems("subdomain", "-", is_prefix=True) == [SUBDOMAIN]
    assert names.name_problems("path", ".", is_prefix=True) == []


def test_an_unknown_rule_is_a_bug():
    with pytest.raises(ValueError, match="unknown name rule"):
        names.name_problems("other", "x")


@pytest.mark.parametrize(
    ("key", "problems"),
    [
        ("app", []),
        ("App_1.x", []),
        ("example.com/app", []),
        ("", ["name part must be non-empty", f"name part {KEY_NAME}"]),
        ("a b", [f"name part {KEY_NAME}"]),
        ("/a", ["prefix part must be non-empty"]),
        ("A.com/a", [f"prefix part {SUBDOMAIN}"]),
        ("a/", ["name part must be non-empty", f"name part {KEY_NAME}"]),
        ("x" * 64, ["name part must be no more than 63 bytes"]),
        (
            "a/b/c",
            [f"a valid label key {KEY_NAME} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"],
        ),
    ],
)
def test_a_label_key_is_a_name_and_perhaps_a_prefix(key, problems):
    assert names.qualified_name(key) == problems


@pytest.mark.parametrize(
    ("value", "problems"),
    [
        ("", []),
        ("my_value.1", []),
        ("-a", [LABEL_VALUE]),
        ("x" * 64, ["must be no more than 63 bytes"]),
        ("é" * 32, ["must be no more than 63 bytes", LABEL_VALUE]),
    ],
)
def test_a_label_value_may_be_empty(value, problems):
    assert names.label_value(value) == problems


def test_the_prefix_of_an_annotation_may_be_in_upper_case():
    assert names.annotation_key("Example.com/Note") == []
    assert names.annotation_key("a b") == [f"name part {KEY_NAME}"]
