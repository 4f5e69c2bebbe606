"""JSON values as Python has them: copying and comparing, to a bounded depth.

What patches have in common. A copy shares nothing with what it was made from, so that filling in defaults in
place cannot reach an object that others hold. Everything here refuses what is nested deeper than `DEPTH_MAX`: a
request must never be able to exhaust Python's stack.
"""

from typing import Any, Final

import msgspec

from mainstay.api.errors import StatusError, bad_request

DEPTH_MAX: Final = 100  # Built-in objects go down about 20 levels, the schema of a custom resource perhaps 60.

UNREADABLE: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding raises for JSON or MessagePack that others have written: malformed, no UTF-8, nested too deeply."""


def too_deep() -> StatusError:
    return bad_request(f"the object is nested too deeply: at most {DEPTH_MAX} levels are allowed")


def copied(value: Any, depth: int = 0) -> Any:
    """A deep copy of a value that stands `depth` levels below the top."""
    if isinstance(value, dict):
        if depth >= DEPTH_MAX:
            raise too_deep()
        return {name: copied(each, depth + 1) if type(each) in DEEP else each for name, each in value.items()}
    if isinstance(value, list):
        if depth >= DEPTH_MAX:
            raise too_deep()
        return [copied(each, depth + 1) if type(each) in DEEP else each for each in value]
    return value


DEEP: Final = frozenset({dict, list})  # Most values are neither, and a call for each would be most of the work.


def same(left: Any, right: Any, depth: int = 0) -> bool:
    """Whether two values are one in JSON, where `1` and `1.0` are the same and `1` and `true` are not."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        if depth >= DEPTH_MAX:
            raise too_deep()
        return left.keys() == right.keys() and all(same(left[name], right[name], depth + 1) for name in left)
    if isinstance(left, list) and isinstance(right, list):
        if depth >= DEPTH_MAX:
            raise too_deep()
        return len(left) == len(right) and all(same(a, b, depth + 1) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def name_json_type(value: Any) -> str:
    """What Go's decoder calls a value in its messages: object, array, string, number, bool, null."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "object"
    if isinstance(value, list):
        return "array"
    return "string" if isinstance(value, str) else "number"
