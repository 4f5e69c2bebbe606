"""How long a client waits, how often it tries, how much it holds. Every wait and every buffer has its bound here."""

from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from mainstay.api.retry_shape import RetryShape
from mainstay.client.breaker import BreakerRules

KIB = 1024
MIB = 1024 * KIB

RETRY: Final = RetryShape(
    attempts_max=5, first_delay=timedelta(milliseconds=100), delay_max=timedelta(seconds=5), jitter=0.5
)


@dataclass(frozen=True, slots=True)
class ClientLimits:
    within: timedelta = timedelta(seconds=60)
    """For a request with all its repeats. A caller who has less time cancels."""
    answer_within: timedelta = timedelta(seconds=20)
    """How long a server may be silent while an answer is waited for. Longer than two webhooks take."""
    connect_within: timedelta = timedelta(seconds=5)

    retry: RetryShape = RETRY
    """How often one request is sent at most, and how soon after a failure. Its deadline is `within`."""
    breaker: BreakerRules = field(default_factory=BreakerRules)

    connections: int = 32
    """To each server, for requests. Each watch has one of its own besides."""
    waiting: int = 10_000
    """Requests that wait for a connection to one server. More are refused at once."""
    idle_within: timedelta = timedelta(seconds=45)
    """An unused connection is closed after this. Sooner than servers and what is between do it: then none is found
    closed when it is needed."""

    head_bytes: int = 256 * KIB
    """Of an answer: everything before its body."""
    body_bytes: int = 512 * MIB
    """Of an answer. A list of 50,000 pods in one page has a fifth of that."""
    event_bytes: int = 64 * MIB
    """Of one event of a watch."""
    unread_bytes: int = 4 * MIB
    """What a watch may have received and its reader has not fetched. Then no more is read, and the server has to wait.
    """
