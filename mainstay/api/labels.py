"""Label selectors: which objects, by their labels.

They come in two forms. As text in a query, `app=web,tier in (front,back),!draft`; and as an object in specs, with
`matchLabels` and `matchExpressions`. Both become a `LabelSelector`: a hashable value, with requirements that must all
hold, sorted by key. One without requirements matches everything.

A selector that is absent from a spec often means nothing instead of everything. That is for the caller to know.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from mainstay.api import names
from mainstay.api.errors import StatusCause, bad_request, forbidden_value, invalid_value, required
from mainstay.api.remember import remember_short


class Operator(StrEnum):
    """How a requirement looks at a label. The values are those of the text form."""

    IN = "in"
    NOT_IN = "notin"
    EQUALS = "="
    DOUBLE_EQUALS = "=="
    NOT_EQUALS = "!="
    EXISTS = "exists"
    DOES_NOT_EXIST = "!"
    GREATER = ">"
    LESS = "<"


_POSITIVE: Final = frozenset({Operator.IN, Operator.EQUALS, Operator.DOUBLE_EQUALS})
_NEGATIVE: Final = frozenset({Operator.NOT_IN, Operator.NOT_EQUALS})
_IN_OBJECTS: Final = {
    "In": Operator.IN,
    "NotIn": Operator.NOT_IN,
    "Exists": Operator.EXISTS,
    "DoesNotExist": Operator.DOES_NOT_EXIST,
}
_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,30}", re.ASCII)
_INTEGERS: Final = range(-(2**63), 2**63)


@dataclass(frozen=True, slots=True)
class Requirement:
    """What one label must be. `values` are sorted; how many there are depends on the operator."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        value = labels.get(self.key)
        operator = self.operator
        if operator in _POSITIVE:
            return value is not None and value in self.values
        if operator in _NEGATIVE:
            return value is None or value not in self.values
        if operator is Operator.EXISTS:
            return value is not None
        if operator is Operator.DOES_NOT_EXIST:
            return value is None
        number, bound = _integer(value), _integer(self.values[0])
        if number is None or bound is None:
            return False
        return number > bound if operator is Operator.GREATER else number < bound

    def __str__(self) -> str:
        match self.operator:
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator} ({','.join(self.values)})"
        return f"{self.key}{self.operator}{self.values[0]}"


class _KeyRequirements:
    """All that a long selector requires of one label, however many terms say it."""

    __slots__ = ("allowed", "forbidden", "greater", "less", "must_exist")

    def __init__(self) -> None:
        self.allowed: frozenset[str] | None = None
        """Values of which the label must have one if it exists."""
        self.forbidden: set[str] = set()
        self.must_exist = False
        self.greater: int | None = None
        self.less: int | None = None

    def add(self, term: Requirement) -> None:
        operator = term.operator
        if operator in _NEGATIVE:
            self.forbidden.update(term.values)
            return
        self.must_exist = self.must_exist or operator is not Operator.DOES_NOT_EXIST
        if operator in _POSITIVE:
            self._allow(frozenset(term.values))
        elif operator is Operator.DOES_NOT_EXIST:
            self._allow(frozenset())
        elif operator is not Operator.EXISTS:
            bound = _integer(term.values[0])
            if bound is None:
                self._allow(frozenset())
            elif operator is Operator.GREATER:
                self.greater = bound if self.greater is None else max(bound, self.greater)
            else:
                self.less = bound if self.less is None else min(bound, self.less)

    def _allow(self, values: frozenset[str]) -> None:
        self.allowed = values if self.allowed is None else self.allowed & values

    def accepts(self, value: str) -> bool:
        if value in self.forbidden or (self.allowed is not None and value not in self.allowed):
            return False
        if self.greater is None and self.less is None:
            return True
        number = _integer(value)
        if number is None:
            return False
        return (self.greater is None or number > self.greater) and (self.less is None or number < self.less)


class _LongSelector:
    """The same for a selector of many terms, in a time that depends on the labels and not on the terms."""

    __slots__ = ("_by_key", "_required")

    def __init__(self, requirements: Sequence[Requirement]) -> None:
        self._by_key: dict[str, _KeyRequirements] = {}
        for each in requirements:
            self._by_key.setdefault(each.key, _KeyRequirements()).add(each)
        self._required = dict.fromkeys(key for key, each in self._by_key.items() if each.must_exist).keys()

    def matches(self, labels: Mapping[str, str]) -> bool:
        if len(self._required) > len(labels) or not self._required <= labels.keys():
            return False
        by_key = self._by_key
        return all(key not in by_key or by_key[key].accepts(value) for key, value in labels.items())


_LONG_FROM: Final = 8  # Values, of all terms together. Fewer are faster one by one.


@dataclass(frozen=True, slots=True)
class LabelSelector:
    requirements: tuple[Requirement, ...] = ()
    _long: _LongSelector | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if sum(max(1, len(each.values)) for each in self.requirements) >= _LONG_FROM:
            object.__setattr__(self, "_long", _LongSelector(self.requirements))

    def matches(self, labels: Mapping[str, str]) -> bool:
        if self._long is not None:
            return self._long.matches(labels)
        return all(each.matches(labels) for each in self.requirements)

    @property
    def is_empty(self) -> bool:
        return not self.requirements

    def required_value(self, key: str) -> str | None:
        """The one value that a label must have to match, if there is one. For those who keep an index."""
        for each in self.requirements:
            if each.key == key and each.operator in _POSITIVE and len(each.values) == 1:
                return each.values[0]
        return None

    def __str__(self) -> str:
        """The text form. Read again it gives the same selector."""
        return ",".join(map(str, self.requirements))


EVERYTHING: Final = LabelSelector()


def build_selector(requirements: Sequence[Requirement]) -> LabelSelector:
    return LabelSelector(tuple(sorted(requirements, key=lambda each: each.key))) if requirements else EVERYTHING


def _integer(text: str | None) -> int | None:
    if text is None or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if number in _INTEGERS else None


# The object form


def problems_of_selector(selector: Mapping[str, Any] | None, path: str) -> list[StatusCause]:
    """What is wrong with a selector in a spec."""
    causes: list[StatusCause] = []
    for key, value in ((selector or {}).get("matchLabels") or {}).items():
        causes += [invalid_value(f"{path}.matchLabels", key, text) for text in names.qualified_name(key)]
        causes += [invalid_value(f"{path}.matchLabels", value, text) for text in names.label_value(value)]
    for index, expression in enumerate((selector or {}).get("matchExpressions") or ()):
        causes += _problems_of_expression(expression, f"{path}.matchExpressions[{index}]")
    return causes


def _problems_of_expression(expression: Mapping[str, Any], path: str) -> list[StatusCause]:
    causes: list[StatusCause] = []
    values = expression.get("values") or ()
    operator = expression.get("operator") or ""
    match operator:
        case "In" | "NotIn":
            if not values:
                causes.append(required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
        case "Exists" | "DoesNotExist":
            if values:
                text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                causes.append(forbidden_value(f"{path}.values", text))
        case _:
            causes.append(invalid_value(f"{path}.operator", operator, "not a valid selector operator"))
    key = expression.get("key") or ""
    causes += [invalid_value(f"{path}.key", key, text) for text in names.qualified_name(key)]
    for index, value in enumerate(values):
        causes += [invalid_value(f"{path}.values[{index}]", value, text) for text in names.label_value(value)]
    return causes


def from_object(selector: Mapping[str, Any] | None) -> LabelSelector:
    """The selector that an object in a spec means. It must be valid: see `problems_of_selector`.

    An absent one matches everything here; callers to whom it means nothing look for it first.
    """
    if not selector:
        return EVERYTHING
    found = [Requirement(key, Operator.EQUALS, (value,)) for key, value in (selector.get("matchLabels") or {}).items()]
    for expression in selector.get("matchExpressions") or ():
        operator = _IN_OBJECTS.get(expression.get("operator", ""))
        if operator is None:
            raise bad_request(f'"{expression.get("operator", "")}" is not a valid label selector operator')
        values = tuple(sorted(set(expression.get("values") or ())))
        found.append(Requirement(expression.get("key", ""), operator, values))
    return build_selector(found)


def from_labels(labels: Mapping[str, str]) -> LabelSelector:
    """Those that have all of these labels, as Services and ReplicationControllers ask."""
    return build_selector([Requirement(key, Operator.EQUALS, (value,)) for key, value in labels.items()])


# The text form

_TOKENS: Final = re.compile(r"[ \t\r\n]*(?:(==|!=|[=!(),<>])|([^ \t\r\n=!(),<>]+)|\Z)")
_BINARY_OPERATORS: Final = "in, notin, =, ==, !=, gt, lt"
_TEXT_OPERATORS: Final = {
    str(each): each for each in Operator if each not in (Operator.EXISTS, Operator.DOES_NOT_EXIST)
}


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    is_word: bool = False

    @property
    def is_end(self) -> bool:
        return not self.text


_END: Final = _Token("")


class _Malformed(Exception):
    """The message is what the client is told."""


@remember_short(1024)
def parse(text: str) -> LabelSelector:
    """Read the text form. StatusError 400 if it cannot be read."""
    try:
        return build_selector(_Parser(text).requirements())
    except _Malformed as malformed:
        raise bad_request(str(malformed)) from None


class _Parser:
    """Goes over the tokens once, from left to right. `in` and `notin` are operators only where one is expected."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._position = 0

    def requirements(self) -> list[Requirement]:
        found: list[Requirement] = []
        while not (token := self._next).is_end:
            if not token.is_word and token.text != "!":
                raise _Malformed(f"found '{token.text}', expected: !, identifier, or 'end of string'")
            try:
                found.append(self._requirement())
            except _Malformed as malformed:
                raise _Malformed(f"unable to parse requirement: {malformed}") from None
            token = self._take()
            if token.is_end:
                break
            if token.text != ",":
                raise _Malformed(f"found '{token.text}', expected: ',' or 'end of string'")
            token = self._next
            if not token.is_word and token.text != "!":
                raise _Malformed(f"found '{token.text}', expected: identifier after ','")
        return found

    @property
    def _next(self) -> _Token:
        return self._tokens[self._position] if self._position < len(self._tokens) else _END

    def _take(self) -> _Token:
        token = self._next
        self._position += 1
        return token

    def _requirement(self) -> Requirement:
        token = self._take()
        is_negated = token.text == "!"
        if is_negated:
            token = self._take()
        if not token.is_word:
            raise _Malformed(f"found '{token.text}', expected: identifier")
        key = token.text
        problems = names.qualified_name(key)
        if problems:
            raise _Malformed(f'<nil>: Invalid value: "{key}": {"; ".join(problems)}')
        if self._next.is_end or self._next.text == ",":
            return Requirement(key, Operator.DOES_NOT_EXIST if is_negated else Operator.EXISTS)
        if is_negated:  # As Kubernetes has it: what follows `!key` is not looked at here, but is found to be too much.
            return Requirement(key, Operator.DOES_NOT_EXIST)
        token = self._take()
        operator = _TEXT_OPERATORS.get(token.text)
        if operator is None:
            raise _Malformed(f"found '{token.text}', expected: {_BINARY_OPERATORS}")
        values = self._value_set() if operator in (Operator.IN, Operator.NOT_IN) else [self._exact_value()]
        return _checked(key, operator, values)

    def _exact_value(self) -> str:
        if self._next.is_end or self._next.text == ",":
            return ""
        token = self._take()
        if not token.is_word:
            raise _Malformed(f"found '{token.text}', expected: identifier")
        return token.text

    def _value_set(self) -> list[str]:
        token = self._take()
        if token.text != "(":
            raise _Malformed(f"found '{token.text}' expected: '('")
        values: list[str] = []
        if not (self._next.is_word or self._next.text in (",", ")")) or self._next.is_end:
            raise _Malformed(f"found '{self._next.text}', expected: ',', ')' or identifier")
        while True:  # Bounded by the tokens: every turn takes one.
            values.append(self._take().text if self._next.is_word else "")
            token = self._take()
            if token.text == ")":
                return sorted(set(values))
            if token.text != ",":
                raise _Malformed(f"found '{token.text}', expected: ',' or ')'")


def _checked(key: str, operator: Operator, values: Sequence[str]) -> Requirement:
    problems: list[str] = []
    for index, value in enumerate(values):
        if operator in (Operator.GREATER, Operator.LESS) and _integer(value) is None:
            text = "for 'Gt', 'Lt' operators, the value must be an integer"
            problems.append(f'values[{index}]: Invalid value: "{value}": {text}')
    for index, value in enumerate(values):
        of_value = names.label_value(value)
        if of_value:
            problems.append(f'values[{index}][{key}]: Invalid value: "{value}": {"; ".join(of_value)}')
    if problems:
        raise _Malformed(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return Requirement(key, operator, tuple(values))


def _tokens(text: str) -> list[_Token]:
    found: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKENS.match(text, position)
        assert match is not None  # Every character is a blank, a symbol or part of a word.
        symbol, word = match[1], match[2]
        if symbol or word:
            found.append(_Token(symbol or word, is_word=word is not None))
        position = match.end()
    return found
