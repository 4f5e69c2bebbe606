"""A loop whose decisions are about what was just read from the server, rather than about caches.

For what must not act on an old picture, or looks at so many kinds that there cannot be a cache of each: the deletion of
namespaces, the clean-up behind owners. Keys come from a queue and are looked at by several workers, one worker to a
key. Whatever fails is expected, and looked at again later. Each write carries a decision and the term. The decision is
recorded with what was read for it (`WentBy`): lists by their revisions, which the journal has, the rest as memory.

While somebody holds the loop (loop/holds.py) it takes nothing, and what it has in hand stops before it writes.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Generic

import msgspec

from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.client.call import WriteOptions
from mainstay.client.errors import ApiError, Fenced, NotFound, Throttled
from mainstay.env import tasks
from mainstay.journal import record
from mainstay.journal.record import Action, DecisionRecord, Ending, LookedAt, Seen, Subject, WriteResult, micros
from mainstay.loop.holds import HeldBack, gate_of, known
from mainstay.loop.pass_record import encode_sorted
from mainstay.loop.periodic import Around
from mainstay.loop.queue.items import Item, K, Outcome, Retry
from mainstay.loop.queue.work_queue import WorkQueue
from mainstay.loop.term import Deposed

_logger = logging.getLogger(__name__)

Call = Callable[[WriteOptions], Awaitable[Object]]

_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class WentBy:
    """What a write was decided from."""

    known: Any
    """What no history of the store has: a frozen value."""
    view: tuple[Seen, ...] = ()
    """Lists that were read, each as of its revision."""
    body: Any = None
    """What is to be written, to compare with another run."""


def action_of(verb: str, kind: KindName, key: ObjectKey, subresource: str, body: Any) -> Action:
    """A write as its record tells it."""
    encoded = b"" if body is None else encode_sorted(body)
    return record.action(verb, kind.text, *key, subresource=subresource, body=encoded)


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
        self._holding = around.holding
        self._gate = gate_of(around.holding, name, around.term, self.queue.pause, self.queue.resume)

    async def look(self, item: Item[K]) -> Outcome:
        """Look at a key and do what has to be done. Raises `ApiError`: look again later."""
        raise NotImplementedError

    async def work(self, workers: int) -> None:
        """Until cancelled. Raises `Deposed` when the term is over."""
        await known(self._holding, self._term)
        with self._gate:
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
            except HeldBack as error:
                _logger.info("%s %s: %s", self.name, item.key, error)
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
        went_by: WentBy,
        subresource: str = "",
    ) -> None:
        """Write something, because of the object that this is about. If it is gone, that is all right.

        Raises `ApiError` for anything else, and `HeldBack` if this loop is held.
        """
        self._gate.require()
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
                    view=went_by.view,
                    now=now,
                    memory=record.whole(_pack(went_by.known)),
                    looked_at=(LookedAt(subject.text, *at, revision=int(metadata["resourceVersion"])),),
                    looked_at_count=1,
                    reasons=(why,),
                    actions=(action_of(verb, kind, key, subresource, went_by.body),),
                    writes=(WriteResult(kind.text, *key, **result),),
                )
                self._recorder(record.bounded(made))
