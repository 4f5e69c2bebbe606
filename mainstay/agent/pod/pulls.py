"""Pulling the images of a pod's containers, before they are begun.

A pull goes on beside the pod: meanwhile its container waits, with the image in the message, and the pod can be deleted.
One that fails is no attempt of the container, and counts as no restart. It is tried again after a while that doubles,
as the kubelet does it: first `ErrImagePull` with what went wrong, then `ImagePullBackOff` until the next try. What is
known of failed pulls is lost with the agent, and the next incarnation tries at once.

Whether there is anything to pull the runner knows: real processes are started from what is on their machine.
"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mainstay.agent.pod.container_status import CREATING
from mainstay.agent.pod.events import PodEvents
from mainstay.agent.pod.facts import ContainerWaiting
from mainstay.agent.runner import CannotPull, Pull, Runner
from mainstay.api.kind import Object
from mainstay.api.retry_shape import NO_BOUND, RetryShape
from mainstay.env import Clock

RETRY: Final = RetryShape(
    attempts_max=NO_BOUND,  # The image may come to be, and the pod is there until its owner gives it up.
    first_delay=timedelta(seconds=10),
    delay_max=timedelta(minutes=5),
    jitter=0,
)
ERROR_SHOWN_FOR: Final = timedelta(seconds=2)
"""Then its container waits with the back-off."""
FAILED: Final = "ErrImagePull"
BACK_OFF: Final = "ImagePullBackOff"
NEVER: Final = "ErrImageNeverPull"


@dataclass(slots=True)
class _Pull:
    """Of one image, for one container."""

    image: str
    is_under_way: bool = False
    is_pulled: bool = False
    """For the attempt that is about to be begun."""
    failures: int = 0
    problem: str = ""
    retry_at: datetime | None = None


class ImagePulls:
    """Of one pod. `done` is called with the name of a container whose pull has ended, and what it waits for now."""

    def __init__(
        self,
        runner: Runner,
        clock: Clock,
        events: PodEvents,
        spawn: Callable[[Coroutine[Any, Any, None], str], None],
        done: Callable[[str, ContainerWaiting | None], None],
    ) -> None:
        self._runner = runner
        self._clock = clock
        self._events = events
        self._spawn = spawn
        self._done = done
        self._pulls: dict[str, _Pull] = {}

    def ensure(self, pod: Object, container: Object) -> ContainerWaiting | None:
        """Have the image of a container that is about to be begun. None: it is there; otherwise what to wait for."""
        name, image = container["name"], container.get("image") or ""
        pull = self._pulls.get(name)
        if pull is None or pull.image != image:
            pull = self._pulls[name] = _Pull(image)
        if pull.is_pulled:
            del self._pulls[name]
            return None
        if pull.is_under_way:
            return _pulling(pull)
        if pull.retry_at is not None and pull.retry_at > self._clock.wall():
            text = f'Back-off pulling image "{image}"'
            self._events.normal(pod, "BackOff", text, name)
            return ContainerWaiting(BACK_OFF, f"{text}: {pull.problem}", pull.retry_at)
        try:
            work = self._runner.pull(image, container.get("imagePullPolicy") or "")
        except CannotPull as error:
            self._events.warning(pod, error.reason, str(error), name)
            return ContainerWaiting(error.reason, str(error), self._clock.wall() + RETRY.first_delay)
        if work is None:
            del self._pulls[name]
            return None
        pull.is_under_way = True
        self._events.normal(pod, "Pulling", f'Pulling image "{image}"', name)
        self._spawn(self._pull(pod, name, pull, work), "pull an image of")
        return _pulling(pull)

    async def _pull(self, pod: Object, name: str, pull: _Pull, work: Pull) -> None:
        began = self._clock.wall()
        waiting: ContainerWaiting | None = None
        try:
            await work()
        except CannotPull as error:
            waiting = self._failed(pod, name, pull, error)
        else:
            pull.is_pulled = True
            took = (self._clock.wall() - began).total_seconds()
            self._events.normal(pod, "Pulled", f'Successfully pulled image "{pull.image}" in {took:g}s', name)
        pull.is_under_way = False
        self._done(name, waiting)

    def _failed(self, pod: Object, name: str, pull: _Pull, error: CannotPull) -> ContainerWaiting:
        pull.failures += 1
        pull.problem = str(error)
        now = self._clock.wall()
        pull.retry_at = now + RETRY.delay(pull.failures, 0)
        self._events.warning(pod, "Failed", f'Failed to pull image "{pull.image}": {error}', name)
        return ContainerWaiting(error.reason, pull.problem, now + ERROR_SHOWN_FOR)


def _pulling(pull: _Pull) -> ContainerWaiting:
    """While a pull goes on. After a failure, what it waited with stays until the outcome is known."""
    if pull.failures:
        return ContainerWaiting(BACK_OFF, f'pulling image "{pull.image}" again: {pull.problem}')
    return ContainerWaiting(CREATING, f'pulling image "{pull.image}"')
