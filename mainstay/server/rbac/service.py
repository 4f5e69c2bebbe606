"""Roles in a server, put together: who may do what follows what is stored, and what is stored is kept in order.

A change of a role or binding counts from the next request on that this server answers: the answer to the change waits
until it was taken in. Other servers of the same store take it in when they hear of it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Final

from msgspec import Struct

from mainstay.api.errors import StatusError
from mainstay.api.kind import Object
from mainstay.api.kinds import rbac
from mainstay.env import Clock, Env, tasks, vital
from mainstay.http.messages import Answer
from mainstay.server.rbac.authorizer import RbacAuthorizer
from mainstay.server.rbac.bootstrap import reconcile_roles
from mainstay.server.rbac.roles import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, ROLES, RoleIndex
from mainstay.server.rbac.rules import PolicyRule
from mainstay.server.request.handlers import READS, Answering, Handler, HandlerTable, ResourceCall
from mainstay.server.request.options import WriteParameters
from mainstay.server.request.target import RequestTarget, Verb
from mainstay.server.storage.strategies import PATCH
from mainstay.server.storage.writes import ObjectWriter
from mainstay.server.watch.feed import Feed
from mainstay.server.watch.follower import PrefixFollower
from mainstay.store.errors import StoreError
from mainstay.store.interface import Entry, KeyChange, Store

TAKEN_IN_WITHIN: Final = timedelta(seconds=5)  # A feed that has lost its store must not hold up an answer for ever.
RETRY_AFTER: Final = timedelta(seconds=1)
"""Twice as long after each further failure, up to the next."""
RETRY_AFTER_MAX: Final = timedelta(minutes=5)

_log = logging.getLogger(__name__)


class RoleService:
    """`authorizer` and `index` can be used at once, and allow nothing until `start`."""

    def __init__(self) -> None:
        self.index = RoleIndex()
        self.authorizer = RbacAuthorizer(self.index)
        self._followers: list[PrefixFollower] = []
        self._changed = asyncio.Event()
        self._aggregating: asyncio.Task[None] | None = None
        self._feed: Feed | None = None

    async def start(self, store: Store, feed: Feed, writes: ObjectWriter, env: Env) -> None:
        """Make the roles that every cluster has, and follow all there are. Raises `StatusError`, `StoreError`."""
        self._feed = feed
        await reconcile_roles(store, env)
        for prefix in (CLUSTER_ROLES, ROLES, CLUSTER_ROLE_BINDINGS, ROLE_BINDINGS):
            reset = partial(self._reset, prefix)
            follower = PrefixFollower(store, feed, prefix, self._take, reset)
            self._followers.append(follower)
            reset(await follower.start())
        self._aggregating = vital.spawn(self._aggregate(writes, env.clock), name="role-aggregation")

    async def stop(self) -> None:
        if self._aggregating is not None:
            await tasks.stop(self._aggregating)
        for follower in self._followers:
            await follower.stop()

    def add_handlers(self, table: HandlerTable) -> None:
        """Those of all kinds, but a write is answered when it counts."""
        for kind in rbac.KINDS:
            handlers = {}
            for verb in map(Verb, kind.verbs):
                usual = table.find(RequestTarget(verb, kind, "", "", ""))
                if usual is None:
                    raise AssertionError(f"no handler for {verb} {kind.plural}")
                handlers[verb] = usual if verb in READS else Handler(partial(self._answer_taken_in, usual.answer))
            table.add(kind.reference, "", handlers)

    async def _answer_taken_in(self, answer: Answering, asked: ResourceCall) -> Answer:
        answered = await answer(asked)
        if asked.call.writes and self._feed is not None:
            try:
                async with tasks.timeout(TAKEN_IN_WITHIN):
                    await self._feed.reach(asked.call.revision)
            except TimeoutError:
                _log.warning("roles changed at revision %s, and this is not in effect yet", asked.call.revision)
        return answered

    def _take(self, change: KeyChange) -> None:
        self.index.put(change.key, None if change.entry is None else change.entry.value, change.revision)
        if change.key.startswith(CLUSTER_ROLES):
            self._changed.set()

    def _reset(self, prefix: str, entries: Sequence[Entry]) -> None:
        self.index.reset(prefix, entries)
        self._changed.set()

    # What is shown of ClusterRoles that aggregate others.

    async def _aggregate(self, writes: ObjectWriter, clock: Clock) -> None:
        """Decisions do not depend on this: it is for those who read the role."""
        failed: dict[str, _FailedWrite] = {}
        while True:
            due_ns = min((each.due_ns for each in failed.values()), default=None)
            pause = None if due_ns is None else timedelta(seconds=max(0, due_ns - clock.monotonic_ns()) / 1e9)
            with contextlib.suppress(TimeoutError):
                async with tasks.timeout(pause):
                    await self._changed.wait()
            self._changed.clear()
            before, failed = failed, {}
            for name, shown, rules in list(self.index.find_aggregating()):
                if shown == rules:
                    continue
                last = before.get(name)
                if last is not None and last.rules != rules:
                    last = None
                if last is not None and clock.monotonic_ns() < last.due_ns:
                    failed[name] = last
                    continue
                try:
                    await _show_rules(writes, name, rules)
                except (StatusError, StoreError) as error:
                    again = RETRY_AFTER if last is None else min(2 * last.pause, RETRY_AFTER_MAX)
                    failed[name] = _FailedWrite(rules, again, clock.monotonic_ns() + int(again.total_seconds() * 1e9))
                    _log.warning("cannot write the rules of ClusterRole %s; retrying in %s: %s", name, again, error)
            if self._changed.is_set():
                await tasks.sleep(RETRY_AFTER)


class _FailedWrite(Struct, frozen=True):
    rules: tuple[PolicyRule, ...]
    pause: timedelta
    due_ns: int


async def _show_rules(writes: ObjectWriter, name: str, rules: Sequence[PolicyRule]) -> None:
    def mutate(role: Object) -> Object:
        if not role.get("aggregationRule"):
            return role
        return {**role, "rules": [rule.as_object() for rule in rules]}

    try:
        await writes.update(rbac.CLUSTER_ROLE, "", name, mutate, PATCH, WriteParameters(False, "Ignore", "mainstay"))
    except StatusError as error:
        if error.code != 404:
            raise
