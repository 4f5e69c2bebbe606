"""Bytes into requests, by httptools (llhttp), with what a server on an open network has to refuse.

llhttp in its strict mode refuses what different servers could read differently: a Content-Length beside a
Transfer-Encoding, repeated or odd lengths, folded headers, bare line feeds, control characters. Here come the limits,
and what is well-formed and still not for us: other versions and transfer codings, no Host or two, an Upgrade with a
body (llhttp takes the body for the new protocol's bytes), CONNECT.

No I/O. `feed` appends finished requests to `ready`; after it, `refusal` says whether anything was wrong, and then
nothing more can be read. A request whose body is still to come can be taken before (`take_head`): then its body is
filled in when it is there, or dropped.
"""

import re
from collections import deque
from enum import Enum, auto
from functools import lru_cache
from typing import Final, cast
from urllib.parse import unquote_to_bytes

from httptools import HttpParserCallbackError, HttpParserError, HttpParserUpgrade, HttpRequestParser

from mainstay.api.errors import StatusError, StatusReason, bad_request
from mainstay.http.limits import HttpLimits
from mainstay.http.messages import Headers, Peer, Request

_ONCE: Final = ("host", "transfer-encoding", "content-length")  # Servers could choose differently.
_SHORT_HEAD_BYTES: Final = 8 * 1024  # The names of its headers are remembered.
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")


class ReaderPhase(Enum):
    BETWEEN = auto()
    """Waiting for a request to begin."""
    HEAD = auto()
    BODY = auto()


class _Refused(Exception):
    """Leaves the parser, which can only be stopped by an exception from a callback."""


class RequestReader:
    """Reads the requests of one connection."""

    __slots__ = (
        "_body",
        "_body_bytes",
        "_fed_bytes",
        "_headers",
        "_is_dropping",
        "_limits",
        "_method",
        "_pairs",
        "_parser",
        "_path",
        "_query",
        "_taken",
        "_target",
        "_unfinished_bytes",
        "_url",
        "begun",
        "body_bytes_max",
        "is_http_1_0",
        "is_last",
        "is_upgrading",
        "peer",
        "phase",
        "ready",
        "refusal",
        "wants_continue",
    )

    def __init__(self, limits: HttpLimits, peer: Peer) -> None:
        self._limits = limits
        self.peer = peer
        self.ready: deque[Request] = deque()
        self.refusal: StatusError | None = None
        self.is_last = False
        """Nothing more can be read: the client said so, or was refused."""
        self.is_http_1_0 = False
        """The last request was HTTP/1.0. There are none after it, because it is always the last."""
        self.is_upgrading = False
        """The last request asks for an upgrade. What follows is of the new protocol, or `go_on` is called first."""
        self.begun = 0
        """How many requests have begun."""
        self.wants_continue = False
        """The client waits for 100 Continue before it sends the body."""
        self.phase = ReaderPhase.BETWEEN
        self._unfinished_bytes = 0  # Came since anything was finished. llhttp's buffers are smaller than that.
        self._parser = HttpRequestParser(self)
        self._url = b""
        self._pairs: list[tuple[bytes, bytes]] = []
        self._body: list[bytes] = []
        self._body_bytes = 0
        self.body_bytes_max = limits.body_bytes
        """Of the body that is being read."""
        self._taken: Request | None = None
        self._is_dropping = False

    def feed(self, data: bytes | memoryview) -> int:
        """Parse some bytes, and say how many: all of them, unless there is an upgrade.

        Only if neither `is_last` nor `is_upgrading`.
        """
        self._fed_bytes = len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self.is_upgrading = True
            return cast(int, upgrade.args[0])
        except HttpParserCallbackError:
            if self.refusal is None:
                raise  # One of our own callbacks has failed.
        except HttpParserError as error:
            if not self.is_last:  # What comes after the last request is not looked at.
                self._set_refusal(bad_request(f"the request is malformed: {error}"))
        if self.phase is not ReaderPhase.BETWEEN:
            # The parser keeps a value that has not ended, without a limit, and trailers are not counted otherwise. What
            # came in this call may be anything, and counts from the next.
            if self._unfinished_bytes > self._limits.header_bytes + self._limits.url_bytes:
                self._set_refusal(_header_too_large(self._limits))
            self._unfinished_bytes += len(data)
        return len(data)

    def go_on(self) -> None:
        """There was no upgrade after all: more requests follow."""
        self.is_upgrading = False
        self._parser = HttpRequestParser(self)

    @property
    def is_head_there(self) -> bool:
        """Whether a head is there whose body is not, and was not taken yet."""
        return self.phase is ReaderPhase.BODY and self._taken is None

    @property
    def is_body_awaited(self) -> bool:
        """Whether the body of a head that was taken is not complete."""
        return self._taken is not None

    @property
    def body_bytes_declared(self) -> int | None:
        """The length of the body that is being read. None if it comes in chunks."""
        length = self._headers.get("content-length")
        return None if length is None else int(length)

    def take_head(self) -> Request:
        """The request whose body is being read. Only if `is_head_there`."""
        taken = Request(self._method, self._target, self._path, self._query, self._headers, b"", self.peer)
        self._taken = taken
        return taken

    def limit_body(self, bytes_max: int) -> None:
        """Refuse the body of the request that was taken as soon as it is longer."""
        self.body_bytes_max = min(bytes_max, self._limits.body_bytes)

    def drop_body(self) -> None:
        """Do not keep the body of the request that was taken. More requests can follow it."""
        self._is_dropping = True
        self._body.clear()
        self.wants_continue = False

    def stop(self) -> None:
        """Read nothing more."""
        self.is_last = True
        self.wants_continue = False
        self.phase = ReaderPhase.BETWEEN

    def close(self) -> None:
        """The connection is gone: let go of the parser, which knows this object, and of what was read."""
        self.stop()
        del self._parser
        self._body.clear()
        self._taken = None

    def give_up(self, error: StatusError) -> None:
        """Refuse for a reason that the bytes do not show: they do not come."""
        self._set_refusal(error)

    def _set_refusal(self, error: StatusError) -> None:
        self.refusal = error
        self.stop()

    def _refuse(self, error: StatusError) -> _Refused:
        self._set_refusal(error)
        return _Refused()

    # Callbacks of the parser, in this order.

    def on_message_begin(self) -> None:
        self.phase = ReaderPhase.HEAD
        self.begun += 1
        self._unfinished_bytes = 0

    def on_url(self, part: bytes) -> None:
        self._url = self._url + part if self._url else part
        if len(self._url) > self._limits.url_bytes:
            limit = self._limits.url_bytes
            raise self._refuse(StatusError(414, "RequestURITooLong", f"the URL is longer than {limit} bytes"))

    def on_header(self, name: bytes, value: bytes) -> None:
        self._pairs.append((name, value))  # Counted and checked when all are there: most heads are far from any limit.

    def on_headers_complete(self) -> None:
        limits = self._limits
        came = self._unfinished_bytes + self._fed_bytes
        if came > limits.header_bytes and _header_bytes(self._pairs) > limits.header_bytes:
            raise self._refuse(_header_too_large(limits))
        read_name = _remembered_name if came <= _SHORT_HEAD_BYTES else _read_name
        pairs = [(read_name(name), value.decode("latin-1").rstrip(" \t")) for name, value in self._pairs]
        self._pairs.clear()
        first = dict(pairs)
        if len(first) != len(pairs):
            first = dict(reversed(pairs))
            for once in _ONCE:
                if sum(name == once for name, _ in pairs) > 1:
                    raise self._refuse(bad_request(f"duplicate header {once}"))
        if "host" not in first or self._parser.get_http_version() != "1.1":
            self._check_version(first)
        self._method = _text(self._parser.get_method())
        self._take_target()
        self._headers = Headers.of_parsed(pairs, first)
        self.phase = ReaderPhase.BODY
        if "content-length" in first or "transfer-encoding" in first or "expect" in first:
            self._check_body(first)
        if self._parser.should_upgrade():
            self._check_upgrade(first)

    def on_body(self, part: bytes) -> None:
        self._unfinished_bytes = 0
        self._body_bytes += len(part)
        if self._body_bytes > self.body_bytes_max:
            raise self._refuse(_body_too_large(self.body_bytes_max))
        if not self._is_dropping:
            self._body.append(part)

    def on_message_complete(self) -> None:
        body = b""
        if self._body_bytes:
            body = b"".join(self._body)
            self._body.clear()
            self._body_bytes = 0
        if self._taken is None:
            self.ready.append(
                Request(self._method, self._target, self._path, self._query, self._headers, body, self.peer)
            )
        else:
            self._taken.body = body
            self._taken = None
            self._is_dropping = False
            self.body_bytes_max = self._limits.body_bytes
        if self.is_http_1_0 or not self._parser.should_keep_alive():
            self.is_last = True
        self.phase = ReaderPhase.BETWEEN
        self.wants_continue = False
        self._url = b""
        if self._pairs:
            self._pairs = []  # Trailers.

    # Checks of the head.

    def _check_version(self, headers: dict[str, str]) -> None:
        version = self._parser.get_http_version()
        if version == "1.1":
            if "host" not in headers:
                raise self._refuse(bad_request("missing Host header"))
        elif version == "1.0":
            self.is_http_1_0 = True
        else:
            raise self._refuse(StatusError(505, "HTTPVersionNotSupported", "only HTTP/1.0 and HTTP/1.1 are supported"))

    def _take_target(self) -> None:
        """Set target, path and query from the URL."""
        target = self._url.decode("latin-1")
        path, _, query = target.partition("?")
        if not path.startswith("/"):
            scheme, found, after = path.partition("://")
            if found and scheme:
                path = "/" + after.partition("/")[2]  # The absolute form, as sent to proxies.
            elif path != "*" and self._method != "CONNECT":
                raise self._refuse(bad_request("the request target is not a path"))
        if "#" in target:
            raise self._refuse(bad_request("the request target has a fragment"))
        if "%" in path:
            if _BAD_ESCAPE.search(path):
                raise self._refuse(bad_request("the path has an invalid escape"))
            try:
                path = unquote_to_bytes(path).decode("utf-8")
            except UnicodeDecodeError:
                raise self._refuse(bad_request("the path is not UTF-8")) from None
            if "\0" in path:
                raise self._refuse(bad_request("the path contains NUL"))
        self._target, self._path, self._query = target, path, query

    def _check_body(self, headers: dict[str, str]) -> None:
        coding = headers.get("transfer-encoding")
        length = headers.get("content-length")
        if coding is not None:
            if self.is_http_1_0:
                raise self._refuse(bad_request("Transfer-Encoding is not supported in HTTP/1.0"))
            if coding.lower() != "chunked":
                message = "only Transfer-Encoding: chunked is supported"
                raise self._refuse(StatusError(501, "NotImplemented", message))
        if length is not None and int(length) > self._limits.body_bytes:
            raise self._refuse(_body_too_large(self._limits.body_bytes))
        expected = headers.get("expect")
        if expected is not None and not self.is_http_1_0:
            if expected.lower() != "100-continue":
                raise self._refuse(StatusError(417, "ExpectationFailed", "only Expect: 100-continue is supported"))
            self.wants_continue = coding is not None or (length is not None and int(length) > 0)

    def _check_upgrade(self, headers: dict[str, str]) -> None:
        if self._method == "CONNECT":
            raise self._refuse(StatusError(405, StatusReason.METHOD_NOT_ALLOWED, "this server is not a proxy"))
        if "transfer-encoding" in headers or int(headers.get("content-length", "0")) > 0:
            raise self._refuse(bad_request("a request for an upgrade cannot have a body"))


@lru_cache(maxsize=64)
def _text(method: bytes) -> str:
    return method.decode("latin-1")


def _read_name(name: bytes) -> str:
    return name.lower().decode("latin-1")


_remembered_name: Final = lru_cache(maxsize=1024)(_read_name)


def _header_bytes(pairs: list[tuple[bytes, bytes]]) -> int:
    return sum(len(name) + len(value) + 4 for name, value in pairs)


def _header_too_large(limits: HttpLimits) -> StatusError:
    return StatusError(431, "RequestHeaderFieldsTooLarge", f"the headers are longer than {limits.header_bytes} bytes")


def _body_too_large(bytes_max: int) -> StatusError:
    message = f"Request entity too large: limit is {bytes_max} bytes"
    return StatusError(413, StatusReason.REQUEST_ENTITY_TOO_LARGE, message)
