"""Parse YAML that anyone may have sent, into what Kubernetes would make of it: JSON.

What a plain word means is where dialects of YAML differ, so only the events of libyaml are used, and meaning is given
here as Kubernetes' own library gives it: `yes`, `on` and `y` are true, `1e3` is a number, a date is text, `010` is
eight, keys become text. The stack is a list and aliases are copied within a budget: neither deep nor self-multiplying
documents can exhaust anything.

Errors are 400 with words for callers to put the circumstances before them.
"""

import binascii
import re
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec
import yaml

from mainstay.api.errors import StatusError, StatusReason, bad_request, quoted
from mainstay.api.json_body import INT64_MAX, INT64_MIN, check_depth
from mainstay.api.json_values import DEPTH_MAX, too_deep

YAML_BYTES_MAX: Final = 1024 * 1024
"""Of a body. A megabyte takes most of a second of CPU."""
ALIASED_MAX: Final = 10_000
"""Values that aliases may stand for, in all."""

_TRUE: Final = frozenset(["y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"])
_FALSE: Final = frozenset(["n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"])
_NULL: Final = frozenset(("", "~", "null", "Null", "NULL"))
_NOT_IN_JSON: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_INTEGER: Final = re.compile(
    r"[-+]?(?:(?P<x>0[xX][0-9a-fA-F]+)|(?P<b>0[bB][01]+)|(?P<o>0[oO]?[0-7]+)|[1-9][0-9]*|0)", re.ASCII
)
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", re.ASCII)
_DIGITS_MAX: Final = 400  # Of a number. More cost time and mean nothing.

_CORE: Final = "tag:yaml.org,2002:"
_MERGE: Final = object()


@dataclass(frozen=True, slots=True)
class ParsedYaml:
    value: Any
    problems: list[str]
    """Keys that occur twice in one mapping, in words."""


@dataclass(slots=True)
class _Open:
    """A list or mapping of which the end has not come yet."""

    value: Any
    anchor: str | None
    key: Any = None
    has_key: bool = False
    merged: list[Any] = field(default_factory=list)


class _Converted(msgspec.Struct):
    """What `convert_yaml` has found: a value, or the error."""

    value: msgspec.Raw
    problems: list[str]
    code: int = 0
    message: str = ""


_decode_converted = msgspec.json.Decoder(_Converted).decode


class ConvertedYaml(bytes):
    """A body of YAML that `convert_yaml` has read elsewhere: `parse_yaml` reads it again, in a fraction of the time."""


def convert_yaml(body: bytes) -> bytes:
    """What `parse_yaml` makes of a body, also if that is an error, as the content of a `ConvertedYaml`."""
    try:
        parsed = parse_yaml(body)
    except StatusError as error:
        return msgspec.json.encode(_Converted(msgspec.Raw(b"null"), [], error.code, error.message))
    return msgspec.json.encode(_Converted(msgspec.Raw(msgspec.json.encode(parsed.value)), parsed.problems))


def yaml_too_large() -> StatusError:
    text = f"at most {YAML_BYTES_MAX} bytes of YAML are read: send JSON, which is read up to the limit of requests"
    return StatusError(413, StatusReason.REQUEST_ENTITY_TOO_LARGE, text, {})


def parse_yaml(body: bytes) -> ParsedYaml:
    """Parse one YAML document. Raises `StatusError` 400 if it is none, or one that is too deep, 413 if too large."""
    if isinstance(body, ConvertedYaml):
        found = _decode_converted(body)
        if found.code:
            raise StatusError(found.code, StatusReason.BAD_REQUEST, found.message)
        return ParsedYaml(msgspec.json.decode(found.value), found.problems)
    if len(body) > YAML_BYTES_MAX:
        raise yaml_too_large()
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise _wrong("invalid UTF-8") from None
    building = _Building()
    try:
        for event in yaml.parse(text, Loader=yaml.CSafeLoader):
            building.take(event)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        raise _wrong(f"line {line}: {error.problem or error.context}") from None
    except yaml.YAMLError as error:
        raise _wrong(str(error).splitlines()[0]) from None
    check_depth(building.root)
    return ParsedYaml(building.root, building.problems)


class _Building:
    """A value that grows with each event."""

    def __init__(self) -> None:
        self.root: Any = None
        self.problems: list[str] = []
        self._documents = 0
        self._stack: list[_Open] = []
        self._anchors: dict[str, Any] = {}
        self._aliased = 0

    def take(self, event: Any) -> None:
        match event:
            case yaml.ScalarEvent():
                is_key = bool(self._stack) and isinstance(self._stack[-1].value, dict) and not self._stack[-1].has_key
                value = _MERGE if is_key and event.value == "<<" and event.implicit[0] else _scalar(event)
                self._remember(event.anchor, value)
                self._add(value, event)
            case yaml.MappingStartEvent():
                self._open({}, event)
            case yaml.SequenceStartEvent():
                self._open([], event)
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._close(event)
            case yaml.AliasEvent():
                if event.anchor not in self._anchors:
                    raise _wrong(f"line {_line(event)}: unknown anchor '{event.anchor}' referenced")
                self._add(self._copied(self._anchors[event.anchor], 0), event)
            case yaml.DocumentStartEvent():
                self._documents += 1
                if self._documents > 1:
                    raise _wrong(f"line {_line(event)}: more than one document")
            case _:
                pass

    def _open(self, value: Any, event: Any) -> None:
        if len(self._stack) >= DEPTH_MAX:
            raise too_deep()
        if event.tag not in (None, "!", f"{_CORE}map", f"{_CORE}seq"):
            raise _wrong(f"line {_line(event)}: cannot decode a value with the tag {event.tag}")
        self._stack.append(_Open(value, event.anchor))

    def _close(self, event: Any) -> None:
        done = self._stack.pop()
        for each in done.merged:
            for key, value in each.items():
                done.value.setdefault(key, value)
        self._remember(done.anchor, done.value)
        self._add(done.value, event)

    def _remember(self, anchor: str | None, value: Any) -> None:
        if anchor is not None:
            self._anchors[anchor] = value

    def _add(self, value: Any, event: Any) -> None:
        if not self._stack:
            self.root = None if value is _MERGE else value
            return
        top = self._stack[-1]
        if isinstance(top.value, list):
            top.value.append(value)
        elif not top.has_key:
            top.key, top.has_key = value if value is _MERGE else _key(value, event), True
        else:
            top.has_key = False
            if top.key is _MERGE:
                self._merge(value, event)
                return
            if top.key in top.value:
                self.problems.append(f"yaml: line {_line(event)}: key {quoted(top.key)} already set in map")
            top.value[top.key] = value

    def _merge(self, value: Any, event: Any) -> None:
        merged = value if isinstance(value, list) else [value]
        if not all(isinstance(each, dict) for each in merged):
            raise _wrong(f"line {_line(event)}: map merge requires map or sequence of maps as the value")
        self._stack[-1].merged += [self._copied(each, 0) for each in merged]

    def _copied(self, value: Any, depth: int) -> Any:
        self._aliased += 1
        if self._aliased > ALIASED_MAX:
            raise _wrong("document contains excessive aliasing")
        if depth > DEPTH_MAX:
            raise too_deep()
        if isinstance(value, dict):
            return {key: self._copied(each, depth + 1) for key, each in value.items()}
        if isinstance(value, list):
            return [self._copied(each, depth + 1) for each in value]
        return value


def _scalar(event: Any) -> Any:
    text: str = event.value
    tag = event.tag
    if tag is None or tag == "!":
        return _plain(text) if event.implicit[0] and tag is None else text
    match tag.removeprefix(_CORE):
        case "str" | "timestamp":
            return text
        case "binary":
            try:
                return binascii.a2b_base64(text).decode()
            except ValueError:
                raise _wrong(f"line {_line(event)}: !!binary value contains invalid base64 data, or no text") from None
        case "int" | "float" | "bool" | "null" as wanted:
            value = _plain(text)
            if isinstance(value, int) and not isinstance(value, bool) and wanted == "float":
                return float(value)
            if type(value) is {"int": int, "float": float, "bool": bool, "null": type(None)}[wanted]:
                return value
            raise _wrong(f"line {_line(event)}: cannot decode !!str `{text[:30]}` as a !!{wanted}")
        case _:
            raise _wrong(f"line {_line(event)}: cannot decode a value with the tag {tag}")


def _plain(text: str) -> Any:
    """What a word without quotes means."""
    if text in _NULL:
        return None
    if text[0].isalpha() or text[0] == "~":
        return True if text in _TRUE else False if text in _FALSE else text
    if _NOT_IN_JSON.fullmatch(text):
        raise _wrong(f"{text} is not a JSON number")
    if text[0] not in "+-.0123456789":
        return text
    number = text.replace("_", "")
    if len(number) > _DIGITS_MAX:
        return text
    match = _INTEGER.fullmatch(number)
    if match is not None:
        value = int(number, 16 if match["x"] else 2 if match["b"] else 8 if match["o"] else 10)
        if not INT64_MIN <= value <= INT64_MAX:
            raise _wrong(f"number {number} is out of range")
        return value
    if _FLOAT.fullmatch(number):
        value_ = float(number)
        if value_ in (float("inf"), float("-inf")):
            raise _wrong(f"number {number} is out of range")
        return value_
    return text


def _key(value: Any, event: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return f"{value:g}" if isinstance(value, float) else str(value)
    raise _wrong(f"line {_line(event)}: a key must be a string")


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1


def _wrong(problem: str) -> StatusError:
    return bad_request(f"yaml: {problem}")
