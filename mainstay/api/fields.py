r"""Field selectors: which objects, by a few of their fields. `status.phase!=Failed,spec.nodeName=n1`.

There is only `=` (or `==`) and `!=`, and a comma for *and*. In a value, a comma, an equals sign and a backslash are
written with a backslash before them. An empty value is a value: `spec.nodeName=` finds the pods that are on no node.

Which fields can be named differs from kind to kind. Refusing the others is `check_supported`; what a field's value is,
the `Kind` says.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from mainstay.api.errors import bad_request
from mainstay.api.remember import remember_short

ALWAYS_SUPPORTED: Final = ("metadata.name", "metadata.namespace")
_LONG_FROM: Final = 4  # Terms. Fewer are faster one by one.


@dataclass(frozen=True, slots=True)
class FieldTerm:
    field: str
    value: str
    is_equal: bool = True
    """Whether the field must have this value, or must not."""

    def __str__(self) -> str:
        escaped = self.value.replace("\\", "\\\\").replace(",", "\\,").replace("=", "\\=")
        return f"{self.field}{'=' if self.is_equal else '!='}{escaped}"


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """Terms that must all hold, in the order of their text. Without any it matches everything."""

    terms: tuple[FieldTerm, ...] = ()
    _long: "Mapping[str, tuple[frozenset[str], frozenset[str]]] | None" = field(
        default=None, init=False, repr=False, compare=False
    )
    """Of many terms: the values that each field must have, and those that it must not. Each is then read once."""

    def __post_init__(self) -> None:
        if len(self.terms) < _LONG_FROM:
            return
        values: dict[str, tuple[set[str], set[str]]] = {}
        for term in self.terms:
            required, forbidden = values.setdefault(term.field, (set(), set()))
            (required if term.is_equal else forbidden).add(term.value)
        # Two values at once are as impossible as all of them.
        grouped = {name: (frozenset(sorted(each[0])[:2]), frozenset(each[1])) for name, each in values.items()}
        object.__setattr__(self, "_long", grouped)

    def matches(self, get: Callable[[str], str]) -> bool:
        """Whether an object matches of which `get` tells the fields; "" for one that is not set."""
        if self._long is None:
            return all((get(term.field) == term.value) is term.is_equal for term in self.terms)
        for name, (required, forbidden) in self._long.items():
            value = get(name)
            if value in forbidden or any(value != each for each in required):
                return False
        return True

    @property
    def is_empty(self) -> bool:
        return not self.terms

    def required_value(self, field: str) -> str | None:
        """The one value that a field must have to match, if there is one. For those who keep an index."""
        return next((term.value for term in self.terms if term.field == field and term.is_equal), None)

    def __str__(self) -> str:
        """The text form. Read again it gives the same selector."""
        return ",".join(map(str, self.terms))


EVERYTHING: Final = FieldSelector()


def check_supported(selector: FieldSelector, supported: Collection[str] | None) -> None:
    """Refuse a selector with a field that the kind does not offer. StatusError 400.

    `supported` are the fields besides name and namespace. None is for a kind that never declared any, which Kubernetes
    tells in other words than for one that did; custom resources always did, be they none.
    """
    for term in selector.terms:
        if term.field in ALWAYS_SUPPORTED:
            continue
        if supported is None:
            only = ", ".join(f'"{each}"' for each in ALWAYS_SUPPORTED)
            raise bad_request(f'"{term.field}" is not a known field selector: only {only}')
        if term.field not in supported:
            raise bad_request(f"field label not supported: {term.field}")


@remember_short(1024)
def parse(text: str) -> FieldSelector:
    """Read the text form. StatusError 400 if it cannot be read."""
    terms: list[FieldTerm] = []
    for part in sorted(_split(text)):
        if not part:
            continue
        at = part.find("=")
        if at < 0:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{part}'")
        is_equal = not part[:at].endswith("!")
        field = part[:at] if is_equal else part[: at - 1]
        value = part[at + 1 :].removeprefix("=") if is_equal else part[at + 1 :]
        terms.append(FieldTerm(field, _unescaped(value), is_equal))
    return FieldSelector(tuple(terms)) if terms else EVERYTHING


def _split(text: str) -> list[str]:
    """The terms between commas that have no backslash before them."""
    parts: list[str] = []
    begin = position = 0
    while position < len(text):
        if text[position] == "\\":
            position += 1  # Whatever comes next is no comma between terms.
        elif text[position] == ",":
            parts.append(text[begin:position])
            begin = position + 1
        position += 1
    return [*parts, text[begin:]]


def _unescaped(value: str) -> str:
    if not any(each in value for each in "\\,="):
        return value
    found: list[str] = []
    characters = iter(value)
    for each in characters:
        if each == "\\":
            escaped = next(characters, "")
            if escaped not in ("\\", ",", "="):
                raise bad_request(f"invalid field selector: invalid escape sequence: \\{escaped}")
            found.append(escaped)
        elif each in ",=":
            # By its number, as Kubernetes has it.
            raise bad_request(f"invalid field selector: unescaped character in value: {ord(each)}")
        else:
            found.append(each)
    return "".join(found)
