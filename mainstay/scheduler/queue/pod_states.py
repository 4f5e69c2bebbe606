"""What one pod goes through in the scheduler, from when it needs a node until the cache shows it on one.

`STEPS` is the whole of it; docs/state-machines.md has the diagram. `PendingPods` (pending_pods.py) keeps the state of
each pod, and refuses a step that is not in the table.

Three groups of states. A pod *waits* in the queue: gated, active, backing off or unschedulable. It is *in hand* while
the scheduler decides about it and binds it. It is *assumed* on its node from the decision until the cache shows what
became of it: then its room is taken, whatever is known about the binding.
"""

from enum import StrEnum
from typing import Final

from mainstay.env.state_table import StateTable


class PodState(StrEnum):
    """Where a pod is. Shown in metrics, in Kubernetes' words where it has them: only add."""

    GATED = "gated"
    """Scheduling gates hold it back."""
    ACTIVE = "active"
    """It is in line for the next decision."""
    BACKING_OFF = "backoff"
    """It failed, or was refused and a cure came meanwhile: it gets in line after its backoff."""
    UNSCHEDULABLE = "unschedulable"
    """No node takes it. It waits for one of the cures that its refusals name."""
    DECIDING = "deciding"
    """It was taken from the queue, and a node is being looked for. Only within one step of the cycle."""
    BINDING = "binding"
    """A node was found, its room is taken, and the binding is on its way to the server."""
    UNANSWERED = "unanswered"
    """The binding got no answer, so it may or may not be done. The same binding is sent again until there is one."""
    BOUND = "bound"
    """The server has bound it, and the cache does not show it yet."""
    MISSING = "missing"
    """The server has bound it, and a cache that is newer than that does not show it. The binding is sent again."""
    GONE = "gone"
    """The scheduler has nothing to do with it any more. It keeps no pod in this state."""


_SHOWN: Final = "the cache shows it bound or gone"

STEPS: Final = StateTable[PodState](
    (
        (PodState.GATED, "gates removed", PodState.ACTIVE),
        (PodState.GATED, "gone", PodState.GONE),
        (PodState.ACTIVE, "taken", PodState.DECIDING),
        (PodState.ACTIVE, "changed", PodState.ACTIVE),
        (PodState.ACTIVE, "gated", PodState.GATED),
        (PodState.ACTIVE, "gone", PodState.GONE),
        (PodState.BACKING_OFF, "backoff is over", PodState.ACTIVE),
        (PodState.BACKING_OFF, "changed", PodState.ACTIVE),
        (PodState.BACKING_OFF, "gated", PodState.GATED),
        (PodState.BACKING_OFF, "gone", PodState.GONE),
        (PodState.UNSCHEDULABLE, "a cure", PodState.ACTIVE),
        (PodState.UNSCHEDULABLE, "flushed", PodState.ACTIVE),
        (PodState.UNSCHEDULABLE, "changed", PodState.ACTIVE),
        (PodState.UNSCHEDULABLE, "a cure soon after the attempt", PodState.BACKING_OFF),
        (PodState.UNSCHEDULABLE, "gated", PodState.GATED),
        (PodState.UNSCHEDULABLE, "gone", PodState.GONE),
        (PodState.DECIDING, "a node was found", PodState.BINDING),
        (PodState.DECIDING, "no node takes it", PodState.UNSCHEDULABLE),
        (PodState.DECIDING, "a cure came meanwhile", PodState.BACKING_OFF),
        (PodState.DECIDING, "error", PodState.BACKING_OFF),
        (PodState.DECIDING, "changed meanwhile", PodState.ACTIVE),
        (PodState.DECIDING, "gone", PodState.GONE),
        (PodState.BINDING, "bound", PodState.BOUND),
        (PodState.BINDING, "no answer", PodState.UNANSWERED),
        (PodState.BINDING, "refused: another candidate", PodState.ACTIVE),
        (PodState.BINDING, "refused too often", PodState.UNSCHEDULABLE),
        (PodState.BINDING, "error", PodState.BACKING_OFF),
        (PodState.BINDING, _SHOWN, PodState.GONE),
        (PodState.UNANSWERED, "no answer", PodState.UNANSWERED),
        (PodState.UNANSWERED, "bound", PodState.BOUND),
        (PodState.UNANSWERED, "refused: another candidate", PodState.ACTIVE),
        (PodState.UNANSWERED, "refused too often", PodState.UNSCHEDULABLE),
        (PodState.UNANSWERED, "error", PodState.BACKING_OFF),
        (PodState.UNANSWERED, _SHOWN, PodState.GONE),
        (PodState.BOUND, "a newer cache does not show it", PodState.MISSING),
        (PodState.BOUND, _SHOWN, PodState.GONE),
        (PodState.MISSING, "no answer", PodState.MISSING),
        (PodState.MISSING, "bound", PodState.BOUND),
        (PodState.MISSING, "refused, or the cache shows it bound or gone", PodState.GONE),
    )
)

WAITING: Final = (PodState.GATED, PodState.ACTIVE, PodState.BACKING_OFF, PodState.UNSCHEDULABLE)
"""In the queue. Kubernetes' metrics show these."""
IN_HAND: Final = frozenset({PodState.DECIDING, PodState.BINDING, PodState.UNANSWERED})
"""Taken from the queue, and it comes back if it is not bound."""
ASSUMED: Final = frozenset({PodState.BINDING, PodState.UNANSWERED, PodState.BOUND, PodState.MISSING})
"""Counted on a node before the cache shows it there."""
IN_DOUBT: Final = frozenset({PodState.UNANSWERED, PodState.MISSING})
"""Whose binding has to be sent again."""
