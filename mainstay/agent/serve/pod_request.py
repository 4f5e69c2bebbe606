"""A request about a pod, as the parts of server.py are given it; and what each of them has to look up in the pod."""

from dataclasses import dataclass
from typing import Any, assert_never

from mainstay.agent.runner import ContainerId, Exited, Runner, Running, Starting, State
from mainstay.api.errors import StatusError, bad_request
from mainstay.api.kind import Object
from mainstay.env import Clock
from mainstay.http.messages import Request

_STATUSES = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")


@dataclass(frozen=True, slots=True)
class PodRequest:
    """A request about a pod of a node."""

    request: Request
    query: dict[str, list[str]]
    pod: Object
    container: str
    """Empty where the whole pod is meant."""
    runner: Runner
    clock: Clock

    @property
    def uid(self) -> str:
        uid: str = self.pod["metadata"]["uid"]
        return uid

    def text(self, name: str) -> str:
        return self.query.get(name, [""])[0]

    def flag(self, name: str) -> bool:
        return self.text(name) == "true"

    def number(self, name: str) -> int | None:
        text = self.text(name)
        return int(text) if text.isascii() and text.isdigit() else None

    @property
    def name(self) -> str:
        name: str = self.pod["metadata"]["name"]
        return name

    @property
    def is_websocket(self) -> bool:
        return (self.request.headers.get("upgrade") or "").lower() == "websocket"

    def chosen_protocol(self, known: tuple[str, ...], *, is_needed: bool = True, instead: str = "") -> str | None:
        """The first of the protocols offered that is known here. None if none is offered and none is needed.

        Raises `StatusError` (400), with words on what can be done instead.
        """
        if not self.is_websocket:
            # kubectl tries this when what it tried first was refused, and then shows this answer.
            raise bad_request(f"SPDY is not supported, only WebSocket ({', '.join(known)}){instead}")
        headers = self.request.headers.getall("sec-websocket-protocol")
        offered = [each.strip() for value in headers for each in value.split(",")]
        if not offered and not is_needed:
            return None
        for protocol in offered:
            if protocol in known:
                return protocol
        raise bad_request(f"unsupported protocols {', '.join(offered)}; supported: {', '.join(known)}")

    def attempts(self) -> dict[ContainerId, State]:
        """Those of the container, in order."""
        found = self.runner.instances(self.uid)
        return {each: state for each, state in found.items() if each.name == self.container}

    def status(self) -> dict[str, Any]:
        """The container's, as the pod has it. Empty if there is none."""
        status = self.pod.get("status") or {}
        for part in _STATUSES:
            for each in status.get(part) or ():
                if each.get("name") == self.container:
                    found: dict[str, Any] = each
                    return found
        return {}

    def running(self) -> ContainerId:
        """The attempt that runs. Raises `StatusError` (400) if none does."""
        attempts = self.attempts()
        if attempts:
            last = max(attempts)
            match attempts[last]:
                case Running():
                    return last
                case Starting():
                    why = "it is starting"
                case Exited(code=code):
                    why = f"it exited with code {code}"
                case other:
                    assert_never(other)
            raise self._not_running(why)
        raise self._not_running(f"it is waiting to start: {self.waits_for()}")

    def _not_running(self, why: str) -> StatusError:
        return bad_request(f'container "{self.container}" in pod "{self.name}" is not running: {why}')

    def waits_for(self) -> str:
        """Why the container is not there."""
        waiting = (self.status().get("state") or {}).get("waiting") or {}
        reason: str = waiting.get("reason") or "ContainerCreating"
        return reason
