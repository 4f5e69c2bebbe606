"""What a container wants done right after its start, and just before its end.

A postStart hook goes on beside the container; it fails with it. A preStop hook comes before the container is asked to
end, and uses up its grace: when that is over, the container is asked, whatever the hook still does, and is given
`LEAST_GRACE` all the same.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Final

from mainstay.agent.pod.events import PodEvents
from mainstay.agent.pod.facts import HookDone, HookFailed, HookState
from mainstay.agent.pod.handlers import HandlerTarget, ask
from mainstay.agent.runner import Runner
from mainstay.api.kind import Object
from mainstay.env import Clock

LEAST_GRACE: Final = timedelta(seconds=2)


async def after_start(hook: Object, whom: HandlerTarget, pod: Object, runner: Runner, events: PodEvents) -> HookState:
    """Run a postStart hook to its end. It may take as long as it likes: the container can be ended meanwhile."""
    told = await ask(hook, whom, runner, None)
    if told.is_success:
        return HookDone()
    events.warning(pod, "FailedPostStartHook", f"PostStartHook failed: {told.message}", whom.id.name)
    return HookFailed(told.message)


async def before_end(
    hook: Object,
    whom: HandlerTarget,
    pod: Object,
    runner: Runner,
    events: PodEvents,
    clock: Clock,
    end_at_ns: Callable[[], int],
) -> None:
    """Run a preStop hook, then ask the container to end. `end_at_ns`: when it has to be over, as of now."""
    told = await ask(hook, whom, runner, _left(clock, end_at_ns()))
    if not told.is_success:
        events.warning(pod, "FailedPreStopHook", f"PreStopHook failed: {told.message}", whom.id.name)
    await runner.end(whom.id, max(_left(clock, end_at_ns()), LEAST_GRACE))


def _left(clock: Clock, end_at_ns: int) -> timedelta:
    return timedelta(microseconds=max(end_at_ns - clock.monotonic_ns(), 0) // 1000)
