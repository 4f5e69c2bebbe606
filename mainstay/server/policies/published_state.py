"""What an API server says about itself: how far it has followed the kinds that it decides by, and its policies.

A ComponentState (loop/component_state.py says what it is for), written past HTTP. A gate that waits until every server
knows a policy reads there: from the moment at which a server has published a revision, it judges every request that
it receives by the policies of that revision or later; one that was under way may have been judged before. It is
written soon after a policy has changed, a little later after anything else has, and now and then even if nothing has;
a server that stops removes it.

The other kinds that parts of the server follow are there too: roles, priority classes, flow schemas. Not those that
users define: a server hears of a CustomResourceDefinition some time before it serves it.
"""

import asyncio
import logging
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final

from mainstay.api import times
from mainstay.api.component_roles import ComponentRole
from mainstay.api.errors import StatusError
from mainstay.api.kind import Kind, Object
from mainstay.api.kind_names import COMPONENT_STATES, DEFINITIONS
from mainstay.env import Clock, tasks, vital
from mainstay.env.build import build
from mainstay.server.request.options import DeleteOptions, WriteParameters
from mainstay.server.storage.keyspace import CORE
from mainstay.server.storage.object_storage import ObjectStorage
from mainstay.server.storage.strategies import STATUS, WriteStrategy
from mainstay.server.watch.feed import Feed
from mainstay.store.errors import StoreError

CHANGES_WITHIN: Final = timedelta(seconds=1)
"""How soon after a change of a policy it is published."""
NEWS_WITHIN: Final = timedelta(seconds=10)
"""How soon after a change of anything else: then those who wait for a revision see that the server has reached it."""
AT_LEAST_EVERY: Final = timedelta(minutes=1)
_MANAGER: Final = "apiserver"
_OPTIONS: Final = WriteParameters(False, "Strict", _MANAGER)
_DELETE: Final = DeleteOptions(dry_run=False, grace_period_s=None, propagation=None, uid="", resource_version="")
_STATUS: Final = WriteStrategy(STATUS)

_logger = logging.getLogger(__name__)


def list_reached(feed: Feed) -> dict[str, int]:
    """By kind, the revision up to which every part of the server that follows it has taken in all changes."""
    found: dict[str, int] = {}
    for follower in feed.followers:
        group, plural, _ = follower.prefix.split("/", 2)
        kind = plural if group == CORE else f"{plural}.{group}"
        if kind != DEFINITIONS.text:
            found[kind] = min(found.get(kind, follower.reached), follower.reached)
    return dict(sorted(found.items()))


class PublishedState:
    """Kept by one server, under its name."""

    def __init__(self, name: str, objects: ObjectStorage, kind: Kind, clock: Clock) -> None:
        """`kind` is ComponentState."""
        assert kind.reference == COMPONENT_STATES, kind
        self.name: Final = f"apiserver-{name.replace(':', '-')}"
        self._policies = objects.policies
        self._feed = objects.feed
        self._writes = objects.writes
        self._kind = kind
        self._clock = clock
        self._task: asyncio.Task[None] | None = None
        self._failure = ""

    def start(self) -> None:
        self._task = vital.spawn(self._publish(), name="server-state")

    async def stop(self) -> None:
        if self._task is None:
            return
        await tasks.stop(self._task)
        with suppress(StatusError, StoreError):
            await self._writes.delete(self._kind, "", self.name, _DELETE)

    async def _publish(self) -> None:
        published: dict[str, int] | None = None
        last_ns = news = 0
        while True:
            policies, now_ns = self._policies.list_revisions(), self._clock.monotonic_ns()
            age = timedelta(microseconds=(now_ns - last_ns) // 1000)
            is_due = age >= (NEWS_WITHIN if self._feed.news > news else AT_LEAST_EVERY)
            if policies != published or is_due:
                reached = self._feed.news
                if await self._try(policies):
                    published, last_ns, news = policies, now_ns, reached
            await tasks.sleep(CHANGES_WITHIN)

    async def _try(self, policies: dict[str, int]) -> bool:
        status: Object = {
            "role": str(ComponentRole.API_SERVER),
            "revisions": list_reached(self._feed),
            "build": build(),
            "flags": [],
            "policies": policies,
            "term": "",
            "controllers": [],
            "held": [],
            "observedAt": times.format_time(self._clock.wall()),
        }
        failure = ""
        try:
            await self._write(status)
        except (StatusError, StoreError) as error:
            failure = str(error)
        if failure and failure != self._failure:
            _logger.warning("the state of %s could not be published; retrying: %s", self.name, failure)
        self._failure = failure
        return not failure

    async def _write(self, status: Object) -> None:
        def replaced(found: Object) -> Object:
            return {**found, "status": status}

        try:
            await self._writes.update(self._kind, "", self.name, replaced, _STATUS, _OPTIONS)
        except StatusError as error:
            if error.code != 404:
                raise
            new: dict[str, Any] = {"kind": self._kind.kind, "apiVersion": self._kind.group_version}
            new |= {"metadata": {"name": self.name}, "spec": {"component": self.name}}
            await self._writes.create(self._kind, "", new, _OPTIONS)
            await self._writes.update(self._kind, "", self.name, replaced, _STATUS, _OPTIONS)
