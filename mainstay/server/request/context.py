"""One request on its way through the chain (chain.py), and what is found out about it: for metrics, audit, journal."""

from msgspec import Struct

from mainstay.http.messages import Request
from mainstay.server.auth.authorization import ANONYMOUS, User
from mainstay.server.request.target import NO_OPTIONS, Options, RequestTarget


class ApiCall(Struct, eq=False):
    """Made by the observer (observer.py), filled in by the stages of the chain."""

    request: Request
    audit: str = ""
    """The id of the request in the audit log."""
    user: User = ANONYMOUS
    options: Options = NO_OPTIONS
    """The query. Read when it is known that the request is about objects."""
    target: RequestTarget | None = None
    """What it is about. None for a page, such as /metrics."""
    is_allowed: bool = False
    """Set when the user was found to be allowed this. Of interest if the answer is 403 all the same."""
    decision: str = ""
    """The decision that asked for what was written last."""
    key: str = ""
    """Of what was written last for this request: its key, the stored object, and the revision; empty if nothing."""
    value: bytes = b""
    revision: int = 0
    writes: int = 0
    """How many there were."""
