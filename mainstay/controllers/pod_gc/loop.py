"""Removes finished pods above a number, and deleted pods that never had a node.

A pod that has finished stays, so that people can look into it. Above a number of them (`ENDED_MAX`, as upstream) the
oldest go. A deleted pod is removed by the agent of its node in the end; one that has no node has no agent either, and
is removed at once.

Not handled here: pods of nodes that are gone, which takes more care (repair/decide.py), and objects that have lost
their owner (garbage/). A pod with finalizers is only deleted; their owners remove it in the end.

Looks at two indexes: finished pods are decoded only when there are too many.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from types import MappingProxyType
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.kind_names import PODS
from mainstay.api.object_key import ObjectKey
from mainstay.client.cache import Cache
from mainstay.client.errors import ApiError, Conflict, Fenced, NotFound
from mainstay.client.indexes import field
from mainstay.controllers.repair.snapshot import LEAVING
from mainstay.journal.record import Subject
from mainstay.loop.act import OwnWrite
from mainstay.loop.controller import Reads
from mainstay.loop.decider import Decider, Schedule
from mainstay.loop.freshness import Freshness
from mainstay.loop.kernel import LoopContext, LoopSpec
from mainstay.loop.periodic import PeriodicLoop, Writes
from mainstay.loop.record import Decided, describe_write
from mainstay.loop.view import View

NAME: Final = "pod-garbage"
ENDED_MAX: Final = 12_500
BATCH: Final = 500  # Removed at a time; the rest in the next round.

PHASE: Final = field("status", "phase", name="phase")
INDEXES: Final = (PHASE, LEAVING)


@dataclass(frozen=True, slots=True)
class PodRemoval:
    key: ObjectKey
    uid: str
    at_once: bool
    """There is no agent that would remove it in its own time."""


def garbage(ended: Sequence[Object], leaving: Sequence[Object], ended_max: int = ENDED_MAX) -> list[PodRemoval]:
    """What is to be removed, of the pods that have ended and of those that leave."""
    found = {
        pod["metadata"]["uid"]: _removal(pod, at_once=True)
        for pod in leaving
        # Without a grace period left it waits for finalizers only.
        if not pod_state.get_node_name(pod) and pod["metadata"].get("deletionGracePeriodSeconds")
    }
    staying = [pod for pod in ended if not pod_state.is_leaving(pod)]
    oldest = sorted(staying, key=lambda pod: (pod_state.created_at(pod), _key(pod)))
    for pod in oldest[: max(0, len(staying) - ended_max)]:
        found[pod["metadata"]["uid"]] = _removal(pod, at_once=not pod_state.get_node_name(pod))
    return list(found.values())


def _removal(pod: Object, *, at_once: bool) -> PodRemoval:
    return PodRemoval(_key(pod), pod["metadata"]["uid"], at_once)


def _key(pod: Object) -> ObjectKey:
    return ObjectKey(pod["metadata"]["namespace"], pod["metadata"]["name"])


@dataclass(frozen=True, slots=True)
class PodGcInput:
    """What a round goes by besides the cache."""

    ended_max: int


def garbage_in(cache: Cache, known: PodGcInput) -> list[PodRemoval]:
    """What is to be removed in one round."""
    leaving = _objects(cache, cache.by(LEAVING.name, "true"))
    keys = [key for phase in pod_state.OVER for key in cache.by(PHASE.name, phase)]
    ended = _objects(cache, keys) if len(keys) > known.ended_max else []
    return garbage(ended, leaving, known.ended_max)[:BATCH]


def describe(removal: PodRemoval) -> Decided:
    """A removal as its record has it."""
    why = "it has no node, so no agent deletes it" if removal.at_once else "too many terminated pods"
    action = describe_write("delete", PODS, removal.key, body=removal)
    return Decided((action,), (why,), subject=Subject(PODS.text, *removal.key, uid=removal.uid))


def _decide(view: View, known: PodGcInput) -> list[Decided]:
    return [describe(each) for each in garbage_in(view.cache(PODS), known)]


class PodGarbage(PeriodicLoop[PodRemoval]):
    """`run` until cancelled."""

    name = NAME
    every = timedelta(seconds=20)
    freshness = MappingProxyType({PodRemoval: Freshness.MAY_BE_STALE})  # By its uid; and what has ended has ended.

    def __init__(self, context: LoopContext, *, ended_max: int = ENDED_MAX) -> None:
        self._informer = context.informers.get(PODS, indexes=INDEXES)
        self._known = PodGcInput(ended_max)
        super().__init__(context, [self._informer])

    async def look(self) -> None:
        found = garbage_in(self._informer.cache, self._known)
        await self.carry_out(self.begin_pass(self._known, self.kernel.clock.wall()), found)

    async def act(self, step: PodRemoval, write: Writes) -> Sequence[OwnWrite] | None:
        grace_s = 0 if step.at_once else None
        try:
            await self.kernel.client.delete(
                PODS, step.key.name, step.key.namespace, uid=step.uid, grace_s=grace_s, write=write()
            )
        except Fenced:
            raise
        except (NotFound, Conflict):
            return None  # It is gone, or another one has its name.
        return ()

    def describe(self, step: PodRemoval) -> Decided:
        return describe(step)

    def ends_pass(self, error: ApiError, is_late: bool) -> bool:
        return True  # The next pass begins with it again.


def _objects(cache: Cache, keys: Sequence[ObjectKey]) -> list[Object]:
    return [pod for key in keys if (pod := cache.get(key)) is not None]


DECIDER: Final = Decider(NAME, Schedule.PERIODIC, (Reads(PODS, indexes=INDEXES),), PodGcInput, _decide)
LOOP: Final = LoopSpec(NAME, PodGarbage, DECIDER)
