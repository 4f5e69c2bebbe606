"""The schedule of controllers: changes become keys, and each key is observed, decided and acted on by one worker.

    change ─► key in the queue ─► wait until the caches show our own last writes ─► view ─► decide ─► act ─► status
                     ▲                                                                                        │
                     └───────────────────────────── again later, if need be ◄─────────────────────────────────┘

What fails in acting is expected: the next decision looks at what is there then. A failure decides how soon that is, and
whether it counts towards giving up (retry.py). Whatever is tried too often in vain is said in the object's own
status, as condition `Stalled`. A `decide` that raises is a bug: it is reported to the loop's exception handler with the
key, counts as a failure of that key, and leaves all others alone.

While a Hold holds the controller (holds.py) it takes nothing: changes become keys and wait. What is being carried out
then stops between two writes, and is decided again afterwards, as after any failure.

Every write carries the decision it comes from, the object version that the decision is about, the id of its intent
(client/intent.py), and, for an elected leader, its term. When a term is over the loop ends with `Deposed`.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, Final

from mainstay.api.feature_gates import RETRYING_CONDITION
from mainstay.api.kind import Object
from mainstay.api.kind_name import KindName
from mainstay.api.object_key import ObjectKey
from mainstay.api.times import format_time
from mainstay.client.cache import Cache, CacheStopped
from mainstay.client.call import WriteOptions
from mainstay.client.entry import CachedObject, Change
from mainstay.client.errors import ApiError, Conflict, NotFound, Throttled, Unavailable
from mainstay.client.informer import Informer, Subscriber
from mainstay.env import tasks
from mainstay.env.invariants import BrokenInvariant
from mainstay.loop import decision as decisions
from mainstay.loop.act import act, find_key
from mainstay.loop.conditions import RETRYING, STALLED, Condition, Truth, with_conditions
from mainstay.loop.controller import Controller, Reads
from mainstay.loop.decision import Action, Apply, Create, Decision, Patch
from mainstay.loop.echoes import Echoes
from mainstay.loop.events import InvolvedObject
from mainstay.loop.freshness import Freshness, find_behind
from mainstay.loop.kernel import Kernel, LoopContext
from mainstay.loop.own_writes import OwnWrites
from mainstay.loop.queue import items as outcomes
from mainstay.loop.queue.items import Item, Outcome, Priority, QueueSettings
from mainstay.loop.queue.work_queue import WorkQueue
from mainstay.loop.record import Acted, Basis, failure_to_decide, record_decision
from mainstay.loop.retry import follow_up
from mainstay.loop.term import Deposed
from mainstay.loop.view import View

_logger = logging.getLogger(__name__)

_HELD_BACK: Final = outcomes.KeyRetry(counts=False)
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
RETRYING_FROM: Final = 3  # Fewer failures in a row are usual, and not worth a write to the object.
CONFLICT: Final = "Conflict"
ASK_AGAIN: Final = timedelta(seconds=1)
AT_ONCE_MAX: Final = 16  # Of the writes of one decision. Each takes a connection, which others want, too.


@dataclass(frozen=True, slots=True, kw_only=True)
class LoopSettings:
    workers: int = 4
    """How many keys are worked on at once. Deciding is never parallel; acting waits for the server."""
    queue: QueueSettings = field(default_factory=QueueSettings)
    caught_up_within: timedelta = timedelta(seconds=30)
    """How long a cache may take to show a key's own last writes before that is counted and said as a problem. The key
    goes on waiting: to decide on the older state could repeat what was done."""


class ControllerLoop:
    """One controller at work. `run` until cancelled."""

    def __init__(self, controller: Controller, context: LoopContext, settings: LoopSettings | None = None) -> None:
        self.controller = controller
        self.settings = settings or LoopSettings()
        self.queue: WorkQueue[ObjectKey] = WorkQueue(context.env, controller.name, self.settings.queue)
        self.kernel = Kernel(controller.name, context, self.queue)
        self._client = context.client
        self._clock = context.env.clock
        self._seed = self.kernel.chance.uid("seed", 0)
        self._gate = self.kernel.gate
        self._memory: dict[ObjectKey, Any] = {}
        self._waiting: dict[asyncio.Task[None], None] = {}
        self._failure: asyncio.Future[None] | None = None
        """Set if work that no worker waits for has failed."""
        own = Reads(controller.kind, indexes=controller.indexes)
        self._informers: dict[KindName, Informer] = {
            each.kind: context.informers.get(
                each.kind, each.namespace, labels=each.labels, fields=each.fields, indexes=each.indexes
            )
            for each in (own, *controller.reads)
        }
        self._caches: dict[KindName, Cache] = {kind: informer.cache for kind, informer in self._informers.items()}
        self._own_writes = OwnWrites(self._caches)
        self._echoes = Echoes()
        self._says_retrying = RETRYING_CONDITION in context.gates
        self._has_priorities = type(controller).priority is not Controller.priority
        self._may_write = frozenset({controller.kind, *controller.writes})

    @property
    def revisions(self) -> dict[KindName, int]:
        """How far each of its caches has come."""
        return {kind: cache.revision for kind, cache in self._caches.items()}

    async def run(self) -> None:
        """Work until cancelled. Raises `Deposed` when the term is over, `CacheStopped` when a cache is not fed any
        more.
        """
        subscribed: list[tuple[Informer, Subscriber]] = []
        try:
            await self.kernel.ready(self._informers.values())
            for informer, subscriber in self._subscribers():
                informer.subscribe(subscriber)
                subscribed.append((informer, subscriber))
            self._failure = asyncio.get_running_loop().create_future()
            workers = [self._work() for _ in range(self.settings.workers)]
            with self._gate:
                await tasks.together(
                    [*workers, self._hear_of_failure(self._failure)], name=f"{self.controller.name} worker"
                )
        finally:
            for informer, subscriber in subscribed:  # None, if it is stopped before its caches are filled.
                informer.unsubscribe(subscriber)
            for task in list(self._waiting):
                await tasks.stop(task)

    # Changes become keys.

    def _subscribers(self) -> list[tuple[Informer, Subscriber]]:
        found: list[tuple[Informer, Subscriber]] = [(self._informers[self.controller.kind], self._changed)]
        for reads in self.controller.reads:
            if reads.wakes is not None or reads.wakes_among is not None:
                found.append((self._informers[reads.kind], self._waker(reads)))
        return found

    def _changed(self, change: Change) -> None:
        if self._echoes.takes(change):
            return
        self._add(change.key, change.revision, change.new or change.old)

    def _waker(self, reads: Reads) -> Subscriber:
        wakes, among, own = reads.wakes, reads.wakes_among, self._caches[self.controller.kind]

        def changed(change: Change) -> None:
            if wakes is not None:
                for key in wakes(change):
                    self._add(key, change.revision, own.entry(key))
            if among is not None:
                for key in among(change, own):
                    self._add(key, change.revision, own.entry(key))

        return changed

    def _add(self, key: ObjectKey, revision: int, entry: CachedObject | None) -> None:
        """`entry` is the object of the key, as far as it is known: how urgent it is, it says itself."""
        priority = Priority.NORMAL
        if entry is not None and self._has_priorities:
            priority = self.controller.priority(entry.object())
        self.queue.add(key, tenant=key.namespace, priority=priority, woken_by=revision)

    # Keys become decisions.

    async def _work(self) -> None:
        while (item := await self.queue.get()) is not None:
            if self._own_writes.is_seen(item.key):
                await self._do(item)
            else:
                # The key stays in process, so that no other worker takes it; the worker goes on with others.
                self.kernel.counters.waits_for_own_writes += 1
                task = tasks.spawn(self._do_when_seen(item), name=f"{self.controller.name} waits for {item.key}")
                self._waiting[task] = None
                task.add_done_callback(lambda done: self._waiting.pop(done, None))

    async def _do(self, item: Item[ObjectKey]) -> None:
        outcome: Outcome = outcomes.KeyRetry(counts=False)
        try:
            outcome = await self._reconcile(item)
        finally:
            self.queue.done(item.key, outcome)

    async def _do_when_seen(self, item: Item[ObjectKey]) -> None:
        try:
            await self._see_own_writes(item.key)
            await self._do(item)
        except (Deposed, CacheStopped) as error:
            if self._failure is not None and not self._failure.done():
                self._failure.set_exception(error)

    @staticmethod
    async def _hear_of_failure(failure: "asyncio.Future[None]") -> None:
        await failure

    async def _reconcile(self, item: Item[ObjectKey]) -> Outcome:
        key = item.key
        if self._gate.held is not None:
            return _HELD_BACK  # It was taken before that, and has waited for its own last writes.
        self.kernel.require()
        view = View(self._caches, self._clock.wall(), self._seed, key)
        subject = self._caches[self.controller.kind].get(key)
        memory = self._memory.get(key)
        has_failed = False
        try:
            decision = self.controller.decide(view, key, memory)
        except BrokenInvariant:
            raise
        except Exception as error:  # noqa: BLE001 - reported; one object's bug must not stop the others
            self._report_bug(key, error)
            decision, has_failed = failure_to_decide(error), True
        finally:
            view.close()
        self._remember(key, decision.memory)
        name = self.kernel.next_decision()
        acted = Acted()
        if subject is not None:
            self._echoes.begin(key, int(subject["metadata"]["resourceVersion"]))
        try:
            outcome = await self._act(decision, item, subject, name, acted)
        finally:
            if subject is not None:
                for change in self._echoes.end(key):
                    self._changed(change)
        has_failed = has_failed or isinstance(acted.error, Unavailable | Throttled)
        self.kernel.counters.errors_in_a_row = self.kernel.counters.errors_in_a_row + 1 if has_failed else 0
        if self.kernel.recorder is not None:
            basis = Basis(name, item, view, memory, subject)
            self.kernel.recorder(record_decision(self.kernel.origin, self.controller, basis, decision, acted))
        return outcome

    def _remember(self, key: ObjectKey, memory: Any) -> None:
        if memory is None:
            self._memory.pop(key, None)
        else:
            self._memory[key] = memory

    def _report_bug(self, key: ObjectKey, error: Exception) -> None:
        self.kernel.counters.bugs += 1
        asyncio.get_running_loop().call_exception_handler(
            {"message": f"{self.controller.name} cannot decide about {self.controller.kind} {key}", "exception": error}
        )

    # Decisions become writes.

    async def _act(
        self, decision: Decision, item: Item[ObjectKey], subject: Object | None, name: str, acted: Acted
    ) -> Outcome:
        key = item.key
        for action in decision.actions:
            if action.kind not in self._may_write:
                raise AssertionError(f"{self.controller.name} writes {action.kind}, and does not declare it")
        # From the caches that were decided on: later ones may show other versions.
        writes = [
            self._write(name, subject, self._seen(action, subject), action.freshness) for action in decision.actions
        ]
        await self._require_fresh(decision, key, subject, acted)
        done, size = 0, 1
        while done < len(decision.actions) and acted.error is None:
            if self._is_held(acted):
                return _HELD_BACK
            batch = decision.actions[done : done + size]
            await self._carry_out_all(batch, key, writes[done : done + size], acted)
            done += len(batch)
            if decision.at_once:
                size = min(size * 2, AT_ONCE_MAX)
        if acted.error is not None and acted.failed_action is not None:
            decision = self.controller.after_failure(decision, acted.failed_action, acted.error)
            self._remember(key, decision.memory)
        if subject is not None and decision.events:
            self._tell(decision, subject, acted, name)
        outcome = self._outcome(decision, acted, subject is None)
        if subject is not None:
            # Also when an action has failed: what the decision found out is true all the same.
            patch = self._status_patch(decision, key, subject, self._retry_condition(decision, item, acted, outcome))
            if patch is not None:
                if self._is_held(acted):
                    return _HELD_BACK
                await self._carry_out(patch, key, self._write(name, subject, freshness=patch.freshness), acted)
                outcome = self._outcome(decision, acted, is_gone=False)
        return outcome

    async def _require_fresh(self, decision: Decision, key: ObjectKey, subject: Object | None, acted: Acted) -> None:
        """Before actions that follow from what is on the server: see whether their decision does (freshness.py)."""
        action = next((each for each in decision.actions if each.freshness is Freshness.FRESH_READ), None)
        if action is None:
            return
        try:
            if behind := find_behind(self._informers.values()):
                raise Conflict(f"decided on a view that may be old: {behind}", reason=CONFLICT)
            if _identify(subject) != _identify(await self._read(key)):
                raise Conflict(f"{self.controller.kind} {key} has changed since this was decided", reason=CONFLICT)
        except ApiError as error:
            self.kernel.counters.failures += 1
            acted.failed(action, error)

    async def _read(self, key: ObjectKey) -> Object | None:
        try:
            return await self._client.get(self.controller.kind, key.name, key.namespace)
        except NotFound:
            return None

    def _is_held(self, acted: Acted) -> bool:
        """Whether a Hold holds the controller since this was decided. What is left of it is decided again."""
        if self._gate.held is None:
            return False
        acted.held_back = self._gate.held.words
        return True

    def _tell(self, decision: Decision, subject: Object, acted: Acted, name: str) -> None:
        if self.kernel.events is None:
            return
        done = {id(action) for action in acted.done}
        about = InvolvedObject.of(self.controller.kind, subject)
        for event in decision.events:
            if event.after is None or id(event.after) in done:
                self.kernel.events.tell(about, event.reason, event.message, is_warning=event.is_warning, decision=name)

    async def _carry_out_all(
        self, batch: Sequence[Action], key: ObjectKey, writes: Sequence[WriteOptions], acted: Acted
    ) -> None:
        if len(batch) == 1:
            await self._carry_out(batch[0], key, writes[0], acted)
            return
        await tasks.together(
            [self._carry_out(action, key, write, acted) for action, write in zip(batch, writes, strict=True)],
            name=f"{self.controller.name} acts for {key}",
        )

    async def _carry_out(self, action: Action, key: ObjectKey, write: WriteOptions, acted: Acted) -> None:
        try:
            with self.kernel.fencing():
                wrote = await act(action, self._client, write)
        except ApiError as error:
            self.kernel.counters.failures += 1
            if error.may_have_happened:
                self._own_writes.doubt(key, action.kind)
            acted.failed(action, error)
        else:
            self.kernel.counters.actions += 1
            self._own_writes.wrote(key, wrote)
            if (wrote.kind, wrote.key) == (self.controller.kind, key) and wrote.revision:
                is_exact = isinstance(action, Patch) and bool(action.resource_version)
                self._echoes.wrote(key, wrote.revision, is_exact=is_exact)
            if wrote.kind in self._informers:
                self._informers[wrote.kind].saw(wrote.revision)
            acted.did(action, wrote)

    def _seen(self, action: Action, subject: Object | None) -> str:
        """What the decision has seen of the object of an action, where the action does not say it."""
        match action:
            case Create() if subject is not None:
                # Its object was not there. The same wish of the same spec is the same intent (act.py).
                metadata = subject["metadata"]
                return f"{metadata['uid']}@{metadata.get('generation', 0)}"
            case Patch() | Apply() if action.kind in self._caches:
                entry = self._caches[action.kind].entry(find_key(action))
                return "" if entry is None else f"@{entry.revision}"
            case _:
                return ""

    def _write(
        self, name: str, subject: Object | None, seen: str = "", freshness: Freshness = Freshness.MAY_BE_STALE
    ) -> WriteOptions:
        cause = ""
        if subject is not None:
            metadata = subject["metadata"]
            at = ObjectKey(metadata.get("namespace", ""), metadata["name"])
            cause = f"{self.controller.kind}/{at}@{metadata['resourceVersion']}"
        return self.kernel.write(name, cause, seen=seen, freshness=freshness)

    def _status_patch(
        self, decision: Decision, key: ObjectKey, subject: Object, retry: Condition | None
    ) -> Patch | None:
        """What has to change in the object's status; None if nothing has."""
        before = subject.get("status") or {}
        is_ours = self.controller.says_stalled
        conditions = decision.conditions if retry is None or not is_ours else (*decision.conditions, retry)
        generation = subject["metadata"].get("generation", 0) if self.controller.conditions_have_generation else None
        wanted = with_conditions(
            {**before, **decision.status},
            conditions,
            generation,
            self._clock.wall(),
            without=(STALLED, RETRYING) if is_ours else (),
        )
        changed = {name: value for name, value in wanted.items() if before.get(name) != value}
        if not changed:
            return None
        # Only if no other client has changed it meanwhile: a patch replaces a list of conditions whole; and else our
        # own step could not be told from one with another client's in it (echoes.py).
        version = str(self._echoes.known(key))
        return Patch(
            self.controller.kind,
            key,
            subject["metadata"]["uid"],
            {"status": changed},
            "status",
            version,
            freshness=Freshness.SEEN_VERSION,
        )

    # What then.

    def _outcome(self, decision: Decision, acted: Acted, is_gone: bool) -> Outcome:
        if acted.error is not None:
            return follow_up(acted.error)
        match decision.result:
            case decisions.WakeAt(at=at):
                return outcomes.WakeAfter(max(timedelta(0), at - self._clock.wall()))
            case decisions.Retry():
                return outcomes.KeyRetry()
            case decisions.GiveUp():
                return outcomes.KeyTerminal()
            case _:
                return outcomes.GONE if is_gone else outcomes.DONE

    async def _see_own_writes(self, key: ObjectKey) -> None:
        """Wait until the caches show what was written for a key. Raises `CacheStopped` if one is not fed any more."""
        while True:
            try:
                async with tasks.timeout(self.settings.caught_up_within):
                    for kind in self._own_writes.doubts(key):
                        part = self._informers[kind].collection
                        page = await self._client.list(
                            kind, part.namespace, labels=part.labels, fields=part.fields, limit=1
                        )
                        self._own_writes.settle(key, kind, int(page.revision))
                    await self._own_writes.seen(key)
                return
            except (TimeoutError, Unavailable, Throttled) as error:
                self.kernel.counters.late_own_writes += 1
                name = self.controller.name
                _logger.warning("%s: the caches do not show the last writes for %s yet: %s", name, key, error)
                await tasks.sleep(ASK_AGAIN)

    def _retry_condition(
        self, decision: Decision, item: Item[ObjectKey], acted: Acted, outcome: Outcome
    ) -> Condition | None:
        """What to say of an attempt that failed, while the key is still ours: `Stalled` if nothing more is tried after
        it, `Retrying` if it keeps failing."""
        failure = _describe_failure(decision, acted)
        if failure is None:
            return None
        reason, message = failure
        if not isinstance(outcome, outcomes.KeyRetry):
            return Condition(STALLED, Truth.TRUE, reason, message)
        if not outcome.counts:
            return None
        shape = self.queue.settings.retry
        because = f": {message}" if message else ""
        if item.is_past_deadline:
            text = f"stopped retrying {shape.deadline} after the first failure, attempt {item.attempt}: {reason}"
            return Condition(STALLED, Truth.TRUE, DEADLINE_EXCEEDED, text + because)
        if item.is_last_attempt:
            return Condition(STALLED, Truth.TRUE, reason, f"stopped retrying after {item.attempt} attempts{because}")
        if item.attempt < RETRYING_FROM or not self._says_retrying:
            return None
        by = self._clock.wall() + max(shape.delay(item.failures + 1, 0), outcome.at_least)
        text = f"attempt {item.attempt} of {shape.attempts_max} failed; next attempt by {format_time(by)}{because}"
        return Condition(RETRYING, Truth.TRUE, reason, text)


def _identify(subject: Object | None) -> tuple[str, int]:
    """What a decision about an object follows from: which one it is, and what its spec asks for."""
    return ("", 0) if subject is None else (subject["metadata"]["uid"], subject["metadata"].get("generation", 0))


def _describe_failure(decision: Decision, acted: Acted) -> tuple[str, str] | None:
    """Why an attempt failed: a reason and a message. None: it did not."""
    match decision.result:
        case decisions.GiveUp(reason=reason, message=message):
            return reason, message
        case decisions.Retry(reason=reason, message=message) if acted.error is None:
            return reason, message
        case _ if acted.error is not None:
            return type(acted.error).__name__, str(acted.error)
        case _:
            return None
