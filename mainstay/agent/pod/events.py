"""Events about pods: what `kubectl describe` shows of what the agent did. How they are written is in loop/events.py;
a pretend node writes none."""

from typing import Final

from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.client.client import Client
from mainstay.env import Clock
from mainstay.loop import events
from mainstay.loop.events import EventSettings, InvolvedObject

COMPONENT: Final = "mainstay-agent"
SETTINGS: Final = EventSettings(a_second=50, at_once=100)
"""As many as a node may have pods start at once."""


class PodEvents:
    """Writes Events while `run` runs."""

    def __init__(self, client: Client, clock: Clock, node: str, *, is_on: bool) -> None:
        self._is_on = is_on
        self._events = events.EventRecorder(client, clock, COMPONENT, node, SETTINGS)

    def normal(self, pod: Object, reason: str, message: str, container: str = "") -> None:
        self._tell(pod, reason, message, container, is_warning=False)

    def warning(self, pod: Object, reason: str, message: str, container: str = "", action: str = "") -> None:
        """`action` is what failed, for programs: `livenessProbe`."""
        self._tell(pod, reason, message, container, is_warning=True, action=action)

    def _tell(
        self, pod: Object, reason: str, message: str, container: str, *, is_warning: bool, action: str = ""
    ) -> None:
        if self._is_on:
            about = InvolvedObject.of(PODS, pod, f"spec.containers{{{container}}}" if container else "")
            self._events.tell(about, reason, message, is_warning=is_warning, action=action)

    async def run(self) -> None:
        await self._events.run()
