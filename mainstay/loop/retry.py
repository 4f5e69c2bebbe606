"""The retry of all loops: what follows from a failed write (SPEC F3).

    stable identity   the id of a write is made from its intent (client/intent.py): decided on again, it is the same.
                      Objects are named from their owners, so that a repeated create finds its earlier work (act.py)
    fresh read        each attempt is a new decision on a new view that shows all own writes (own_writes.py)
    bounded           so many attempts with a growing, jittered delay, and a deadline (api/retry_shape.py); then the key
                      is terminal until its object changes (queue/)
    reason            the kind of error, in the record of the decision and in the conditions `Retrying` and `Stalled`

What an attempt may not be blamed for does not count towards the bound: else an outage would leave every key terminal.
"""

from mainstay.api.causes import ADMISSION_POLICY_VIOLATED, QUOTA_CAUSES
from mainstay.client.errors import ApiError, BadRequest, Conflict, Forbidden, Invalid, Throttled, Unavailable
from mainstay.loop.queue.items import KeyRetry, KeyTerminal


def follow_up(error: ApiError) -> KeyRetry | KeyTerminal:
    """When a key whose write failed is decided about again. The next decision may be another one."""
    match error:
        case Throttled(retry_after=after):
            return KeyRetry(at_least=after, counts=False)
        case Unavailable():
            return KeyRetry(counts=False)
        case ApiError() if error.cause == ADMISSION_POLICY_VIOLATED:
            # Whatever its status: the policy may be changed, and no change of this object would tell.
            return KeyRetry(counts=False)
        case Invalid() | BadRequest():
            return KeyTerminal()
        case Forbidden() if error.cause in QUOTA_CAUSES:
            # Other objects use it up, and may give it back; or it is raised. No change of this object would tell.
            return KeyRetry(counts=False)
        case Conflict() if error.reason == "Conflict" and not error.causes:
            # Another client was faster, and its change will be seen. That is no failure of the object.
            return KeyRetry(counts=False)
        case _:
            return KeyRetry()
