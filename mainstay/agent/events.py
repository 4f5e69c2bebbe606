"""Events about pods: what `kubectl describe` shows of what the agent did. Best effort.

Events are told apart by pod, container and reason, under a name that follows from them: the same again counts up. What
cannot be written now is dropped. At most `WAITING_MAX` wait; a pretend node writes none.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from mainstay.api import times
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.client.client import Client
from mainstay.client.errors import AlreadyExists, ApiError, NotFound
from mainstay.env import Clock

EVENTS: Final = KindName("", "v1", "Event", "events", True)
WAITING_MAX: Final = 1_000
_COUNTED_MAX: Final = 10_000
COMPONENT: Final = "mainstay-agent"

_logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Said:
    pod: Object
    kind: str
    reason: str
    message: str
    field: str


class Events:
    """Writes what it is told, one after the other, while `run` runs."""

    def __init__(self, client: Client, clock: Clock, node: str, *, is_on: bool) -> None:
        self._client = client
        self._clock = clock
        self._node = node
        self._is_on = is_on
        self._waiting: OrderedDict[str, _Said] = OrderedDict()
        self._counts: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._told = asyncio.Event()

    def normal(self, pod: Object, reason: str, message: str, container: str = "") -> None:
        self._tell(pod, "Normal", reason, message, container)

    def warning(self, pod: Object, reason: str, message: str, container: str = "") -> None:
        self._tell(pod, "Warning", reason, message, container)

    def _tell(self, pod: Object, kind: str, reason: str, message: str, container: str) -> None:
        if not self._is_on or len(self._waiting) >= WAITING_MAX:
            return
        field = f"spec.containers{{{container}}}" if container else ""
        metadata = pod["metadata"]
        digest = hashlib.sha256("\0".join((metadata["uid"], container, reason, message)).encode()).hexdigest()[:16]
        self._waiting[f"{metadata['name']}.{digest}"] = _Said(pod, kind, reason, message, field)
        self._told.set()

    async def run(self) -> None:
        while True:
            await self._told.wait()
            self._told.clear()
            while self._waiting:
                name, said = self._waiting.popitem(last=False)
                try:
                    await self._write(name, said)
                except ApiError as error:
                    _logger.debug("the Event %s is not written: %s", name, error)

    async def _write(self, name: str, said: _Said) -> None:
        now = times.format_time(self._clock.wall())
        count, first = self._counts.pop(name, (0, now))
        self._counts[name] = count + 1, first
        if len(self._counts) > _COUNTED_MAX:
            self._counts.popitem(last=False)
        namespace = said.pod["metadata"]["namespace"]
        if count:
            try:
                await self._client.patch(EVENTS, name, namespace, {"count": count + 1, "lastTimestamp": now})
            except NotFound:
                pass  # It was too long ago.
            else:
                return
        try:
            await self._client.create(EVENTS, self._event(name, said, now), namespace)
        except AlreadyExists:  # From an earlier incarnation of this agent, which had the count.
            await self._client.patch(EVENTS, name, namespace, {"lastTimestamp": now})

    def _event(self, name: str, said: _Said, now: str) -> Object:
        metadata = said.pod["metadata"]
        involved = {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
            "resourceVersion": metadata.get("resourceVersion", ""),
        }
        if said.field:
            involved["fieldPath"] = said.field
        return {
            "metadata": {"name": name, "namespace": metadata["namespace"]},
            "involvedObject": involved,
            "type": said.kind,
            "reason": said.reason,
            "message": said.message,
            "source": {"component": COMPONENT, "host": self._node},
            "reportingComponent": COMPONENT,
            "reportingInstance": self._node,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
