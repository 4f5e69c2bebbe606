"""What names, label keys, label values and annotation keys may look like, and the words for it when they do not.

Each function gives a list of messages; empty means that all is well. The messages are those that clients of Kubernetes
know and search for. Lengths are counted in bytes, as UTF-8 has them.

Where a message goes, and for which field, is for the caller to say: see the causes in errors.py.
"""

import re
from typing import Final

from mainstay.api.remember import remember_short

LABEL_LENGTH_MAX: Final = 63
SUBDOMAIN_LENGTH_MAX: Final = 253

_LABEL: Final = "[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_SUBDOMAIN: Final = rf"{_LABEL}(\.{_LABEL})*"
_LABEL_1035: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
_KEY_NAME: Final = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"
_LABEL_VALUE: Final = f"({_KEY_NAME})?"

_LABEL_PATTERN: Final = re.compile(_LABEL)
_SUBDOMAIN_PATTERN: Final = re.compile(_SUBDOMAIN)
_LABEL_1035_PATTERN: Final = re.compile(_LABEL_1035)
_KEY_NAME_PATTERN: Final = re.compile(_KEY_NAME)
_LABEL_VALUE_PATTERN: Final = re.compile(_LABEL_VALUE)


def _shape(words: str, pattern: str, *examples: str) -> str:
    listed = " or ".join(f"'{example}', " for example in examples)
    return f"{words} (e.g. {listed}regex used for validation is '{pattern}')"


_LABEL_WORDS: Final = _shape(
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "
    "and must start and end with an alphanumeric character",
    _LABEL,
    "my-name",
    "123-abc",
)
_SUBDOMAIN_WORDS: Final = _shape(
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', "
    "and must start and end with an alphanumeric character",
    _SUBDOMAIN,
    "example.com",
)
_LABEL_1035_WORDS: Final = _shape(
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', "
    "start with an alphabetic character, and end with an alphanumeric character",
    _LABEL_1035,
    "my-name",
    "abc-123",
)
_KEY_NAME_WORDS: Final = _shape(
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
    _KEY_NAME,
    "MyName",
    "my.name",
    "123-abc",
)
_LABEL_VALUE_WORDS: Final = _shape(
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', "
    "and must start and end with an alphanumeric character",
    _LABEL_VALUE,
    "MyValue",
    "my_value",
    "12345",
)


def name_problems(rule: str, name: str, *, is_prefix: bool = False) -> list[str]:
    """What is wrong with a name by the rule that the `Kind` has, or with what generated names begin with."""
    if rule == "path":
        return path_segment(name, is_prefix=is_prefix)
    if is_prefix and len(name) > 1 and name.endswith("-"):
        name = name[:-2] + "a"  # What is generated never ends with the dash, so the dash is no fault.
    match rule:
        case "subdomain":
            return subdomain(name)
        case "label":
            return label(name)
        case "label1035":
            return label_1035(name)
    raise ValueError(f"unknown name rule {rule!r}")


def subdomain(text: str) -> list[str]:
    """RFC 1123: `example.com`."""
    problems = _problems_of_length(text, SUBDOMAIN_LENGTH_MAX)
    if not _SUBDOMAIN_PATTERN.fullmatch(text):
        problems.append(_SUBDOMAIN_WORDS)
    return problems


def label(text: str) -> list[str]:
    """RFC 1123, without dots: `my-name`."""
    problems = _problems_of_length(text, LABEL_LENGTH_MAX)
    if not _LABEL_PATTERN.fullmatch(text):
        # If it would do as a subdomain, only dots can be wrong with it.
        problems.append("must not contain dots" if _SUBDOMAIN_PATTERN.fullmatch(text) else _LABEL_WORDS)
    return problems


def label_1035(text: str) -> list[str]:
    """RFC 1035: a label that begins with a letter."""
    problems = _problems_of_length(text, LABEL_LENGTH_MAX)
    if not _LABEL_1035_PATTERN.fullmatch(text):
        problems.append(_LABEL_1035_WORDS)
    return problems


def path_segment(text: str, *, is_prefix: bool = False) -> list[str]:
    """Whatever can be one segment of a path, as the names of roles and the like."""
    if not is_prefix and text in (".", ".."):
        return [f"may not be '{text}'"]
    return [f"may not contain '{each}'" for each in "/%" if each in text]


def qualified_name(key: str) -> list[str]:
    """The key of a label: `app`, or `example.com/app`."""
    return list(_problems_of_key(key))


@remember_short(4096)  # The same few keys are on all objects.
def _problems_of_key(key: str) -> list[str]:
    parts = key.split("/")
    if len(parts) > 2:
        with_prefix = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return [f"a valid label key {_KEY_NAME_WORDS} {with_prefix}"]
    name = parts[-1]
    problems: list[str] = []
    if len(parts) == 2:
        of_prefix = subdomain(parts[0]) if parts[0] else ["must be non-empty"]
        problems += [f"prefix part {each}" for each in of_prefix]
    of_name = _problems_of_length(name, LABEL_LENGTH_MAX) if name else ["must be non-empty"]
    if not _KEY_NAME_PATTERN.fullmatch(name):
        of_name.append(_KEY_NAME_WORDS)
    return problems + [f"name part {each}" for each in of_name]


def label_value(value: str) -> list[str]:
    if len(value) <= LABEL_LENGTH_MAX and _LABEL_VALUE_PATTERN.fullmatch(value):
        return []
    problems = _problems_of_length(value, LABEL_LENGTH_MAX)
    if not _LABEL_VALUE_PATTERN.fullmatch(value):
        problems.append(_LABEL_VALUE_WORDS)
    return problems


def annotation_key(key: str) -> list[str]:
    """As label keys, except that the part before the slash may have upper case letters."""
    return qualified_name(key.lower())


def _problems_of_length(text: str, length_max: int) -> list[str]:
    if len(text) <= length_max and (text.isascii() or len(text.encode(errors="surrogatepass")) <= length_max):
        return []
    return [f"must be no more than {length_max} bytes"]
