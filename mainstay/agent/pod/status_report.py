"""Writing a pod's status: one write at a time, only what differs, and only to that very pod.

Nothing waits for it. A write that does not come through is tried again, with what is wanted by then; meanwhile the pod
is looked after as ever, which matters most when the server cannot be reached. The answer shows the pod as it is: a
write that was taken is proof that the pod was there, with this uid, after it was sent.

All pods of a process take turns (`Turns`): of ten thousand writes only a few are under way at once, so that the renewal
of a lease never has to wait for them.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import timedelta
from random import Random
from typing import Final

from mainstay.agent.pod.status_patch import status_patch
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.api.retry_shape import NO_BOUND, RetryShape
from mainstay.client.call import NOTHING_SAID, PatchType, WriteOptions
from mainstay.client.client import Client
from mainstay.client.errors import ApiError, Conflict, NotFound, Throttled
from mainstay.env import Clock, tasks

RETRY: Final = RetryShape(
    attempts_max=NO_BOUND,  # As long as the pod is there.
    first_delay=timedelta(milliseconds=200),
    delay_max=timedelta(seconds=10),
)
AT_ONCE: Final = 24
"""How many statuses are written at the same time. Fewer than a client has connections."""

_logger = logging.getLogger(__name__)


class Turns(asyncio.Semaphore):
    """Shared by all who write over one client."""

    def __init__(self) -> None:
        super().__init__(AT_ONCE)


class StatusReport:
    """Of one pod."""

    def __init__(
        self,
        client: Client,
        turns: Turns,
        clock: Clock,
        jitter: Random,
        key: ObjectKey,
        uid: str,
        answered: Callable[[Object, int], None],
        refused: Callable[[], None],
        failed: Callable[[], None],
    ) -> None:
        """`answered` is called with the pod and the mark that was given; `refused` when there is no such pod, as it
        seems; `failed` when nothing was written, and it is time to ask again."""
        self._client = client
        self._turns = turns
        self._clock = clock
        self._jitter = jitter
        self._key = key
        self._uid = uid
        self._answered = answered
        self._refused = refused
        self._failed = failed
        self._task: asyncio.Task[None] | None = None
        self._next: tuple[Object, Object, int, WriteOptions] | None = None
        """What is to be written when it is our turn: the change, the whole status, the mark, what else it says."""
        self._is_sending = False
        self.has_more = False
        """What was wanted last came while something was being sent, and was not said."""
        self._failures = 0
        self._not_before_ns = 0
        self._said: Object | None = None
        self._shown: Object | None = None

    @property
    def is_under_way(self) -> bool:
        return self._task is not None

    def want(self, pod: Object, status: Object, mark: int, write: WriteOptions = NOTHING_SAID) -> int | None:
        """Write this status, unless the pod has it. Returns when to ask again, on the monotonic clock, if at all."""
        stored = pod.get("status") or {}
        # As it was said, so it was stored, if not in the same words: to say it again would not change it.
        is_said = status == stored or (status == self._said and stored == self._shown)
        patch = None if is_said else status_patch(stored, status)
        wanted = None if patch is None else (patch, status, mark, write)
        if self._task is not None:
            if not self._is_sending:
                self._next = wanted  # It was not our turn yet, and now we know better.
            else:
                self.has_more = True
            return None
        if wanted is None:
            return None
        if self._failures and self._clock.monotonic_ns() < self._not_before_ns:
            return self._not_before_ns
        self._next = wanted
        self._task = tasks.spawn(self._write_in_turn(), name=f"report pod {self._key}")
        return None

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _write_in_turn(self) -> None:
        async with self._turns:
            wanted, self._next = self._next, None
            if wanted is not None:
                self._is_sending, self.has_more = True, False
                await self._write(*wanted)
                return
        self._task = None
        self._failed()  # Nothing is left to write, and a worker that waits for an answer must ask itself.

    async def _write(self, patch: Object, status: Object, mark: int, write: WriteOptions) -> None:
        # With the uid, another pod of this name is not taken for this one.
        body = {"metadata": {"uid": self._uid}, "status": patch}
        try:
            written = await self._client.patch(
                PODS,
                self._key.name,
                self._key.namespace,
                body,
                type=PatchType.STRATEGIC,
                subresource="status",
                write=write,
            )
        except (NotFound, Conflict):
            self._later(None)
            self._refused()
        except ApiError as error:
            _logger.debug("failed to report the status of pod %s: %s", self._key, error)
            self._later(error)
            self._failed()
        else:
            self._task, self._is_sending, self._failures = None, False, 0
            self._said, self._shown = status, written.get("status") or {}
            self._answered(written, mark)

    def _later(self, error: ApiError | None) -> None:
        self._task, self._is_sending = None, False
        self._failures += 1
        delay = RETRY.delay(self._failures, self._jitter.random())
        if isinstance(error, Throttled):
            delay = max(delay, error.retry_after)
        self._not_before_ns = self._clock.monotonic_ns() + delay // timedelta(microseconds=1) * 1000
