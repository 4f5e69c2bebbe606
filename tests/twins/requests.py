"""Bugs that a server could have in answering requests, and that the fuzzer must find."""

from typing import Any

import pytest

from mainstay.api.errors import StatusError, StatusReason
from mainstay.api.kind import Kind
from mainstay.api.kind_names import CONFIG_MAPS
from mainstay.http.arrival import Arrival
from mainstay.http.connection import ServerConnection
from mainstay.server.node_proxy import agents
from mainstay.server.placement.eviction import Evictions
from mainstay.server.request.observer import _Observed
from mainstay.server.storage.committer import Committer
from mainstay.server.storage.keyspace import INTERNAL_PREFIX
from mainstay.server.storage.writes import ObjectWriter
from mainstay.store.interface import Put


def fails_in_one_handler(patch: pytest.MonkeyPatch) -> None:
    """An eviction whose options have no propagation policy is not thought of."""
    honest = Evictions.evict

    async def evict(self: Evictions, namespace: str, name: str, options: Any, now: str, context: Any) -> None:
        if options.propagation is None:
            raise KeyError("propagationPolicy")
        await honest(self, namespace, name, options, now, context)

    patch.setattr(Evictions, "evict", evict)


def writes_before_it_validates(patch: pytest.MonkeyPatch) -> None:
    """The number of ConfigMaps ever made is counted before it is known whether this one is."""
    honest = ObjectWriter.create

    async def create(self: ObjectWriter, kind: Kind, *rest: Any) -> Any:
        if kind.reference == CONFIG_MAPS:
            await self._store.commit([], [Put(f"{INTERNAL_PREFIX}made/{kind.plural}", str(self._made).encode())])
        return await honest(self, kind, *rest)

    patch.setattr(ObjectWriter, "create", create)


def writes_in_a_dry_run(patch: pytest.MonkeyPatch) -> None:
    honest = Committer.write

    async def write(self: Committer, what: str, decide: Any, context: Any, *, dry_run: bool) -> Any:
        return await honest(self, what, decide, context, dry_run=False)

    patch.setattr(Committer, "write", write)


def answers_503_for_another_reason(patch: pytest.MonkeyPatch) -> None:
    """As it answers when there is no agent, but for another reason."""

    def unavailable(message: str) -> StatusError:
        return StatusError(503, StatusReason.SERVICE_UNAVAILABLE, "list index out of range")

    patch.setattr(agents, "_unavailable", unavailable)


def takes_half_a_body_for_the_whole(patch: pytest.MonkeyPatch) -> None:
    """When the rest of a body does not come, the handler goes on with none."""

    def fail(self: Arrival, error: StatusError) -> None:
        self.complete()

    patch.setattr(Arrival, "fail", fail)


def keeps_the_room_of_bodies(patch: pytest.MonkeyPatch) -> None:
    """A client that goes away leaves its reservation behind."""
    honest = ServerConnection._answered

    def answered(self: ServerConnection, task: Any) -> None:
        if task.cancelled():
            self._body_reserved = 0, ""
        honest(self, task)

    patch.setattr(ServerConnection, "_answered", answered)


def keeps_the_seats_of_a_client_that_left(patch: pytest.MonkeyPatch) -> None:
    honest = _Observed.failed

    def failed(self: _Observed, error: BaseException) -> None:
        if isinstance(error, Exception):
            honest(self, error)

    patch.setattr(_Observed, "failed", failed)
