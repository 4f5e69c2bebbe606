"""A request as a value: what is sent, and whether it may be sent a second time."""

from dataclasses import dataclass, replace
from enum import Enum, StrEnum, auto
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from mainstay.api import headers
from mainstay.client.intent import Intent
from mainstay.journal.trace_id import traceparent

ACCEPT_JSON: Final = b"Accept: application/json\r\n"
ACCEPT_ANYTHING: Final = b"Accept: */*\r\n"
JSON: Final = "application/json"
SENT_BY_US: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "authorization", "upgrade"})
"""Headers that callers may not set."""

Pairs = list[tuple[str, str]]
"""Of a query. Names may be repeated."""

_encode = msgspec.json.Encoder().encode


class Repeat(Enum):
    """What sending a request a second time can do when it is not known what became of the first."""

    SAFE = auto()
    """Nothing: it only reads, or is bound to the state that the first one found."""
    BY_OPERATION = auto()
    """Nothing, with servers that know operation ids. Others would do it twice."""
    UNSAFE = auto()
    """It could be done twice."""


class PatchType(StrEnum):
    """How the body of a patch is to be read. On the wire: only add."""

    JSON = "application/json-patch+json"
    MERGE = "application/merge-patch+json"
    STRATEGIC = "application/strategic-merge-patch+json"
    APPLY = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """Options of a write besides the object. Empty means not set.

    A Kubernetes API server does not know the first four and ignores them.
    """

    operation: str = ""
    """An id that no other write has (1 to 128 letters, digits or any of `. _ : -`). A write with one may be repeated:
    the server does it once, and gives the first outcome again."""
    decision: str = ""
    """The decision that this write carries out."""
    cause: str = ""
    """What that decision was about: see the glossary."""
    term: str = ""
    """`namespace/lease=revision`: only if that leader is still in office, else `Fenced`."""
    field_manager: str = ""
    """As whom to own the fields that are set. Empty: the name in the client's user agent."""
    dry_run: bool = False
    """Say what would become of it, and change nothing."""
    field_validation: str = ""
    """Strict, Warn or Ignore: what to do about fields that the server does not know."""
    must_be_conditional: bool = False
    """Its decision allows it only on what it has seen: a request without a version is a bug, and is not sent."""
    intent: Intent | None = None
    """Instead of `operation`: what the id is made from, together with the request (intent.py)."""

    def query(self) -> Pairs:
        pairs = []
        if self.field_manager:
            pairs.append(("fieldManager", self.field_manager))
        if self.dry_run:
            pairs.append(("dryRun", "All"))
        if self.field_validation:
            pairs.append(("fieldValidation", self.field_validation))
        return pairs

    def headers(self) -> bytes:
        named = (
            (headers.OPERATION, self.operation),
            (headers.DECISION, self.decision),
            (headers.CAUSE, self.cause),
            (headers.TERM, self.term),
            (headers.TRACE, traceparent(self.decision) if self.decision else ""),
        )
        return b"".join([header_line(name, value) for name, value in named if value])

    def repeat(self, *, is_conditional: bool) -> Repeat:
        if is_conditional or self.dry_run:
            return Repeat.SAFE
        return Repeat.BY_OPERATION if self.operation else Repeat.UNSAFE


NOTHING_SAID: Final = WriteOptions()


class Call(msgspec.Struct, frozen=True):
    """One request. `lines` are its headers, without those that are the same for all requests to a server."""

    method: str
    target: str
    """Path and query, without the prefix of a server."""
    lines: bytes = ACCEPT_JSON
    body: bytes = b""
    repeat: Repeat = Repeat.SAFE

    @property
    def is_read(self) -> bool:
        return self.method == "GET"

    def head(self, prefix: str, lines: bytes) -> bytes:
        """All that comes before the body, for a server with this prefix and these headers."""
        first = f"{self.method} {prefix}{self.target} HTTP/1.1\r\n".encode("ascii")
        if self.method in ("GET", "DELETE") and not self.body:
            return b"%b%b%b\r\n" % (first, lines, self.lines)
        return b"%b%b%bContent-Length: %d\r\n\r\n" % (first, lines, self.lines, len(self.body))

    def __str__(self) -> str:
        return f"{self.method} {self.target}"


def reading(path: str, query: Pairs) -> Call:
    return Call("GET", with_query(path, query))


def writing(
    method: str,
    path: str,
    query: Pairs,
    body: Any,
    write: WriteOptions,
    *,
    content_type: str = JSON,
    is_conditional: bool = False,
) -> Call:
    """`body` is bytes as they are, or a value to be sent as JSON. None: there is none."""
    sent = b""
    if body is not None:
        sent = body if isinstance(body, bytes) else _encode(body)
    target = with_query(path, query)
    if write.must_be_conditional and not is_conditional:
        raise AssertionError(f"{method} {target} names no version, although its decision is about one")
    if write.intent is not None and not write.operation:
        operation = write.intent.operation(method, target, content_type, sent, is_conditional=is_conditional)
        write = replace(write, operation=operation)
    lines = ACCEPT_JSON + write.headers()
    if body is not None:
        lines += f"Content-Type: {content_type}\r\n".encode("ascii")
    return Call(method, target, lines, sent, write.repeat(is_conditional=is_conditional))


def with_query(path: str, query: Pairs) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def header_line(name: str, value: str) -> bytes:
    """Raises `ValueError` for what must not be in a header: it could become a second one."""
    if not value.isascii() or not value.isprintable() or not name.isascii() or not name.isprintable() or ":" in name:
        raise ValueError(f"the header {name!r} cannot be {value!r}: only printable ASCII can be sent")
    return f"{name}: {value}\r\n".encode("ascii")
