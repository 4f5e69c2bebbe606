"""Unconfirmed charges: pods deleted by force that still hold room, on the nodes where the server refused us for that.

No watch shows them: they are in the server's ledger alone, where the API calls them ghosts. A scheduler that does not
know of them chooses such a node again and again. So the first refusal makes it ask the server (`GET
nodes/NAME/ghosts`), and the answer is counted in the columns like pods: decisions see it, other pods go elsewhere, and
the condition of a pod that fits nowhere says what it waits for. The scheduler asks again until the node has none left:
after `first`, then at longer and longer intervals, up to `longest`, which is how late a pod can be for room that has
become free.

It is memory of the scheduler, and recorded as such (record.py). A new leader begins without, and learns it from its
first refusal.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_names import NODES
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, NotFound
from mainstay.env import Clock, tasks

_MICROSECOND: Final = timedelta(microseconds=1)
_decode = msgspec.json.Decoder(Object).decode
_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnconfirmedSettings:
    first: timedelta = timedelta(seconds=1)
    longest: timedelta = timedelta(seconds=30)
    between: timedelta = timedelta(milliseconds=20)
    """Between any two questions, however many nodes there are to ask about."""


@dataclass(frozen=True, slots=True)
class _Asking:
    due_ns: int
    delay_ns: int
    was_asked: bool = False


class UnconfirmedWatch:
    """`refused` tells it of a node; `run` asks, until cancelled."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        learned: Callable[[str, Sequence[Object]], bool],
        settings: UnconfirmedSettings | None = None,
    ) -> None:
        """`learned` gets all unconfirmed charges of a node, and returns whether that is news."""
        self._client = client
        self._clock = clock
        self._learned = learned
        settings = settings or UnconfirmedSettings()
        self._first_ns = settings.first // _MICROSECOND * 1000
        self._longest_ns = settings.longest // _MICROSECOND * 1000
        self._between = settings.between
        self._nodes: dict[str, _Asking] = {}
        self._has_work = asyncio.Event()

    def __len__(self) -> int:
        return len(self._nodes)

    def refused(self, node: str) -> None:
        """The server has unconfirmed charges there that we do not know of."""
        self._nodes[node] = _Asking(self._clock.monotonic_ns(), self._first_ns)
        self._has_work.set()

    def is_asking(self, node: str) -> bool:
        """Whether the first answer since its last refusal is still to come."""
        asking = self._nodes.get(node)
        return asking is not None and not asking.was_asked

    async def run(self) -> None:
        while True:
            await self._until_due()
            now_ns = self._clock.monotonic_ns()
            due = min(((asking.due_ns, node) for node, asking in self._nodes.items()), default=None)
            if due is not None and due[0] <= now_ns:
                await self._ask(due[1])
                await tasks.sleep(self._between)

    async def _until_due(self) -> None:
        self._has_work.clear()
        if not self._nodes:
            await self._has_work.wait()
            return
        wait_ns = min(asking.due_ns for asking in self._nodes.values()) - self._clock.monotonic_ns()
        if wait_ns > 0:
            try:
                async with tasks.timeout(timedelta(microseconds=wait_ns // 1000 + 1)):
                    await self._has_work.wait()
            except TimeoutError:
                pass

    async def _ask(self, node: str) -> None:
        try:
            response = await self._client.request("GET", NODES.path("", node, "ghosts"))
            found: Sequence[Object] = _decode(response.body).get("items") or ()
        except NotFound:
            found = ()  # They end with their node.
        except (ApiError, msgspec.DecodeError) as error:
            _logger.info("failed to get the unconfirmed charges of node %s: %s", node, error)
            self._later(node, is_news=False)
            return
        is_news = self._learned(node, found)
        if found:
            self._later(node, is_news=is_news)
        else:
            self._nodes.pop(node, None)

    def _later(self, node: str, *, is_news: bool) -> None:
        delay_ns = self._first_ns if is_news else self._nodes[node].delay_ns
        next_ns = min(2 * delay_ns, self._longest_ns)
        self._nodes[node] = _Asking(self._clock.monotonic_ns() + delay_ns, next_ns, was_asked=True)
