"""What a request is about, from its method, path and query: a verb on a kind, a namespace, a name.

Plain functions: nothing is looked up but the registry of kinds.
"""

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Final
from urllib.parse import parse_qsl

from msgspec import Struct

from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.api.kind import Kind
from mainstay.server.request.served_kinds import Registry


class Verb(StrEnum):
    GET = "get"
    LIST = "list"
    WATCH = "watch"
    CREATE = "create"
    UPDATE = "update"
    PATCH = "patch"
    DELETE = "delete"
    DELETE_COLLECTION = "deletecollection"


class RequestTarget(Struct, frozen=True):
    """A verb on an object, on a part of it, or on a collection."""

    verb: Verb
    kind: Kind
    namespace: str
    """Empty for all of them, or for a kind that has none."""
    name: str
    subresource: str


REMEMBERED_CHARACTERS_MAX: Final = 512  # Of a query that is remembered: a megabyte in all, whatever is asked.


class NoSuchPath(Exception):
    """Nothing is served there at all. Answered with plain text, which tells clients that the group is unknown."""


_ON_OBJECT: Final = {"GET": Verb.GET, "PUT": Verb.UPDATE, "PATCH": Verb.PATCH, "DELETE": Verb.DELETE}
_ON_COLLECTION: Final = {"GET": Verb.LIST, "POST": Verb.CREATE, "DELETE": Verb.DELETE_COLLECTION}


def _parse_query(query: str) -> Mapping[str, list[str]]:
    values: dict[str, list[str]] = {}
    for name, value in parse_qsl(query, keep_blank_values=True):
        values.setdefault(name, []).append(value)
    return values


# Clients repeat their queries. What this returns must not be changed.
_remembered: Final = lru_cache(maxsize=1024)(_parse_query)


class Options:
    """The query of a request. Names may be repeated; mostly the first one counts."""

    __slots__ = ("_values",)

    def __init__(self, query: str) -> None:
        is_short = len(query) <= REMEMBERED_CHARACTERS_MAX
        self._values = _remembered(query) if is_short else _parse_query(query)

    def get(self, name: str, default: str = "") -> str:
        values = self._values.get(name)
        return values[0] if values else default

    def all(self, name: str) -> list[str]:
        return list(self._values.get(name, ()))

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __bool__(self) -> bool:
        return bool(self._values)

    def flag(self, name: str) -> bool:
        """Whether something is asked for, in any of the ways that clients write it."""
        return name in self._values and self.get(name).lower() in ("true", "1", "t", "")

    def number(self, name: str) -> int | None:
        """A whole number from 0 up, or None if there is none. Raises `StatusError` for anything else."""
        text = self.get(name)
        if not text:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 18:
            raise bad_request(f"invalid {name}: {text!r} is not a whole number")
        return int(text)


NO_OPTIONS: Final = Options("")


def parse_target(method: str, path: str, options: Options, registry: Registry) -> RequestTarget:
    """What a request to an API path is about. Raises `NoSuchPath`, or `StatusError` for what no kind allows."""
    parts = path[1:].split("/")
    if "" in parts:
        parts = [part for part in parts if part]
    if len(parts) >= 3 and parts[0] == "api":
        group, version, rest = "", parts[1], parts[2:]
    elif len(parts) >= 4 and parts[0] == "apis":
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        raise NoSuchPath(path)
    if not registry.serves(group, version):
        raise NoSuchPath(path)
    is_watch = options.flag("watch") and method == "GET"
    if rest[0] == "watch" and len(rest) > 1:  # The old way to ask for a watch.
        if method != "GET":
            raise method_not_allowed()
        is_watch, rest = True, rest[1:]

    namespace = ""
    if rest[0] == "namespaces" and len(rest) > 2:
        inner = registry.find(group, version, rest[2])
        if inner is not None and inner.namespaced:
            namespace, rest = rest[1], rest[2:]
    kind = registry.find(group, version, rest[0])
    if kind is None or len(rest) > 3:
        raise _no_such_resource()
    name = rest[1] if len(rest) > 1 else ""
    subresource = rest[2] if len(rest) > 2 else ""
    allowed = kind.verbs
    if subresource:
        part = kind.subresource(subresource)
        if part is None:
            raise _no_such_resource()
        allowed = part.verbs

    verb = _verb(method, name, subresource, is_watch)
    if verb is None or verb not in allowed or (kind.namespaced and (name or verb is Verb.CREATE) and not namespace):
        raise method_not_allowed()
    return RequestTarget(verb, kind, namespace, name, subresource)


def _verb(method: str, name: str, subresource: str, is_watch: bool) -> Verb | None:
    if is_watch and not subresource:
        return Verb.WATCH
    if subresource and method == "POST":
        return Verb.CREATE
    return (_ON_OBJECT if name else _ON_COLLECTION).get(method)


def method_not_allowed() -> StatusError:
    return StatusError(
        405, StatusReason.METHOD_NOT_ALLOWED, "the server does not allow this method on the requested resource", {}
    )


def _no_such_resource() -> StatusError:
    return StatusError(404, StatusReason.NOT_FOUND, "the server could not find the requested resource", {})
