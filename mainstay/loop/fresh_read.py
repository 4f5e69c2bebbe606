"""The schedule of loops whose decisions are about what was just read from the server, rather than about caches.

For what must not act on an old picture, or looks at so many kinds that there cannot be a cache of each: the deletion of
namespaces, the garbage collector. Keys come from a queue and are looked at by several workers, one worker to a key.
What fails is looked at again later. Each write is recorded with what was read for it (`FreshRead`): lists by their
revisions, which the journal has, the rest as memory.

While a Hold holds the loop (holds.py) it takes no keys, and what it is processing stops before it writes.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Generic

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.errors import ApiError, NotFound, Throttled
from mainstay.client.informer import Informer, Subscriber
from mainstay.env import tasks
from mainstay.journal.record import Ending, LookedAt, ViewPart, WriteResult, micros
from mainstay.journal.record import Outcome as Ended
from mainstay.loop.holds import HeldBack
from mainstay.loop.kernel import Kernel, LoopContext
from mainstay.loop.queue.items import Item, K, KeyRetry, Outcome
from mainstay.loop.queue.work_queue import WorkQueue
from mainstay.loop.record import describe_failure, describe_write, make_record, make_subject, pack_memory

_logger = logging.getLogger(__name__)

Call = Callable[[WriteOptions], Awaitable[Object]]


@dataclass(frozen=True, slots=True)
class FreshRead:
    """What a write was decided from."""

    known: Any
    """What no history of the store has: a frozen value."""
    view: tuple[ViewPart, ...] = ()
    """Lists that were read, each as of its revision."""
    body: Any = None
    """What is to be written, to compare with another run."""


class FreshReadLoop(Generic[K]):
    """Subclass it, put keys into `queue`, and run `work`."""

    name: str

    def __init__(self, context: LoopContext) -> None:
        self.queue: WorkQueue[K] = WorkQueue(context.env, self.name)
        self.kernel = Kernel(self.name, context, self.queue)

    async def look(self, item: Item[K]) -> Outcome:
        """Look at a key and do what has to be done. Raises `ApiError`: look again later."""
        raise NotImplementedError

    async def work(self, workers: int, feeds: Sequence[tuple[Informer, Subscriber]] = ()) -> None:
        """Until cancelled, with keys that `feeds` put into the queue. Raises `Deposed` when the term is over,
        `CacheStopped` when a cache is not fed any more."""
        await self.kernel.ready([informer for informer, _ in feeds], from_term=False)
        for informer, subscriber in feeds:
            informer.subscribe(subscriber)
        try:
            with self.kernel.gate:
                await tasks.together([self._work() for _ in range(workers)], name=f"{self.name} worker")
        finally:
            for informer, subscriber in feeds:
                informer.unsubscribe(subscriber)

    async def _work(self) -> None:
        while (item := await self.queue.get()) is not None:
            outcome: Outcome = KeyRetry(counts=False)
            try:
                with self.kernel.fencing():
                    self.kernel.require()
                    outcome = await self.look(item)
            except Throttled as error:
                outcome = KeyRetry(at_least=error.retry_after, counts=False)
            except (HeldBack, ApiError) as error:
                _logger.info("%s %s: %s", self.name, item.key, error)
            finally:
                self.queue.done(item.key, outcome)

    async def write(
        self,
        verb: str,
        kind: KindName,
        key: ObjectKey,
        call: Call,
        why: str,
        *,
        about: tuple[KindName, Object],
        read: FreshRead,
        subresource: str = "",
    ) -> None:
        """Write something, because of the object that this is about. If it is gone, that is all right.

        Raises `ApiError` for anything else, and `HeldBack` if this loop is held.
        """
        self.kernel.gate.require()
        decision = self.kernel.next_decision()
        subject, metadata = about[0], about[1]["metadata"]
        at = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        result = WriteResult(kind.text, *key)
        try:
            answer = await call(self.kernel.write(decision, cause=f"{subject}/{at}@{metadata['resourceVersion']}"))
            self.kernel.counters.actions += 1
            if answer.get("kind") != "Status":
                revision = int((answer.get("metadata") or {}).get("resourceVersion") or 0)
                result = WriteResult(kind.text, *key, revision)
        except NotFound as error:
            result = describe_failure(kind, key, error)
        except ApiError as error:
            self.kernel.counters.failures += 1
            result = describe_failure(kind, key, error)
            raise
        finally:
            if self.kernel.recorder is not None:
                now = micros(self.kernel.clock.wall())
                failed = result.error not in ("", NotFound.__name__)
                made = make_record(
                    self.kernel.origin,
                    decision,
                    make_subject(subject, at, about[1]),
                    Ended(Ending.RETRY, result.error) if failed else Ended(Ending.DONE),
                    now,
                    now,
                    view=read.view,
                    memory=pack_memory(read.known),
                    looked_at=(LookedAt(subject.text, *at, revision=int(metadata["resourceVersion"])),),
                    looked_at_count=1,
                    reasons=(why,),
                    actions=(describe_write(verb, kind, key, subresource, read.body),),
                    writes=(result,),
                )
                self.kernel.recorder(made)
