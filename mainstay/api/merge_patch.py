"""JSON merge patch (RFC 7386): a patch looks like the object, has what is to change, and null where something is to go.

Lists are replaced as a whole. For built-in kinds there is something finer: strategic_merge.py.
"""

from typing import Any

from mainstay.api.errors import bad_request
from mainstay.api.json_values import DEPTH_MAX, copied, name_json_type, too_deep
from mainstay.api.kind import Object


def merge_patch(original: Object, patch: Any) -> Object:
    """The patched object. Shares nothing with the arguments, which stay as they are. StatusError 400 for no patch."""
    if not isinstance(patch, dict):
        found = name_json_type(patch)
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
        )
    return _merged(original, patch, 0)


def _merged(original: Any, patch: Object, depth: int) -> Object:
    if depth >= DEPTH_MAX:
        raise too_deep()
    old: Object = original if isinstance(original, dict) else {}
    result = {name: None if name in patch else copied(value, depth + 1) for name, value in old.items()}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            result[name] = _merged(old.get(name), value, depth + 1)
        else:
            result[name] = copied(value, depth + 1)
    return result
