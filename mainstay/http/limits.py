"""How much, and how slow, a client may be. Every buffer and every wait of a connection has its bound here."""

from dataclasses import dataclass, replace
from datetime import timedelta

KIB = 1024
MIB = 1024 * KIB

FILES_RESERVED_MAX = 512
"""Files that are not connections of clients: the store, the journal, logs, connections to agents."""


@dataclass(frozen=True, slots=True)
class HttpLimits:
    connections: int = 20_000
    """More are answered 503 and closed. The last tenth is for clients with a certificate."""
    connections_per_address: int = 1_000
    """Of one client address, without a client certificate. See connection_table.py for what becomes of more."""

    url_bytes: int = 32 * KIB
    """414 beyond. Label selectors of real clients reach a few KiB."""
    header_bytes: int = 64 * KIB
    """431 beyond: names and values together. The largest of real ones are tokens and impersonation, a few KiB."""
    body_bytes: int = 3 * MIB
    """413 beyond. As Kubernetes."""
    bodies_bytes: int = 64 * MIB
    """All bodies together, of those that do not arrive with their head. 429 beyond."""
    dropped_bytes: int = 256 * KIB
    """A body that its handler does not want is read and dropped up to this length; beyond, the connection is closed."""
    pipelined: int = 16
    """Requests waiting behind one that is being answered. Beyond, no more is read until some are answered."""

    handshake_within: timedelta = timedelta(seconds=10)
    """For TLS. The connection is closed after."""
    first_within: timedelta = timedelta(seconds=30)
    """From there to the first byte of a request. The connection is closed after."""
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
    streams_bytes: int = 256 * MIB
    """The same of all streams together: beyond, those with more waiting than their share are cut off."""
    message_bytes: int = 1 * MIB
    """The largest WebSocket message, and what may wait for its receiver before no more is read."""

    gzip: bool = True
    """Compress answers above `gzip_above_bytes` for clients that ask for it, and all long ones. Streams never are."""
    gzip_above_bytes: int = 128 * KIB
    """As Kubernetes."""
    gzip_at_once_bytes: int = 512 * KIB
    """A single answer above this is sent as it is: it is compressed in one go, which keeps the others waiting."""

    def fit(self, files: int) -> "HttpLimits":
        """The same with no more connections than a process may have that can open so many files."""
        reserved = min(FILES_RESERVED_MAX, files // 4)
        return replace(self, connections=max(1, min(self.connections, files - reserved)))
