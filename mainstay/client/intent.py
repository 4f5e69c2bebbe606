"""The operation id of a write, made from what is intended: deciding the same again gives the same id.

A server does the writes of one operation id once, and answers a repetition with the first outcome
(server/storage/operations.py). For a retry within one request any id would do. But an intent outlives its request: the
answer is lost, the client gives up, the key is decided about again, perhaps by a successor after a crash, while the
first request still waits in some server. So the id is a digest of everything that makes the intent:

    who decides          two controllers that want the same are two
    what is sent         method, address and body: verb, object, uid, fields. A server refuses an id with another body
    what it is based on  the version of the object that the decision has seen

The last part tells a repetition from the same wish at a later time: a field that is set back whenever a user changes it
is another intent each time, because the object is in another version. Where a request says itself which version or uid
it is about, that is enough. A create is based on the absence of its object, which has no version: see `loop/act.py`. A
request that names nothing it is based on gets the id of its decision, and is another one each time.

Ids are each user's own and are forgotten after an hour. Until then a repetition is recognised; after that the version,
the uid or the name in the request still keeps it from being done twice.
"""

import hashlib
from dataclasses import dataclass, replace

_DECIDER_CHARACTERS_MAX = 64  # An id has at most 128 characters.


@dataclass(frozen=True, slots=True)
class Intent:
    """Why a write is made, as far as its id depends on that."""

    decider: str
    """Who decides: a label, as the name of a controller."""
    decision: str = ""
    """The one that the write carries out."""
    seen: str = ""
    """What the decision has seen of the object, if the request does not say it: a version, for example."""

    def after(self, gone: str) -> "Intent":
        """The same wish, after what was made for it, the object of this uid, is gone."""
        return replace(self, seen=f"{self.seen} after {gone}")

    def operation(self, method: str, target: str, content_type: str, body: bytes, *, is_conditional: bool) -> str:
        """The id of a request that carries it out. `is_conditional`: the request names a uid or a version.

        Empty if there is nothing to make an id from.
        """
        based_on = self.seen
        if not based_on and not is_conditional:
            based_on = self.decision
            if not based_on:
                return ""
        digest = hashlib.sha256()
        for part in (self.decider, based_on, method, target, content_type):
            digest.update(part.encode() + b"\0")
        digest.update(body)
        return f"{self.decider[:_DECIDER_CHARACTERS_MAX]}-{digest.hexdigest()[:32]}"
