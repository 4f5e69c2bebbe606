"""How much, and how slow, a client may be. Every buffer and every wait of a connection has its bound here."""

from dataclasses import dataclass
from datetime import timedelta

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class HttpLimits:
    connections: int = 20_000
    """More are answered 503 and closed."""

    url_bytes: int = 32 * KIB
    """414 beyond. Label selectors of real clients reach a few KiB."""
    header_bytes: int = 64 * KIB
    """431 beyond: names and values together. The largest of real ones are tokens and impersonation, a few KiB."""
    body_bytes: int = 3 * MIB
    """413 beyond. As Kubernetes."""
    pipelined: int = 16
    """Requests waiting behind one that is being answered. Beyond, no more is read until some are answered."""

    head_within: timedelta = timedelta(seconds=15)
    """From the first byte of a request to the end of its headers. 408 after."""
    body_within: timedelta = timedelta(seconds=60)
    """From there to the end of its body. 408 after."""
    idle_within: timedelta = timedelta(seconds=120)
    """A connection with nothing to do is closed when it has been so for this long, and at most twice as long."""
    linger: timedelta = timedelta(seconds=1)
    """After a refusal, what still comes is read and dropped for this long: a reset could overtake the answer."""
    close_within: timedelta = timedelta(seconds=15)
    """How long a client may take to fetch what was written before the connection was closed."""

    piece_within: timedelta = timedelta(seconds=60)
    """How long a client may take for each piece of a long answer. Then it is cut off."""
    stream_bytes: int = 4 * MIB
    """What may wait for the client of a stream. With more waiting the stream takes no more, and is cut off."""
    message_bytes: int = 1 * MIB
    """The largest WebSocket message, and what may wait for its receiver before no more is read."""

    gzip: bool = True
    """Compress answers above `gzip_above_bytes` for clients that ask for it, and all long ones. Streams never are."""
    gzip_above_bytes: int = 128 * KIB
    """As Kubernetes."""
