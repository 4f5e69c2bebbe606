"""Bugs that the two worlds find, where the twins of single scenarios have none for a checker of theirs."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest

from mainstay.api.causes import ADMISSION_POLICY_VIOLATED
from mainstay.api.kind import Kind, Object
from mainstay.api.object_key import ObjectKey
from mainstay.api.times import format_time
from mainstay.client.errors import ApiError
from mainstay.controllers.deployment import rolling
from mainstay.controllers.garbage.loop import OwnerCleanup
from mainstay.controllers.pods import slots
from mainstay.controllers.pods.slots import Vacant, short_hash
from mainstay.controllers.replicaset import controller
from mainstay.controllers.replicaset.controller import ReplicaSets
from mainstay.loop import controller_loop, retry
from mainstay.loop.decision import Decision, WakeAt
from mainstay.loop.queue.items import KeyRetry, KeyTerminal
from mainstay.loop.view import View
from mainstay.scheduler.queue.pod_states import PodState
from mainstay.scheduler.queue.scheduling_queue import SchedulingQueue
from mainstay.scheduler.reasons import Cure
from mainstay.server.placement import eviction, reservations
from mainstay.server.quota import resource_quota
from mainstay.server.quota.tally import QuotaTally
from mainstay.server.storage.commit_points import NOTHING, Intended, TransactionParts
from mainstay.server.storage.keyspace import build_key
from mainstay.server.storage.stored import StoredWrite
from mainstay.server.storage.writes import ObjectWriter
from mainstay.store.interface import Store
from tests.twins import scenarios, sim


def names_pods_after_the_attempt(patch: pytest.MonkeyPatch) -> None:
    """And decides before it has seen what it made: a late controller makes more."""
    numbers = count()

    def name_in(owner: Mapping[str, str], vacancy: Vacant, is_taken: Callable[[str], bool] = lambda _: False) -> str:
        return f"{owner['name']}-{short_hash(owner['uid'], str(next(numbers)))}"

    patch.setattr(slots, "name_in", name_in)
    scenarios.decides_without_having_seen_its_own_writes(patch)


def asks_no_budget(patch: pytest.MonkeyPatch) -> None:
    async def payment(store: Store, budgets: Kind, pod: Object, now: str) -> TransactionParts:
        return NOTHING

    patch.setattr(eviction, "_payment", payment)


def counts_and_never_refuses(patch: pytest.MonkeyPatch) -> None:
    """What is used of a quota is right, and means nothing."""

    def require_allowed(tally: QuotaTally, intended: Intended) -> None:
        pass

    patch.setattr(resource_quota, "_require_allowed", require_allowed)


def takes_the_old_away_at_once(patch: pytest.MonkeyPatch) -> None:
    """Before anything new works, which may never be."""

    def shrunk(bounds: Any, new: Any, old: Sequence[Any]) -> dict[str, int]:
        return {each.name: 0 for each in old if each.wanted}

    patch.setattr(rolling, "shrunk", shrunk)


def mixes_up_what_it_has_observed(patch: pytest.MonkeyPatch) -> None:
    """Remembers the last generation of all sets in one place."""
    highest = [0]
    honest = controller._status

    def status(replica_set: Object, pods: Any, active: Any, min_ready: Any, view: View) -> dict[str, Any]:
        said = honest(replica_set, pods, active, min_ready, view)
        highest[0] = max(highest[0], said["observedGeneration"])
        return {**said, "observedGeneration": highest[0]}

    patch.setattr(controller, "_status", status)


def says_when_it_looked(patch: pytest.MonkeyPatch) -> None:
    """Every ten seconds, in the status."""
    honest = ReplicaSets.decide

    def decide(self: ReplicaSets, view: View, key: ObjectKey, memory: None) -> Decision:
        decision = honest(self, view, key, memory)
        if not decision.status:
            return decision
        looked = {"type": "Looked", "status": "True", "lastTransitionTime": format_time(view.now)}
        again = WakeAt(view.now + timedelta(seconds=10), "it looks again")
        return replace(decision, result=again, status={**decision.status, "conditions": [looked]})

    patch.setattr(ReplicaSets, "decide", decide)


def forgets_what_no_node_takes(patch: pytest.MonkeyPatch) -> None:
    """Such a pod is not looked at again when a node would take it."""

    def park(self: SchedulingQueue, uid: str, cures: Sequence[Cure], mark: int, now_ns: int) -> PodState | None:
        self.remove(uid)
        return None

    patch.setattr(SchedulingQueue, "park", park)


def gives_up_what_a_policy_denies(patch: pytest.MonkeyPatch) -> None:
    """As if the object could never be: nobody tells when the policy is changed."""
    honest = retry.follow_up

    def follow_up(error: ApiError) -> KeyRetry | KeyTerminal:
        return KeyTerminal() if error.cause == ADMISSION_POLICY_VIOLATED else honest(error)

    patch.setattr(controller_loop, "follow_up", follow_up)


def leads_for_as_long_as_it_likes(patch: pytest.MonkeyPatch) -> None:
    """Regardless of who was elected since: terms are not checked."""
    sim.does_not_look_at_terms(patch)
    scenarios.never_stops_leading_by_itself(patch)


def holds_nothing_for_a_reservation(patch: pytest.MonkeyPatch) -> None:
    """Its room is given to others."""
    patch.setattr(reservations, "held", lambda ledger, amounts, ports: ledger)


def says_that_a_plan_is_gone(patch: pytest.MonkeyPatch) -> None:
    """Answers as if it had been deleted."""
    honest = ObjectWriter.delete

    async def delete(self: ObjectWriter, kind: Kind, namespace: str, name: str, *args: Any, **rest: Any) -> StoredWrite:
        entry = await self._store.get(build_key(kind, namespace, name))
        if entry is not None and name.startswith("plan-") and kind.kind == "Deployment":
            return StoredWrite(entry.value, entry.revision, was_removed=True)
        return await honest(self, kind, namespace, name, *args, **rest)

    patch.setattr(ObjectWriter, "delete", delete)


def leaves_what_has_no_owner(patch: pytest.MonkeyPatch) -> None:
    """Knows that it should go, and does nothing about it."""

    async def remove(self: OwnerCleanup, node: Any, obj: Object, plan: Any, known: Any) -> None:
        pass

    patch.setattr(OwnerCleanup, "_remove", remove)
