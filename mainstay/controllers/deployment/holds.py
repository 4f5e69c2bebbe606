"""Which Deployments' rollouts are held: which keys a Hold enqueues for the deployment controller, and what to say.

When a Hold ends by the clock nothing is written, so a controller that goes by one enqueues the key for then
(`ParsedHold.expires_at`).
"""

from collections.abc import Iterable
from typing import Final

from mainstay.api import pod_state
from mainstay.api.holds import HoldScope, ParsedHold, held_rollouts, holding_rollout, in_force, parse_hold
from mainstay.api.kind import Object
from mainstay.api.kind_names import HOLDS
from mainstay.api.object_key import ObjectKey
from mainstay.client.entry import Change
from mainstay.client.indexes import Index
from mainstay.controllers.deployment import status
from mainstay.loop.controller import Reads
from mainstay.loop.decision import Tell
from mainstay.loop.view import View

HELD_ROLLOUT: Final = Index("held-rollout", ("spec",), held_rollouts)
"""Holds of rollouts, by the Deployment: `shop/web`."""
_MESSAGE_LENGTH_MAX: Final = 1000


def held_deployments(change: Change) -> Iterable[ObjectKey]:
    """Wakes the Deployment whose rollout a Hold holds, or does so no longer."""
    found: dict[ObjectKey, None] = {}
    for entry in (change.old, change.new):
        held = None if entry is None else parse_hold(entry.object())
        if held is not None and held.what is HoldScope.ROLLOUT:
            found[ObjectKey(held.namespace, held.target)] = None
    return list(found)


READS: Final = Reads(HOLDS, wakes=held_deployments, indexes=(HELD_ROLLOUT,))


def hold_on(view: View, key: ObjectKey) -> ParsedHold | None:
    """Who holds the rollout of a Deployment now, for the longest; None if it may go on."""
    found = view.by(HOLDS, HELD_ROLLOUT.name, str(key))
    return holding_rollout(in_force(found, view.now), key.namespace, key.name)


def told_of_hold(deployment: Object, held: ParsedHold | None) -> list[Tell]:
    """Once when it begins and once when it ends: what was said last is in the condition."""
    condition = pod_state.find_condition(deployment, status.PROGRESSING) or {}
    before = condition.get("reason")
    if held is not None and before not in (status.HELD, status.TIMED_OUT):
        text = f"Rollout is paused by Hold {held.name}: {held.words}"
        return [Tell(status.HELD, text[:_MESSAGE_LENGTH_MAX])]
    if held is None and before == status.HELD:
        return [Tell(status.HELD_NO_LONGER, "Rollout resumed: no Hold applies any more")]
    return []
