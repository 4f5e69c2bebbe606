"""The status of each container of a pod, as clients read it: waiting, running or terminated, and what was before.

A container that is to be started again and has to wait says why (`CrashLoopBackOff`), with its last end in `lastState`;
one that is about to be started shows how it ended until it runs. A container is not shown as running before its
postStart hook is through.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from mainstay.agent.pod.attempts import Container, Role, render_id
from mainstay.agent.pod.facts import ContainerWaiting, HookDone, HookFailed, PodFacts
from mainstay.agent.pod.restarts import latest_verdicts, restarts
from mainstay.agent.runner import Exited, Running, Starting
from mainstay.api import times
from mainstay.api.kind import Object

CREATING: Final = "ContainerCreating"
INITIALIZING: Final = "PodInitializing"
HOOK_FAILED: Final = "PostStartHookError"


def container_status(
    container: Container, facts: PodFacts, holds: Mapping[str, ContainerWaiting], *, has_init: bool, is_over: bool
) -> Object:
    """`holds` says what keeps containers from being started. `has_init`: the pod has init containers."""
    hold = None if is_over else holds.get(container.name)
    status: Object = {
        "name": container.name,
        "image": _image(container),
        "imageID": "",
        "restartCount": 0,
        "ready": False,
        "started": False,
        "state": {"waiting": {"reason": INITIALIZING if has_init else CREATING}},
        "lastState": {},
    }
    shown = _shown(container)
    if shown is not None:
        attempt, before = shown
        status["restartCount"] = container.attempts[attempt].id.attempt
        status["lastState"] = _last_state(container, before)
        status["containerID"] = render_id(container.attempts[attempt].id)
        status["imageID"] = status["image"]
        match container.attempts[attempt].state:
            case Running(started_at):
                if is_hook_through(container, facts):
                    status["state"] = {"running": {"startedAt": times.format_time(started_at)}}
                    _judge(status, container, facts)
                elif isinstance(failed := facts.hooks.get(container.attempts[attempt].id), HookFailed):
                    status["state"] = {"waiting": _without_empty({"reason": HOOK_FAILED, "message": failed.message})}
            case Exited() as exited:
                ended = _terminated(exited, status["containerID"])
                comes_again = not is_over and (
                    container.is_live or restarts(container, latest_verdicts(container, facts))
                )
                waits_already = _waits_already(container, ended)
                if comes_again and hold is not None:
                    status["lastState"] = {"terminated": ended}
                elif comes_again and waits_already is not None:
                    status["state"], status["lastState"] = waits_already, {"terminated": ended}
                else:
                    status["state"] = {"terminated": ended}
                    status["ready"] = container.role is Role.INIT and exited.code == 0
    if hold is not None and "waiting" in status["state"]:
        waiting = {"reason": hold.reason, "message": hold.message, "missing": hold.missing}
        status["state"] = {"waiting": _without_empty(waiting)}
    return status


def is_hook_through(container: Container, facts: PodFacts) -> bool:
    """Whether the postStart hook of the latest attempt, if it has one, has succeeded: as far as this agent knows, or
    else by what an earlier one reported."""
    if container.hook("postStart") is None:
        return True
    latest = container.latest
    if latest is None:
        return False
    state = facts.hooks.get(latest.id)
    if state is None:
        return container.is_stored_of_latest and "running" in (container.stored.get("state") or {})
    return isinstance(state, HookDone)


def is_started(container: Container, facts: PodFacts) -> bool:
    """Whether a container runs and has started, by its startup probe if it has one."""
    latest = container.latest
    if latest is None or not isinstance(latest.state, Running) or not is_hook_through(container, facts):
        return False
    if container.spec.get("startupProbe") is None:
        return True
    verdicts = facts.probes.get(latest.id)
    return _verdict(container, verdicts.is_started if verdicts is not None else None, "started")


def _judge(status: Object, container: Container, facts: PodFacts) -> None:
    status["started"] = is_started(container, facts)
    if not status["started"] or container.role is Role.INIT:
        return
    if container.spec.get("readinessProbe") is None:
        status["ready"] = True
        return
    verdicts = facts.probes.get(container.attempts[-1].id)
    status["ready"] = _verdict(container, verdicts.is_ready if verdicts is not None else None, "ready")


def _verdict(container: Container, found: bool | None, field: str) -> bool:
    # An agent that was started again has found nothing yet. Its pods would be out of service until it has.
    return found if found is not None else container.is_stored_of_latest and container.stored.get(field) is True


def _shown(container: Container) -> tuple[int, int] | None:
    """Which attempt is shown as the state, and which as the last one: as indexes. One that is only being begun changes
    nothing yet."""
    count = len(container.attempts)
    if count and isinstance(container.attempts[-1].state, Starting):
        count -= 1
    return (count - 1, count - 2) if count else None


def _last_state(container: Container, index: int) -> Object:
    before = container.attempts[index] if index >= 0 else None
    if before is not None and isinstance(before.state, Exited):
        return {"terminated": _terminated(before.state, render_id(before.id))}
    # It was pruned, or lost; what was said of it stays.
    stored: Object = container.stored.get("lastState") or {}
    return stored


def _waits_already(container: Container, ended: Object) -> Object | None:
    """The waiting state that is stored of a container since this end of it."""
    state: Object = container.stored.get("state") or {}
    last = (container.stored.get("lastState") or {}).get("terminated") or {}
    return state if "waiting" in state and last.get("containerID") == ended["containerID"] else None


def _image(container: Container) -> str:
    """What the shown attempt was started with, as far as is known: the spec's may have changed since."""
    if container.is_stored_of_latest and container.stored.get("image"):
        return str(container.stored["image"])
    return container.spec.get("image") or ""


def _terminated(exited: Exited, container_id: str) -> Object:
    return _without_empty(
        {
            "exitCode": exited.code,
            "signal": exited.signal,
            "reason": exited.reason or ("Error" if exited.code else "Completed"),
            "message": exited.message,
            "startedAt": _time(exited.started_at),
            "finishedAt": _time(exited.finished_at),
            "containerID": container_id,
        }
    ) | {"exitCode": exited.code}


def _time(moment: datetime) -> str | None:
    return times.format_time(moment) if moment.timestamp() > 0 else None


def _without_empty(fields: Object) -> Object:
    return {name: value for name, value in fields.items() if value}


def find_waiting_reasons(status: Object) -> dict[str, tuple[str, str]]:
    """By container of a pod's status: reason and message of what it waits for; empty if it does not wait."""
    found = {}
    for group in ("initContainerStatuses", "containerStatuses"):
        for each in status.get(group) or ():
            waiting = (each.get("state") or {}).get("waiting") or {}
            found[each["name"]] = waiting.get("reason") or "", waiting.get("message") or ""
    return found
