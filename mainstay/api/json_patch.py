"""JSON patch (RFC 6902): operations that are carried out in order, all of them or none.

A patch that cannot be read is a bad request. One that can be read but not carried out (a `test` that fails, a path
that leads nowhere) is `Invalid`: controllers use a failing `test` to find out that they were too late, and look for
just that.

In one point Kubernetes goes beyond the RFC, and so do we: testing a field that is not there for null succeeds.
"""

import re
from dataclasses import dataclass
from typing import Any, Final

from mainstay.api.errors import StatusError, StatusReason, bad_request, quoted
from mainstay.api.json_values import DEPTH_MAX, copied, name_json_type, same, too_deep
from mainstay.api.kind import Object

OPERATIONS_MAX: Final = 10_000
COPIED_MAX: Final = (
    3 * 1024 * 1024
)  # Of values and characters in all. Copying a thing into itself doubles it every time.

_MISSING: Final = "the path does not exist"
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,9}", re.ASCII)


class PatchRejected(StatusError):
    """The patch cannot be carried out. `problem` says why, with the operation; Kubernetes does not tell clients."""

    def __init__(self, problem: str) -> None:
        text = "the server rejected our request due to an error in our request"
        super().__init__(422, StatusReason.INVALID, text, {})
        self.problem = problem


class PatchTestFailed(PatchRejected):
    """A `test` of the patch was not met."""


class _Impossible(Exception):
    """The operation cannot be carried out; the text says why."""


class _Unmet(_Impossible):
    """A `test` is not met."""


@dataclass(frozen=True, slots=True)
class _Operation:
    kind: str
    path: tuple[str, ...]
    source: tuple[str, ...]
    value: Any
    has_value: bool


def json_patch(original: Object, patch: Any) -> Object:
    """The patched object. It shares nothing with the arguments, which stay as they are.

    StatusError 400 for what is no patch, 413 for one that is too long, 422 for one that cannot be carried out, which is
    a `PatchTestFailed` if a `test` of it is not met.
    """
    if patch is not None and not isinstance(patch, list):
        raise _undecodable(patch, "[]handlers.jsonPatchOp")
    if patch and len(patch) > OPERATIONS_MAX:
        raise StatusError(
            413,
            StatusReason.REQUEST_ENTITY_TOO_LARGE,
            "Request entity too large: "
            f"The allowed maximum operations in a JSON patch is {OPERATIONS_MAX}, got {len(patch)}",
        )
    for each in patch or ():
        _check_types(each)
    document = _Document(copied(original))
    for each in patch or ():
        try:
            document.apply(_read(each))
        except _Impossible as error:
            rejected = PatchTestFailed if isinstance(error, _Unmet) else PatchRejected
            raise rejected(f"JSON patch: {each.get('op')} {quoted(each.get('path') or '')}: {error}") from None
    if not isinstance(document.root, dict):
        raise PatchRejected("JSON patch: the result must be an object")
    return document.root


def _undecodable(found: Any, wanted: str) -> StatusError:
    return bad_request(
        f"error decoding patch: json: cannot unmarshal {name_json_type(found)} into Go value of type {wanted}"
    )


def _check_types(operation: Any) -> None:
    if not isinstance(operation, dict):
        raise _undecodable(operation, "handlers.jsonPatchOp")
    for name in ("op", "path", "from"):
        if not isinstance(operation.get(name), str | None):
            found = name_json_type(operation[name])
            where = f"Go struct field jsonPatchOp.{name}"
            raise bad_request(f"error decoding patch: json: cannot unmarshal {found} into {where} of type string")


def _read(operation: Object) -> _Operation:
    kind = operation.get("op")
    path = operation.get("path")
    if kind not in ("add", "remove", "replace", "move", "copy", "test") or path is None:
        raise _Impossible("op must be add, remove, replace, move, copy or test, and path must be set")
    source = operation.get("from")
    if source is None and kind in ("move", "copy"):
        raise _Impossible("from must be set")
    if "value" not in operation and kind in ("add", "replace"):
        raise _Impossible("value must be set")
    return _Operation(kind, _pointer(path), _pointer(source or ""), operation.get("value"), "value" in operation)


def _pointer(text: str) -> tuple[str, ...]:
    """The steps of a JSON pointer (RFC 6901)."""
    if not text:
        return ()
    if not text.startswith("/"):
        raise _Impossible("a path must begin with /")
    # In this order: `~01` is `~1`.
    return tuple(step.replace("~1", "/").replace("~0", "~") for step in text[1:].split("/"))


class _Document:
    """What is being patched, shared with no other code."""

    def __init__(self, root: Any) -> None:
        self.root = root
        self._copied = 0

    def apply(self, operation: _Operation) -> None:
        match operation.kind:
            case "add":
                self._add(operation.path, copied(operation.value, len(operation.path)))
            case "remove":
                self._remove(operation.path)
            case "replace":
                self._get(operation.path)
                self._put(operation.path, copied(operation.value, len(operation.path)))
            case "move":
                self._move(operation.source, operation.path)
            case "copy":
                value = copied(self._get(operation.source), len(operation.path))
                self._copied += _size(value)
                if self._copied > COPIED_MAX:
                    raise _Impossible("the patch copies too much")
                self._add(operation.path, value)
            case "test":
                self._test(operation)

    def _move(self, source: tuple[str, ...], target: tuple[str, ...]) -> None:
        value = self._get(source)
        if source == target:
            return
        if target[: len(source)] == source:
            raise _Impossible("a value cannot be moved into itself")
        self._remove(source)
        self._add(target, copied(value, len(target)))

    def _test(self, operation: _Operation) -> None:
        if operation.path and operation.value is None:
            parent = self._get(operation.path[:-1])
            if isinstance(parent, dict):
                if parent.get(operation.path[-1]) is not None:
                    raise _Unmet("the value is another one")
                return
        if not same(self._get(operation.path), operation.value):
            raise _Unmet("the value is another one")

    def _get(self, path: tuple[str, ...]) -> Any:
        found = self.root
        for step in path:
            if isinstance(found, dict):
                if step not in found:
                    raise _Impossible(_MISSING)
                found = found[step]
            elif isinstance(found, list):
                found = found[_index(step, len(found) - 1)]
            else:
                raise _Impossible(_MISSING)
        return found

    def _add(self, path: tuple[str, ...], value: Any) -> None:
        if not path:
            self.root = value
            return
        if len(path) > DEPTH_MAX:
            raise too_deep()
        parent = self._get(path[:-1])
        if isinstance(parent, list):
            parent.insert(len(parent) if path[-1] == "-" else _index(path[-1], len(parent)), value)
        elif isinstance(parent, dict):
            parent[path[-1]] = value
        else:
            raise _Impossible(_MISSING)

    def _put(self, path: tuple[str, ...], value: Any) -> None:
        """Put a value where one is."""
        if not path:
            self.root = value
            return
        parent = self._get(path[:-1])
        parent[_index(path[-1], len(parent) - 1) if isinstance(parent, list) else path[-1]] = value

    def _remove(self, path: tuple[str, ...]) -> None:
        self._get(path)
        if not path:
            self.root = None
            return
        parent = self._get(path[:-1])
        del parent[_index(path[-1], len(parent) - 1) if isinstance(parent, list) else path[-1]]


def _index(step: str, last: int) -> int:
    if not _INDEX.fullmatch(step) or int(step) > last:
        raise _Impossible(_MISSING)
    return int(step)


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return 1 + sum(len(name) + _size(each) for name, each in value.items())
    if isinstance(value, list):
        return 1 + sum(_size(each) for each in value)
    return 1 + len(value) if isinstance(value, str) else 1
