"""The graph is kept true: every kind whose objects can be deleted is followed, and kinds come and go.

One watch for each kind, of metadata alone. Which kinds there are is asked for every half minute, and whenever a
CustomResourceDefinition changes; those are followed too, so as not to trust one answer of one server that may
not have heard of a new kind.

The graph is *whole up to a revision* when every kind is followed that far. What goes only because the graph shows no
object that would suffer (the owner that waits for its dependents, or lets them go) needs it whole up to that object's
own revision: whatever named it before then is in the graph. Before the graph has been whole once, nothing is looked at.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Final

from mainstay.api.kind_name import KindName
from mainstay.api.kind_names import DEFINITIONS
from mainstay.client.cache import CacheStopped
from mainstay.client.client import Client
from mainstay.client.entry import Change
from mainstay.client.errors import ApiError, NotFound
from mainstay.client.metadata_source import MetadataSource
from mainstay.client.pump import Collection, Pump
from mainstay.client.reflector import Reflector
from mainstay.client.served_kinds import Served, is_established, served_kinds
from mainstay.controllers.garbage.graph import Graph
from mainstay.controllers.garbage.vertices import Nodes
from mainstay.env import Env, tasks

_logger = logging.getLogger(__name__)

ASK_EVERY: Final = timedelta(seconds=30)
ASK_AGAIN: Final = timedelta(seconds=1)
_PATIENCE: Final = timedelta(seconds=2)
_NEEDED: Final = frozenset({"list", "watch", "delete"})
_IGNORED: Final = frozenset({("", "events"), ("events.k8s.io", "events")})
"""They are about others, have no owner, and go by themselves. There are more of them than of anything else."""
Wake = Callable[[str], None]


class KindFollower:
    """Follows one kind from `start` to `stop`."""

    def __init__(self, source: MetadataSource, env: Env, kind: KindName, deliver: Callable[[Sequence[Change]], None]):
        self.kind = kind
        self.nodes = Nodes(kind)
        reflector = Reflector(self.nodes.known_at)
        self._pump = Pump(source, Collection(kind), reflector, self.nodes, env, deliver)
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._running = tasks.spawn(self._run(), name=f"owner clean-up follows {self.kind}")

    async def stop(self) -> None:
        if self._running is not None:
            await tasks.stop(self._running)

    def has_reached(self, revision: int) -> bool:
        return self.nodes.is_synced and self.nodes.revision >= revision

    @property
    def is_broken(self) -> bool:
        """It has ended by itself: a bug, which was reported."""
        return self._running is not None and self._running.done() and not self._running.cancelled()

    async def _run(self) -> None:
        try:
            await self._pump.run()
        finally:
            self.nodes.close()


class Following:
    """All kinds. `run` until cancelled; then nothing is followed any more."""

    def __init__(self, client: Client, env: Env, wake: Wake, least: int = 0) -> None:
        """`wake` is called with the uid of each object to look at. `least`: only a graph from after this revision."""
        self.graph = Graph()
        self.source = MetadataSource(client)
        self.served = Served()
        self.is_filled = False
        """Whether the graph was ever whole. Before that, what is not in it may be there all the same."""
        self._client = client
        self._env = env
        self._wake = wake
        self._least = least
        self._followers: dict[tuple[str, str], KindFollower] = {}
        self._definitions: dict[str, None] = {}
        """Names of all definitions that were ever seen: PLURAL.GROUP."""
        self._asks = asyncio.Event()
        self._asking = asyncio.Lock()

    @property
    def kinds(self) -> list[KindName]:
        return [each.kind for each in self._followers.values()]

    async def run(self) -> None:
        """Raises `CacheStopped` if a kind cannot be followed any more, which is a bug."""
        try:
            await self._keep_up()
        finally:
            for follower in list(self._followers.values()):
                await follower.stop()

    def ask_soon(self) -> None:
        """There may be other kinds than those that are known."""
        self._asks.set()

    async def filled(self) -> None:
        """Wait until the graph has been whole once, and then have everything looked at that needs it."""
        while not self.served.kinds:
            await tasks.sleep(timedelta(milliseconds=50))
        while not await self.is_whole(self._least):
            missing = [str(each.kind) for each in self._followers.values() if not each.has_reached(self._least)]
            _logger.info("the owner graph is incomplete; not listed yet: %s", ", ".join(missing) or "none")
            await tasks.sleep(timedelta(milliseconds=200))
        self.is_filled = True
        for node in list(self.graph.nodes.values()):
            if self.graph.needs_look(node):
                self._wake(node.uid)

    async def is_whole(self, revision: int) -> bool:
        """Whether all that happened up to a revision, to any kind, is in the graph. Waits a little for it to be so."""
        with suppress(TimeoutError, CacheStopped):
            async with tasks.timeout(_PATIENCE):
                for follower in list(self._followers.values()):
                    await follower.nodes.wait_until(revision)
        if not all(each.has_reached(revision) for each in self._followers.values()):
            return False
        unknown = self._unfollowed()
        if unknown:
            with suppress(ApiError):
                await self._ask()
            for name in self._unfollowed():
                if await self._may_have_objects(name):
                    return False
        return all(each.has_reached(revision) for each in self._followers.values())

    # Kinds come and go.

    async def _keep_up(self) -> None:
        while True:
            delay = ASK_EVERY
            self._asks.clear()
            try:
                await self._ask()
            except ApiError as error:
                _logger.info("failed to list the served kinds: %s", error)
                delay = ASK_AGAIN
            if broken := [str(each.kind) for each in self._followers.values() if each.is_broken]:
                raise CacheStopped(f"no longer watched: {', '.join(broken)}")
            with suppress(TimeoutError):
                async with tasks.timeout(delay):
                    await self._asks.wait()
                await tasks.sleep(ASK_AGAIN / 5)  # It takes a server a moment to serve what it is told to.

    async def _ask(self) -> None:
        async with self._asking:
            self.served = await served_kinds(self._client)
            wanted = {
                (each.name.group, each.name.plural): each.name
                for each in self.served.kinds
                if each.verbs >= _NEEDED and (each.name.group, each.name.plural) not in _IGNORED
            }
            for place, follower in list(self._followers.items()):
                if wanted.get(place) != follower.kind and self._is_over(follower.kind, place in wanted):
                    del self._followers[place]
                    await follower.stop()
                    are_gone = place not in wanted and _name_definition(follower.kind) in self._definitions
                    self._wake_all(self.graph.forget(follower.kind, are_gone=are_gone))
            for place, kind in wanted.items():
                if place not in self._followers:
                    follower = self._followers[place] = KindFollower(self.source, self._env, kind, self._deliver)
                    follower.start()

    def _is_over(self, kind: KindName, is_replaced: bool) -> bool:
        """Whether a kind that is not among those served is really not there any more. A server may be behind."""
        if is_replaced:
            return True
        if self.served.doubts(kind.group):
            return False
        name = _name_definition(kind)
        return name not in self._definitions or name not in self._present_definitions()

    def _present_definitions(self) -> list[str]:
        follower = self._followers.get((DEFINITIONS.group, DEFINITIONS.plural))
        return [] if follower is None else [each.key.name for each in follower.nodes.entries()]

    def _unfollowed(self) -> list[str]:
        followed = {f"{plural}.{group}" for group, plural in self._followers}
        return [name for name in self._present_definitions() if name not in followed]

    async def _may_have_objects(self, definition: str) -> bool:
        try:
            found = await self._client.get(DEFINITIONS, definition)
        except NotFound:
            return False
        except ApiError:
            return True
        return is_established(found) and "deletionTimestamp" not in found["metadata"]

    # Changes.

    def _deliver(self, changes: Sequence[Change]) -> None:
        for change in changes:
            if change.kind.kind == DEFINITIONS.kind and change.kind.group == DEFINITIONS.group:
                self._definitions[change.key.name] = None
                self._asks.set()
            self._wake_all(self.graph.changed(change))

    def _wake_all(self, uids: Sequence[str]) -> None:
        if self.is_filled:
            for uid in uids:
                self._wake(uid)


def _name_definition(kind: KindName) -> str:
    return f"{kind.plural}.{kind.group}"
