"""The containers of a pod, each with what it is there for and with what became of its attempts.

If the runner knows of no attempt although the status says that there was one, it was lost: then the status is believed.
What it says has ended, ended so; how those ended that it says were running is unknown. Either way the next attempt
gets the next number.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

from mainstay.agent.pod.facts import PodFacts
from mainstay.agent.runner import ContainerId, Exited, Running, Starting, State
from mainstay.api import times
from mainstay.api.kind import Object

ID_PREFIX: Final = "mainstay://"
LOST_REASON: Final = "ContainerStatusUnknown"
LOST_MESSAGE: Final = "The container could not be located when the pod was terminated"
LOST_CODE: Final = 137

_NOTHING: Final[Mapping[str, Any]] = {}


class Role(StrEnum):
    """What a container is there for, which decides when it starts and ends."""

    INIT = "init"
    """Runs to its end before the next one starts."""
    SIDECAR = "sidecar"
    """Starts in turn with the init containers, and runs beside all that start after it."""
    MAIN = "main"


@dataclass(frozen=True, slots=True)
class ContainerAttempt:
    id: ContainerId
    state: State

    @property
    def is_live(self) -> bool:
        return isinstance(self.state, Starting | Running)


@dataclass(frozen=True, slots=True)
class Container:
    spec: Object
    role: Role
    policy: str
    """When it is started again: `Always`, `OnFailure` or `Never`."""
    attempts: tuple[ContainerAttempt, ...]
    """Those that are known, the oldest first."""
    stored: Mapping[str, Any]
    """Its status as it is stored; empty if there is none."""

    @property
    def name(self) -> str:
        name: str = self.spec["name"]
        return name

    @property
    def latest(self) -> ContainerAttempt | None:
        return self.attempts[-1] if self.attempts else None

    @property
    def is_live(self) -> bool:
        return any(each.is_live for each in self.attempts)

    @property
    def exited(self) -> Exited | None:
        """How it ended last, if it has and does not run again."""
        latest = self.latest
        return latest.state if latest is not None and isinstance(latest.state, Exited) and not self.is_live else None

    @property
    def next_attempt(self) -> int:
        return self.attempts[-1].id.attempt + 1 if self.attempts else 0

    @property
    def is_stored_of_latest(self) -> bool:
        """Whether what is stored is about the latest attempt."""
        latest = self.latest
        return latest is not None and self.stored.get("containerID") == render_id(latest.id)

    def hook(self, name: str) -> Object | None:
        found: Object | None = (self.spec.get("lifecycle") or _NOTHING).get(name)
        return found


@dataclass(frozen=True, slots=True)
class PodContainers:
    init: tuple[Container, ...]
    """Sidecars among them, in the order in which they start."""
    main: tuple[Container, ...]
    strays: tuple[ContainerAttempt, ...]
    """Live attempts that should not be there: of containers that the spec does not have, or beside a later one."""

    def __iter__(self) -> Iterator[Container]:
        yield from self.init
        yield from self.main

    @property
    def is_live(self) -> bool:
        return bool(self.strays) or any(each.is_live for each in self)

    @property
    def is_initialized(self) -> bool:
        """Whether the init containers have been through once: a main container was begun."""
        return not self.init or any(each.attempts for each in self.main)


def build_containers(pod: Object, facts: PodFacts) -> PodContainers:
    spec, status, uid = pod["spec"], pod.get("status") or _NOTHING, pod["metadata"]["uid"]
    known: dict[str, list[ContainerAttempt]] = {}
    for number, state in facts.instances.items():
        known.setdefault(number.name, []).append(ContainerAttempt(number, state))

    def one(container: Object, role: Role, stored: Mapping[str, Mapping[str, Any]]) -> Container:
        own = stored.get(container["name"], _NOTHING)
        attempts = tuple(known.get(container["name"], ())) or _remembered(uid, container["name"], own)
        policy = "Always" if role is Role.SIDECAR else container.get("restartPolicy") or spec.get("restartPolicy")
        if role is Role.INIT and policy == "Always":
            policy = "OnFailure"  # An init container that has succeeded is done, whatever the pod says.
        return Container(container, role, policy or "Always", attempts, own)

    stored_init, stored_main = by_name(status.get("initContainerStatuses")), by_name(status.get("containerStatuses"))
    init = tuple(
        one(each, Role.SIDECAR if each.get("restartPolicy") == "Always" else Role.INIT, stored_init)
        for each in spec.get("initContainers") or ()
    )
    main = tuple(one(each, Role.MAIN, stored_main) for each in spec["containers"])
    wanted = {each.latest.id for each in (*init, *main) if each.latest is not None}
    strays = [each for attempts in known.values() for each in attempts if each.is_live and each.id not in wanted]
    return PodContainers(init, main, tuple(sorted(strays, key=lambda each: each.id)))


def by_name(statuses: list[Object] | None) -> dict[str, Object]:
    return {each["name"]: each for each in statuses or ()}


def render_id(container: ContainerId) -> str:
    """As the API shows it."""
    return f"{ID_PREFIX}{container.pod_uid}/{container.name}/{container.attempt}"


def _remembered(uid: str, name: str, stored: Mapping[str, Any]) -> tuple[ContainerAttempt, ...]:
    attempt = _attempt_number(stored.get("containerID") or "")
    if attempt is None:
        return ()
    state = stored.get("state") or _NOTHING
    last = (stored.get("lastState") or _NOTHING).get("terminated")
    ended = state.get("terminated") or (last if state.get("waiting") is not None else None)
    if ended is not None:
        return (ContainerAttempt(ContainerId(uid, name, attempt), _exited(ended)),)
    began = _moment((state.get("running") or _NOTHING).get("startedAt"))
    lost = Exited(code=LOST_CODE, reason=LOST_REASON, message=LOST_MESSAGE, started_at=began, finished_at=began)
    return (ContainerAttempt(ContainerId(uid, name, attempt), lost),)


def _exited(ended: Mapping[str, Any]) -> Exited:
    return Exited(
        code=ended.get("exitCode") or 0,
        signal=ended.get("signal") or 0,
        reason=ended.get("reason") or "",
        message=ended.get("message") or "",
        started_at=_moment(ended.get("startedAt")),
        finished_at=_moment(ended.get("finishedAt")),
    )


def _attempt_number(container_id: str) -> int | None:
    number = container_id.rpartition("/")[2]
    return int(number) if container_id.startswith(ID_PREFIX) and number.isdecimal() else None


_LONG_AGO: Final = times.parse_time("1970-01-01T00:00:00Z")


def _moment(text: str | None) -> datetime:
    return times.parse_time(text) if text else _LONG_AGO
