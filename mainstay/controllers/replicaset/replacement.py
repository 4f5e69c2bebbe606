"""How soon a pod that has failed is replaced: at once if it is the first, and then less and less often.

A template that cannot work, or a node that rejects whatever is placed there, would else cost a pod for every moment:
each is made, fails, and is replaced. What is counted is in the store, the failed pods of a slot
(controllers/pods/slots.py), so a restarted controller goes on where the last one was. A pod that has lived for a
while is forgiven: what ended it is news.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from mainstay.api import pod_state
from mainstay.api.kind import Object
from mainstay.api.retry_shape import NO_BOUND, RetryShape
from mainstay.controllers.pods import slots

LIVED: Final = timedelta(minutes=10)
"""One that has lived for so long did not fail because of how it was made."""
SHAPE: Final = RetryShape(
    attempts_max=NO_BOUND, first_delay=timedelta(seconds=5), delay_max=timedelta(minutes=5), jitter=0
)
"""From the second failure on. Without chance: a repeated decision must come to the same time."""


def not_before(pods: Sequence[Object]) -> dict[int, datetime]:
    """For the slots in which pods keep failing: when each may get its next one."""
    if not any(has_failed(pod) for pod in pods):
        return {}
    by_slot: dict[int, list[Object]] = {}
    for pod in pods:
        if (slot := slots.parse_slot(pod)) is not None:
            by_slot.setdefault(slot, []).append(pod)
    found = {}
    for slot, own in by_slot.items():
        own.sort(key=_made)
        if (failures := _failures(own)) > 1:
            found[slot] = over_at(own[-1]) + SHAPE.delay(failures - 1, 0)
    return found


def _failures(own: Sequence[Object]) -> int:
    """How many of the last ones in a row have failed soon."""
    failures = 0
    for pod in reversed(own):
        if not has_failed(pod) or over_at(pod) - pod_state.created_at(pod) >= LIVED:
            break
        failures += 1
    return failures


def has_failed(pod: Object) -> bool:
    """By itself, or at its node's hands; not because it was deleted."""
    return (pod.get("status") or {}).get("phase") == "Failed" and not pod_state.is_leaving(pod)


def over_at(pod: Object) -> datetime:
    """When it ended, as far as it says so; else when it was made."""
    status = pod.get("status") or {}
    said = [each.get("lastTransitionTime") for each in status.get("conditions") or ()]
    for container in status.get("containerStatuses") or ():
        said.append(((container.get("state") or {}).get("terminated") or {}).get("finishedAt"))
    times = [time for each in said if (time := pod_state.parse_time_or_none(each)) is not None]
    return max([pod_state.created_at(pod), *times])


def _made(pod: Object) -> tuple[datetime, str]:
    return pod_state.created_at(pod), pod["metadata"]["name"]
