"""Parse JSON that anyone may have sent: fast when it is as it should be, in clear words when it is not.

`parse` is msgspec's decoder, and around it what a decoder does not promise: a bound on depth, numbers that others can
hold, and whether a key may occur twice. The last costs almost nothing: the value is encoded again and the colons are
compared. A colon stands after each key or in a text; if a key was there twice, one of its colons is gone. Only a colon
that was written as an escape could hide that, so such a body counts as suspicious. `duplicates` then looks closely.

Errors are 400 with the words of Go's decoder, where they exist, for callers to put the circumstances before them.
Fields are not looked at here: see conform.py.
"""

import json
import re
from typing import Any, Final

import msgspec

from mainstay.api.errors import bad_request
from mainstay.api.json_values import DEPTH_MAX, too_deep

INT64_MIN: Final = -(1 << 63)
INT64_MAX: Final = (1 << 63) - 1

_DECODE: Final = msgspec.json.Decoder().decode
_ENCODE: Final = msgspec.json.Encoder().encode

# All digits as one: then a number that does not fit into 64 bits, or a text like it, is found by a plain search.
_DIGITS_ALIKE: Final = bytes.maketrans(b"0123456789", b"0000000000")
_MANY_DIGITS: Final = b"0" * 19

_MALFORMED: Final = re.compile(r"JSON is malformed: (?P<what>.*) \(byte (?P<at>\d+)\)")


class Parsed(msgspec.Struct, frozen=True):
    value: Any
    may_have_duplicates: bool
    """If so, ask `duplicates`. If not, there are none."""


def parse(body: bytes) -> Parsed:
    """Parse one JSON value. Raises `StatusError` 400 if it is none, or one that is too large or deep."""
    try:
        value = _DECODE(body)
    except RecursionError:
        raise too_deep() from None
    except UnicodeDecodeError as error:
        raise bad_request(f"invalid UTF-8 in a string: {error.reason}") from None
    except msgspec.MsgspecError as error:
        raise bad_request(_words(str(error), body)) from None
    if body.count(b"{") + body.count(b"[") > DEPTH_MAX:
        check_depth(value)
    if _MANY_DIGITS in body.translate(_DIGITS_ALIKE):
        _check_numbers(value)
    suspicious = body.count(b":") != _ENCODE(value).count(b":") or b"\\u003a" in body or b"\\u003A" in body
    return Parsed(value, suspicious)


def duplicates(body: bytes) -> list[str]:
    """The paths of keys that occur more than once in their object. The body is one that `parse` took."""
    found: list[str] = []
    # Surrogates and the like were seen to by `parse`; the depth too, so that this recursion is bounded.
    _find_duplicates(json.loads(body, object_pairs_hook=_Pairs), "", found)
    return list(dict.fromkeys(found))


def check_depth(value: Any) -> None:
    """Raises `StatusError` 400 if the value has more than `DEPTH_MAX` levels."""
    level = [value] if isinstance(value, dict | list) else []
    for _ in range(DEPTH_MAX):
        if not level:
            return
        inner = (each for one in level for each in (one.values() if isinstance(one, dict) else one))
        level = [each for each in inner if isinstance(each, dict | list)]
    if level:
        raise too_deep()


class _Pairs(list[tuple[str, Any]]):
    """An object as it was written, with all its keys."""


def _find_duplicates(value: Any, path: str, found: list[str]) -> None:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for key, inner in value:
            here = f"{path}.{key}" if path else key
            if key in seen:
                found.append(here)
            seen.add(key)
            _find_duplicates(inner, here, found)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            _find_duplicates(inner, f"{path}[{index}]", found)


def _check_numbers(value: Any) -> None:
    if isinstance(value, dict):
        for inner in value.values():
            _check_numbers(inner)
    elif isinstance(value, list):
        for inner in value:
            _check_numbers(inner)
    elif isinstance(value, int) and not INT64_MIN <= value <= INT64_MAX:
        raise bad_request("json: cannot unmarshal number into Go value of type int64: it is out of range")


def _words(problem: str, body: bytes) -> str:
    """What Go would have said."""
    if "surrogate" in problem or (problem == "Input data was truncated" and _ends_in_lone_surrogate(body)):
        return "invalid \\u escape in string literal: half of a surrogate pair"
    if problem == "Input data was truncated":
        return "unexpected end of JSON input"
    if "out of range" in problem:
        return "json: cannot unmarshal number into Go value of type float64: it is out of range"
    match = _MALFORMED.fullmatch(problem)
    if match is None:
        return problem
    what, at = match["what"], int(match["at"])
    if what == "invalid character":
        return f"invalid character {_shown(body, at)} looking for beginning of value"
    if what == "trailing characters":
        return f"invalid character {_shown(body, at)} after top-level value"
    return f"{what}, at byte {at}"


def _ends_in_lone_surrogate(body: bytes) -> bool:
    return re.search(rb'\\u[dD][89abAB][0-9a-fA-F]{2}[^"]{0,5}"\s*[\]}]*\s*$', body) is not None


def _shown(body: bytes, at: int) -> str:
    at = min(at, len(body) - 1)
    character = body[at : at + 1]
    return (
        f"'{character.decode()}'"
        if character.isascii() and character.decode().isprintable()
        else f"'\\x{character[0]:02x}'"
    )
