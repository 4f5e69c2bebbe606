"""Removes pods that nobody is going to remove: old ones that have ended, and those that leave and never had a node.

A pod that has ended stays, so that somebody can look into it. Above a number of them (`ENDED_MAX`, as upstream) the
oldest go. A pod that was told to leave is removed by the agent of its node in the end; one that has no node has nobody
to do so, and goes at once.

Not handled here: pods of nodes that are gone, which takes more care (controllers/repair/decide.py), and what has lost
its owner (owner_cleanup/). A pod with finalizers is only told to go; whoever holds it lets it go.

Looks every `EVERY`, at two indexes: what has ended is decoded only when there is too much of it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.call import WriteOptions
from mainstay.client.errors import ApiError, Conflict, Fenced, NotFound
from mainstay.client.indexes import field
from mainstay.controllers.repair.snapshot import LEAVING
from mainstay.env import tasks
from mainstay.journal import record
from mainstay.journal.record import Subject
from mainstay.loop.holds import gate_of, known
from mainstay.loop.pass_record import Look, Step, Steps, encode_sorted, seen_by
from mainstay.loop.periodic import Around
from mainstay.loop.term import Deposed

_logger = logging.getLogger(__name__)

NAME: Final = "pod-garbage"
ENDED_MAX: Final = 12_500
EVERY: Final = timedelta(seconds=20)
BATCH: Final = 500  # Removed at a time; the rest in the next round.

PHASE: Final = field("status", "phase", name="phase")
INDEXES: Final = (PHASE, LEAVING)


@dataclass(frozen=True, slots=True)
class Removal:
    key: ObjectKey
    uid: str
    at_once: bool
    """There is no agent that would remove it in its own time."""


def garbage(ended: Sequence[Object], leaving: Sequence[Object], ended_max: int = ENDED_MAX) -> list[Removal]:
    """What is to be removed, of the pods that have ended and of those that leave."""
    found = {
        pod["metadata"]["uid"]: _removal(pod, at_once=True)
        for pod in leaving
        # Without a grace period left it waits for finalizers only.
        if not pod_state.node_of(pod) and pod["metadata"].get("deletionGracePeriodSeconds")
    }
    staying = [pod for pod in ended if not pod_state.is_leaving(pod)]
    oldest = sorted(staying, key=lambda pod: (pod_state.created_at(pod), _key(pod)))
    for pod in oldest[: max(0, len(staying) - ended_max)]:
        found[pod["metadata"]["uid"]] = _removal(pod, at_once=not pod_state.node_of(pod))
    return list(found.values())


def _removal(pod: Object, *, at_once: bool) -> Removal:
    return Removal(_key(pod), pod["metadata"]["uid"], at_once)


def _key(pod: Object) -> ObjectKey:
    return ObjectKey(pod["metadata"]["namespace"], pod["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class Known:
    """What a round goes by besides the cache."""

    ended_max: int


def garbage_in(cache: Cache, known: Known) -> list[Removal]:
    """What is to be removed in one round."""
    leaving = _objects(cache, cache.by(LEAVING.name, "true"))
    keys = [key for phase in pod_state.OVER for key in cache.by(PHASE.name, phase)]
    ended = _objects(cache, keys) if len(keys) > known.ended_max else []
    return garbage(ended, leaving, known.ended_max)[:BATCH]


def said_of(removal: Removal) -> Step:
    """A removal as its record tells it."""
    action = record.action("delete", PODS.text, *removal.key, body=encode_sorted(removal))
    why = "no node has it, so nobody else removes it" if removal.at_once else "it has ended, and too many have"
    return Step(Subject(PODS.text, *removal.key, uid=removal.uid), action, (why,))


class PodGarbage:
    """`run` until cancelled."""

    def __init__(self, around: Around, *, ended_max: int = ENDED_MAX) -> None:
        self._client, self._clock, self._term = around.client, around.env.clock, around.term
        self._steps = Steps(NAME, around)
        self._informer = around.informers.get(PODS, indexes=INDEXES)
        self._ended_max = ended_max
        self._chance = around.env.chance.child(NAME, around.term.text if around.term is not None else "")
        self._rounds = 0
        self._holding = around.holding
        self._gate = gate_of(around.holding, NAME, around.term)

    async def run(self) -> None:
        """Raises `Deposed` when the term is over, `Stopped` when the cache is not fed any more."""
        await self._informer.synced()
        if self._term is not None:
            await self._informer.cache.wait_until(self._term.revision)
        await known(self._holding, self._term)
        with self._gate:
            while True:
                if self._gate.held is None:
                    await self._round()
                await tasks.sleep(EVERY)

    async def _round(self) -> None:
        if self._term is not None:
            self._term.require()
        remembered = Known(self._ended_max)
        found = garbage_in(self._informer.cache, remembered)
        self._rounds += 1
        name = f"{NAME}-{self._chance.uid('round', self._rounds)}"
        look = Look(name, seen_by([self._informer]), self._clock.wall(), remembered)
        for number, each in enumerate(found):
            if self._gate.held is not None:
                return  # The rest waits, until it may go on.
            write = WriteOptions(
                field_manager=NAME,
                operation=look.step(number),
                decision=look.step(number),
                term=self._term.text if self._term is not None else "",
            )
            try:
                await self._client.delete(
                    PODS,
                    each.key.name,
                    each.key.namespace,
                    uid=each.uid,
                    grace_s=0 if each.at_once else None,
                    write=write,
                )
            except Fenced as error:
                if self._term is not None:
                    self._term.lost()
                raise Deposed(str(error)) from error
            except (NotFound, Conflict):
                continue  # It is gone, or another one has its name.
            except ApiError as error:
                self._steps.record(look, number, said_of(each), error)
                _logger.warning("%s: %s cannot be removed now: %s", NAME, each.key, error)
                return  # The next round begins with it again.
            self._steps.record(look, number, said_of(each))


def _objects(cache: Cache, keys: Sequence[ObjectKey]) -> list[Object]:
    return [pod for key in keys if (pod := cache.get(key)) is not None]
