"""A loop whose decisions are about what was just read from the server, rather than about caches.

For what must not act on an old picture, or looks at so many kinds that there cannot be a cache of each: the deletion of
namespaces, the clean-up behind owners. Keys come from a queue and are looked at by several workers, one worker to a
key. Whatever fails is expected, and looked at again later. Each write carries a decision and the term; the decision is
recorded, and says that it depended on what no view shows.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Generic

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.errors import ApiError, Fenced, NotFound, Throttled
from mainstay.controllers.own_loop import Around
from mainstay.env import tasks
from mainstay.journal import record
from mainstay.journal.record import DecisionRecord, Ending, Subject, WhyNot, WriteResult, micros
from mainstay.runtime.queue_items import Item, K, Outcome, Retry
from mainstay.runtime.terms import Deposed
from mainstay.runtime.work_queue import WorkQueue

_logger = logging.getLogger(__name__)

Call = Callable[[WriteOptions], Awaitable[Object]]


class LiveLoop(Generic[K]):
    """Subclass it, put keys into `queue`, and run `work`."""

    def __init__(self, name: str, around: Around) -> None:
        self.name = name
        self.queue: WorkQueue[K] = WorkQueue(around.env, name)
        self._client = around.client
        self._clock = around.env.clock
        self._term = around.term
        self._term_text = around.term.text if around.term is not None else ""
        # A process may lead again later: nothing may be named as something of an earlier term was.
        self._chance = around.env.chance.child(name, self._term_text)
        self._recorder = around.recorder
        self._build = around.build
        self._decisions = 0

    async def look(self, item: Item[K]) -> Outcome:
        """Look at a key and do what has to be done. Raises `ApiError`: look again later."""
        raise NotImplementedError

    async def work(self, workers: int) -> None:
        """Until cancelled. Raises `Deposed` when the term is over."""
        await tasks.together([self._work() for _ in range(workers)], name=f"{self.name} worker")

    async def _work(self) -> None:
        while (item := await self.queue.get()) is not None:
            outcome: Outcome = Retry(counts=False)
            try:
                if self._term is not None:
                    self._term.require()
                outcome = await self.look(item)
            except Fenced as error:
                if self._term is not None:
                    self._term.lost()
                raise Deposed(str(error)) from error
            except Throttled as error:
                outcome = Retry(at_least=error.retry_after, counts=False)
            except ApiError as error:
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
        subresource: str = "",
    ) -> None:
        """Write something, because of the object that this is about. If it is gone, that is all right.

        Raises `ApiError` for anything else.
        """
        self._decisions += 1
        name = f"{self.name}-{self._chance.uid('decision', self._decisions)}"
        subject, metadata = about[0], about[1]["metadata"]
        at = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        write = WriteOptions(
            decision=name,
            cause=f"{subject}/{at}@{metadata['resourceVersion']}",
            term=self._term_text,
            field_manager=self.name,
        )
        result: dict[str, Any] = {}
        try:
            answer = await call(write)
            if answer.get("kind") != "Status":
                result["revision"] = int((answer.get("metadata") or {}).get("resourceVersion") or 0)
        except NotFound:
            result["error"] = NotFound.__name__
        except ApiError as error:
            result.update(error=type(error).__name__, may_have_happened=error.may_have_happened)
            raise
        finally:
            if self._recorder is not None:
                now = micros(self._clock.wall())
                failed = result.get("error", "") not in ("", NotFound.__name__)
                made = DecisionRecord(
                    id=name,
                    at=now,
                    component=self.name,
                    build=self._build,
                    subject=Subject(subject.text, *at, uid=metadata["uid"], generation=metadata.get("generation", 0)),
                    outcome=record.Outcome(Ending.RETRY, result["error"]) if failed else record.Outcome(Ending.DONE),
                    term=self._term_text,
                    now=now,
                    reasons=(why,),
                    actions=(record.action(verb, kind.text, *key, subresource=subresource),),
                    writes=(WriteResult(kind.text, *key, **result),),
                    why_not=(WhyNot.READ_OUTSIDE,),
                )
                self._recorder(record.bounded(made))
