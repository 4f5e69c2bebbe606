"""Bugs that a client could have."""

import pytest

from mainstay.client import breaker, dispatch, retry_policy
from mainstay.client.breaker import HEALTHY, BreakerRules, State
from mainstay.client.connection import ClientConnection
from mainstay.client.dispatch import Sender
from mainstay.client.errors import Unavailable
from mainstay.client.pool import ConnectionPool
from mainstay.client.retry_policy import RequestFailure


def repeats_whatever_got_no_answer(patch: pytest.MonkeyPatch) -> None:
    """What many HTTP libraries do with a connection that was closed before anything came."""
    honest = retry_policy._may_repeat
    patch.setattr(
        retry_policy, "_may_repeat", lambda attempt: attempt.failure is RequestFailure.NO_ANSWER or honest(attempt)
    )


def takes_every_server_for_one_that_knows_operations(patch: pytest.MonkeyPatch) -> None:
    async def always(self: Sender, until_ns: int) -> bool:
        return True

    patch.setattr(Sender, "_server_knows_operations", always)


def forgets_that_an_earlier_attempt_may_have_happened(patch: pytest.MonkeyPatch) -> None:
    class Forgetful(Unavailable):
        """Only the last attempt counts."""

        def __setattr__(self, name: str, value: object) -> None:
            if name != "may_have_happened" or not hasattr(self, name):
                super().__setattr__(name, value)

    patch.setattr(dispatch, "Unavailable", Forgetful)


def keeps_the_connection_of_a_cancelled_request(patch: pytest.MonkeyPatch) -> None:
    def discard(self: ConnectionPool, connection: ClientConnection) -> None:
        connection._waiter = None
        connection._sink = None
        self.give_back(connection)

    patch.setattr(ConnectionPool, "discard", discard)
    # It is also lenient about what comes while nothing was asked.
    honest = ClientConnection.data_received
    patch.setattr(
        ClientConnection, "data_received", lambda self, data: honest(self, data) if self._waiter is not None else None
    )


def never_leaves_a_server_alone(patch: pytest.MonkeyPatch) -> None:
    def failed(state: State, now_ns: int, rules: BreakerRules) -> State:
        return HEALTHY

    patch.setattr(breaker, "failed", failed)
