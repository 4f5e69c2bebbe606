"""One request on its way through the chain (chain.py), and what is found out about it: for metrics, audit, journal."""

from mainstay.http.messages import Request
from mainstay.server.auth.authorization import ANONYMOUS, User
from mainstay.server.request.target import NO_OPTIONS, Target


class ApiCall:
    """Made by the observer (observer.py), filled in by the stages of the chain."""

    __slots__ = (
        "audit",
        "decision",
        "is_allowed",
        "key",
        "options",
        "request",
        "revision",
        "target",
        "user",
        "value",
        "writes",
    )

    def __init__(self, request: Request, audit: str = "") -> None:
        self.request = request
        self.audit = audit
        """The id of the request in the audit log."""
        self.options = NO_OPTIONS
        """The query. Read when it is known that there is something to ask for."""
        self.user: User = ANONYMOUS
        self.target: Target | None = None
        """What it is about. None for a page, such as /metrics."""
        self.is_allowed = False
        """Set when the user was found to be allowed this. Of interest if the answer is 403 all the same."""
        self.decision = ""
        """The decision that asked for what was written last."""
        self.key = ""
        """Of what was written last for this request: its key, the stored object, and the revision; empty if nothing."""
        self.value = b""
        self.revision = 0
        self.writes = 0
        """How many there were."""
