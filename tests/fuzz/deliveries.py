"""How the bytes of a request come over a connection: in pieces, framed in many ways, cut short, too long, or lost."""

import asyncio
from dataclasses import dataclass
from enum import Enum, auto
from random import Random
from typing import Final

from mainstay.api.errors import StatusError, bad_request
from mainstay.http.arrival import Arrival, BodyMemory
from mainstay.http.messages import Request

NUMBER: Final = "X-Fuzz"
"""The header that says which request this is."""
_SLOW_S: Final = 70.0
"""Longer than the server waits for a body."""


class Ending(Enum):
    """What the client does when it has sent everything."""

    STAY = auto()
    CLOSE = auto()
    ABORT = auto()


class BodyFate(Enum):
    """What becomes of a body that does not come with its head, where there is no connection."""

    COMES = auto()
    IS_MALFORMED = auto()
    IS_SLOW = auto()
    FINDS_NO_ROOM = auto()
    IS_LOST = auto()
    """The client goes away."""
    COMES_IN_VAIN = auto()
    """It comes, and the client goes away before it is answered."""


@dataclass(frozen=True)
class Delivery:
    steps: tuple[bytes | float, ...]
    """Bytes to send, and seconds to wait."""
    ending: Ending
    is_cut: bool
    """Whether the server cannot know all of the body."""
    is_plain: bool
    """Whether nothing is wrong with its form, so that the connection can be used again."""


def build_delivery(
    chance: Random, number: int, method: str, target: str, headers: dict[str, str], body: bytes
) -> Delivery:
    lines = [f"{method} {target} HTTP/1.1", "Host: server", f"{NUMBER}: {number}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    roll = chance.random()
    if roll < 0.45:
        framed, is_plain = [f"Content-Length: {len(body)}"], True
        sent = body
    elif roll < 0.75:
        framed, is_plain = ["Transfer-Encoding: chunked"], True
        sent = _chunked(chance, body)
    else:
        framed, sent, is_plain = _framed_oddly(chance, body), body, False
        if any(line.lower().startswith("transfer-encoding") for line in framed):
            sent = _chunked(chance, body)
    lines += framed
    if chance.random() < 0.15:
        lines.append("Expect: 100-continue")
    if chance.random() < 0.1:
        is_plain = False
        _spoil(chance, lines)
    head = "".join(f"{line}\r\n" for line in lines).encode(errors="surrogateescape") + b"\r\n"
    whole = len(sent)
    match chance.randrange(8):
        case 0 if whole:
            sent = sent[: chance.randrange(whole)]
        case 1:
            sent += chance.choice((b"\0", b"x" * 40, b"\r\n", b"0\r\n\r\n", b"GET / HTTP/1.1\r\n\r\n"))
            is_plain = False
        case 2 if sent:
            at = chance.randrange(len(sent))
            sent = sent[:at] + bytes([chance.randrange(256)]) + sent[at + 1 :]
            is_plain = False
    is_cut = is_plain and len(sent) < whole
    endings = (Ending.STAY, Ending.STAY, Ending.STAY, Ending.CLOSE, Ending.ABORT)
    steps = tuple(_steps(chance, head, sent))
    is_plain = is_plain and not is_cut and _SLOW_S not in steps
    return Delivery(steps, chance.choice(endings), is_cut, is_plain)


def _chunked(chance: Random, body: bytes) -> bytes:
    """The body in chunks; now and then they are not quite right."""
    sent, at = b"", 0
    while at < len(body):
        size = chance.choice((1, 2, 7, 100, 5000))
        piece = body[at : at + size]
        at += size
        shown = f"{len(piece):x}" if chance.random() < 0.8 else f'{len(piece):08X};ext="a"'
        sent += f"{shown}\r\n".encode() + piece + b"\r\n"
    trailer = b"X-Trailer: 1\r\n" if chance.random() < 0.1 else b""
    return sent + b"0\r\n" + trailer + b"\r\n"


def _framed_oddly(chance: Random, body: bytes) -> list[str]:
    right = f"Content-Length: {len(body)}"
    return chance.choice(
        (
            [],
            [right, right],
            [right, f"Content-Length: {len(body) + 1}"],
            [right, "Transfer-Encoding: chunked"],
            ["Transfer-Encoding: gzip"],
            ["Transfer-Encoding: chunked, chunked"],
            ["Transfer-Encoding: identity"],
            ["Transfer-Encoding: chunked", "Transfer-Encoding: chunked"],
            ["transfer-encoding:\tchunked"],
            [f"Content-Length: {len(body) + chance.choice((1, 100))}"],
            [f"Content-Length: {max(len(body) - 1, 0)}"],
            *(
                [f"Content-Length: {length}"]
                for length in ("-1", "+5", "0x10", "1e3", "5, 5", "", "9" * 30, "3145729", "00005", " 5 ", "٣")
            ),
        )
    )


def _spoil(chance: Random, lines: list[str]) -> None:
    """Something wrong, or just rare, in the head."""
    match chance.randrange(12):
        case 0:
            lines[0] = lines[0].replace(
                "HTTP/1.1", chance.choice(("HTTP/1.0", "HTTP/2.0", "HTTP/0.9", "", "HTTP/1.10"))
            )
        case 1:
            del lines[1]
        case 2:
            lines.insert(1, "Host: other")
        case 3:
            lines.append(chance.choice(("Expect: x", "Expect: 100-Continue", "Connection: close", "Connection: x")))
        case 4:
            lines.append(
                "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\nSec-WebSocket-Version: 13"
            )
        case 5:
            lines.append(chance.choice(("no colon", " folded: x", "a\0b: c", "é: é", ": x", "X: \x7f", "X: a\nY: b")))
        case 6:
            lines.append("X-Long: " + "x" * chance.choice((60_000, 70_000, 200_000)))
        case 7:
            lines[0] = lines[0].replace("/", "/" + "x" * 40_000, 1)
        case 8:
            lines.extend(f"X-{n}: {n}" for n in range(chance.choice((50, 3000))))
        case 9:
            lines[0] = chance.choice(("GET", "get / HTTP/1.1", "CONNECT a:1 HTTP/1.1", "OPTIONS * HTTP/1.1", "\0", ""))
        case 10:
            lines[0] = lines[0].replace(" /", chance.choice((" http://x/", " x", " /%zz", " /%00", " /%ff", " /#a")), 1)
        case _:
            lines.append("Accept-Encoding: gzip, deflate, *;q=0")


def _steps(chance: Random, head: bytes, sent: bytes) -> list[bytes | float]:
    """The bytes in pieces. Most often the head comes first."""
    if chance.random() < 0.25:
        return [head + sent]
    steps: list[bytes | float] = []
    if chance.random() < 0.2:
        at = chance.randrange(1, len(head))
        steps += [head[:at], chance.choice((0.01, 1.0)), head[at:]]
    else:
        steps.append(head)
    steps.append(chance.choice((0.0, 0.01, 0.01, 1.0)))
    at = 0
    while at < len(sent):
        size = chance.choice((1, 10, 1000, 20_000)) if len(steps) < 12 else len(sent)
        steps.append(sent[at : at + size])
        at += size
        steps.append(_SLOW_S if chance.random() < 0.01 else chance.choice((0.0, 0.0, 0.01)))
    return steps


def arriving(request: Request, fate: BodyFate, body: bytes) -> Arrival:
    """What a handler awaits the body of a request with, if it wants it."""

    def want(share: float, owner: str, bytes_max: int | None) -> None:
        if fate is BodyFate.FINDS_NO_ROOM:
            BodyMemory(0).reserve(1, share, owner)
        asyncio.get_running_loop().call_soon(settle)

    def settle() -> None:
        match fate:
            case BodyFate.COMES | BodyFate.COMES_IN_VAIN:
                request.body = body
                arrival.complete()
            case BodyFate.IS_MALFORMED:
                arrival.fail(bad_request("the request is malformed"))
            case BodyFate.IS_SLOW:
                arrival.fail(StatusError(408, "RequestTimeout", "the request took too long to arrive"))

    arrival = Arrival(want)
    return arrival
