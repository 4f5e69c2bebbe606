"""What is found out about a request on its way, for whoever tells of it afterwards: metrics, audit, journal."""

from mainstay.server.auth.authorization import ANONYMOUS, User
from mainstay.server.request.target import Target


class Seen:
    """Of one request. Made by the observer (observer.py), filled in by the API."""

    __slots__ = ("audit", "decision", "is_allowed", "key", "revision", "target", "user", "value", "writes")

    def __init__(self, audit: str = "") -> None:
        self.audit = audit
        """The id of the request in the audit log."""
        self.user: User = ANONYMOUS
        self.target: Target | None = None
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
